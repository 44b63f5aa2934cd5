"""Heartbeats: only changes that were seen count, and silence only while we could hear."""

from __future__ import annotations

import pytest

from controller.cluster.liveness import Liveness, LivenessTracker


def tracker() -> LivenessTracker:
    return LivenessTracker(fresh_for_s=25, grace_s=60, max_gap_s=15)


def hear(it: LivenessTracker, start: int, end: int) -> None:
    """The controller's own Lease, every two seconds."""
    for now in range(start, end + 1, 2):
        it.contact(now)


@pytest.mark.parametrize(
    ("silence", "liveness"),
    [(0, Liveness.FRESH), (24, Liveness.FRESH), (26, Liveness.QUIET), (60, Liveness.QUIET), (62, Liveness.SILENT)],
)
def test_a_node_goes_from_fresh_over_quiet_to_silent(silence: int, liveness: Liveness) -> None:
    it = tracker()
    it.observe("n", "t1", 100)
    hear(it, 100, 100 + silence)
    assert it.liveness("n", 100 + silence) is liveness


def test_a_node_without_a_lease_is_silent_since_it_was_first_seen() -> None:
    it = tracker()
    it.track("n", 0)
    it.track("n", 50)
    hear(it, 0, 62)
    assert it.liveness("n", 62) is Liveness.SILENT


def test_reading_the_same_renewal_again_is_no_heartbeat() -> None:
    it = tracker()
    it.observe("n", "t1", 0)
    hear(it, 0, 62)
    it.observe("n", "t1", 62)
    assert it.liveness("n", 62) is Liveness.SILENT
    it.observe("n", "t2", 63)
    assert it.liveness("n", 63) is Liveness.FRESH


def test_the_time_in_the_lease_is_not_read() -> None:
    it = tracker()
    for now, renewed in enumerate(["2099-01-01", "1970-01-01", "nonsense"]):
        it.observe("n", renewed, now)
        assert it.liveness("n", now) is Liveness.FRESH


def test_only_a_renewal_that_was_seen_is_a_heartbeat() -> None:
    it = tracker()
    it.observe("n", "old", 0)
    assert not it.has_beaten("n")
    it.observe("n", "new", 1)
    assert it.has_beaten("n")


def test_without_contact_nothing_expires() -> None:
    it = tracker()
    it.observe("n", "t1", 0)
    it.contact(2)
    assert it.liveness("n", 10_000) is Liveness.FRESH


def test_after_an_outage_silence_starts_anew() -> None:
    it = tracker()
    it.observe("n", "t1", 0)
    hear(it, 0, 20)
    it.contact(300)
    assert it.liveness("n", 300) is Liveness.FRESH
    hear(it, 300, 362)
    assert it.liveness("n", 362) is Liveness.SILENT


def test_a_node_that_was_silent_before_an_outage_stays_silent() -> None:
    it = tracker()
    it.observe("n", "t1", 0)
    hear(it, 0, 62)
    it.contact(300)
    assert it.liveness("n", 300) is Liveness.SILENT


def test_one_nodes_heartbeat_proves_contact_for_the_others() -> None:
    it = tracker()
    it.observe("dead", "t1", 0)
    for now in range(0, 63, 10):
        it.observe("alive", f"t{now}", now)
    it.observe("alive", "last", 63)
    assert it.liveness("dead", 63) is Liveness.SILENT


def test_each_change_is_reported_once() -> None:
    it = tracker()
    it.observe("n", "t1", 0)
    assert it.changed(0) == ("n",)
    assert it.changed(1) == ()
    it.observe("n", "t2", 1)
    assert it.changed(1) == ("n",)
    hear(it, 2, 28)
    assert it.changed(28) == ("n",)
    it.forget("n")
    assert it.changed(100) == ()


def test_a_plugin_that_released_its_lease_is_heard_no_more_once_none_has_come_in_its_place() -> None:
    it = tracker()
    it.observe("n", "t1", 100)
    assert it.changed(100) == ("n",)
    it.observe("n", "t1", 102, is_released=True)
    it.observe("n", "t1", 103, is_released=True)
    assert it.is_heard("n", 106.9)
    assert it.changed(106.9) == ()
    assert not it.is_heard("n", 107)
    assert it.changed(107) == ("n",)
    assert it.liveness("n", 107) is Liveness.FRESH
    it.observe("n", "t2", 110)
    assert it.is_heard("n", 120)


def test_a_plugin_that_is_killed_is_heard_no_more_once_it_is_not_fresh() -> None:
    it = tracker()
    it.observe("n", "t1", 100)
    hear(it, 100, 126)
    assert it.is_heard("n", 125)
    assert not it.is_heard("n", 126)
    assert it.is_heard("another", 126)
