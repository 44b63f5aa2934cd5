"""How an allocation is written down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from driver.adapters.files.allocation_problems import AllocationProblem
from driver.allocator import AllocationError, Allocator, Features
from driver.api.resource_v1 import AllocationResult, ResourceClaim, ResourceSlice
from tests.support.paths import REPO
from tests.unit.driver.allocator.builders import allocator, claim, device, device_class, exactly, node, resource_slice

Json = dict[str, Any]


def one(asked: ResourceClaim, *slices: ResourceSlice, **options: Any) -> AllocationResult:
    results = allocator(*slices, **options).allocate(node("n", zone="a"), [asked])
    assert results is not None
    return results[0]


def opaque(value: str, *requests: str) -> Json:
    made: Json = {"opaque": {"driver": "d", "parameters": {"value": value}}}
    return made | {"requests": requests} if requests else made


def test_configuration_is_of_the_classes_first_and_once_a_class() -> None:
    classes = (device_class("x", config=[opaque("x1"), opaque("x2")]), device_class("y", config=[opaque("y")]))
    requests = exactly("a", cls="x"), exactly("b", cls="y"), exactly("c", cls="x")
    result = one(
        claim(*requests, config=[opaque("all"), opaque("one", "b")]),
        resource_slice(*(device(name) for name in "abc")),
        classes=classes,
    )
    assert [
        (entry.source, entry.requests, entry.opaque and entry.opaque.parameters["value"])
        for entry in result.devices.config
    ] == [
        ("FromClass", ("a", "c"), "x1"),
        ("FromClass", ("a", "c"), "x2"),
        ("FromClass", ("b",), "y"),
        ("FromClaim", (), "all"),
        ("FromClaim", ("b",), "one"),
    ]


def test_a_claims_entry_for_several_requests_comes_once() -> None:
    config = [opaque("both", "a", "b")]
    asked = claim(exactly("a"), exactly("b"), exactly("c"), config=config)
    result = one(asked, resource_slice(*(device(name) for name in "abc")))
    assert [entry.requests for entry in result.devices.config] == [("a", "b")]


def test_an_entry_for_all_requests_names_none() -> None:
    classes = (device_class("x", config=[opaque("of the class")]),)
    alternatives = [{"name": "s", "deviceClassName": "x", "allocationMode": "ExactCount", "count": 1}]
    config = [opaque("both", "b/s", "a")]
    asked = claim(exactly("a", cls="x"), {"name": "b", "firstAvailable": alternatives}, config=config)
    result = one(asked, resource_slice(device("a"), device("b")), classes=classes)
    assert [(entry.source, entry.requests) for entry in result.devices.config] == [("FromClass", ()), ("FromClaim", ())]


@pytest.mark.parametrize(("name", "times"), [("r", 1), ("r/s0", 1), ("r/s1", 0)])
def test_an_entry_for_an_alternative_comes_only_with_it(name: str, times: int) -> None:
    alternatives = [
        {"name": f"s{number}", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
        for number in (0, 1)
    ]
    asked = claim({"name": "r", "firstAvailable": alternatives}, config=[opaque("x", name)])
    assert len(one(asked, resource_slice(device("a"))).devices.config) == times


def term(*requirements: tuple[str, str, list[str]]) -> Json:
    expressions = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def test_devices_for_all_nodes_leave_the_node_open() -> None:
    assert one(claim(exactly("r")), resource_slice(device("a"), allNodes=True)).node_selector is None


@pytest.mark.parametrize(
    "where",
    [
        pytest.param({"nodeName": "n"}, id="slice-of-the-node"),
        pytest.param({"allNodes": True, "devices": [device("a", extra={"bindsToNode": True})]}, id="binds-to-node"),
    ],
)
def test_a_device_of_one_node_ties_the_claim_to_it(where: Json) -> None:
    selector = one(claim(exactly("r")), resource_slice(**({"devices": [device("a")]} | where))).node_selector
    assert selector is not None
    assert selector.to_wire() == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    }


def test_node_selectors_are_merged_without_repeats() -> None:
    slices = [
        resource_slice(device("a"), pool="p", nodeSelector=term(("zone", "In", ["a", "b"]), ("zone", "Exists", []))),
        resource_slice(
            device("b"), pool="q", name="t", nodeSelector=term(("zone", "In", ["b", "a"]), ("x", "DoesNotExist", []))
        ),
    ]
    selector = one(claim(exactly("r", 2)), *slices).node_selector
    assert selector is not None
    (merged,) = selector.node_selector_terms
    assert [(part.key, part.operator) for part in merged.match_expressions] == [
        ("zone", "In"),
        ("zone", "Exists"),
        ("x", "DoesNotExist"),
    ]


def test_a_node_selector_of_two_terms_cannot_be_merged() -> None:
    two = {"nodeSelectorTerms": term(("zone", "Exists", []))["nodeSelectorTerms"] * 2}
    with pytest.raises(AllocationError, match="device d/p/a: its node selector has 2 terms"):
        one(claim(exactly("r")), resource_slice(device("a"), nodeSelector=two))


def test_a_result_says_what_the_device_was_given_for() -> None:
    extra = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "1Gi"}},
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
    }
    asked = claim(exactly("r", 1, tolerations=[{"key": "hot", "operator": "Exists"}]))
    (item,) = one(asked, resource_slice(device("a", extra=extra))).devices.results
    assert item.to_wire() == {
        "request": "r",
        "driver": "d",
        "pool": "p",
        "device": "a",
        "tolerations": [{"key": "hot", "operator": "Exists"}],
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "shareID": "share",
        "consumedCapacity": {"memory": "1Gi"},
    }


def test_admin_access_is_told_where_it_was_asked_for() -> None:
    (item,) = one(claim(exactly("r", 1, adminAccess=True)), resource_slice(device("a"))).devices.results
    assert item.admin_access is True
    (item,) = one(claim(exactly("r", 1, adminAccess=False)), resource_slice(device("a"))).devices.results
    assert item.admin_access is None


def test_without_the_feature_a_shareable_device_is_given_whole() -> None:
    extra = {"allowMultipleAllocations": True}
    features = Features(consumable_capacity=False)
    (item,) = one(claim(exactly("r")), resource_slice(device("a", extra=extra)), features=features).devices.results
    assert item.share_id is None


def test_results_are_objects_as_if_their_values_had_been_validated() -> None:
    seen: set[str] = set()
    text = (REPO / "tests" / "data" / "conformance" / "random.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        problem = AllocationProblem.model_validate_json(line)
        nodes = ((problem.node,) if problem.node is not None else ()) + problem.nodes
        features = Features(**problem.features.model_dump())
        try:
            fit = Allocator(
                problem.slices, problem.classes, allocated=problem.allocated_claims, features=features
            ).allocate_first(nodes, problem.claims)
        except AllocationError:
            continue
        for result in fit.results if fit is not None else ():
            validated = AllocationResult.model_validate(json.loads(json.dumps(result.to_wire())))
            assert validated == result
            assert repr(validated) == repr(result)
            seen |= {field for item in result.to_wire()["devices"]["results"] for field in item}
    assert seen >= {"request", "driver", "pool", "device", "shareID", "consumedCapacity", "adminAccess", "tolerations"}
