"""The times of conditions that no stored object has yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controller.devices.condition_times import ConditionTimes
from driver.api.rootport_v1alpha1 import DeviceStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WELL = "2026-01-01T09:00:00Z"


def status(said: str, since: str = "") -> DeviceStatus:
    condition = {"type": "Healthy", "status": said, "reason": "R", "message": "m", "lastTransitionTime": since}
    return DeviceStatus.model_validate({"state": "Unknown", "conditions": [condition]})


def times(tracked: ConditionTimes, wanted: DeviceStatus, minute: int, stored: tuple[str, str] | None) -> str:
    there = {} if stored is None else {"d": {"Healthy": stored}}
    made = tracked.of_node("n", {"d": wanted}, there, NOON + timedelta(minutes=minute))
    return made["d"].conditions[0].last_transition_time


@pytest.mark.parametrize("stored", [None, ("True", WELL)], ids=["nothing-stored", "something-else-stored"])
def test_a_change_keeps_the_time_when_it_was_first_seen_until_it_is_written(stored: tuple[str, str] | None) -> None:
    tracked = ConditionTimes()
    assert [times(tracked, status("False"), minute, stored) for minute in (0, 1, 2)] == ["2026-01-01T12:00:00Z"] * 3
    tracked.forget("n")
    assert times(tracked, status("False"), 3, stored) == "2026-01-01T12:03:00Z"


def test_stored_and_reported_times_win() -> None:
    tracked = ConditionTimes()
    assert times(tracked, status("False"), 0, ("True", WELL)) == "2026-01-01T12:00:00Z"
    assert times(tracked, status("True"), 1, ("True", WELL)) == WELL
    assert times(tracked, status("False"), 2, ("True", WELL)) == "2026-01-01T12:02:00Z"  # another change
    assert times(tracked, status("False", "2026-01-01T11:00:00Z"), 3, None) == "2026-01-01T12:02:00Z"
    assert times(ConditionTimes(), status("False", "2026-01-01T11:00:00Z"), 3, None) == "2026-01-01T11:00:00Z"
