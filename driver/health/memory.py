"""What must be remembered of faults: over readings, to damp them, and over a restart of the plugin.

One versioned JSON document. A reboot ends all of it: every device was reset then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from driver.api.validation.wording import first_error
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault

__all__ = ["MEMORY_VERSION", "HealthMemory", "KnownFault", "UnreadableMemoryError", "from_json", "to_json"]

MEMORY_VERSION: Final = 1

# With times beyond these no time can be reckoned: a difference to now, added once more, would leave the calendar.
_Moment: TypeAlias = Annotated[
    AwareDatetime, Field(ge=datetime(1900, 1, 1, tzinfo=UTC), le=datetime(2200, 1, 1, tzinfo=UTC))
]
_MAX_RETURNED: Final = 16  # more than are written; the hold is doubled with each


class UnreadableMemoryError(ValueError):
    """The document is not what this version can read; the message says why."""


class _Model(BaseModel):
    # What a newer version of the same format adds is left out.
    model_config = ConfigDict(frozen=True, extra="ignore")


class KnownFault(_Model):
    """A fault that is there, or that was there not long ago.

    Attributes:
        device: The whole device.
        reason: As of a Fault; so are effect, since and message.
        xid: The error's number, for a fault that an event told; None for a state that readings show.
        last: When it was seen last.
        sightings: How many readings in a row have shown it, at most as many as it takes to tell of it.
        away_since: The first of the readings in a row that did not show it; None while it is seen or not known.
        returned: When it came back, within the last hour.
        told: Whether it counts: seen often enough, and not lifted.
    """

    device: DeviceName
    reason: str
    effect: Effect
    since: _Moment
    message: str
    xid: int | None = None
    last: _Moment
    sightings: int = 1
    away_since: _Moment | None = None
    returned: Annotated[tuple[_Moment, ...], Field(max_length=_MAX_RETURNED)] = ()
    told: bool = True

    @property
    def fault(self) -> Fault:
        """What is told of it."""
        return Fault(device=self.device, reason=self.reason, effect=self.effect, since=self.since, message=self.message)

    def moved_back(self, by: timedelta, now: datetime) -> KnownFault:
        """The same after the clock was set back, to now."""
        return self.model_copy(
            update={
                "since": min(self.since, now.replace(microsecond=0)),
                "last": self.last - by,
                "away_since": self.away_since and self.away_since - by,
                "returned": tuple(moment - by for moment in self.returned),
            }
        )


class HealthMemory(_Model):
    """All that is remembered.

    Attributes:
        version: Of the document.
        boot_id: The boot that it is about (``/proc/sys/kernel/random/boot_id``).
        faults: By device and reason.
        away: When a GPU was seen last to be lost, or not there.
        downs: By NIC and port (``rdma-0000-14-00-0/1``), when the port went down, within the last minutes.
    """

    version: Literal[1] = MEMORY_VERSION
    boot_id: str = ""
    faults: tuple[KnownFault, ...] = ()
    away: Mapping[DeviceName, _Moment] = {}
    downs: Mapping[str, tuple[_Moment, ...]] = {}

    def latest(self) -> datetime | None:
        """The latest moment that it tells of."""
        times = [
            *(moment for fault in self.faults for moment in (fault.last, fault.away_since, *fault.returned) if moment),
            *self.away.values(),
            *(moment for moments in self.downs.values() for moment in moments),
        ]
        return max(times, default=None)

    def essence(self) -> object:
        """What is worth a write when it changed: not that something was seen once more."""
        kept: list[tuple[object, ...]] = [
            (f.device, f.reason, f.effect, f.since, f.message, f.told, f.away_since is None, f.returned, _event_time(f))
            for f in self.faults
        ]
        return kept, set(self.away), dict(self.downs)


def to_json(memory: HealthMemory) -> bytes:
    """The document."""
    return memory.model_dump_json(indent=1).encode() + b"\n"


def from_json(content: bytes, *, boot_id: str) -> HealthMemory:
    """What the document remembers for this boot; nothing where it is of another one.

    Raises:
        UnreadableMemoryError: It is no such document, or one of a later version.
    """
    try:
        found = HealthMemory.model_validate_json(content)
    except ValidationError as error:
        raise UnreadableMemoryError(first_error(error)) from None
    return found if found.boot_id == boot_id else HealthMemory(boot_id=boot_id)


def _event_time(fault: KnownFault) -> datetime | None:
    return fault.last if fault.xid is not None else None
