"""What a reading of a GPU and the driver's errors say about its health."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from driver.health.gpu_rules import (
    QUIET,
    SETTLED,
    gpu_faults,
    needs_second_reading,
    without_consequences,
    xid_fault,
    xid_is_over,
)
from driver.health.readings import GpuReading, RecoveryAction, Slowdown, XidEvent
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault

GPU = DeviceName("gpu-0000-33-00-0")
OTHER = DeviceName("gpu-0000-43-00-0")
T0 = datetime(2026, 11, 22, 4, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WELL = GpuReading(
    device=GPU,
    recovery_action=RecoveryAction.NONE,
    uncorrected_errors=0,
    corrected_errors=12,
    retired_pages_pending=False,
    remapping_pending=False,
    remapping_failed=False,
    utilization=100,
    temperature_celsius=80,
)
OLD_DRIVER = replace(WELL, recovery_action=None)
NEEDS_RESET = replace(WELL, recovery_action=RecoveryAction.GPU_RESET)


def states(reading: GpuReading) -> dict[str, Effect]:
    return {fault.reason: fault.effect for fault in gpu_faults(reading, T0)}


@pytest.mark.parametrize("reading", [WELL, GpuReading(device=GPU)], ids=["all-told", "nothing-told"])
def test_a_gpu_that_is_well_has_no_faults(reading: GpuReading) -> None:
    assert gpu_faults(reading, T0) == ()


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        pytest.param(replace(WELL, lost=True), {"GpuLost": Effect.NO_EXECUTE}, id="lost"),
        pytest.param(
            replace(NEEDS_RESET, not_answering="why"), {"GpuNotAnswering": Effect.NO_SCHEDULE}, id="not-answering"
        ),
        pytest.param(replace(WELL, remapping_failed=True), {"RowRemapFailure": Effect.NO_SCHEDULE}, id="remap-failed"),
        pytest.param(replace(WELL, remapping_pending=True), {"RowRemapPending": Effect.NONE}, id="remap-pending"),
        pytest.param(replace(WELL, retired_pages_pending=True), {"RetiredPagesPending": Effect.NONE}, id="pages"),
        pytest.param(
            replace(WELL, slowdowns=frozenset(Slowdown)),
            {"ThermalSlowdown": Effect.NONE, "PowerBrakeSlowdown": Effect.NONE},
            id="slowdowns",
        ),
        *(
            pytest.param(replace(WELL, recovery_action=action), {"RecoveryNeeded": Effect.NO_SCHEDULE}, id=action)
            for action in RecoveryAction
            if action is not RecoveryAction.NONE
        ),
    ],
)
def test_each_state_has_its_reason_and_effect(reading: GpuReading, expected: dict[str, Effect]) -> None:
    assert states(reading) == expected
    assert {(fault.device, fault.since) for fault in gpu_faults(reading, T0)} == {(GPU, T0)}


def test_several_states_are_told_together() -> None:
    reading = replace(NEEDS_RESET, remapping_pending=True, slowdowns=frozenset({Slowdown.THERMAL}))
    assert states(reading).keys() == {"RecoveryNeeded", "RowRemapPending", "ThermalSlowdown"}


def test_why_a_gpu_does_not_answer_is_in_the_message() -> None:
    (fault,) = gpu_faults(replace(WELL, not_answering="nvmlDeviceGetName: Unknown Error"), T0)
    assert "nvmlDeviceGetName: Unknown Error" in fault.message


def test_only_slowdowns_need_a_second_reading() -> None:
    reading = replace(NEEDS_RESET, remapping_failed=True, remapping_pending=True, slowdowns=frozenset(Slowdown))
    assert {fault.reason for fault in gpu_faults(reading, T0) if needs_second_reading(fault)} == {
        "ThermalSlowdown",
        "PowerBrakeSlowdown",
    }


def error(number: int, at: datetime = T0) -> Fault:
    fault = xid_fault(XidEvent(device=GPU, xid=number, at=at))
    assert fault is not None
    return fault


def test_an_error_becomes_a_fault_that_says_what_to_do() -> None:
    fault = error(79, T0 + timedelta(microseconds=5))
    assert (fault.device, fault.reason, fault.effect, fault.since) == (GPU, "Xid79", Effect.NO_EXECUTE, T0)
    assert "Xid 79, GPU has fallen off the bus: drain and reboot the node" in fault.message


def test_an_error_that_is_not_known_is_told_only() -> None:
    assert (error(900).reason, error(900).effect) == ("Xid900", Effect.NONE)


def test_neither_an_applications_error_nor_one_without_a_gpu_is_a_fault() -> None:
    assert xid_fault(XidEvent(device=GPU, xid=31, at=T0)) is None
    assert xid_fault(XidEvent(device=None, xid=79, at=T0)) is None


def over(number: int, reading: GpuReading | None, after: timedelta, *, was_absent: bool = False) -> bool | None:
    return xid_is_over(error(number), reading, last_event=T0, was_absent=was_absent, now=T0 + after)


@pytest.mark.parametrize("number", [48, 79, 94])
def test_the_drivers_word_ends_an_error_once_it_has_settled(number: int) -> None:
    assert over(number, WELL, SETTLED - SECOND) is False
    assert over(number, WELL, SETTLED) is True
    assert over(number, NEEDS_RESET, timedelta(days=3)) is False


@pytest.mark.parametrize("number", [48, 79, 119])
def test_what_needs_a_reset_never_ends_by_mere_time(number: int) -> None:
    assert over(number, OLD_DRIVER, timedelta(days=300)) is None


def test_what_needs_a_restart_of_the_application_ends_when_it_is_quiet() -> None:
    assert over(94, OLD_DRIVER, QUIET - SECOND) is False
    assert over(94, OLD_DRIVER, QUIET) is True


def test_the_quiet_time_is_that_since_the_last_event() -> None:
    now = T0 + QUIET + SECOND
    again = T0 + timedelta(minutes=2)
    assert xid_is_over(error(94), OLD_DRIVER, last_event=again, was_absent=False, now=now) is False


@pytest.mark.parametrize("reading", [WELL, NEEDS_RESET, OLD_DRIVER], ids=["well", "needs-reset", "old-driver"])
@pytest.mark.parametrize("number", [63, 900])
def test_what_is_told_only_ends_when_it_is_quiet(number: int, reading: GpuReading) -> None:
    assert over(number, reading, QUIET - SECOND) is False
    assert over(number, reading, QUIET) is True


@pytest.mark.parametrize("number", [63, 79, 94])
def test_a_gpu_that_was_away_and_is_back_was_reset(number: int) -> None:
    assert over(number, OLD_DRIVER, SECOND, was_absent=True) is True


@pytest.mark.parametrize(
    "reading",
    [None, replace(WELL, lost=True), replace(WELL, not_answering="why")],
    ids=["unread", "lost", "not-answering"],
)
@pytest.mark.parametrize("number", [63, 79, 94])
def test_nothing_is_over_while_the_gpu_does_not_answer(number: int, reading: GpuReading | None) -> None:
    assert over(number, reading, timedelta(days=1), was_absent=True) is False


def test_an_error_stands_for_what_the_driver_concludes_from_it() -> None:
    (recovery,) = gpu_faults(NEEDS_RESET, T0 - SECOND)
    elsewhere = replace(recovery, device=OTHER)
    assert without_consequences((recovery, error(94), elsewhere)) == (error(94), elsewhere)
    assert without_consequences((recovery, error(79))) == (error(79),)


def test_an_error_that_is_told_only_hides_nothing() -> None:
    (recovery,) = gpu_faults(NEEDS_RESET, T0)
    assert without_consequences((recovery, error(63))) == (recovery, error(63))
    (lost,) = gpu_faults(replace(WELL, lost=True), T0)
    assert without_consequences((lost, error(79))) == (lost, error(79))
