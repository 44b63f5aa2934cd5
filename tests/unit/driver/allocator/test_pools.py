"""Which devices a node sees, and in which order."""

from __future__ import annotations

import pytest

from driver.allocator import AllocationError, InvalidPoolError
from driver.api.resource_v1 import ResourceSlice
from tests.unit.driver.allocator.builders import allocator, claim, device, exactly, given, node, resource_slice

ONE = claim(exactly("r"))
ALL = claim(exactly("r", "All"))
ZONE_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}


def first(*slices: ResourceSlice) -> list[list[str]] | None:
    return given(allocator(*slices).allocate(node("n", zone="a"), [ONE]))


def test_pools_go_by_driver_and_name_slices_by_name_devices_as_listed() -> None:
    slices = [
        resource_slice(device("e"), driver="b", pool="a", name="1"),
        resource_slice(device("d"), driver="a", pool="y", name="0"),
        resource_slice(device("c"), driver="a", pool="x", name="2", count=2),
        resource_slice(device("b"), device("a"), driver="a", pool="x", name="1", count=2),
    ]
    assert given(allocator(*slices).allocate(node(), [claim(exactly("r", 5))])) == [["r=b", "r=a", "r=c", "r=d", "r=e"]]


def test_a_pool_with_binding_conditions_comes_last() -> None:
    bound = device("a", extra={"bindingConditions": ["ready"]})
    assert first(resource_slice(bound, pool="a"), resource_slice(device("b"), pool="b", name="t")) == [["r=b"]]


@pytest.mark.parametrize(
    "where",
    [
        pytest.param({"nodeName": "n"}, id="node-name"),
        pytest.param({"allNodes": True}, id="all-nodes"),
        pytest.param({"nodeSelector": ZONE_A}, id="node-selector"),
    ],
)
def test_a_slice_reaches_its_nodes(where: dict[str, object]) -> None:
    assert first(resource_slice(device("a"), **where)) == [["r=a"]]


def test_a_slice_of_another_node_is_not_seen() -> None:
    assert first(resource_slice(device("a"), nodeName="m")) is None
    assert (
        given(allocator(resource_slice(device("a"), nodeSelector=ZONE_A)).allocate(node("n", zone="b"), [ONE])) is None
    )


def test_a_device_may_choose_its_nodes_itself() -> None:
    here, there = device("a", extra={"nodeName": "m"}), device("b", extra={"nodeSelector": ZONE_A})
    assert first(resource_slice(here, there, perDeviceNodeSelection=True)) == [["r=b"]]


def test_a_node_whose_labels_change_is_looked_at_anew() -> None:
    asked = allocator(resource_slice(device("a"), nodeSelector=ZONE_A))
    assert asked.allocate(node("n", zone="b"), [ONE]) is None
    assert given(asked.allocate(node("n", zone="a"), [ONE])) == [["r=a"]]


def test_only_the_newest_generation_counts() -> None:
    old = resource_slice(device("a"), name="old")
    new = resource_slice(device("b"), name="new", generation=2)
    assert first(old, new) == [["r=b"]]


def test_a_pool_is_obsolete_where_a_newer_generation_reaches_other_nodes_only() -> None:
    old = [resource_slice(device(name), name=name, count=3) for name in "ab"]
    assert first(*old, resource_slice(device("c"), name="c", generation=2, nodeName="m")) is None


def test_a_pool_that_lacks_a_slice_is_not_used() -> None:
    lacking = resource_slice(device("a"), count=2)
    assert first(lacking) is None
    assert first(lacking, resource_slice(device("b"), pool="q", name="t")) == [["r=b"]]


def test_a_pool_is_complete_with_slices_of_other_nodes() -> None:
    there = resource_slice(device("b"), name="t", count=2, nodeName="m")
    assert first(resource_slice(device("a"), count=2), there) == [["r=a"]]


def test_all_devices_of_an_incomplete_pool_cannot_be_told() -> None:
    with pytest.raises(AllocationError, match=r"claim team/c, request r: asks for all .* pool d/p .* 1 of 2 slices"):
        allocator(resource_slice(device("a"), count=2)).allocate(node(), [ALL])


def test_a_pool_with_a_name_twice_is_not_used() -> None:
    twice = resource_slice(device("a"), device("a"))
    with pytest.raises(InvalidPoolError, match=r"d/p is invalid: device name a is used twice") as raised:
        allocator(twice).allocate(node(), [ONE])
    assert raised.value.kind == "node"
    assert first(twice, resource_slice(device("b"), pool="q", name="t")) == [["r=b"]]


def test_an_invalid_pool_is_told_only_where_no_node_fits() -> None:
    twice = resource_slice(device("a"), device("a"), nodeName="m")
    asked = allocator(twice, resource_slice(device("b"), pool="q", name="t"))
    fit = asked.allocate_first([node("m"), node("n")], [ONE])
    assert fit is not None
    assert fit.node.metadata.name == "n"
    with pytest.raises(InvalidPoolError):
        asked.allocate_first([node("m")], [ONE])


def test_all_devices_of_an_invalid_pool_cannot_be_told() -> None:
    with pytest.raises(AllocationError, match="is invalid") as raised:
        allocator(resource_slice(device("a"), device("a"))).allocate(node(), [ALL])
    assert raised.value.kind == "fatal"


@pytest.mark.parametrize(
    ("counter_set", "counter", "reason"),
    [
        pytest.param("gone", "c", "counter set gone", id="set"),
        pytest.param("s", "gone", "counter gone", id="counter"),
    ],
)
def test_a_pool_with_an_unknown_counter_is_invalid(counter_set: str, counter: str, reason: str) -> None:
    consumes = [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]
    slices = [
        resource_slice(device("a", extra={"consumesCounters": consumes}), count=2),
        resource_slice(name="t", count=2, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
    ]
    with pytest.raises(InvalidPoolError, match=reason):
        allocator(*slices).allocate(node(), [ONE])


def test_an_invalid_node_selector_names_its_slice() -> None:
    broken = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]}
    with pytest.raises(AllocationError, match=r"ResourceSlice s: invalid node selector: nodeSelectorTerms\[0\]"):
        allocator(resource_slice(device("a"), nodeSelector=broken)).allocate(node(), [ONE])


def test_an_invalid_node_selector_of_a_device_stops_only_a_search_that_comes_there() -> None:
    broken = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]}
    devices = [device("a", extra={"allNodes": True}), device("b", extra={"nodeSelector": broken})]
    asked = allocator(resource_slice(*devices, perDeviceNodeSelection=True))
    assert given(asked.allocate(node(), [ONE])) == [["r=a"]]
    with pytest.raises(AllocationError, match="device d/p/b: invalid node selector"):
        asked.allocate(node(), [claim(exactly("r", 2))])
