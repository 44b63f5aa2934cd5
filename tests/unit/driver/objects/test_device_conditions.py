"""The conditions of a Device, and the state that goes with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from driver.api.rootport_v1alpha1 import Condition
from driver.model.devices import Device, DeviceName, LinkLayer, RdmaPort
from driver.model.health import Effect, Fault, NodeHealth
from driver.objects.device_conditions import conditions_of, state_of
from driver.objects.device_statuses import device_statuses
from tests.support.machines import gpu, nic, node

CARD = gpu("10")
THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DOWN = nic("20", ports=(RdmaPort(link_layer=LinkLayer.INFINIBAND, state="down"),))


def fault(reason: str, effect: Effect, age: int = 0, device: str = CARD.name) -> Fault:
    since = THEN - timedelta(seconds=age)
    return Fault(device=DeviceName(device), reason=reason, effect=effect, since=since, message=f"{reason} happened.")


def judged(
    *faults: Fault, device: Device = CARD, watched: bool = True, silent: bool = False
) -> tuple[str, list[tuple[str, str, str, str]]]:
    health = NodeHealth(faults=faults)
    found = conditions_of(device, health.of(device.name), is_watched=watched, is_silent=silent)
    return state_of(found), [(item.type, item.status, item.reason, item.last_transition_time) for item in found]


XID = fault("Xid79", Effect.NO_EXECUTE)
HOT = fault("ThermalSlowdown", Effect.NONE)
FALSE = ("Healthy", "False", "Xid79", "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(judged(), ("Healthy", [("Healthy", "True", "Healthy", "")]), id="well"),
        pytest.param(judged(watched=False), ("Unknown", [("Healthy", "Unknown", "NotWatched", "")]), id="not watched"),
        pytest.param(judged(silent=True), ("Unknown", [("Healthy", "Unknown", "NodeSilent", "")]), id="silent"),
        pytest.param(judged(XID), ("Unhealthy", [FALSE]), id="a fault"),
        pytest.param(judged(XID, watched=False), ("Unhealthy", [FALSE]), id="a fault of what is not watched any more"),
        pytest.param(judged(XID, silent=True), ("Unhealthy", [FALSE]), id="a silent node's fault holds"),
        pytest.param(
            judged(HOT),
            (
                "Healthy",
                [("Healthy", "True", "Healthy", ""), ("Degraded", "True", "ThermalSlowdown", "2026-01-02T03:04:05Z")],
            ),
            id="degraded",
        ),
        pytest.param(
            judged(HOT, XID, fault("EccUncorrected", Effect.NO_SCHEDULE, age=60)),
            (
                "Unhealthy",
                [
                    ("Healthy", "False", "Xid79", "2026-01-02T03:03:05Z"),
                    ("Degraded", "True", "ThermalSlowdown", "2026-01-02T03:04:05Z"),
                ],
            ),
            id="the worst gives the reason, the first the time",
        ),
        pytest.param(judged(device=DOWN), ("Unhealthy", [("Healthy", "False", "LinkDown", "")]), id="no link"),
        pytest.param(
            judged(device=DOWN, silent=True),
            ("Unhealthy", [("Healthy", "False", "LinkDown", "")]),
            id="no link, silent",
        ),
    ],
)
def test_the_conditions_of_a_device(given: object, expected: object) -> None:
    assert given == expected


def test_all_faults_are_named() -> None:
    faults = (XID, fault("EccUncorrected", Effect.NO_SCHEDULE))
    (condition,) = conditions_of(CARD, NodeHealth(faults=faults).of(CARD.name), is_watched=True)
    assert condition.message == "Xid79 happened. Also: EccUncorrected."


def test_a_virtual_function_is_as_its_nic_is() -> None:
    card = nic("20", vfs=1)
    (vf,) = card.vfs
    flapping = fault("LinkFlapping", Effect.NO_SCHEDULE, device=card.name)
    health = NodeHealth(watched=frozenset({card.name}), faults=(flapping,))
    statuses = device_statuses(node(card, CARD), [], health=health)
    assert [statuses[name].state for name in (card.name, vf.name, CARD.name)] == ["Unhealthy", "Unhealthy", "Unknown"]


@pytest.mark.parametrize(
    "device", [CARD, DOWN, nic("20", vfs=1).vfs[0]], ids=["a GPU", "a NIC without a link", "a virtual function"]
)
@pytest.mark.parametrize("silent", [True, False])
def test_every_condition_is_one_that_the_api_takes(device: Device, silent: bool) -> None:
    for condition in conditions_of(device, (XID, HOT), is_watched=False, is_silent=silent):
        assert Condition.model_validate(condition.to_wire()) == condition
