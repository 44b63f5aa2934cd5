"""Damps states that come and go: one is reported at once when it comes, and as over when it stayed away for a while.

A taint that comes and goes would have the scheduler give out a device that is about to fail again, and would have the
controller write the slices of the node each time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from driver.health.fault_history import KnownFault
from driver.model.health import LINK_DOWN_FAULT, Fault

__all__ = ["Damping", "hold_time", "not_seen", "not_shown", "seen"]

_RETURNS_COUNT_FOR: Final = timedelta(hours=1)
_LONGEST_HOLD: Final = timedelta(hours=1)
_MAX_RETURNS: Final = 8
"""More change nothing: the hold is at its longest by then."""

_NO_HOLD: Final = frozenset({LINK_DOWN_FAULT, "RecoveryNeeded"})
"""A port that is active again can be used at once; one that goes down again and again is reported as flapping. What a
GPU needs, NVIDIA's driver concludes itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damping:
    """How long states are held.

    Attributes:
        hold: How long a state must have stayed away before it is over; doubled with each return within an hour, up to
            an hour.
    """

    hold: timedelta = timedelta(seconds=60)


def hold_time(known: KnownFault, damping: Damping, now: datetime) -> timedelta:
    """Return how long this state must stay away before it is over."""
    if known.reason in _NO_HOLD:
        return timedelta()
    return min(damping.hold * (1 << len(_recent(known, now))), max(_LONGEST_HOLD, damping.hold))


def seen(fault: Fault, known: KnownFault | None, now: datetime, *, needed: int = 1) -> KnownFault:
    """Return the state as it is to be remembered after a reading that shows it.

    Args:
        fault: What the reading shows.
        known: What was remembered of it.
        now: The time of the reading.
        needed: How many readings in a row must show it before it counts.
    """
    if known is None:
        return KnownFault(
            device=fault.device,
            reason=fault.reason,
            effect=fault.effect,
            since=fault.since,
            message=fault.message,
            last=now,
            is_reported=needed <= 1,
        )
    came_back = known.away_since is not None and (known.is_reported or known.sightings >= needed)
    sightings = min(needed, (0 if known.away_since is not None else known.sightings) + 1)
    is_reported = known.is_reported or sightings >= needed
    return replace(
        known,
        effect=fault.effect,
        message=fault.message,
        # A state that is held has been there all the time, as far as others see.
        since=known.since if known.is_reported else fault.since,
        last=now,
        sightings=sightings,
        away_since=None,
        returned=(*_recent(known, now), now)[-_MAX_RETURNS:] if came_back else _recent(known, now),
        is_reported=is_reported,
    )


def not_seen(known: KnownFault, damping: Damping, now: datetime) -> KnownFault | None:
    """Return the state as it is to be remembered after a reading that does not show it; None where it is over."""
    away_since = known.away_since or now
    over = now - away_since >= hold_time(known, damping, now)
    if over and now - known.last >= _RETURNS_COUNT_FOR:
        return None
    if over and known.reason in _NO_HOLD:
        return None
    return replace(
        known,
        away_since=away_since,
        is_reported=known.is_reported and not over,
        returned=_recent(known, now),
    )


def not_shown(known: KnownFault) -> KnownFault:
    """Return the state after a reading that cannot show it, which does not count as staying away."""
    return replace(known, away_since=None) if known.is_reported else known


def _recent(known: KnownFault, now: datetime) -> tuple[datetime, ...]:
    return tuple(moment for moment in known.returned if now - moment < _RETURNS_COUNT_FOR)
