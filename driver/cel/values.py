"""The values that an expression computes with.

CEL's int and uint are cel-python's ``IntType`` and ``UintType`` (64-bit, overflow is an error, division truncates);
bool, double, string, bytes and null are Python's own. A list is a Python list that is never changed. An error is
cel-python's ``CELEvalError``, as a value, because ``&&``, ``||`` and macros may absorb it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import SplitResult

import semver
from celpy.celtypes import IntType, UintType
from celpy.evaluation import CELEvalError

from driver.api.quantity import Quantity
from driver.cel.times import Duration, Timestamp

__all__ = [
    "NONE",
    "Accumulator",
    "CelMap",
    "DefaultMap",
    "Duration",
    "IntType",
    "MapAccumulator",
    "NetworkPrefix",
    "Optional",
    "Sum",
    "Timestamp",
    "TypeName",
    "UintType",
    "Url",
    "Value",
    "fail",
    "integer",
    "type_name",
]


class Sum(Quantity):
    """A quantity made by ``add`` or ``sub``. In Kubernetes these are equal to others, but others never to them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    present: bool
    value: Value = None


@dataclass(frozen=True, slots=True)
class TypeName:
    """The value of ``type(x)``, and of a type's name."""

    name: str


@dataclass(frozen=True, slots=True)
class NetworkPrefix:
    """A CIDR with its host bits, as Go's netip.Prefix keeps them."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    bits: int


@dataclass(frozen=True, slots=True)
class Url:
    """A URL and its parts."""

    text: str
    parts: SplitResult


class CelMap:
    """A map. Keys that are equal numbers are one key, of any type, as in CEL."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[str, Value] | None = None) -> None:
        self._entries: dict[_Key, tuple[Value, Value]] = {}
        for key, value in (entries or {}).items():
            self._entries[key] = (key, value)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __contains__(self, key: object) -> bool:
        return _key(key) in self._entries

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yield keys with values, in insertion order (Go has none)."""
        return iter(self._entries.values())

    def find(self, key: Value) -> Optional:
        """Return the value of a key, if there is one."""
        entry = self._entries.get(_key(key))
        return NONE if entry is None else Optional(present=True, value=entry[1])

    def put(self, key: Value, value: Value) -> None:
        """Add an entry, while the map is made.

        Raises:
            CELEvalError: The key is of a type that keys may not have.
        """
        hashed = _key(key)
        if hashed is None:
            raise fail(f"maps with keys of type {type_name(key)} are not supported by Rootport yet")
        self._entries[hashed] = (key, value)

    def remove(self, key: Value) -> None:
        """Remove an entry, while the map is made."""
        self._entries.pop(_key(key), None)


class DefaultMap(CelMap):
    """A map in which an unknown key has an empty map: ``device.attributes`` and ``device.capacity``.

    Source: k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go, newStringInterfaceMapWithDefault. ``in``, size
    and iteration see only the keys that are there.
    """

    __slots__ = ()

    def find(self, key: Value) -> Optional:
        """Return the value of a key, or an empty map."""
        found = super().find(key)
        return found if found.present else Optional(present=True, value=CelMap())


class Accumulator(list["Value"]):
    """The list that a macro is making: appended to in place, because only the macro sees it."""


class MapAccumulator(CelMap):
    """The map that a macro is making."""

    __slots__ = ()


Value: TypeAlias = (
    bool
    | IntType
    | UintType
    | float
    | str
    | bytes
    | list["Value"]
    | CelMap
    | Duration
    | Timestamp
    | Quantity
    | semver.Version
    | ipaddress.IPv4Address
    | ipaddress.IPv6Address
    | NetworkPrefix
    | Url
    | Optional
    | TypeName
    | CELEvalError
    | None
)

_Key: TypeAlias = "str | int | float | tuple[str, bool] | None"

NONE: Final = Optional(present=False)

_LONGEST_PROBLEM: Final = 300

_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    IntType: "int",
    UintType: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    Accumulator: "list",
    CelMap: "map",
    DefaultMap: "map",
    MapAccumulator: "map",
    type(None): "null_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Quantity: "kubernetes.Quantity",
    Sum: "kubernetes.Quantity",
    semver.Version: "kubernetes.Semver",
    ipaddress.IPv4Address: "net.IP",
    ipaddress.IPv6Address: "net.IP",
    NetworkPrefix: "net.CIDR",
    Url: "kubernetes.URL",
    Optional: "optional_type",
    TypeName: "type",
    CELEvalError: "error",
}


def type_name(value: Value) -> str:
    """Return the name of a value's type, as CEL writes it."""
    return _TYPE_NAMES[type(value)]


def integer(value: int) -> IntType:
    """Return an int that is known to be in range; ``IntType(value)`` checks that, which takes 30 times as long."""
    return int.__new__(IntType, value)


def fail(problem: str) -> CELEvalError:
    """Return an error as a value (or to raise); its text is cut, as it may contain one that the expression made."""
    return CELEvalError(problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[: _LONGEST_PROBLEM - 1]}…")


def _key(key: object) -> _Key:
    """Return what identifies a key: numbers by value, all else by type and value; None for what cannot be one."""
    if isinstance(key, bool):
        return ("bool", key)
    if isinstance(key, IntType | UintType):
        return int(key)
    if isinstance(key, float):
        return int(key) if key.is_integer() else key
    if key is None:
        return ("null", True)
    return key if isinstance(key, str) else None
