"""The static types of CEL and how they unify.

Source of the rules: cel-go v0.29.2, checker/types.go (assignability, substitution, the more general of two types). A
type parameter is a type whose name starts with ``<``; while an expression is checked, fresh ones are bound in a
:class:`Bindings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DEVICE",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "QUANTITY",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Bindings",
    "CelType",
    "list_of",
    "map_of",
    "more_general",
    "optional_of",
    "parse_type",
    "type_of",
]


@dataclass(frozen=True, slots=True)
class CelType:
    """A type: its name in CEL's own spelling and its parameters."""

    name: str
    params: tuple[CelType, ...] = ()

    @property
    def is_parameter(self) -> bool:
        """Whether it is a type parameter, such as ``<A>``."""
        return self.name.startswith("<")

    @property
    def is_dyn(self) -> bool:
        """Whether it is one of the two types that turn checking off."""
        return self.name in ("dyn", "any")

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
NULL: Final = CelType("null_type")
DYN: Final = CelType("dyn")
ANY: Final = CelType("any")
ERROR: Final = CelType("*error*")
DURATION: Final = CelType("google.protobuf.Duration")
TIMESTAMP: Final = CelType("google.protobuf.Timestamp")
QUANTITY: Final = CelType("kubernetes.Quantity")
DEVICE: Final = CelType("kubernetes.DRADevice")

_PRIMITIVE: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "type", "list", "map"})


def list_of(element: CelType) -> CelType:
    """Return the type of a list."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of a map."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of an optional value."""
    return CelType("optional_type", (value,))


def type_of(value: CelType) -> CelType:
    """Return the type of a type name used as a value."""
    return CelType("type", (value,))


@cache
def parse_type(text: str) -> CelType:
    """Parse a type's spelling, for example ``map(string, list(<A>))``."""
    name, opened, rest = text.strip().partition("(")
    if not opened:
        return CelType(name)
    params: list[str] = [""]
    depth = 0
    for character in rest[:-1]:
        if character == "," and depth == 0:
            params.append("")
            continue
        depth += (character == "(") - (character == ")")
        params[-1] += character
    return CelType(name, tuple(parse_type(param) for param in params))


class Bindings:
    """The types that the type parameters of one expression stand for, found by unification."""

    __slots__ = ("_fresh", "_known")

    def __init__(self) -> None:
        self._known: dict[str, CelType] = {}
        self._fresh = 0

    def fresh(self) -> CelType:
        """Return a new type parameter."""
        self._fresh += 1
        return CelType(f"<{self._fresh}>")

    def assign(self, pairs: list[tuple[CelType, CelType]]) -> bool:
        """Whether each first type may stand where each second one is expected; binds parameters only if all may."""
        before = self._known
        self._known = dict(before)
        if all(self._assignable(actual, expected) for actual, expected in pairs):
            return True
        self._known = before
        return False

    def resolve(self, type_: CelType, *, to_dyn: bool = False) -> CelType:
        """Return the type with its known parameters replaced; with ``to_dyn`` unknown ones become dyn."""
        while type_.is_parameter:
            known = self._known.get(type_.name)
            if known is None:
                return DYN if to_dyn else type_
            type_ = known
        if not type_.params:
            return type_
        return CelType(type_.name, tuple(self.resolve(param, to_dyn=to_dyn) for param in type_.params))

    def _assignable(self, first: CelType, second: CelType) -> bool:
        if second.is_parameter:
            valid, known = self._substitutes(first, second)
            if valid or known:
                return valid
        if first.is_parameter:
            return self._substitutes(second, first)[0]
        if first.is_dyn or second.is_dyn or ERROR in (first, second):
            return True
        if NULL in (first, second):
            other = second if first == NULL else first
            return other.name not in _PRIMITIVE
        if first.name == "type":
            return second.name == "type"
        return (
            first.name == second.name
            and len(first.params) == len(second.params)
            and all(self._assignable(a, b) for a, b in zip(first.params, second.params, strict=True))
        )

    def _substitutes(self, type_: CelType, parameter: CelType) -> tuple[bool, bool]:
        """Whether ``type_`` may be what ``parameter`` stands for, and whether the parameter was already known."""
        if type_ == parameter:
            return True, True
        known = self._known.get(parameter.name)
        if known is not None:
            if type_ == known:
                return True, True
            if not self._assignable(type_, known):
                return False, True
            general = more_general(type_, known)
            if not self._occurs(parameter, general):
                self._known[parameter.name] = general
            return True, True
        if self._occurs(parameter, type_):
            return False, False
        self._known[parameter.name] = type_
        return True, False

    def _occurs(self, parameter: CelType, within: CelType) -> bool:
        if parameter == within:
            return True
        if within.is_parameter:
            known = self._known.get(within.name)
            return known is not None and self._occurs(parameter, known)
        return any(self._occurs(parameter, param) for param in within.params)


def more_general(first: CelType, second: CelType) -> CelType:
    """Return the more general of two types that unify."""
    return first if _is_less_specific(first, second) else second


def _is_less_specific(first: CelType, second: CelType) -> bool:
    """Whether the first type equals the second, or matches it through dyn."""
    if first.is_dyn or first.is_parameter:
        return True
    if second.is_dyn or second.is_parameter or first.name != second.name or len(first.params) != len(second.params):
        return False
    if first.name == "type":
        return True
    return all(_is_less_specific(a, b) for a, b in zip(first.params, second.params, strict=True))
