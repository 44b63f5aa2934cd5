"""What the status of a NodeInventory tells of the devices' health."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.model.devices import DeviceName
from driver.objects.health import node_health

NOON = "2026-01-01T12:00:00Z"


def inventory(*times: str) -> dict[str, Any]:
    faults = [
        {"device": f"gpu-{index}", "reason": "Xid79", "effect": "NoSchedule", "since": time, "message": "gone"}
        for index, time in enumerate(times)
    ]
    return {"status": {"watched": ["gpu-0"], "faults": faults}}


@pytest.mark.parametrize(
    "time",
    ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00", "0000-01-01T00:00:00Z", "soon", "2026-01-01T12:00:00"],
)
def test_a_fault_with_an_odd_time_counts_as_any_other(time: str) -> None:
    health = node_health(inventory(time, NOON))
    assert set(health.taints()) == {"gpu-0", "gpu-1"}
    assert health.watched == {"gpu-0"}
    assert all(fault.since.astimezone(UTC) for fault in health.faults)


def test_times_are_in_utc() -> None:
    (fault,) = node_health(inventory("2026-01-01T14:00:00+02:00")).faults
    assert fault.since == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "status", "cannot"),
    [
        ("Registered", "False", "Why"),
        ("StateDirectoryWritable", "False", "Why"),
        ("CdiDirectoryWritable", "False", "Why"),
        ("Registered", "Unknown", ""),
        ("Discovered", "False", ""),
        ("NoRivalPlugin", "False", ""),
        ("Ready", "False", ""),
    ],
)
def test_a_plugin_that_can_prepare_no_claim_says_so_in_its_conditions(type_: str, status: str, cannot: str) -> None:
    condition = {"type": type_, "status": status, "reason": "Why", "message": "", "lastTransitionTime": NOON}
    ready = condition | {"type": "Ready", "status": "False", "reason": "Else"}
    conditions = [condition] if type_ == "Ready" else [ready, condition]
    assert node_health({"status": {"conditions": conditions}}).cannot_prepare == cannot


def test_rivals_are_read_with_their_devices_and_kinds_of_newer_plugins_too() -> None:
    rivals = [
        {"name": "nvidia.com/gpu", "kind": "DevicePlugin", "devices": ["gpu-0", "gpu-1"], "message": "it is there"},
        {"name": "new", "kind": "SomethingNew", "devices": ["rdma-0"], "more": 1},
    ]
    health = node_health({"status": {"rivals": rivals}})
    assert [(item.name, item.kind, item.devices) for item in health.rivals] == [
        ("nvidia.com/gpu", "DevicePlugin", ("gpu-0", "gpu-1")),
        ("new", "SomethingNew", ("rdma-0",)),
    ]
    assert health.rivals_of(DeviceName("gpu-1")) == health.rivals[:1]
    assert health.rivals_of(DeviceName("gpu-9")) == ()


def test_the_status_of_an_older_plugin_has_no_rivals() -> None:
    assert node_health(inventory(NOON)).rivals == ()
