"""Estimates the worst-case cost of an expression, before it is ever evaluated.

Source of the rules: cel-go v0.29.2, checker/cost.go, with Kubernetes' options (a presence test is free), and the sizes
that k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go gives the parts of a device. The API server refuses a
selector whose estimate is above resource.k8s.io/v1 CELSelectorExpressionMaxCost.
tests/unit/driver/cel/test_differential.py compares the numbers with Kubernetes' own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from driver.cel.checker import Checked
from driver.cel.estimate_calls import Argument, Estimate, estimate_call
from driver.cel.macros import ACCUMULATOR
from driver.cel.nodes import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Uint
from driver.cel.ranges import NOTHING, UNKNOWN, Range, exactly
from driver.cel.types import CelType

__all__ = ["MAX_COST", "estimate"]

MAX_COST: Final = 1_000_000
"""resource.k8s.io/v1 CELSelectorExpressionMaxCost: the limit of the estimate, and of what an evaluation is charged."""

_ONE: Final = exactly(1)
_LIST: Final = exactly(10)
_MAP: Final = exactly(30)
_SCALARS: Final = frozenset({"bool", "double", "google.protobuf.Duration", "int", "google.protobuf.Timestamp", "uint"})

# resource.k8s.io/v1: DriverNameMaxLength, DeviceMaxDomainLength, DeviceMaxIDLength, DeviceAttributeMaxValueLength,
# ResourceSliceMaxAttributesAndCapacitiesPerDevice. Kubernetes gives a Quantity no size.
_DRIVER, _DOMAIN, _ID, _VALUE, _ENTRIES, _QUANTITY = 63, 63, 32, 64, 32, 0


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of a container's keys (1 for a list) and values."""

    is_list: bool
    keys: Range
    values: Range


@dataclass(frozen=True, slots=True)
class _Local:
    """What is known of a comprehension's variable."""

    path: tuple[str, ...]
    size: Range | None
    entries: _Entries | None = None


def estimate(checked: Checked) -> int:
    """Return the most that an evaluation can be charged; 2^64 - 1 stands for no bound."""
    return _Estimator(checked).cost(checked.root).max


def _device_size(path: tuple[str, ...]) -> Range | None:
    """Return the size of what a path from ``device`` leads to (compile.go, sizeEstimator)."""
    match path:
        case ("device",):
            size = 0
        case ("device", "driver"):
            size = _DRIVER
        case ("device", "allowMultipleAllocations"):
            size = 1
        case ("device", "attributes" | "capacity") | ("device", "attributes" | "capacity", "@values" | "@items"):
            size = _ENTRIES
        case ("device", "attributes" | "capacity", "@keys"):
            size = _DOMAIN
        case ("device", "attributes" | "capacity", "@values" | "@items", "@keys"):
            size = _ID
        case ("device", "attributes", "@values" | "@items", _):
            size = _VALUE
        case ("device", "capacity", "@values" | "@items", "@values" | "@items"):
            size = _QUANTITY
        case _:
            return None
    return Range(0, size)


