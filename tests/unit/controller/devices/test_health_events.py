"""When a device's health is news, and what the Events say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.devices.health_events import HealthChange, health_changes, health_events
from driver.api.rootport_v1alpha1 import DeviceStatus

NAME, SINCE, NOW = "node-a.gpu-1", "2026-01-02T03:04:05Z", datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
BODY = {"metadata": {"name": NAME, "uid": "d-uid"}}


def status(said: str, *pods: str, message: str = "It fell off the bus.") -> DeviceStatus:
    condition = {
        "type": "Healthy",
        "status": said,
        "reason": "Xid79",
        "message": message,
        "lastTransitionTime": SINCE,
    }
    allocation: dict[str, Any] = {"namespace": "team", "claim": "c", "uid": "u", "request": "r", "device": "gpu-1"}
    allocation |= {"shareID": "", "pods": [{"name": pod, "uid": f"uid-{pod}"} for pod in pods]}
    state = {"True": "Healthy", "False": "Unhealthy", "Unknown": "Unknown"}[said]
    return DeviceStatus.model_validate({"state": state, "conditions": [condition], "allocations": [allocation]})


def change(former: str, now: DeviceStatus) -> HealthChange | None:
    stored = {"conditions": (("Healthy", former, "2025-01-01T00:00:00Z"),)} if former else {}
    return next(iter(health_changes([BODY], {NAME: now}, {NAME: stored})), None)


@pytest.mark.parametrize(
    ("former", "now", "news"),
    [
        ("True", "False", False),
        ("Unknown", "False", False),
        ("", "False", False),
        ("False", "True", True),
        ("False", "False", None),
        ("True", "True", None),
        ("", "True", None),
        ("Unknown", "True", None),
        ("True", "Unknown", None),
        ("False", "Unknown", None),
    ],
)
def test_which_changes_have_an_event(former: str, now: str, news: bool | None) -> None:
    found = change(former, status(now))
    assert (found.is_healthy if found else None) is news


def made(former: str, now: DeviceStatus) -> list[dict[str, Any]]:
    found = change(former, now)
    assert found is not None
    return list(health_events(found, instance="one", now=NOW))


def test_the_device_and_its_pods_have_events() -> None:
    of_device, of_pod = made("True", status("False", "p"))
    assert (of_device["type"], of_device["reason"], of_device["metadata"]["namespace"]) == (
        "Warning",
        "DeviceUnhealthy",
        "default",
    )
    assert of_device["regarding"] == {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": "Device",
        "name": NAME,
        "uid": "d-uid",
    }
    assert of_pod["related"] == of_device["regarding"]
    assert (of_pod["regarding"]["kind"], of_pod["metadata"]["namespace"]) == ("Pod", "team")
    assert of_pod["note"] == (
        "Device node-a.gpu-1, which the pod has by claim c, is unhealthy: Xid79. It fell off the bus."
    )


def test_an_event_written_again_has_the_same_name_and_a_later_fault_another() -> None:
    names = [[event["metadata"]["name"] for event in made("True", status("False", "p"))] for _ in range(2)]
    assert names[0] == names[1]
    (again, _) = made("False", status("True", "p"))
    assert (again["reason"], again["type"]) == ("DeviceHealthy", "Normal")
    assert again["metadata"]["name"] == "device-healthy.d-uid.20250101t000000z"


def test_no_more_than_sixteen_pods_have_an_event_each_once() -> None:
    one, two = (status("False", *(f"p{number}" for number in range(start, start + 12))) for start in (0, 6))
    both = one.model_copy(update={"allocations": (*one.allocations, *two.allocations)})
    told = made("True", both)[1:]
    assert len({event["regarding"]["uid"] for event in told}) == len(told) == 16


def test_a_note_is_never_too_long() -> None:
    for event in made("True", status("False", "p", message="\u00e4" * 4096)):
        assert len(event["note"].encode()) <= 1024


def with_rival(*pods: str, held: bool = True) -> DeviceStatus:
    rival = {
        "type": "HasRival",
        "status": "True",
        "reason": "DevicePlugin",
        "message": "the Node has nvidia.com/gpu: 8 from a device plugin",
        "lastTransitionTime": SINCE,
    }
    wire = status("True", *pods).to_wire()
    wire["conditions"].append(rival)
    return DeviceStatus.model_validate(wire if held else wire | {"allocations": []})


def rival_changes(now: DeviceStatus, *former: tuple[str, str, str]) -> tuple[HealthChange, ...]:
    return health_changes([BODY], {NAME: now}, {NAME: {"conditions": (("Healthy", "True", ""), *former)}})


def test_a_rival_of_a_device_that_claims_have_is_told_the_device_and_its_pods_once() -> None:
    (found,) = rival_changes(with_rival("p"))
    of_device, of_pod = health_events(found, instance="one", now=NOW)
    assert {(event["type"], event["reason"]) for event in (of_device, of_pod)} == {("Warning", "RivalPlugin")}
    assert of_pod["note"] == (
        "Device node-a.gpu-1, which the pod has by claim c, can be given to other pods as well, by another system. "
        "the Node has nvidia.com/gpu: 8 from a device plugin"
    )
    assert rival_changes(with_rival("p"), ("HasRival", "True", SINCE)) == ()


def test_a_rival_of_a_free_device_is_no_event() -> None:
    assert rival_changes(with_rival(held=False)) == ()
