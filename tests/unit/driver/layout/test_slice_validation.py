"""What the API server refuses in ResourceSlices, and what makes consumers skip a pool: one case a rule."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from driver.api.resource_v1 import ResourceSlice
from driver.api.validation.errors import FieldError
from tests.support.slice_validation import validate_slices

POOL = {"name": "node-a", "generation": 1, "resourceSliceCount": 1}


def slice_of(*devices: dict[str, Any], name: str = "a", **spec: Any) -> ResourceSlice:
    defaults = {"driver": "rootport.dev", "pool": POOL, "nodeName": "node-a", "devices": devices}
    return ResourceSlice.model_validate({"metadata": {"name": name}, "spec": defaults | spec})


def device(**fields: Any) -> dict[str, Any]:
    return {"name": "gpu-0"} | fields


def attribute(value: dict[str, Any], name: str = "model") -> dict[str, Any]:
    return device(attributes={name: value})


def many(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [device(name=f"gpu-{index}", **fields) for index in range(count)]


def shareable(policy: dict[str, Any], value: str = "100") -> dict[str, Any]:
    return device(allowMultipleAllocations=True, capacity={"core": {"value": value, "requestPolicy": policy}})


def valid_range(**fields: Any) -> dict[str, Any]:
    return shareable({"default": "10", "validRange": {"min": "10"} | fields})


def only(errors: tuple[FieldError, ...]) -> FieldError:
    assert len(errors) == 1, errors
    return errors[0]


TAINT = {"key": "rootport.dev/unhealthy", "value": "ecc", "effect": "NoSchedule"}
COUNTERS = {"counters": {"mode": {"value": "1"}}}
CONSUMES = {"counterSet": "gpu-0"} | COUNTERS
SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}


def counter_slice(*counter_sets: dict[str, Any], name: str = "b", **spec: Any) -> ResourceSlice:
    return slice_of(name=name, sharedCounters=counter_sets, **spec)


VALID = [
    pytest.param(slice_of(), id="no devices"),
    pytest.param(slice_of(*many(128)), id="128 devices"),
    pytest.param(slice_of(*many(64, taints=[TAINT])), id="64 devices with taints"),
    pytest.param(slice_of(nodeName=None, allNodes=True), id="all nodes"),
    pytest.param(slice_of(nodeName=None, nodeSelector=SELECTOR), id="node selector"),
    pytest.param(
        slice_of(device(nodeName="node-a"), nodeName=None, perDeviceNodeSelection=True), id="nodes per device"
    ),
    pytest.param(slice_of(device(attributes={f"a{i}": {"int": i} for i in range(32)})), id="32 attributes"),
    pytest.param(slice_of(device(attributes={"a": {"ints": list(range(48))}})), id="48 values"),
    pytest.param(slice_of(attribute({"string": "é" * 32})), id="64 bytes of text"),
    pytest.param(slice_of(attribute({"version": "1.2.3-rc.1+build.5"})), id="version with everything"),
    pytest.param(slice_of(attribute({"bool": False}, "example.com/a_B9")), id="attribute of another domain"),
    pytest.param(slice_of(valid_range(max="100", step="10")), id="range with steps"),
    pytest.param(slice_of(valid_range(max="10500m", step="250m")), id="range with steps of a fraction"),
    pytest.param(slice_of(shareable({"default": "50", "validValues": ["25", "50", "100"]})), id="valid values"),
    pytest.param(slice_of(shareable({"default": "100"})), id="default only"),
    pytest.param(slice_of(device(bindingConditions=["a.b/c"], bindingFailureConditions=["d"])), id="binding"),
]


@pytest.mark.parametrize("item", VALID)
def test_what_the_api_server_takes_has_no_errors(item: ResourceSlice) -> None:
    assert validate_slices([item]) == ()


DEVICE = "spec.devices[0]"
ATTRIBUTE = f"{DEVICE}.attributes[model]"
RANGE = f"{DEVICE}.capacity[core].requestPolicy.validRange"
VALUES = f"{DEVICE}.capacity[core].requestPolicy.validValues"
TERM = "spec.nodeSelector.nodeSelectorTerms[0]"


def selecting(**requirement: Any) -> ResourceSlice:
    expression = {"key": "gpu", "operator": "Exists"} | requirement
    return slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [expression]}]})


def selecting_field(**requirement: Any) -> ResourceSlice:
    field = {"key": "metadata.name", "operator": "In", "values": ["node-a"]} | requirement
    return slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [{"matchFields": [field]}]})


CASES = [
    pytest.param(slice_of(driver="Root_port"), "spec.driver", "driver name", id="driver"),
    pytest.param(slice_of(driver=""), "spec.driver", "required", id="no driver"),
    pytest.param(slice_of(pool=POOL | {"name": "a b"}), "spec.pool.name", "DNS subdomain", id="pool's name"),
    pytest.param(slice_of(pool=POOL | {"name": "a//b"}), "spec.pool.name", "empty part", id="pool's empty part"),
    pytest.param(slice_of(pool=POOL | {"generation": -1}), "spec.pool.generation", "negative", id="generation"),
    pytest.param(slice_of(nodeName=None), "spec", "exactly one of nodeName", id="no nodes"),
    pytest.param(slice_of(allNodes=True), "spec", "given: nodeName, allNodes", id="two ways to nodes"),
    pytest.param(slice_of(nodeName=""), "spec.nodeName", "required", id="empty node name"),
    pytest.param(slice_of(nodeName=None, allNodes=False), "spec.allNodes", "true or absent", id="allNodes false"),
    pytest.param(
        slice_of(nodeName=None, perDeviceNodeSelection=False),
        "spec.perDeviceNodeSelection",
        "true or absent",
        id="perDeviceNodeSelection false",
    ),
    pytest.param(
        slice_of(nodeName=None, nodeSelector={"nodeSelectorTerms": [{}, {}]}),
        "spec.nodeSelector.nodeSelectorTerms",
        "exactly one term",
        id="two terms",
    ),
    pytest.param(
        slice_of(nodeName=None, nodeSelector={}), "spec.nodeSelector.nodeSelectorTerms", "at least one", id="no term"
    ),
    pytest.param(selecting(operator="Is"), f"{TERM}.matchExpressions[0].operator", "not supported", id="operator"),
    pytest.param(selecting(operator="In"), f"{TERM}.matchExpressions[0].values", "required", id="In without values"),
    pytest.param(selecting(values=["a"]), f"{TERM}.matchExpressions[0].values", "must be empty", id="Exists a"),
    pytest.param(selecting(operator="Gt"), f"{TERM}.matchExpressions[0].values", "exactly one", id="Gt without value"),
    pytest.param(selecting(key=""), f"{TERM}.matchExpressions[0].key", "label key", id="no key"),
    pytest.param(
        selecting(operator="In", values=["a b"]), f"{TERM}.matchExpressions[0].values[0]", "label value", id="value"
    ),
    pytest.param(selecting_field(operator="Gt"), f"{TERM}.matchFields[0].operator", "In or NotIn", id="field's op."),
    pytest.param(selecting_field(values=[]), f"{TERM}.matchFields[0].values", "exactly one", id="field's values"),
    pytest.param(selecting_field(key="spec"), f"{TERM}.matchFields[0].key", "metadata.name", id="field's key"),
    pytest.param(
        slice_of(device(), sharedCounters=[{"name": "gpu-0"} | COUNTERS]), "spec", "only one of", id="both kinds"
    ),
    pytest.param(slice_of(*many(129)), "spec.devices", "at most 128", id="129 devices"),
    pytest.param(slice_of(*many(64), device(taints=[TAINT])), "spec.devices", "at most 64", id="65 with a taint"),
    pytest.param(
        slice_of(*many(64), attribute({"ints": [1]})), "spec.devices", "at most 64", id="65 with a list attribute"
    ),
    pytest.param(slice_of(device(), device()), "spec.devices[1]", "duplicate of item 0", id="device twice"),
    pytest.param(slice_of(device(name="GPU")), f"{DEVICE}.name", "DNS label", id="device's name"),
    pytest.param(
        slice_of(device(attributes={f"a{i}": {"int": i} for i in range(32)}, capacity={"memory": {"value": "1"}})),
        DEVICE,
        "33 attributes and capacities together, at most 32",
        id="33 attributes and capacities",
    ),
    pytest.param(
        slice_of(device(attributes={"a": {"ints": list(range(49))}})), DEVICE, "at most 48", id="49 attribute values"
    ),
    pytest.param(slice_of(attribute({})), ATTRIBUTE, "0 are set", id="attribute without value"),
    pytest.param(slice_of(attribute({"int": 1, "bool": True})), ATTRIBUTE, "2 are set", id="attribute with two values"),
    pytest.param(slice_of(attribute({"string": "é" * 33})), f"{ATTRIBUTE}.string", "66 bytes", id="66 bytes of text"),
    pytest.param(
        slice_of(attribute({"version": "1.02.3"})), f"{ATTRIBUTE}.version", "semantic version", id="version 0"
    ),
    pytest.param(slice_of(attribute({"version": "1.2"})), f"{ATTRIBUTE}.version", "semantic version", id="version 2"),
    pytest.param(
        slice_of(attribute({"version": f"1.2.3-{'a' * 59}"})), f"{ATTRIBUTE}.version", "at most 64", id="version long"
    ),
    pytest.param(slice_of(attribute({"strings": []})), f"{ATTRIBUTE}.strings", "not be empty", id="empty list"),
    pytest.param(
        slice_of(attribute({"strings": ["a", "b" * 65]})), f"{ATTRIBUTE}.strings[1]", "at most 64", id="text in a list"
    ),
    pytest.param(
        slice_of(attribute({"versions": ["1.0"]})), f"{ATTRIBUTE}.versions[0]", "semantic", id="version in a list"
    ),
    pytest.param(
        slice_of(attribute({"int": 1}, "a-b")), f"{DEVICE}.attributes[a-b]", "C identifier", id="attribute's name"
    ),
    pytest.param(
        slice_of(attribute({"int": 1}, "a" * 33)), f"{DEVICE}.attributes[{'a' * 33}]", "at most 32", id="attr. name 33"
    ),
    pytest.param(slice_of(attribute({"int": 1}, "a/")), f"{DEVICE}.attributes[a/]", "has no name", id="no identifier"),
    pytest.param(slice_of(attribute({"int": 1}, "")), f"{DEVICE}.attributes[]", "empty name", id="no name"),
    pytest.param(slice_of(attribute({"int": 1}, "/a")), f"{DEVICE}.attributes[/a]", "empty domain", id="no domain"),
    pytest.param(
        slice_of(attribute({"int": 1}, f"{'d' * 64}/a")),
        f"{DEVICE}.attributes[{'d' * 64}/a]",
        "at most 63",
        id="attribute's domain",
    ),
    pytest.param(
        slice_of(device(capacity={"a b": {"value": "1"}})), f"{DEVICE}.capacity[a b]", "C identifier", id="capacity"
    ),
    pytest.param(
        slice_of(device(capacity={"core": {"value": "1", "requestPolicy": {"default": "1"}}})),
        f"{DEVICE}.capacity[core].requestPolicy",
        "allowMultipleAllocations",
        id="policy of a device that is not shareable",
    ),
    pytest.param(
        slice_of(shareable({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}})),
        f"{DEVICE}.capacity[core].requestPolicy",
        "only one of",
        id="policy with values and range",
    ),
    pytest.param(
        slice_of(shareable({"validValues": ["1"]})),
        f"{DEVICE}.capacity[core].requestPolicy.default",
        "required",
        id="values without default",
    ),
    pytest.param(
        slice_of(shareable({"validRange": {"min": "1"}})),
        f"{DEVICE}.capacity[core].requestPolicy.default",
        "required",
        id="range without default",
    ),
    pytest.param(
        slice_of(shareable({"default": "1", "validValues": ["2"]})), VALUES, "not among", id="default no value"
    ),
    pytest.param(
        slice_of(shareable({"default": "1", "validValues": ["1", "101"]})),
        f"{VALUES}[1]",
        "more than",
        id="value > 100",
    ),
    pytest.param(
        slice_of(shareable({"default": "1", "validValues": ["2", "1"]})), f"{VALUES}[1]", "ascending", id="values order"
    ),
    pytest.param(
        slice_of(shareable({"default": "1", "validValues": ["1", "1"]})), f"{VALUES}[1]", "duplicate", id="value twice"
    ),
    pytest.param(slice_of(shareable({"default": "10", "validRange": {}})), f"{RANGE}.min", "required", id="no min"),
    pytest.param(
        slice_of(shareable({"default": "1", "validRange": {"min": "2"}})),
        f"{RANGE}.min",
        "the default",
        id="default<min",
    ),
    pytest.param(slice_of(valid_range(max="101")), f"{RANGE}.max", "more than the capacity", id="max > capacity"),
    pytest.param(
        slice_of(shareable({"default": "20", "validRange": {"min": "5", "max": "10"}})),
        f"{RANGE}.max",
        "less than the default",
        id="default > max",
    ),
    pytest.param(slice_of(valid_range(step="0")), f"{RANGE}.step", "more than zero", id="step 0"),
    pytest.param(slice_of(valid_range(step="-1")), f"{RANGE}.step", "more than zero", id="step < 0"),
    pytest.param(slice_of(valid_range(min="-5", step="1")), f"{RANGE}.min", "between 0 and", id="min < 0"),
    pytest.param(slice_of(valid_range(step="95")), f"{RANGE}.step", "more than the capacity", id="step > capacity"),
    pytest.param(slice_of(valid_range(max="25", step="10")), f"{RANGE}.step", "max, 25", id="max is no step"),
    pytest.param(slice_of(device(taints=[TAINT] * 17)), f"{DEVICE}.taints", "at most 16", id="17 taints"),
    pytest.param(
        slice_of(device(taints=[TAINT | {"key": ""}])), f"{DEVICE}.taints[0].key", "label key", id="taint key"
    ),
    pytest.param(
        slice_of(device(taints=[TAINT | {"value": "a b"}])),
        f"{DEVICE}.taints[0].value",
        "label value",
        id="taint value",
    ),
    pytest.param(slice_of(device(taints=[{"key": "a"}])), f"{DEVICE}.taints[0].effect", "required", id="no effect"),
    pytest.param(
        slice_of(device(taints=[TAINT | {"effect": "Evict"}])), f"{DEVICE}.taints[0].effect", "expected", id="effect"
    ),
    pytest.param(slice_of(device(nodeName="a")), DEVICE, "perDeviceNodeSelection", id="device's node, not asked for"),
    pytest.param(
        slice_of(device(), nodeName=None, perDeviceNodeSelection=True), DEVICE, "given: none", id="device without nodes"
    ),
    pytest.param(
        slice_of(device(bindingConditions=["a"])), f"{DEVICE}.bindingFailureConditions", "required", id="binding only"
    ),
    pytest.param(
        slice_of(device(bindingFailureConditions=["a"])), f"{DEVICE}.bindingConditions", "required", id="failure only"
    ),
    pytest.param(
        slice_of(device(bindingConditions=list("abcde"), bindingFailureConditions=["f"])),
        f"{DEVICE}.bindingConditions",
        "at most 4",
        id="5 binding conditions",
    ),
    pytest.param(
        slice_of(device(bindingConditions=["a"], bindingFailureConditions=["a"])),
        f"{DEVICE}.bindingFailureConditions[0]",
        "as well",
        id="condition on both sides",
    ),
    pytest.param(
        counter_slice(*({"name": f"gpu-{i}"} | COUNTERS for i in range(9))),
        "spec.sharedCounters",
        "at most 8",
        id="9 counter sets",
    ),
    pytest.param(
        counter_slice({"name": "gpu_0"} | COUNTERS), "spec.sharedCounters[0].name", "DNS label", id="counter set's name"
    ),
    pytest.param(
        counter_slice({"name": "gpu-0"}),
        "spec.sharedCounters[0].counters",
        "required",
        id="counter set without counters",
    ),
    pytest.param(
        counter_slice({"name": "gpu-0", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}),
        "spec.sharedCounters[0].counters",
        "at most 32",
        id="33 counters",
    ),
    pytest.param(
        counter_slice({"name": "gpu-0", "counters": {"Mode": {"value": "1"}}}),
        "spec.sharedCounters[0].counters[Mode]",
        "DNS label",
        id="counter's name",
    ),
]


@pytest.mark.parametrize(("item", "path", "message"), CASES)
def test_each_rule_is_one_error_with_its_field(item: ResourceSlice, path: str, message: str) -> None:
    error = only(validate_slices([item]))
    assert error.path == f"slices[0].{path}"
    assert message in error.message


def test_all_errors_come_at_once() -> None:
    broken = slice_of(device(name="GPU", attributes={"a-b": {}}), driver="", pool=POOL | {"generation": -1})
    assert [error.path for error in validate_slices([broken])] == [
        "slices[0].spec.driver",
        "slices[0].spec.pool.generation",
        "slices[0].spec.devices[0].name",
        "slices[0].spec.devices[0].attributes[a-b]",
        "slices[0].spec.devices[0].attributes[a-b]",
    ]


def test_a_slice_count_of_zero_is_refused() -> None:
    errors = validate_slices([slice_of(pool=POOL | {"resourceSliceCount": 0})])
    assert "slices[0].spec.pool.resourceSliceCount: must be greater than zero, not 0" in [str(e) for e in errors]


def test_a_minimum_above_the_capacity_and_the_maximum_is_told_each_way() -> None:
    policy = {"default": "200", "validRange": {"min": "200", "max": "150"}}
    messages = [error.message for error in validate_slices([slice_of(shareable(policy))])]
    assert messages == [
        "200 is more than the capacity, 100",
        "150 is less than min, 200",
        "150 is more than the capacity, 100",
        "150 is less than the default, 200",
    ]


def in_pool(item: ResourceSlice, count: int, generation: int = 1) -> ResourceSlice:
    wire = copy.deepcopy(item.to_wire())
    wire["spec"]["pool"] |= {"resourceSliceCount": count, "generation": generation}
    return ResourceSlice.model_validate(wire)


def test_a_pool_of_several_slices_is_valid() -> None:
    counters = in_pool(counter_slice({"name": "gpu-0"} | COUNTERS), 2)
    devices = in_pool(slice_of(device(consumesCounters=[CONSUMES])), 2)
    assert validate_slices([counters, devices]) == ()


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    old = in_pool(slice_of(device(), name="old"), 5)
    new = in_pool(slice_of(device(), name="new"), 1, generation=2)
    assert validate_slices([old, new]) == ()


def test_pools_of_different_drivers_may_have_equal_names() -> None:
    assert validate_slices([slice_of(device()), slice_of(device(), name="b", driver="other.dev")]) == ()


def test_an_incomplete_pool_is_told() -> None:
    error = only(validate_slices([in_pool(slice_of(), 2)]))
    assert str(error) == "slices[0].spec.pool.resourceSliceCount: is 2, but 1 of this generation are there"


def test_two_slices_of_one_name_are_told() -> None:
    error = only(validate_slices([in_pool(slice_of(), 2), in_pool(slice_of(), 2)]))
    assert str(error) == "slices[1].metadata.name: 'a' is the name of slices[0] as well"


def test_a_device_in_two_slices_of_a_pool_is_told() -> None:
    error = only(validate_slices([in_pool(slice_of(device()), 2), in_pool(slice_of(device(), name="b"), 2)]))
    assert error.path == "slices[1].spec.devices[0].name"


def test_a_counter_set_in_two_slices_of_a_pool_is_told() -> None:
    slices = [in_pool(counter_slice({"name": "gpu-0"} | COUNTERS, name=name), 2) for name in "ab"]
    assert only(validate_slices(slices)).path == "slices[1].spec.sharedCounters[0].name"


@pytest.mark.parametrize(
    ("consumes", "path"),
    [
        pytest.param({"counterSet": "gpu-1"} | COUNTERS, "counterSet", id="unknown counter set"),
        pytest.param(
            {"counterSet": "gpu-0", "counters": {"slices": {"value": "1"}}}, "counters[slices]", id="unknown counter"
        ),
    ],
)
def test_a_reference_to_an_unknown_counter_is_told(consumes: dict[str, Any], path: str) -> None:
    counters = in_pool(counter_slice({"name": "gpu-0"} | COUNTERS), 2)
    devices = in_pool(slice_of(device(consumesCounters=[consumes])), 2)
    assert only(validate_slices([counters, devices])).path == f"slices[1].spec.devices[0].consumesCounters[0].{path}"


def test_a_device_consumes_at_most_two_counter_sets_and_each_once() -> None:
    counters = in_pool(counter_slice({"name": "gpu-0"} | COUNTERS), 3)
    twice = in_pool(slice_of(device(consumesCounters=[CONSUMES, CONSUMES]), name="c"), 3)
    three = in_pool(slice_of(device(name="gpu-1", consumesCounters=[CONSUMES] * 3), name="d"), 3)
    assert [str(error) for error in validate_slices([counters, twice, three])] == [
        "slices[1].spec.devices[0].consumesCounters[1]: 'gpu-0' is a duplicate of item 0",
        "slices[2].spec.devices[0].consumesCounters: has 3 items, at most 2 are allowed",
    ]
