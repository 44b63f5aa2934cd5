"""What stops an allocation, and what the message names."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from driver.allocator import AllocationError, Features, SearchLimitError
from driver.api.resource_v1 import ResourceClaim
from tests.unit.driver.allocator.builders import (
    allocator,
    claim,
    device,
    device_class,
    exactly,
    given,
    held,
    node,
    resource_slice,
)

Json = dict[str, Any]

SLICE = resource_slice(device("a", x=True), device("b"), device("c", x=False))
READS_X = 'device.attributes["d"].x'


def without_selector() -> Json:
    return {
        "name": "r",
        "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": [{}]},
    }


@pytest.mark.parametrize(
    ("asked", "features", "message"),
    [
        pytest.param(claim(exactly("r", cls="gone")), {}, "request r: there is no device class gone", id="class"),
        pytest.param(claim(exactly("r", cls="")), {}, "request r: has no device class name", id="no-class"),
        pytest.param(claim(without_selector()), {}, "request r: selector #0 has no CEL", id="selector"),
        pytest.param(claim({"name": "r"}), {}, "request r: has neither exactly nor firstAvailable", id="request"),
        pytest.param(claim(exactly("r", -1)), {}, "request r: count -1 is negative", id="negative"),
        pytest.param(
            claim(exactly("r", 1, allocationMode="Some")),
            {},
            "request r: unsupported allocation mode 'Some'",
            id="mode",
        ),
        pytest.param(claim(exactly("r"), constraints=[{}]), {}, "constraint #0: empty constraint", id="constraint"),
        pytest.param(
            claim(exactly("r", 1, adminAccess=False)), {"admin_access": False}, "DRAAdminAccess is off", id="no-admin"
        ),
        pytest.param(
            claim({"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "any"}]}),
            {"prioritized_list": False},
            "request r: has subrequests, but the feature DRAPrioritizedList is off",
            id="no-alternatives",
        ),
        pytest.param(
            claim(exactly("r", 1, capacity={"requests": {"memory": "1Gi"}})),
            {"consumable_capacity": False},
            "request r: has capacity requests, but the feature DRAConsumableCapacity is off",
            id="no-capacity",
        ),
        pytest.param(
            claim(exactly("r"), constraints=[{"distinctAttribute": "d/x"}]),
            {"consumable_capacity": False, "device_binding_and_status": False},
            "constraint #0: empty constraint",
            id="distinct-in-the-stable-channel",
        ),
    ],
)
def test_a_claim_that_no_node_can_serve_is_refused(asked: ResourceClaim, features: Json, message: str) -> None:
    with pytest.raises(AllocationError) as raised:
        allocator(SLICE, features=Features(**features)).allocate_first([node("m"), node("n")], [asked])
    assert message in str(raised.value)
    assert str(raised.value).startswith("claim team/c, ")
    assert (raised.value.kind, raised.value.exit_code) == ("fatal", 2)


def test_a_selector_that_fails_names_claim_request_and_device() -> None:
    with pytest.raises(AllocationError, match=r"claim team/c, request r: selector #1 fails for device d/p/b: .*x"):
        allocator(SLICE).allocate(node(), [claim(exactly("r", 2, "true", READS_X))])


def test_a_class_selector_that_fails_names_the_class() -> None:
    classes = (device_class("picky", READS_X),)
    with pytest.raises(AllocationError, match=r"request r: class picky, selector #0 fails for device d/p/b"):
        allocator(SLICE, classes=classes).allocate(node(), [claim(exactly("r", 2, cls="picky"))])


def test_a_selector_that_is_no_cel_fails_on_the_first_device() -> None:
    with pytest.raises(AllocationError, match="selector #0 fails for device d/p/a"):
        allocator(SLICE).allocate(node(), [claim(exactly("r", 1, "device."))])
    assert allocator().allocate(node(), [claim(exactly("r", 1, "device."))]) is None


def test_a_selector_that_fails_further_on_does_not_matter() -> None:
    assert given(allocator(SLICE).allocate(node(), [claim(exactly("r", 1, READS_X))])) == [["r=a"]]


def test_a_selector_that_fails_on_a_device_in_use_does_not_matter() -> None:
    asked = allocator(SLICE, allocated=(held("b"),))
    assert asked.allocate(node(), [claim(exactly("r", 2, READS_X))]) is None


def test_all_devices_must_be_told_apart() -> None:
    with pytest.raises(AllocationError, match="selector #0 fails for device d/p/b"):
        allocator(SLICE, allocated=(held("b"),)).allocate(node(), [claim(exactly("r", "All", READS_X))])


def test_a_request_that_is_never_come_to_does_not_fail() -> None:
    """As upstream: the first request cannot be served, so nobody looks at the second one."""
    assert allocator(SLICE).allocate(node(), [claim(exactly("r", 1, "false"), exactly("s", 1, READS_X))]) is None


def test_a_failing_selector_is_found_before_the_claims_are_called_hopeless() -> None:
    """As upstream: the search comes to the device before it finds out about the last request."""
    with pytest.raises(AllocationError, match="request r: selector #0 fails for device d/p/b"):
        allocator(SLICE).allocate(node(), [claim(exactly("r", 1, READS_X), exactly("s", 1, "false"))])


def test_an_error_stops_at_the_first_node() -> None:
    other = resource_slice(device("z", x=True), name="t", pool="q", nodeName="m")
    with pytest.raises(AllocationError):
        allocator(SLICE, other).allocate_first([node("n"), node("m")], [claim(exactly("r", 2, READS_X))])


def test_no_nodes_serve_nothing() -> None:
    assert allocator(SLICE).allocate_first([], [claim(exactly("r", cls="gone"))]) is None


LOOPS = f"lists.range(99).all(a, lists.range(99).all(b, lists.range(99).all(c, a + b + c >= 0))) && {READS_X}"


def test_a_selector_that_is_stopped_is_a_search_without_an_end_and_no_error_of_the_selector() -> None:
    asked = allocator(SLICE)
    with pytest.raises(SearchLimitError, match=r"request r: selector #0, device d/p/a: .* not known"):
        asked.allocate(node(), [claim(exactly("r", 1, LOOPS))])


def test_what_the_clock_stopped_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = allocator(SLICE)
    wanted = [claim(exactly("r", 1, f"lists.range(9000).all(x, x >= 0) && {READS_X}"))]
    ticks = count(step=2)
    with monkeypatch.context() as patched:
        patched.setattr("driver.cel.meter.time", SimpleNamespace(thread_time=lambda: next(ticks)))
        with pytest.raises(SearchLimitError, match="took longer than 1 s"):
            asked.allocate(node(), wanted)
    assert given(asked.allocate(node(), wanted)) == [["r=a"]]
