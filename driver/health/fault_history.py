"""Remembers faults between readings, to damp them, and over a restart of the plugin.

One versioned JSON document. A reboot ends all of it: every device was reset then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeVar

from driver.api.strict import read, rule, write
from driver.bounded_json import parse_json
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault

__all__ = ["HISTORY_VERSION", "FaultHistory", "KnownFault", "UnreadableHistoryError", "from_json", "to_json"]

HISTORY_VERSION: Final = 1

_T = TypeVar("_T")
# With times beyond these no time can be reckoned: a difference to now, added once more, would leave the calendar.
_EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_MAX_RETURNED: Final = 16  # more than are written; the hold is doubled with each


class UnreadableHistoryError(ValueError):
    """The document is not what this version can read; the message says why."""


def _reckonable(value: _T, _fields: Mapping[str, Any]) -> _T:
    """Refuse times, in a list, a mapping, or a mapping of lists, that are out of bounds."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, tuple):
            stack += item
        elif not _EARLIEST <= item <= _LATEST:
            raise ValueError(f"must be from {_EARLIEST:%Y} to {_LATEST:%Y}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFault:
    """A fault that is there, or that was there not long ago.

    Attributes:
        device: The whole device.
        reason: As of a :class:`~driver.model.health.Fault`, like effect, since and message.
        xid: The number of the error that an event reported; None for a state that readings show.
        last: When it was seen last.
        sightings: How many readings in a row have shown it, at most as many as it takes to report it.
        away_since: The first of the readings in a row that did not show it; None while it is seen or not known.
        returned: When it came back, within the last hour.
        is_reported: Whether it counts: seen often enough, and not over. The document calls it ``told``.
    """

    device: DeviceName
    reason: str
    effect: Effect
    since: datetime = rule(check=_reckonable)
    message: str
    xid: int | None = None
    last: datetime = rule(check=_reckonable)
    sightings: int = 1
    away_since: datetime | None = rule(default=None, check=_reckonable)
    returned: tuple[datetime, ...] = rule(default=(), longest=_MAX_RETURNED, check=_reckonable)
    is_reported: bool = rule(default=True, name="told")

    @property
    def fault(self) -> Fault:
        """The fault as it is reported."""
        return Fault(device=self.device, reason=self.reason, effect=self.effect, since=self.since, message=self.message)

    def moved_back(self, by: timedelta, now: datetime) -> KnownFault:
        """Return the same for a clock that was set back, to now."""
        return replace(
            self,
            since=min(self.since, now.replace(microsecond=0)),
            last=self.last - by,
            away_since=self.away_since and self.away_since - by,
            returned=tuple(moment - by for moment in self.returned),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultHistory:
    """All that is remembered.

    Attributes:
        version: The document's version.
        boot_id: The boot that it is about (``/proc/sys/kernel/random/boot_id``).
        faults: By device and reason.
        away: When a GPU was seen last to be lost, or not there.
        downs: By NIC and port (``rdma-0000-14-00-0/1``), when the port went down, within the last minutes.
    """

    version: Literal[1] = HISTORY_VERSION
    boot_id: str = ""
    faults: tuple[KnownFault, ...] = ()
    away: Mapping[DeviceName, datetime] = rule(factory=dict, check=_reckonable)
    downs: Mapping[str, tuple[datetime, ...]] = rule(factory=dict, check=_reckonable)

    def latest(self) -> datetime | None:
        """Return the latest moment in it, or None."""
        times = [
            *(moment for fault in self.faults for moment in (fault.last, fault.away_since, *fault.returned) if moment),
            *self.away.values(),
            *(moment for moments in self.downs.values() for moment in moments),
        ]
        return max(times, default=None)

    def write_key(self) -> object:
        """Return a value that changes with what is worth a write: not when something is seen once more."""
        kept: list[tuple[object, ...]] = [
            (
                f.device,
                f.reason,
                f.effect,
                f.since,
                f.message,
                f.is_reported,
                f.away_since is None,
                f.returned,
                _event_time(f),
            )
            for f in self.faults
        ]
        return kept, set(self.away), dict(self.downs)


def to_json(history: FaultHistory) -> bytes:
    """Return the document."""
    return json.dumps(write(history), indent=1, ensure_ascii=False).encode() + b"\n"


def from_json(content: bytes, *, boot_id: str) -> FaultHistory:
    """Return what the document remembers of this boot, which is nothing where it is of another one.

    Raises:
        UnreadableHistoryError: It is not such a document, or of a later version.
    """
    try:
        found = read(FaultHistory, parse_json(content, max_bytes=len(content)), ignore_unknown=True)
    except ValueError as error:
        raise UnreadableHistoryError(str(error)) from None
    return found if found.boot_id == boot_id else FaultHistory(boot_id=boot_id)


def _event_time(fault: KnownFault) -> datetime | None:
    return fault.last if fault.xid is not None else None
