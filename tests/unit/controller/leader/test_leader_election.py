"""Who leads: decisions by what was observed, and the loop at a real API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller.leader.election import Election, LeaseAction

WALL = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def lease(holder: str, renewed: str, *, seconds: int = 15) -> dict[str, Any]:
    return {
        "metadata": {"name": "l", "resourceVersion": "1"},
        "spec": {
            "holderIdentity": holder,
            "renewTime": renewed,
            "leaseDurationSeconds": seconds,
            "leaseTransitions": 3,
            "acquireTime": "then",
        },
    }


def election() -> Election:
    return Election(identity="me", lease_duration_s=15)


def test_without_a_lease_one_is_created() -> None:
    it = election()
    assert it.decide(None, 0) is LeaseAction.CREATE
    assert it.renewed(None, LeaseAction.CREATE, WALL) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-02T03:04:05.678901Z",
        "renewTime": "2026-01-02T03:04:05.678901Z",
        "leaseTransitions": 0,
    }


@pytest.mark.parametrize("renewed", ["1970-01-01", "2099-01-01"], ids=["long ago", "in the future"])
def test_another_holder_keeps_the_lease_for_its_duration_whatever_its_clock(renewed: str) -> None:
    it = election()
    assert it.decide(lease("other", renewed), 100) is LeaseAction.WAIT
    assert it.decide(lease("other", renewed), 114.9) is LeaseAction.WAIT
    assert it.decide(lease("other", renewed), 115) is LeaseAction.TAKE_OVER


def test_each_renewal_that_is_seen_starts_the_time_anew() -> None:
    it = election()
    assert it.decide(lease("other", "t1"), 0) is LeaseAction.WAIT
    assert it.decide(lease("other", "t2"), 14) is LeaseAction.WAIT
    assert it.decide(lease("other", "t2"), 28) is LeaseAction.WAIT
    assert it.decide(lease("other", "t2"), 29) is LeaseAction.TAKE_OVER


def test_a_released_lease_is_taken_at_once() -> None:
    it = election()
    assert it.decide(lease("", "t1", seconds=1), 0) is LeaseAction.TAKE_OVER


def test_taking_over_counts_and_renewing_keeps_since_when() -> None:
    it = election()
    taken = it.renewed(lease("other", "t1"), LeaseAction.TAKE_OVER, WALL)
    assert (taken["leaseTransitions"], taken["acquireTime"]) == (4, taken["renewTime"])
    kept = it.renewed(lease("me", "t1"), LeaseAction.RENEW, WALL)
    assert (kept["leaseTransitions"], kept["acquireTime"]) == (3, "then")
    assert it.decide(lease("me", "t1"), 0) is LeaseAction.RENEW


def test_only_an_own_lease_is_released() -> None:
    it = election()
    released = it.released(lease("me", "t1"), WALL)
    assert released is not None
    assert (released["holderIdentity"], released["leaseDurationSeconds"], released["leaseTransitions"]) == ("", 1, 3)
    assert it.released(lease("other", "t1"), WALL) is None
