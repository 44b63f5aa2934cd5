"""Decides which nodes are alive, by their heartbeats: the Lease that each node's plugin renews.

The rule is client-go's for leader election (tools/leaderelection, "observedTime"): the time written in a Lease is never
compared with a clock. What counts is that it changed, and when this process saw it change, by its own monotonic clock.
So neither clock skew nor a restart of the controller makes a node look dead.

Silence is counted only while this process demonstrably hears heartbeats: up to its last *contact*, which is any change
of any Lease that it saw (the controller's own is renewed every two seconds and comes by the same watch). After a gap
without contact the silence of nodes that were not silent before starts anew: they could not be heard.

A plugin that ends releases its Lease. It counts as ended once no other has taken the Lease for some seconds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["Liveness", "LivenessTracker", "is_silent"]

# A plugin that is restarted beats again after two or three seconds.
_RESTART_S: Final = 5.0


class Liveness(Enum):
    """How long a node has been silent."""

    FRESH = "fresh"
    QUIET = "quiet"
    SILENT = "silent"


def is_silent(liveness: Liveness, *, was_withdrawn: bool, has_beaten: bool) -> bool:
    """Return whether a node counts as silent, so that nothing on it can be allocated.

    A node whose slices were withdrawn for its silence is silent until this process itself has seen a heartbeat: a dead
    node's slices must not come back whenever a controller starts and sees its old Lease for the first time.

    Args:
        liveness: How long it has been silent, by its heartbeats.
        was_withdrawn: Whether its inventory says that its slices were withdrawn because it was silent.
        has_beaten: Whether this process has itself seen a heartbeat.
    """
    return liveness is Liveness.SILENT or (was_withdrawn and not has_beaten)


@dataclass(slots=True)
class _Pulse:
    since: float
    renewed: str | None = None
    has_beaten: bool = False
    released_at: float | None = None
    reported: tuple[Liveness, bool, bool] | None = None


class LivenessTracker:
    """Follows the nodes' heartbeats. Safe for several threads. All times are monotonic seconds, passed by the caller.

    Args:
        fresh_for_s: How long a node is fresh after its last heartbeat, or after it was first seen.
        grace_s: After how long it is silent; it is quiet in between.
        max_gap_s: The longest time without contact that is not an outage of this process.
    """

    def __init__(self, *, fresh_for_s: float, grace_s: float, max_gap_s: float) -> None:
        self._fresh_for_s = fresh_for_s
        self._grace_s = grace_s
        self._max_gap_s = max_gap_s
        self._pulses: dict[str, _Pulse] = {}
        self._contact: float | None = None
        self._lock = threading.Lock()

    def track(self, node: str, now: float) -> None:
        """Follow a node; without a heartbeat it counts as if it had had its last one now."""
        with self._lock:
            self._pulses.setdefault(node, _Pulse(since=now))

    def observe(self, node: str, renewed: str, now: float, *, is_released: bool = False) -> None:
        """Take note of a node's Lease.

        Args:
            node: The node.
            renewed: Any text that changes with each renewal.
            now: The time when it was read.
            is_released: Whether it has no holder any more.
        """
        with self._lock:
            pulse = self._pulses.setdefault(node, _Pulse(since=now))
            pulse.released_at = (pulse.released_at or now) if is_released else None
            if pulse.renewed == renewed:
                return
            # The first Lease that is read may be old: it starts the timer, but is no heartbeat.
            pulse.has_beaten = pulse.has_beaten or pulse.renewed is not None
            pulse.renewed = renewed
            self._heard(now)
            pulse.since = now

    def contact(self, now: float) -> None:
        """Take note that some Lease changed: the watch works."""
        with self._lock:
            self._heard(now)

    def liveness(self, node: str, now: float) -> Liveness:
        """Return the node's liveness; a node that is not tracked is fresh."""
        with self._lock:
            pulse = self._pulses.get(node)
            return Liveness.FRESH if pulse is None else self._liveness(pulse, now)

    def is_heard(self, node: str, now: float) -> bool:
        """Return whether the node's plugin is there: fresh, and not ended without another in its place."""
        with self._lock:
            pulse = self._pulses.get(node)
            return pulse is None or self._is_heard(pulse, now)

    def has_beaten(self, node: str) -> bool:
        """Return whether this process itself saw a heartbeat of the node, not just a Lease from before its time."""
        with self._lock:
            pulse = self._pulses.get(node)
            return pulse is not None and pulse.has_beaten

    def changed(self, now: float) -> tuple[str, ...]:
        """Return the nodes whose liveness, :meth:`is_heard` or :meth:`has_beaten` is new since the last call."""
        nodes = []
        with self._lock:
            for node, pulse in self._pulses.items():
                state = (self._liveness(pulse, now), self._is_heard(pulse, now), pulse.has_beaten)
                if state != pulse.reported:
                    pulse.reported = state
                    nodes.append(node)
        return tuple(nodes)

    def forget(self, node: str) -> None:
        """Follow a node no more, because it is gone."""
        with self._lock:
            self._pulses.pop(node, None)

    def _heard(self, now: float) -> None:
        last, self._contact = self._contact, now
        if last is None or now - last <= self._max_gap_s:
            return
        for pulse in self._pulses.values():
            if last - pulse.since <= self._grace_s:
                pulse.since = now

    def _is_heard(self, pulse: _Pulse, now: float) -> bool:
        has_ended = pulse.released_at is not None and now - pulse.released_at >= _RESTART_S
        return not has_ended and self._liveness(pulse, now) is Liveness.FRESH

    def _liveness(self, pulse: _Pulse, now: float) -> Liveness:
        heard_until = pulse.since if self._contact is None else min(now, self._contact)
        silence = heard_until - pulse.since
        if silence > self._grace_s:
            return Liveness.SILENT
        return Liveness.QUIET if silence > self._fresh_for_s else Liveness.FRESH
