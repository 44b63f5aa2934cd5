"""Estimates the worst-case cost of one call.

Source of the rules: cel-go v0.29.2, checker/cost.go (functionCost), ext/lists.go and ext/sets.go; k8s.io/apiserver
v0.37.2, pkg/cel/library/cost.go (EstimateCallCost); k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go
(includes).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

from driver.cel.ranges import MAX_UINT64, NOTHING, UNKNOWN, Range, exactly
from driver.cel.types import CelType

__all__ = ["REGEX_FACTOR", "TRAVERSAL_FACTOR", "Argument", "Estimate", "estimate_call"]

TRAVERSAL_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25

_ONE: Final = exactly(1)
_ALLOCATION: Final = exactly(11)  # one for the call, ten for the list
_FORMAT_SIZE: Final = 64  # k8s.io/apiserver, pkg/cel/limits.go: MaxFormatSize
_FORMAT_REGEX: Final = 128  # as above: MaxNameFormatRegexSize
_ADDRESS: Final = Range(4, 16)
_CONSTANT_TIME: Final = frozenset(
    """masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast
    sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch
    getScheme getHostname getHost getPort getEscapedPath getQuery format.named
    serviceAccount path group resource subresource namespace name allowed reason error errored""".split()  # noqa: SIM905 - words read best as words
)
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_COMPARISONS: Final = frozenset(f"{order}_{type_}" for order in _ORDERS for type_ in ("string", "bytes"))


@dataclass(frozen=True, slots=True)
class Argument:
    """What is known of an argument: its type, size, the size of its elements, and its value if it is an int literal."""

    type: CelType
    known_size: Range | None
    elements: Range
    integer: int | None

    @property
    def size(self) -> Range:
        """The size, unbounded if it is not known."""
        return self.known_size or UNKNOWN


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a call without its arguments, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


def estimate_call(
    function: str, overload: str, target: Argument | None, arguments: list[Argument], costs: list[Range]
) -> Estimate:
    """Return the cost of a call with that of its arguments (not of its target), and the size of its result."""
    if overload in ("logical_and", "logical_or"):
        return Estimate(Range(costs[0].min, (costs[0] + costs[1]).max))
    if overload == "conditional":
        return Estimate(costs[0] + (costs[1] | costs[2]), arguments[1].size | arguments[2].size)
    found = (
        _list_library(overload, target, arguments)
        or _kubernetes(function, overload, target, arguments)
        or _standard(overload, target, arguments)
        or Estimate(_ONE)
    )
    return Estimate(reduce(add, costs, found.cost), found.size)


def _traversal(size: Range) -> Range:
    return size.scaled(TRAVERSAL_FACTOR)


def _list_library(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if overload.startswith("list_sets_"):
        factor = 2.0 if overload == "list_sets_equivalent_list" else 1.0
        return Estimate((arguments[0].size * arguments[1].size).scaled(factor) + _ONE)
    if overload == "lists_range":
        return _allocating(1.0, exactly(_integer(arguments[0], MAX_UINT64)))
    if target is None:
        return None
    if overload == "list_slice":
        start, end = _integer(arguments[0], 0), _integer(arguments[1], target.size.max)
        return _allocating(1.0, exactly((end - start) & MAX_UINT64))
    if overload == "list_reverse":
        return _allocating(1.0, target.size)
    if overload in ("list_flatten", "list_flatten_int"):
        depth = _integer(arguments[0], MAX_UINT64) if arguments else 1
        return _allocating(float(depth), target.size)
    if overload == "list_distinct":
        return _allocating(2.0, target.size * target.size)
    for suffix, sorted_by in (("_sort", target), ("_sortByAssociatedKeys", arguments[0] if arguments else target)):
        if overload.startswith("list_") and overload.endswith(suffix):
            strings = overload.split("_")[1] in ("string", "bytes")
            factor = 2.0 + TRAVERSAL_FACTOR if strings else 2.0
            return _allocating(factor, sorted_by.size * sorted_by.size)
    return None


def _integer(argument: Argument, default: int) -> int:
    return default if argument.integer is None else max(argument.integer, 0)


def _allocating(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor) + _ALLOCATION, size)


def _kubernetes(function: str, overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    """Return the estimate of a function that Kubernetes' own estimator knows, for any overload."""
    if function in _CONSTANT_TIME or overload == "cidr_ip":
        return Estimate(_ONE)
    if function == "check":
        return Estimate(exactly(350_000))
    if function == "_==_":
        return _equality(arguments)
    of_target = _OF_TARGET.get(function)
    if of_target is not None:
        return of_target(target, arguments) if target is not None else None
    return _parsing(function, overload, arguments)


def _equality(arguments: list[Argument]) -> Estimate | None:
    first, second = (argument.type.name for argument in arguments)
    if first != second:
        return None
    if first in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"):
        return Estimate(_ONE)
    if first == "kubernetes.NamedFormat":
        return Estimate(_traversal(Range(1, _FORMAT_SIZE)))
    if first == "kubernetes.URL":
        known = arguments[1].known_size
        return Estimate(_traversal(Range(1, known.max if known else 1)))
    return None


