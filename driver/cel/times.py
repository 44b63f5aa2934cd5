"""Durations and timestamps, exact to the nanosecond.

Source of the rules: Go's time.ParseDuration and RFC 3339 parsing, and cel-go v0.29.2, common/types/duration.go and
timestamp.go. cel-python's types are not used: they stop at microseconds and read texts that Go refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["Duration", "Timestamp"]

_SECOND: Final = 10**9
# Micro is written with the micro sign or with the Greek letter.
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_RFC3339: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# cel-go, timestamp.go: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
_FIRST_SECOND: Final = -62135596800
_LAST_SECOND: Final = 253402300799
_LONGEST: Final = 256


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds, within 64 bits."""

    nanos: int

    def __post_init__(self) -> None:
        if not -(2**63) <= self.nanos < 2**63:
            raise ValueError("integer overflow")

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse ``1h30m``, ``-1.5s``, ``0`` …; ValueError for other texts."""
        body = text[1:] if text[:1] in ("+", "-") else text
        if len(text) > _LONGEST or not body:
            raise ValueError(f"{text[:40]!r} is not a duration")
        if body == "0":
            return cls(0)
        total, position = 0, 0
        while position < len(body):
            part = _PART.match(body, position)
            if part is None:
                raise ValueError(f"{text!r} is not a duration")
            total += int(Decimal(part[1]) * _UNITS[part[2]])
            position = part.end()
        return cls(-total if text[0] == "-" else total)

    def whole(self, unit: str) -> int:
        """Return the duration in whole units (h, m, s, ms), truncated."""
        count = abs(self.nanos) // _UNITS[unit]
        return -count if self.nanos < 0 else count

    def __str__(self) -> str:
        seconds = format(Decimal(repr(self.nanos / _SECOND)), "f")
        return f"{seconds.removesuffix('.0')}s"


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time: nanoseconds since 1970, from year 1 to 9999. Its text keeps the offset it was read with."""

    nanos: int
    offset: timedelta = field(default=timedelta(), compare=False)

    def __post_init__(self) -> None:
        if not _FIRST_SECOND <= self.nanos // _SECOND <= _LAST_SECOND:
            raise ValueError("timestamp overflow")

    @classmethod
    def parse(cls, text: str) -> Timestamp:
        """Parse RFC 3339 with any fraction of a second; ValueError for other texts."""
        match = _RFC3339.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            raise ValueError(f"{text[:40]!r} is not an RFC 3339 timestamp")
        year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
        offset = _offset(match[8])
        try:
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC) - offset
        except OverflowError as error:
            raise ValueError(f"{text!r} is out of range") from error
        nanos = int((match[7] or "0")[:9].ljust(9, "0"))
        return cls(((moment - _EPOCH) // timedelta(seconds=1)) * _SECOND + nanos, offset)

    def plus(self, nanos: int) -> Timestamp:
        """Return a later (or earlier) point in time; ValueError if it is out of range."""
        return Timestamp(self.nanos + nanos, self.offset)

    def at(self, zone: str) -> datetime:
        """Return calendar and clock in a zone (IANA name or offset such as ``-08:00``); ValueError if unknown."""
        seconds = self.nanos // _SECOND
        return (_EPOCH + timedelta(seconds=seconds)).astimezone(_zone(zone))

    @property
    def fraction(self) -> int:
        """The nanoseconds within the second."""
        return self.nanos % _SECOND

    def __str__(self) -> str:
        moment = (self.at("UTC") + self.offset).isoformat()[:19]
        fraction = f".{self.fraction:09d}".rstrip("0") if self.fraction else ""
        if not self.offset:
            return f"{moment}{fraction}Z"
        minutes = abs(self.offset) // timedelta(minutes=1)
        return f"{moment}{fraction}{'-' if self.offset < timedelta() else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta()
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 24 or minutes >= 60:
        raise ValueError(f"{text!r} is not an offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


def _zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    if len(name) > _LONGEST:
        raise ValueError(f"unknown time zone {name[:40]!r}")
    hours, colon, minutes = name.partition(":")
    if not colon:
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, KeyError) as error:
            raise ValueError(f"unknown time zone {name[:40]!r}") from error
    if not re.fullmatch(r"[+-]?[0-9]{1,2}:[0-9]{1,2}", name, re.ASCII):
        raise ValueError(f"{name[:40]!r} is no offset from UTC")
    sign = -1 if hours.startswith("-") else 1
    return timezone(timedelta(minutes=int(hours) * 60 + sign * int(minutes)))
