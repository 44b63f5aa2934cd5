"""The table of NVIDIA's Xid errors."""

from __future__ import annotations

import pytest

from driver.health.xids import Remedy, xid
from driver.model.health import Effect


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_what_nvidias_own_drivers_take_for_an_applications_error_is_no_fault(number: int) -> None:
    """Source: NVIDIA's DRA driver, cmd/gpu-kubelet-plugin/device_health.go, xidsToSkip."""
    assert xid(number).effect is None


@pytest.mark.parametrize("number", [46, 62, 64, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158])
def test_what_the_catalogue_wants_a_reset_for_keeps_work_away_until_then(number: int) -> None:
    """Source: NVIDIA's Xid catalogue, immediate action RESET_GPU; without 109, see above."""
    assert xid(number).effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
    assert xid(number).remedy is Remedy.RESET


@pytest.mark.parametrize("number", [38, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 157, 160, 161])
def test_what_the_catalogue_ignores_is_told_only(number: int) -> None:
    assert (xid(number).effect, xid(number).remedy) == (Effect.NONE, Remedy.NOTHING)


def test_only_what_ends_all_work_evicts() -> None:
    assert [number for number in range(1000) if xid(number).effect is Effect.NO_EXECUTE] == [79, 95]


def test_each_error_of_the_catalogue_says_what_to_do() -> None:
    table = {number: xid(number) for number in range(1, 173)}
    assert [number for number, known in table.items() if known.number != number or not known.name] == []
    assert [number for number, known in table.items() if not known.action or known.action.endswith(".")] == []


@pytest.mark.parametrize("number", [0, 1, 173, 2**40])
def test_an_error_that_is_not_in_the_table_is_told_only(number: int) -> None:
    unknown = xid(number)
    assert (unknown.effect, unknown.remedy, unknown.number) == (Effect.NONE, Remedy.NOTHING, number)
    assert "not in Rootport's table" in unknown.name
