"""Equality, order and arithmetic.

Source of the rules: cel-go v0.29.2, common/types (Equal, Compare, Add … of each type) and common/overloads. Arithmetic
of int and uint is cel-python's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import semver
from celpy.evaluation import CELEvalError

from driver.api.quantity import Quantity
from driver.cel.meter import ELEMENT, Meter
from driver.cel.values import (
    Accumulator,
    CelMap,
    Duration,
    IntType,
    Optional,
    Sum,
    Timestamp,
    UintType,
    Url,
    Value,
    fail,
    type_name,
)

__all__ = ["COMPARED_PER_STEP", "OPERATORS", "Implementation", "compare", "contains", "equal"]

Implementation: TypeAlias = Callable[..., Value]

COMPARED_PER_STEP: Final = 4096
"""How many characters of two strings are compared in a step's time."""

_NUMBERS: Final = ("int", "uint", "double")
# These types refuse to be compared with others (their Equal in k8s.io/apiserver, pkg/cel, answers "no such overload").
_STRICT: Final = ("kubernetes.Quantity", "kubernetes.Semver", "net.IP", "net.CIDR", "kubernetes.URL")


def equal(first: Value, second: Value, meter: Meter) -> bool:
    """Return CEL's ``==``: numbers compare by value, all else by type and value.

    Raises:
        CELEvalError: The first value refuses to be compared with one of another type.
    """
    meter.work(1)
    one, other = type_name(first), type_name(second)
    if first is None or second is None:
        return one == other
    if one in _NUMBERS and other in _NUMBERS:
        return _number(first) == _number(second)
    if one != other or isinstance(second, Sum):
        if one in _STRICT:
            raise fail("no such overload")
        return False
    if isinstance(first, str | bytes):
        meter.work(len(first) // COMPARED_PER_STEP)
        return bool(first == second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(
            _not_different(a, b, meter) for a, b in zip(first, second, strict=True)
        )
    if isinstance(first, CelMap) and isinstance(second, CelMap):
        return len(first) == len(second) and all(_has_entry(second, key, value, meter) for key, value in first.items())
    if isinstance(first, Optional) and isinstance(second, Optional):
        both = first.present and second.present
        return equal(first.value, second.value, meter) if both else first.present == second.present
    if isinstance(first, Url) and isinstance(second, Url):
        return first.text == second.text
    return bool(first == second)


def _not_different(first: Value, second: Value, meter: Meter) -> bool:
    # In cel-go (list.go, Equal) only a plain false makes lists differ; an error does not.
    try:
        return equal(first, second, meter)
    except CELEvalError:
        return True


def _has_entry(container: CelMap, key: Value, value: Value, meter: Meter) -> bool:
    found = container.find(key)
    return found.present and _not_different(value, found.value, meter)


def contains(container: Value, item: Value, meter: Meter) -> bool:
    """Return CEL's ``in`` for a list or a map."""
    if isinstance(container, CelMap):
        return item in container
    assert isinstance(container, list)  # noqa: S101 - the overloads take nothing else
    return any(_is_same(item, element, meter) for element in container)


def _is_same(first: Value, second: Value, meter: Meter) -> bool:
    try:
        return equal(first, second, meter)
    except CELEvalError:
        return False


def compare(first: Value, second: Value) -> int:
    """Return -1, 0 or 1 for two values of types that can be ordered.

    Raises:
        CELEvalError: The values cannot be ordered.
    """
    one, other = type_name(first), type_name(second)
    if one in _NUMBERS and other in _NUMBERS:
        x, y = _number(first), _number(second)
        if math.isnan(x) or math.isnan(y):
            raise fail("NaN values cannot be ordered")
        return (x > y) - (x < y)
    if one != other:
        raise fail(f"no such overload: {one} and {other} have no order")
    a, b = _rank(first), _rank(second)
    return int(a > b) - int(a < b)


def _rank(value: Value) -> Any:
    """Return the key by which values of one type are ordered."""
    match value:
        case bool() | str() | bytes() | Quantity() | semver.Version():
            return value
        case Duration() | Timestamp():
            return value.nanos
        case _:
            raise fail(f"no such overload: {type_name(value)} has no order")


def _number(value: Value) -> int | float:
    if isinstance(value, IntType | UintType):
        return int(value)
    assert isinstance(value, float)  # noqa: S101 - the caller asked for a number
    return value


def _divide_doubles(first: float, second: float) -> float:
    if second != 0:
        return first / second
    if first == 0 or math.isnan(first):
        return math.nan
    return math.copysign(math.inf, first) * math.copysign(1.0, second)


def _modulo(first: IntType, second: IntType) -> Value:
    if int(first) == -(2**63) and int(second) == -1:
        raise fail("integer overflow")
    return first % second


def _add_lists(meter: Meter, first: list[Value], second: list[Value]) -> Value:
    if isinstance(first, Accumulator):
        meter.memory(len(second) * ELEMENT)
        first.extend(second)
        return first
    meter.elements(len(first) + len(second))
    return [*first, *second]


def _joined(meter: Meter, first: str, second: str) -> Value:
    meter.text(len(first) + len(second), first, second)
    return first + second


def _joined_bytes(meter: Meter, first: bytes, second: bytes) -> Value:
    meter.text(len(first) + len(second))
    return first + second


def _plain(function: Callable[..., Value]) -> Implementation:
    """Wrap a function that needs only its arguments, not the meter."""
    return lambda _meter, *arguments: function(*arguments)


def _ordered(accepted: tuple[int, ...]) -> Implementation:
    return lambda _meter, first, second: compare(first, second) in accepted


_ORDERS: Final = {"less": (-1,), "less_equals": (-1, 0), "greater": (1,), "greater_equals": (1, 0)}
_ORDERED: Final = (
    *("bool", "string", "bytes", "timestamp", "duration", "int64", "uint64", "double"),
    *(f"{a}_{b}" for a in ("int64", "uint64", "double") for b in ("int64", "uint64", "double") if a != b),
)

OPERATORS: Final[dict[str, Implementation]] = {
    "equals": lambda meter, first, second: equal(first, second, meter),
    "not_equals": lambda meter, first, second: not _is_same(first, second, meter),
    "in_list": lambda meter, item, container: contains(container, item, meter),
    "in_map": lambda meter, item, container: contains(container, item, meter),
    "logical_not": _plain(operator.not_),
    "negate_int64": _plain(operator.neg),
    "negate_double": _plain(operator.neg),
    "add_int64": _plain(operator.add),
    "add_uint64": _plain(operator.add),
    "add_double": _plain(operator.add),
    "add_string": _joined,
    "add_bytes": _joined_bytes,
    "add_list": _add_lists,
    "add_duration_duration": _plain(lambda a, b: Duration(a.nanos + b.nanos)),
    "add_duration_timestamp": _plain(lambda a, b: b.plus(a.nanos)),
    "add_timestamp_duration": _plain(lambda a, b: a.plus(b.nanos)),
    "subtract_int64": _plain(operator.sub),
    "subtract_uint64": _plain(operator.sub),
    "subtract_double": _plain(operator.sub),
    "subtract_duration_duration": _plain(lambda a, b: Duration(a.nanos - b.nanos)),
    "subtract_timestamp_duration": _plain(lambda a, b: a.plus(-b.nanos)),
    "subtract_timestamp_timestamp": _plain(lambda a, b: Duration(a.nanos - b.nanos)),
    "multiply_int64": _plain(operator.mul),
    "multiply_uint64": _plain(operator.mul),
    "multiply_double": _plain(operator.mul),
    "divide_int64": _plain(operator.truediv),
    "divide_uint64": _plain(operator.truediv),
    "divide_double": _plain(_divide_doubles),
    "modulo_int64": _plain(_modulo),
    "modulo_uint64": _plain(operator.mod),
    **{f"{name}_{type_}": _ordered(accepted) for name, accepted in _ORDERS.items() for type_ in _ORDERED},
}
"""The implementation of each overload of an operator; the meter is the first argument."""
