"""How much of a shared device a request takes."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator import AllocationError, Features
from driver.api.resource_v1 import AllocationResult
from tests.unit.driver.allocator.builders import allocator, claim, device, exactly, given, held, node, resource_slice

Json = dict[str, Any]

RANGE = {"default": "10Gi", "validRange": {"min": "5Gi", "max": "60Gi", "step": "5Gi"}}
FROM = {"default": "10Gi", "validRange": {"min": "8Gi"}}
CORES = {"default": "500m", "validRange": {"min": "250m", "max": "8", "step": "250m"}}
WHOLE = {"default": "1", "validRange": {"min": "1", "step": "1"}}
VALUES = {"default": "4Gi", "validValues": ["4Gi", "8Gi", "30Gi"]}


def shared(name: str = "a", policy: Json | None = None, value: str = "80Gi") -> Json:
    memory = {"value": value} | ({"requestPolicy": policy} if policy else {})
    return device(name, extra={"allowMultipleAllocations": True, "capacity": {"memory": memory}})


def wants(memory: str | None) -> Json:
    return {"capacity": {"requests": {"memory": memory}}} if memory is not None else {}


def taken(results: tuple[AllocationResult, ...] | None) -> list[str] | None:
    return results and [str(item.consumed_capacity["memory"]) for item in results[0].devices.results]


@pytest.mark.parametrize(
    ("policy", "memory", "consumed"),
    [
        pytest.param(None, None, "80Gi", id="all-of-it"),
        pytest.param(None, "6Gi", "6Gi", id="as-asked"),
        pytest.param(None, "81Gi", None, id="more-than-all"),
        pytest.param(RANGE, None, "10Gi", id="default"),
        pytest.param(RANGE, "1Gi", "5Gi", id="minimum"),
        pytest.param(RANGE, "6Gi", "10Gi", id="next-step"),
        pytest.param(RANGE, "10Gi", "10Gi", id="on-a-step"),
        pytest.param(RANGE, "61Gi", None, id="over-the-maximum"),
        pytest.param(FROM, "1Gi", "8Gi", id="minimum-without-steps"),
        pytest.param(FROM, "9Gi", "9Gi", id="over-minimum-without-steps"),
        pytest.param(CORES, "1900m", "2", id="fractions-are-whole-steps"),
        pytest.param(WHOLE, "1100m", "2", id="a-fraction-of-whole-steps"),
        pytest.param(RANGE | {"validRange": {"min": "1G", "step": "1G"}}, "1500M", "2G", id="as-the-step-is-written"),
        pytest.param(VALUES, None, "4Gi", id="default-value"),
        pytest.param(VALUES, "5Gi", "8Gi", id="next-value"),
        pytest.param(VALUES, "31Gi", None, id="no-such-value"),
        pytest.param({"default": "1Gi"}, "7Gi", "7Gi", id="a-default-only"),
    ],
)
def test_a_request_is_rounded_as_the_policy_says(policy: Json | None, memory: str | None, consumed: str | None) -> None:
    asked = allocator(resource_slice(shared(policy=policy)))
    found = taken(asked.allocate(node(), [claim(exactly("r", 1, **wants(memory)))]))
    assert found == ([consumed] if consumed else None)


@pytest.mark.parametrize(("memory", "consumed"), [("600m", "750m"), ("1900m", "2"), ("300m", "500m")])
def test_with_the_gate_for_fractions_steps_are_counted_in_thousandths(memory: str, consumed: str) -> None:
    asked = allocator(resource_slice(shared(policy=CORES)), features=Features(fractional_capacity_range=True))
    assert taken(asked.allocate(node(), [claim(exactly("r", 1, **wants(memory)))])) == [consumed]


@pytest.mark.parametrize(("memory", "fractional"), [("1500u", True), ("9223372036854775808", False)])
def test_an_amount_that_cannot_be_rounded_is_an_error_and_no_other_device_is_tried(
    memory: str, fractional: bool
) -> None:
    policy = {"default": "1", "validRange": {"min": "1m", "step": "1m"}}
    features = Features(fractional_capacity_range=fractional)
    asked = allocator(resource_slice(shared("a", policy, "10"), shared("b", None, "1e30")), features=features)
    with pytest.raises(
        AllocationError, match=r"device d/p/a: capacity memory: .* cannot be rounded up to a step of 1m"
    ):
        asked.allocate(node(), [claim(exactly("r", 1, **wants(memory)))])


def test_all_devices_means_also_those_of_which_too_little_is_left() -> None:
    before = held("a", shareID="s", consumedCapacity={"memory": "70Gi"})
    devices = resource_slice(shared("a"), shared("b"), shared("c", None, "1Gi"))
    everything = claim(exactly("r", "All", **wants("20Gi")))
    assert given(allocator(devices).allocate(node(), [everything])) == [["r=a", "r=b"]]
    assert allocator(devices, allocated=(before,)).allocate(node(), [everything]) is None


def test_a_capacity_that_the_device_has_not_rules_it_out() -> None:
    asked = allocator(resource_slice(device("a"), shared("b")))
    assert given(asked.allocate(node(), [claim(exactly("r", 1, **wants("1Gi")))])) == [["r=b"]]


def test_a_device_that_is_not_shared_is_held_to_the_size_and_given_whole() -> None:
    small, large = (
        device(name, extra={"capacity": {"memory": {"value": size}}}) for name, size in (("a", "1Gi"), ("b", "9Gi"))
    )
    found = allocator(resource_slice(small, large)).allocate(node(), [claim(exactly("r", 1, **wants("2Gi")))])
    assert found is not None
    (item,) = found[0].devices.results
    assert (item.device, item.share_id, item.consumed_capacity) == ("b", None, {})


def test_shares_fill_a_device_and_no_more() -> None:
    asked = allocator(resource_slice(shared()))
    half = claim(exactly("r", 1, **wants("40Gi")))
    for _ in range(2):
        found = asked.allocate(node(), [half])
        assert found is not None
        asked.commit(found)
    assert asked.allocate(node(), [half]) is None
    asked.release(found)
    assert asked.allocate(node(), [half]) is not None


def test_shares_of_one_pod_add_up() -> None:
    asked = allocator(resource_slice(shared("a"), shared("b")))
    half = exactly("r", 1, **wants("50Gi"))
    assert given(asked.allocate(node(), [claim(half), claim(half, name="c2")])) == [["r=a"], ["r=b"]]


def test_a_request_takes_each_shared_device_once() -> None:
    asked = allocator(resource_slice(shared("a"), shared("b")))
    assert given(asked.allocate(node(), [claim(exactly("r", 2, **wants("1Gi")))])) == [["r=a", "r=b"]]
    assert asked.allocate(node(), [claim(exactly("r", 3, **wants("1Gi")))]) is None


def test_what_allocated_claims_consume_is_gone() -> None:
    before = held("a", shareID="s", consumedCapacity={"memory": "70Gi"})
    asked = allocator(resource_slice(shared("a"), shared("b")), allocated=(before,))
    assert given(asked.allocate(node(), [claim(exactly("r", 1, **wants("20Gi")))])) == [["r=b"]]


def test_a_shared_device_charges_its_counters_once() -> None:
    consumes = {"consumesCounters": [{"counterSet": "s", "counters": {"mode": {"value": "1"}}}]}
    devices = [shared("a") | consumes, device("b", extra=consumes)]
    counters = [{"name": "s", "counters": {"mode": {"value": "1"}}}]
    asked = allocator(resource_slice(*devices, count=2), resource_slice(name="t", count=2, sharedCounters=counters))
    share = exactly("r", 1, "device.allowMultipleAllocations", **wants("10Gi"))
    whole = exactly("w", 1, "!device.allowMultipleAllocations")
    assert given(asked.allocate(node(), [claim(share), claim(share, name="c2")])) == [["r=a"], ["r=a"]]
    assert asked.allocate(node(), [claim(share, whole)]) is None
    first = asked.allocate(node(), [claim(share)])
    assert first is not None
    asked.commit(first)
    assert given(asked.allocate(node(), [claim(share)])) == [["r=a"]]
    assert asked.allocate(node(), [claim(whole)]) is None
    asked.release(first)
    assert given(asked.allocate(node(), [claim(whole)])) == [["w=b"]]
