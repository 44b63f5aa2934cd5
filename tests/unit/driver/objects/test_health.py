"""What the status of a NodeInventory tells of the devices' health."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

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