def _parsing(function: str, overload: str, arguments: list[Argument]) -> Estimate | None:
    if not arguments:
        return None
    size = arguments[0].size
    match function:
        case "url":
            return Estimate(_traversal(size), size)
        case "quantity" | "isQuantity" | "semver" | "isSemver" | "cidr" | "isIP" | "isCIDR" | "ip":
            return Estimate(_traversal(size))
        case "ip.isCanonical":
            return Estimate(size.scaled(2 * TRAVERSAL_FACTOR))
        case "containsIP" | "containsCIDR":
            cost = _traversal(_ADDRESS + _ADDRESS)
            if function == "containsCIDR":
                cost = cost + _traversal(_ADDRESS) + _ONE
            return Estimate(cost + _traversal(size) if overload.endswith("_string") else cost)
        case "validate":
            return Estimate(_traversal(size).scaled(_FORMAT_REGEX * REGEX_FACTOR))
        case _:
            return None


def _per_element(target: Argument, _arguments: list[Argument]) -> Estimate:
    """Estimate isSorted, sum, min, max, indexOf, lastIndexOf of a list, and the last two of a string."""
    if not target.type.params:
        return Estimate(_traversal(target.size))
    return _includes(target, [])


def _includes(target: Argument, _arguments: list[Argument]) -> Estimate:
    """Estimate ``includes`` of a list, or of a value that may be one."""
    element = _ONE
    if target.type.params and target.type.params[0].name in ("string", "bytes"):
        element = element + _traversal(target.elements)
    return Estimate(target.size * element)


def _per_character(target: Argument, _arguments: list[Argument]) -> Estimate:
    return Estimate(_traversal(target.size), target.size)


def _replace(target: Argument, arguments: list[Argument]) -> Estimate:
    size, old, new = target.size, arguments[0].size, arguments[1].size
    longest = _longest(size.max, old.min, new.max)
    shortest = _shortest(size.min, old.max, new.min)
    count, kept = Range(shortest[0], longest[0]), Range(shortest[1], longest[1])
    return Estimate(size.scaled(2 * TRAVERSAL_FACTOR), count * new + kept)


def _longest(size: int, old: int, new: int) -> tuple[int, int]:
    """Return how often something is replaced at most, and how much of the string stays."""
    if old == 0:
        return min(size + 1, MAX_UINT64), size
    if new <= old:
        return 0, size
    return _ceil_ratio(size, old), 0


def _shortest(size: int, old: int, new: int) -> tuple[int, int]:
    if old == 0:
        return min(size + 1, MAX_UINT64), size
    if old <= new:
        return 0, size
    return _ceil_ratio(size, old), 0


def _ceil_ratio(size: int, old: int) -> int:
    return min(math.ceil(float(size) / float(old)), MAX_UINT64)


def _split(target: Argument, arguments: list[Argument]) -> Estimate:
    most = target.size.max
    if len(arguments) > 1 and arguments[1].integer is not None:
        most = arguments[1].integer & MAX_UINT64
    return Estimate(target.size.scaled(2 * TRAVERSAL_FACTOR), Range(0, most))


def _join(target: Argument, arguments: list[Argument]) -> Estimate:
    count = target.size
    size = count * target.elements if target.type.params else NOTHING
    if arguments:
        size = size + arguments[0].size * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return Estimate(_traversal(size), size)


def _find(target: Argument, arguments: list[Argument]) -> Estimate:
    cost = _traversal(target.size + _ONE) * arguments[0].size.scaled(REGEX_FACTOR)
    return Estimate(cost, Range(0, target.size.max))


_OF_TARGET: Final[dict[str, Callable[[Argument, list[Argument]], Estimate]]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _per_element),
    "includes": _includes,
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _per_character),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
}


def _standard(overload: str, target: Argument | None, arguments: list[Argument]) -> Estimate | None:
    if target is not None:
        return _standard_member(overload, target, arguments)
    match overload:
        case "string_to_bytes":
            size = arguments[0].size
            # Go lets this overflow: four times the unknown size.
            return Estimate(_traversal(size), Range(size.min, (size.max * 4) & MAX_UINT64))
        case "bytes_to_string":
            size = arguments[0].size
            return Estimate(_traversal(size), Range(size.min // 4, size.max))
        case "strings_quote":
            size = arguments[0].size
            bounds = Range((size.min + 2) & MAX_UINT64, (size.max * 2 + 2) & MAX_UINT64)
            return Estimate(_traversal(size), bounds)
        case "in_list":
            return Estimate(arguments[1].size.scaled(1.0))
        case "matches":
            return _regex(arguments[0], arguments[1])
        case "add_list":
            return Estimate(_ONE, arguments[0].size + arguments[1].size)
        case "add_string" | "add_bytes":
            size = arguments[0].size + arguments[1].size
            return Estimate(_traversal(size), size)
    if overload in _COMPARISONS or overload in ("equals", "not_equals"):
        smallest = min(arguments[0].size.max, arguments[1].size.max)
        return Estimate(_traversal(Range(1 if smallest > 0 else 0, smallest)))
    return None


def _regex(text: Argument, pattern: Argument) -> Estimate:
    return Estimate(_traversal(text.size + _ONE) * pattern.size.scaled(REGEX_FACTOR))


def _standard_member(overload: str, target: Argument, arguments: list[Argument]) -> Estimate | None:
    match overload:
        case "string_format":
            return Estimate(_traversal(target.size))
        case "starts_with_string" | "ends_with_string":
            return Estimate(_traversal(arguments[0].size))
        case "matches_string":
            return _regex(target, arguments[0])
        case "contains_string":
            return Estimate(_traversal(target.size) * _traversal(arguments[0].size))
        case _:
            return None
