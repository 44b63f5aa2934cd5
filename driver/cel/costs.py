"""Computes what a call costs when it runs, in Kubernetes' units.

Source of the rules: cel-go v0.29.2, interpreter/runtimecost.go (costCall), ext/lists.go and ext/sets.go;
k8s.io/apiserver v0.37.2, pkg/cel/library/cost.go (CallCost). tests/unit/driver/cel/test_differential.py compares
the sums with Kubernetes' own.
"""

from __future__ import annotations

import ipaddress
import math
from typing import Final

from driver.cel.estimate_calls import REGEX_FACTOR, TRAVERSAL_FACTOR
from driver.cel.meter import Meter
from driver.cel.values import CelMap, NetworkPrefix, Optional, Value, type_name

__all__ = ["call_cost"]

_TRAVERSED: Final = frozenset(
    {"lowerAscii", "upperAscii", "substring", "trim", "url", "cidr", "isIP", "isCIDR", "ip"}
    | {"quantity", "isQuantity", "semver", "isSemver"}
)
_PER_ELEMENT: Final = frozenset({"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"})
_CONSTANT_EQUALITY: Final = frozenset(
    {"kubernetes.Quantity", "net.IP", "net.CIDR", "kubernetes.URL", "kubernetes.Semver"}
)
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_SHORTER: Final = frozenset(
    ("equals", "not_equals", *(f"{order}_{type_}" for order in _ORDERS for type_ in ("string", "bytes")))
)
_OF_TARGET: Final = frozenset({"string_to_bytes", "bytes_to_string", "strings_quote", "string_format"})
_ALLOCATION: Final = 11  # one for the call, ten for the list


def call_cost(function: str, overload: str, arguments: list[Value], result: Value, meter: Meter) -> int:
    """Return the cost of one call, without that of its arguments.

    Args:
        function: The function's full name.
        overload: The overload that the checker chose; empty if there were several.
        arguments: The arguments, the target first.
        result: The result.
        meter: Is charged for visiting nested lists.
    """
    found = _list_library(overload, arguments, result)
    if found is None and arguments:
        found = _kubernetes(function, overload, arguments, result, meter)
    if found is None and arguments:
        found = _standard(overload, arguments)
    return 1 if found is None else found


def _list_library(overload: str, arguments: list[Value], result: Value) -> int | None:
    if overload.startswith("list_sets_"):
        factor = 2 if overload == "list_sets_equivalent_list" else 1
        return 1 + _size(arguments[0]) * _size(arguments[1]) * factor
    if overload in ("list_slice", "lists_range", "list_reverse"):
        return _size(result) + _ALLOCATION
    if overload in ("list_flatten", "list_flatten_int"):
        depth = arguments[1] if len(arguments) == 2 else 1
        return _size(arguments[0]) * (depth if isinstance(depth, int) else 1) + _ALLOCATION
    if overload == "list_distinct" or overload.endswith("_sort"):
        return _self_comparison(arguments[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return _self_comparison(arguments[1])
    return None


def _self_comparison(items: Value) -> int:
    size = _size(items)
    strings = isinstance(items, list) and bool(items) and isinstance(items[0], str | bytes)
    return int(size * size * (2 + TRAVERSAL_FACTOR if strings else 2)) + _ALLOCATION


def _kubernetes(function: str, overload: str, arguments: list[Value], result: Value, meter: Meter) -> int | None:
    size = _size(arguments[0])
    if function in _PER_ELEMENT:
        return _traversal(arguments[0], meter)
    if overload == "cidr_ip":
        return 1
    if function in _TRAVERSED:
        return math.ceil(size * TRAVERSAL_FACTOR)
    if function in ("replace", "split", "ip.isCanonical"):
        return math.ceil(size * 2 * TRAVERSAL_FACTOR)
    if function == "join":
        return math.ceil(_size(result) * 2 * TRAVERSAL_FACTOR)
    if function in ("find", "findAll"):
        return _regex(size, _size(arguments[1]))
    if function in ("containsIP", "containsCIDR"):
        cost = math.ceil((size + size) * TRAVERSAL_FACTOR)
        if function == "containsCIDR":
            cost += math.ceil(size * TRAVERSAL_FACTOR) + 1
        return cost + math.ceil(_size(arguments[1]) * TRAVERSAL_FACTOR) if overload.endswith("_string") else cost
    if function == "_==_" and type_name(arguments[0]) in _CONSTANT_EQUALITY:
        return 1
    return None


def _standard(overload: str, arguments: list[Value]) -> int | None:
    size = _size(arguments[0])
    if overload in _OF_TARGET:
        return math.ceil(size * TRAVERSAL_FACTOR)
    if overload in ("starts_with_string", "ends_with_string"):
        return math.ceil(_size(arguments[1]) * TRAVERSAL_FACTOR)
    if overload == "in_list":
        return _size(arguments[1])
    if overload in _SHORTER:
        return math.ceil(min(size, _size(arguments[1])) * TRAVERSAL_FACTOR)
    if overload in ("add_string", "add_bytes"):
        return math.ceil((size + _size(arguments[1])) * TRAVERSAL_FACTOR)
    if overload in ("matches", "matches_string"):
        return _regex(size, _size(arguments[1]))
    if overload == "contains_string":
        return math.ceil(size * TRAVERSAL_FACTOR) * math.ceil(_size(arguments[1]) * TRAVERSAL_FACTOR)
    return None


def _regex(text: int, pattern: int) -> int:
    return math.ceil((1 + text) * TRAVERSAL_FACTOR) * math.ceil(pattern * REGEX_FACTOR)


def _size(value: Value) -> int:
    match value:
        case str() | bytes() | list() | CelMap():
            return len(value)
        case ipaddress.IPv4Address() | ipaddress.IPv6Address():
            return len(value.packed)
        case NetworkPrefix():
            return math.ceil(value.bits / 8)
        case Optional(present=True):
            return _size(value.value)
        case _:
            return 1


def _traversal(value: Value, meter: Meter) -> int:
    # Lists may hold one another many times over, so that this takes far longer than it took to make them.
    match value:
        case str():
            return int(_utf8_length(value, meter) * TRAVERSAL_FACTOR)
        case bytes():
            return int(len(value) * TRAVERSAL_FACTOR)
        case list():
            meter.work(len(value))
            return sum(_traversal(item, meter) for item in value)
        case CelMap():
            meter.work(2 * len(value))
            return sum(_traversal(key, meter) + _traversal(item, meter) for key, item in value.items())
        case _:
            return 1


def _utf8_length(text: str, meter: Meter) -> int:
    if text.isascii():
        return len(text)
    meter.text(len(text), text)
    return len(text.encode(errors="surrogatepass"))
