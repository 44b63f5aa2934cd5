"""Waits after failures."""

from __future__ import annotations

import pytest

from driver.backoff import Backoff, delay_s


@pytest.mark.parametrize(("failures", "expected"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (10_000, 30.0)])
def test_each_failure_doubles_the_wait_up_to_a_limit(failures: int, expected: float) -> None:
    assert delay_s(failures, first_s=0.5, limit_s=30.0) == expected


def test_waits_differ_by_up_to_a_quarter_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(first_s=1.0, limit_s=4.0)
    for expected in (1.0, 2.0, 4.0, 4.0):
        assert 0.75 * expected <= backoff.next_s() <= 1.25 * expected
    backoff.reset()
    assert backoff.next_s() <= 1.25
