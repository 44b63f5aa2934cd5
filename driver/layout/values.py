"""Values as attributes carry them: bounded, and absent rather than wrong; without the models of the API's objects.

Source of the bounds: k8s.io/api v0.36.3, resource/v1/types.go (DeviceAttributeMaxValueLength; int64; semver 2.0.0).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["Value", "identifier", "number", "numbers", "text", "texts", "version"]

_LENGTH: Final = 64
_VERSION: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Value:
    """The value of one attribute.

    Attributes:
        kind: The field of a ``DeviceAttribute`` that has it.
        value: The value; a tuple for a kind of lists.
    """

    kind: Literal["string", "int", "bool", "version", "strings", "ints"]
    value: str | int | tuple[str, ...] | tuple[int, ...]

    def to_wire(self) -> dict[str, Any]:
        """Return the ``DeviceAttribute`` as JSON types."""
        return {self.kind: list(self.value) if isinstance(self.value, tuple) else self.value}


def text(value: str | None) -> Value | None:
    """Return a description for people: cut after 64 bytes, never within a character."""
    if not value:
        return None
    if len(value.encode()) > _LENGTH:
        value = value.encode()[:_LENGTH].decode(errors="ignore").rstrip()
    return Value("string", str(value))


def identifier(value: str | None) -> Value | None:
    """Return a name that identifies something; absent where it is too long, since a cut one would be another name."""
    if not value or len(value.encode()) > _LENGTH:
        return None
    return Value("string", str(value))


def number(value: int | None) -> Value | None:
    """Return a whole number; absent where it does not fit in 64 bits."""
    if value is None or not -(2**63) <= value < 2**63:
        return None
    return Value("int", value)


def texts(values: Sequence[str]) -> Value | None:
    """Return identifiers as a list, or as a plain value where it is one; absent are those that are too long."""
    kept = tuple(value for value in values if identifier(value) is not None)
    return Value("strings", kept) if len(kept) > 1 else identifier(kept[0]) if kept else None


def numbers(values: Sequence[int]) -> Value | None:
    """Return whole numbers as a list, or as a plain value where it is one; absent are those that do not fit."""
    kept = tuple(value for value in values if number(value) is not None)
    return Value("ints", kept) if len(kept) > 1 else number(kept[0]) if kept else None


def version(value: str | None) -> Value | None:
    """Return a version of one to three numbers as a semantic version; absent where it is anything else.

    Semantic versions have three numbers without leading zeros: ``9.0`` becomes 9.0.0, ``580.159.03`` becomes 580.159.3.
    """
    match = _VERSION.fullmatch(value) if value else None
    if match is None:
        return None
    return Value("version", ".".join(str(int(part or "0")) for part in match.groups()))
