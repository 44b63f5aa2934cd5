"""Which nodes are alive, by their heartbeats: the Lease that each node's plugin renews.

The rule is client-go's for leader election (tools/leaderelection, "observedTime"): the time written in a Lease is never
compared with a clock. What counts is that it changed, and when this process saw it change, by its own monotonic clock.
So neither clock skew nor a restart of the controller makes a node look dead.

Silence is counted only while this process demonstrably hears: up to its last *contact*, which is any change of
any Lease that it saw (the controller's own is renewed every two seconds and comes by the same watch). After a
gap without contact the silence of nodes that were not silent before it starts anew: they could not be heard.

A plugin that ends releases its Lease. That it has ended counts once no other has come in its place.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["Liveness", "LivenessTracker"]

# A plugin that is restarted beats again after two or three seconds.
_RESTART_S: Final = 5.0


class Liveness(Enum):
    """How long a node has been silent."""

    FRESH = "fresh"
    QUIET = "quiet"
    SILENT = "silent"


@dataclass(slots=True)
class _Pulse:
    since: float
    renewed: str | None = None
    has_beaten: bool = False
    released_at: float | None = None
    told: tuple[Liveness, bool, bool] | None = None


class LivenessTracker:
    """Listens to heartbeats. Safe for several threads. All times are monotonic seconds, given by the caller.

    Args:
        fresh_for_s: A node is fresh up to this long after its last heartbeat, or after it was first seen.
        grace_s: Silent from then on; quiet in between.
        max_gap_s: A longer time without contact is an outage of ours.
    """

    def __init__(self, *, fresh_for_s: float, grace_s: float, max_gap_s: float) -> None:
        self._fresh_for_s = fresh_for_s
        self._grace_s = grace_s
        self._max_gap_s = max_gap_s
        self._pulses: dict[str, _Pulse] = {}
        self._contact: float | None = None
        self._lock = threading.Lock()

    def track(self, node: str, now: float) -> None:
        """The node is there; without a heartbeat it is as silent as if it had last had one when first tracked."""
        with self._lock:
            self._pulses.setdefault(node, _Pulse(since=now))

    def observe(self, node: str, renewed: str, now: float, *, is_released: bool = False) -> None:
        """A node's Lease was read.

        Args:
            node: The node.
            renewed: Any text that changes with each renewal.
            now: The time.
            is_released: Whether nobody holds it any more.
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
        """Some Lease was seen to change: this process hears what the API server says."""
        with self._lock:
            self._heard(now)

    def liveness(self, node: str, now: float) -> Liveness:
        """How the node is now; a node that is not tracked is fresh."""
        with self._lock:
            pulse = self._pulses.get(node)
            return Liveness.FRESH if pulse is None else self._liveness(pulse, now)

    def is_heard(self, node: str, now: float) -> bool:
        """Whether, by its heartbeats, the node's plugin is there: fresh, and not ended without another in its place."""
        with self._lock:
            pulse = self._pulses.get(node)
            return pulse is None or self._is_heard(pulse, now)

    def has_beaten(self, node: str) -> bool:
        """Whether this process itself saw a heartbeat of the node, not just a Lease that somebody once wrote."""
        with self._lock:
            pulse = self._pulses.get(node)
            return pulse is not None and pulse.has_beaten

    def changed(self, now: float) -> tuple[str, ...]:
        """The nodes whose liveness, or whether they are heard or have beaten, is another than when asked before."""
        nodes = []
        with self._lock:
            for node, pulse in self._pulses.items():
                state = (self._liveness(pulse, now), self._is_heard(pulse, now), pulse.has_beaten)
                if state != pulse.told:
                    pulse.told = state
                    nodes.append(node)
        return tuple(nodes)

    def forget(self, node: str) -> None:
        """The node is gone."""
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
