"""The functions of lists, maps, sets and optional values.

Source of the rules: cel-go v0.29.2, common/types, ext/lists.go (version 3), ext/sets.go, ext/comprehensions.go and
cel/library.go (optional values); k8s.io/apiserver v0.37.2, pkg/cel/library/lists.go;
k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go (includes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from celpy.evaluation import CELEvalError

from driver.cel.meter import ENTRY, OBJECT, PLACE, BudgetExceededError, Meter
from driver.cel.operators import COMPARED_PER_STEP, OPERATORS, Implementation, compare, contains, equal
from driver.cel.values import (
    NONE,
    CelMap,
    Duration,
    IntType,
    MapAccumulator,
    Optional,
    Timestamp,
    UintType,
    Value,
    fail,
    integer,
    type_name,
)

__all__ = ["COLLECTIONS"]

_TYPES: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_FULL_NAMES: Final = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
_STEPS_PER_COMPARISON: Final = 3
_SMALL: Final[list[Value]] = [integer(number) for number in range(1024)]
"""The numbers that most ranges consist of."""
_MAX_RANGE: Final = 999_989  # a longer one costs more than any selector may: one a number, and eleven


def _size(_meter: Meter, value: str | bytes | list[Value] | CelMap) -> Value:
    return integer(len(value))


def _index_of(meter: Meter, items: list[Value], item: Value) -> Value:
    return integer(next((index for index, other in enumerate(items) if _same(other, item, meter)), -1))


def _last_index_of(meter: Meter, items: list[Value], item: Value) -> Value:
    found = (index for index in range(len(items) - 1, -1, -1) if _same(items[index], item, meter))
    return integer(next(found, -1))


def _same(first: Value, second: Value, meter: Meter) -> bool:
    try:
        return equal(first, second, meter)
    except CELEvalError:
        return False


def _charge_comparing(meter: Meter, items: list[Value], times: int = 1) -> None:
    """Charge for comparing neighbours throughout a list, ``times`` times."""
    length = sum(len(item) for item in items if isinstance(item, str | bytes))
    meter.work(times * (len(items) * _STEPS_PER_COMPARISON + length // COMPARED_PER_STEP))


def _is_sorted(meter: Meter, items: list[Value]) -> Value:
    _charge_comparing(meter, items)
    return all(compare(first, second) <= 0 for first, second in pairwise(items))


def _extreme(name: str, *, keep: Callable[[int], bool]) -> Implementation:
    def found(meter: Meter, items: list[Value]) -> Value:
        _charge_comparing(meter, items)
        if not items:
            raise fail(f"{name} called on empty list")
        best = items[0]
        for item in items[1:]:
            if not keep(compare(best, item)):
                best = item
        return best

    return found


def _sum(zero: Value, overload: str) -> Implementation:
    def total(meter: Meter, items: list[Value]) -> Value:
        meter.work(len(items) * _STEPS_PER_COMPARISON)
        result = zero
        for item in items:
            if type_name(item) != type_name(zero):
                raise fail("no such overload")
            result = OPERATORS[overload](meter, result, item)
        return result

    return total


def _sort(meter: Meter, items: list[Value]) -> Value:
    return _sort_by(meter, items, items)


def _sort_by(meter: Meter, items: list[Value], keys: list[Value]) -> Value:
    if len(items) != len(keys):
        raise fail("@sortByAssociatedKeys() expected a list of the same size as the associated keys list")
    if len({type_name(key) for key in keys}) > 1:
        raise fail("list elements must have the same type")
    _charge_comparing(meter, keys, len(keys).bit_length())
    meter.elements(2 * len(items))  # the places, sorted, and the list
    by_key: Callable[[int], Any] = cmp_to_key(lambda a, b: compare(keys[a], keys[b]))
    return [items[index] for index in sorted(range(len(items)), key=by_key)]


def _slice(meter: Meter, items: list[Value], start: IntType, end: IntType) -> Value:
    first, last = int(start), int(end)
    if first < 0 or last < 0:
        raise fail(f"cannot slice({first}, {last}), negative indexes not supported")
    if first > last:
        raise fail(f"cannot slice({first}, {last}), start index must be less than or equal to end index")
    if last > len(items):
        raise fail(f"cannot slice({first}, {last}), list is length {len(items)}")
    meter.elements(last - first)
    return items[first:last]


def _flatten(meter: Meter, items: Value, depth: IntType = IntType(1)) -> Value:  # noqa: B008 - immutable
    if not isinstance(items, list):
        raise fail(f"no such overload: {type_name(items)}.flatten()")
    levels = int(depth)
    if levels < 0:
        raise fail("level must be non-negative")
    # Lists nest no deeper than expressions do, so more levels change nothing.
    for _ in range(min(levels, 1000)):
        if not any(isinstance(item, list) for item in items):
            break
        flat: list[Value] = []
        for item in items:
            meter.elements(len(item) if isinstance(item, list) else 1)
            flat.extend(item) if isinstance(item, list) else flat.append(item)
        items = flat
    return items


def _range(meter: Meter, count: IntType) -> Value:
    length = int(count)
    if length < 0:
        raise fail(f"lists.range: size must be non-negative, got {length}")
    if length > _MAX_RANGE:
        raise BudgetExceededError("operation cancelled: actual cost limit exceeded")
    if length <= len(_SMALL):
        meter.memory(OBJECT + length * PLACE)
        return _SMALL[:length]
    meter.elements(length)
    meter.work(length // 2)
    return [integer(number) for number in range(length)]


def _reverse(meter: Meter, items: list[Value]) -> Value:
    meter.elements(len(items))
    return items[::-1]


def _distinct(meter: Meter, items: list[Value]) -> Value:
    meter.elements(len(items))
    unique: list[Value] = []
    for item in items:
        if not any(_same(item, other, meter) for other in unique):
            unique.append(item)
    return unique


def _contains_all(meter: Meter, items: list[Value], others: list[Value]) -> Value:
    return all(contains(items, other, meter) for other in others)


def _equivalent(meter: Meter, first: list[Value], second: list[Value]) -> Value:
    return _contains_all(meter, first, second) and _contains_all(meter, second, first)


def _intersects(meter: Meter, first: list[Value], second: list[Value]) -> Value:
    return any(contains(second, item, meter) for item in first)


def _insert(meter: Meter, map_: CelMap, key: Value, value: Value) -> Value:
    if key in map_:
        raise fail("insert failed: key already exists")
    if isinstance(map_, MapAccumulator):
        meter.memory(ENTRY)
        map_.put(key, value)
        return map_
    made = CelMap()
    meter.memory((len(map_) + 1) * ENTRY)
    for known, old in map_.items():
        meter.work(1)
        made.put(known, old)
    made.put(key, value)
    return made


def _insert_all(meter: Meter, map_: CelMap, entries: CelMap) -> Value:
    result: Value = map_
    for key, value in entries.items():
        assert isinstance(result, CelMap)  # noqa: S101 - _insert gives one
        result = _insert(meter, result, key, value)
    return result


def _includes(meter: Meter, target: Value, item: Value) -> Value:
    if not isinstance(target, list):
        return _same(target, item, meter)
    return any(_same(element, item, meter) for element in target)


def _of_non_zero(_meter: Meter, value: Value) -> Value:
    return NONE if _is_zero(value) else _some(value)


def _is_zero(value: Value) -> bool:
    match value:
        case Duration() | Timestamp():
            return value.nanos == 0
        case CelMap():
            return len(value) == 0
        case Optional():
            return not value.present
        case None | bool() | IntType() | UintType() | float() | str() | bytes() | list():
            return not value
        case _:
            return False


def _value(_meter: Meter, optional: Optional) -> Value:
    if not optional.present:
        raise fail("optional.none() dereference")
    return optional.value


def _unwrap(meter: Meter, items: list[Value]) -> Value:
    meter.elements(len(items))
    meter.work(len(items))
    values: list[Value] = []
    for item in items:
        if not isinstance(item, Optional):
            raise fail("value is not optional")
        if item.present:
            values.append(item.value)
    return values


def _some(value: Value) -> Optional:
    return Optional(present=True, value=value)


COLLECTIONS: Final[dict[str, Implementation]] = {
    **{f"size_{type_}": _size for type_ in ("string", "bytes", "list", "map")},
    **{f"{type_}_size": _size for type_ in ("string", "bytes", "list", "map")},
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    **{f"list_{type_}_is_sorted_bool": _is_sorted for type_ in _TYPES},
    **{f"list_{type_}_max_{type_}": _extreme("max", keep=lambda order: order != -1) for type_ in _TYPES},
    **{f"list_{type_}_min_{type_}": _extreme("min", keep=lambda order: order != 1) for type_ in _TYPES},
    "list_int_sum_int": _sum(IntType(0), "add_int64"),
    "list_uint_sum_uint": _sum(UintType(0), "add_uint64"),
    "list_double_sum_double": _sum(0.0, "add_double"),
    "list_duration_sum_duration": _sum(Duration(0), "add_duration_duration"),
    **{f"list_{_FULL_NAMES.get(type_, type_)}_sort": _sort for type_ in _TYPES},
    **{f"list_{_FULL_NAMES.get(type_, type_)}_sortByAssociatedKeys": _sort_by for type_ in _TYPES},
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    "list_first": lambda _meter, items: _some(items[0]) if items else NONE,
    "list_last": lambda _meter, items: _some(items[-1]) if items else NONE,
    "list_sets_contains_list": _contains_all,
    "list_sets_equivalent_list": _equivalent,
    "list_sets_intersects_list": _intersects,
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert_all,
    "list_includes_dyn_dyn": _includes,
    "optional_of": lambda _meter, value: _some(value),
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_none": lambda _meter: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda _meter, optional: optional.present,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
}
"""The implementation of each overload of the collections' functions."""