class _Estimator:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._paths: dict[Node, tuple[str, ...]] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._sizes: dict[Node, Range] = {}
        self._entries: dict[Node, _Entries] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return NOTHING
            case Ident():
                return self._ident(node, node.name)
            case Select():
                name = self._checked.names.get(node)
                return self._ident(node, name) if name else self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._bind(node) if node.is_bind else self._comprehension(node)

    def _ident(self, node: Node, name: str) -> Range:
        local = self._local(name)
        self._paths[node] = local.path if local else (name,)
        return _ONE

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        self._paths[node] = (*self._path(node.operand), node.field)
        type_ = self._checked.types[node.operand]
        counts = type_.name == "map" or type_.name.startswith("kubernetes.")
        return cost + _ONE if counts else cost

    def _list(self, node: ListNode) -> Range:
        cost, items = _LIST, Range(0, 0) if not node.elements else None
        for element in node.elements:
            cost = cost + self.cost(element)
            size = self._size_or_unknown(element)
            items = size if items is None else items | size
        self._entries[node] = _Entries(is_list=True, keys=_ONE, values=items or NOTHING)
        return cost

    def _map(self, node: MapNode) -> Range:
        cost, keys, values = _MAP, None, None
        for entry in node.entries:
            cost = cost + self.cost(entry.key) + self.cost(entry.value)
            key, value = self._size_or_unknown(entry.key), self._size_or_unknown(entry.value)
            keys = key if keys is None else keys | key
            values = value if values is None else values | value
        self._entries[node] = _Entries(is_list=False, keys=keys or NOTHING, values=values or NOTHING)
        return cost

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range_) + self.cost(node.init)
        self._push(node.accumulator, self._bound(node.init))
        cost = cost + self.cost(node.result)
        self._pop(node.accumulator)
        self._set_size(node, self._size(node.result))
        self._set_entries(node, self._entries_of(node.result))
        return cost

    def _comprehension(self, node: Comprehension) -> Range:
        cost = self.cost(node.range_) + self.cost(node.init)
        self._push(node.accumulator, self._bound(node.init))
        self._push_variables(node)
        step = self.cost(node.condition) + self.cost(node.step)
        self._pop(node.variable)
        if node.variable2:
            self._pop(node.variable2)
        cost = cost + self.cost(node.result)
        self._pop(node.accumulator)
        count = self._size_or_unknown(node.range_)
        if isinstance(node.init, Literal):
            self._set_size(node, self._size(node.init))
        elif isinstance(node.init, ListNode | MapNode):
            self._set_size(node, count)
            self._set_entries(node, self._entries_of(node.step))
        return cost + count * step

    def _push_variables(self, node: Comprehension) -> None:
        entries, path = self._entries_of(node.range_), self._path(node.range_)
        is_list = entries.is_list if entries else self._checked.types[node.range_].name == "list"
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.keys if entries else None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.values if entries else None)
        if node.variable2:
            self._push(node.variable, key)
            self._push(node.variable2, value)
        else:
            self._push(node.variable, value if is_list else key)

    def _bound(self, node: Node) -> _Local:
        return _Local(self._path(node), self._size(node), self._entries_of(node))

    def _call(self, node: Call) -> Range:
        function = self._checked.names.get(node, node.function)
        if function == "dyn":
            argument = node.arguments[0]
            cost = self.cost(argument) + _ONE
            self._set_size(node, self._size(argument))
            self._set_entries(node, self._entries_of(argument))
            return cost
        costs = [self.cost(argument) for argument in node.arguments]
        arguments = [self._argument(argument) for argument in node.arguments]
        target: Argument | None = None
        total = NOTHING
        if node.target is not None and node not in self._checked.names:
            total = self.cost(node.target)
            target = self._argument(node.target)
        combined: Range | None = None
        result: Range | None = None
        for overload in self._checked.overloads[node]:
            found = estimate_call(function, overload, target, arguments, costs)
            self._track_entries(node, overload)
            combined = found.cost if combined is None else combined | found.cost
            result = self._result_size(node, overload, found, result)
        self._set_size(node, result)
        return total + combined if combined else total

    def _result_size(self, node: Call, overload: str, found: Estimate, known: Range | None) -> Range | None:
        result = known
        if found.size is not None:
            result = found.size if known is None else known | found.size
        if overload in ("index_list", "index_map"):
            entries = self._entries_of(node.arguments[0])
            result = entries.values if entries else None
            step = "@items" if overload == "index_list" else "@values"
            self._paths[node] = (*self._path(node.arguments[0]), step)
        return self._size(node) if result is None else result

    def _track_entries(self, node: Call, overload: str) -> None:
        if overload == "conditional":
            first, second = self._entries_of(node.arguments[1]), self._entries_of(node.arguments[2])
        elif overload in ("add_string", "add_bytes", "add_list"):
            first, second = self._entries_of(node.arguments[0]), self._entries_of(node.arguments[1])
        else:
            return
        if first is not None and second is not None:
            merged = replace(first, keys=first.keys | second.keys, values=first.values | second.values)
            self._set_entries(node, merged)

    def _argument(self, node: Node) -> Argument:
        path = self._path(node)
        if path and path[0] == ACCUMULATOR:
            path = ()
        type_ = self._checked.types[node]
        # listElementNode (k8s.io/apiserver, library/cost.go): only a path gives the size of a list's elements.
        elements = (_device_size((*path, "@items")) if path else None) or UNKNOWN
        literal = node.value if isinstance(node, Literal) else None
        integer = literal if isinstance(literal, int) and not isinstance(literal, bool | Uint) else None
        return Argument(type_, self._size(node), elements, integer)

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _pop(self, name: str) -> None:
        self._locals[name].pop()

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local:
                return local.path
        return self._paths.get(node, ())

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[node] = size

    def _set_entries(self, node: Node, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[node] = entries

    def _entries_of(self, node: Node) -> _Entries | None:
        if node in self._entries:
            return self._entries[node]
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.entries if local else None

    def _size_or_unknown(self, node: Node) -> Range:
        return self._size(node) or UNKNOWN

    def _size(self, node: Node) -> Range | None:
        if node in self._sizes:
            return self._sizes[node]
        written = _written_size(node)
        if written is not None:
            return exactly(written)
        declared = _device_size(self._path(node))
        if declared is not None:
            self._sizes[node] = declared
            return declared
        if _is_scalar(self._checked.types[node]):
            return _ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.size if local else None


def _written_size(node: Node) -> int | None:
    match node:
        case Literal(value=str() | bytes() as value):
            return len(value)
        case Literal():
            return 1
        case ListNode():
            return len(node.elements)
        case MapNode():
            return len(node.entries)
        case _:
            return None


def _is_scalar(type_: CelType) -> bool:
    while type_.name == "optional_type":
        type_ = type_.params[0]
    return type_.name in _SCALARS
