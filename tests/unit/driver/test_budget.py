"""A budget in force ends what asks it, and nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest

from driver.budget import Budget, SpentError, check, is_spent, share


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_budget_nothing_is_bounded() -> None:
    check(1e9)
    assert not is_spent()
    with share(0.1, at_most_s=5.0) as granted:
        assert granted == 5.0


def test_a_budget_ends_with_its_time_and_bounds_nothing_behind_its_block() -> None:
    clock = Clock()
    with Budget(2.0, clock=clock).in_force():
        clock.now += 1.9
        check()
        with pytest.raises(SpentError):
            check(0.2)  # what cannot be interrupted is not begun
        clock.now += 0.1
        assert is_spent()
        with pytest.raises(SpentError):
            check()
    check()


def test_the_clock_on_the_wall_and_who_wants_no_answer_end_it_as_well() -> None:
    wall, stopped = Clock(), False
    budget = Budget(1.0, wall_s=3.0, wall_clock=wall, clock=Clock(), stopped=lambda: stopped)
    assert not budget.is_spent
    wall.now += 3.0
    assert budget.is_spent
    wall.now -= 1.0
    assert not budget.part(0.5).is_spent
    stopped = True
    assert budget.is_spent


def test_a_share_ends_before_the_whole_and_never_after_it() -> None:
    clock = Clock()
    with Budget(10.0, clock=clock).in_force():
        with share(0.5) as granted:
            assert granted == 5.0
            clock.now += 5.0
            assert is_spent()
        assert not is_spent()
        with share(0.5, at_most_s=1.0) as granted:
            assert granted == 1.0
            with share(1.0, at_most_s=99.0) as inner:
                assert inner == 1.0
            clock.now += 5.0
            with pytest.raises(SpentError):
                check()
        assert is_spent()


def test_of_an_exception_the_budget_before_is_in_force_again() -> None:
    clock = Clock()
    with Budget(1.0, clock=clock).in_force():
        clock.now += 0.5
        with suppress(SpentError), share(0.5):
            clock.now += 0.25
            check()
            pytest.fail("the share is spent")
        check()
