"""Checks the static types of an expression.

Source of the rules: cel-go v0.29.2, checker/checker.go, and the declarations of the device in
k8s.io/dynamic-resource-allocation v0.37.2, cel/compile.go. Also cel-go's validators that Kubernetes turns on
(cel/validator.go: homogeneous lists and maps).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from driver.cel.declarations import Overload, functions
from driver.cel.errors import CelCompileError
from driver.cel.nodes import Call, Comprehension, Constant, Ident, ListNode, Literal, MapNode, Node, Select, Uint
from driver.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    Bindings,
    CelType,
    list_of,
    map_of,
    more_general,
    optional_of,
    type_of,
)

__all__ = ["Checked", "check"]

_TYPE_NAMES: Final = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "int": INT,
    "list": list_of(CelType("<A>")),
    "map": map_of(CelType("<A>"), CelType("<B>")),
    "null_type": NULL,
    "string": STRING,
    "type": CelType("type"),
    "uint": UINT,
}


@dataclass(slots=True)
class Checked:
    """An expression with its types.

    Attributes:
        root: The tree.
        types: The type of each node.
        overloads: The identifiers of the overloads that each call may mean; one unless its arguments are dyn.
        names: The selections and calls that are qualified names, such as ``math.pi`` or ``sets.contains(…)``.
    """

    root: Node
    types: dict[Node, CelType] = field(default_factory=dict)
    overloads: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)


def check(root: Node, expression: str, *, stored: bool) -> Checked:
    """Find the type of every node.

    Args:
        root: The tree.
        expression: The expression's text, for messages.
        stored: Whether attributes may be lists, so that macros range over them, and there is ``includes``.

    Raises:
        CelCompileError: A name, field or function is unknown, no overload fits, or the result is no bool.
    """
    checker = _Checker(expression, stored=stored)
    checked = checker.run(root)
    result = checked.types[root]
    # compile.go: bool, or the type that attributes have, because an attribute may be a bool.
    if result not in (BOOL, ANY) and not (stored and result == DYN):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {result}", expression)
    return checked


class _Checker:
    def __init__(self, expression: str, *, stored: bool) -> None:
        self._expression = expression
        self._stored = stored
        attribute = DYN if stored else ANY
        self._fields = {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, attribute)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
        }
        self._scopes: list[dict[str, CelType]] = [{"device": DEVICE}]
        self._bindings = Bindings()
        self._types: dict[Node, CelType] = {}
        self._overloads: dict[Node, tuple[str, ...]] = {}
        self._names: dict[Node, str] = {}

    def run(self, root: Node) -> Checked:
        self._check(root)
        types = {node: self._bindings.resolve(type_, to_dyn=True) for node, type_ in self._types.items()}
        for node in types:
            self._check_homogeneous(node, types)
        return Checked(root, types, self._overloads, self._names)

    def _error(self, problem: str, node: Node) -> CelCompileError:
        return CelCompileError(problem, self._expression, offset=node.offset)

    def _check(self, node: Node) -> CelType:
        # Some macros use a node twice, in the same scope; nested ones would double the work each time.
        known = self._types.get(node)
        if known is not None:
            return known
        match node:
            case Literal():
                type_ = _literal_type(node.value)
            case Ident():
                type_ = self._ident(node)
            case Select():
                type_ = self._select(node)
            case Call():
                type_ = self._call(node)
            case ListNode():
                type_ = self._list(node)
            case MapNode():
                type_ = self._map(node)
            case Comprehension():
                type_ = self._comprehension(node)
        self._types[node] = type_
        return type_

    def _lookup(self, name: str) -> CelType | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        known = _TYPE_NAMES.get(name)
        return type_of(known) if known else None

    def _ident(self, node: Ident) -> CelType:
        type_ = self._lookup(node.name)
        if type_ is None:
            hint = f": did you mean device.{node.name}?" if node.name in self._fields else ""
            raise self._error(f"undeclared reference to {node.name!r}{hint}", node)
        return type_

    def _select(self, node: Select) -> CelType:
        name = _qualified_name(node)
        if name is not None:
            type_ = self._lookup(name)
            if type_ is not None:
                self._names[node] = name
                return type_
        type_ = self._field(node, node.operand, node.field)
        return BOOL if node.test_only else self._bindings.resolve(type_)

    def _field(self, node: Node, operand: Node, name: str) -> CelType:
        """Return the type of a field, optional if the operand is."""
        type_ = self._bindings.resolve(self._check(operand))
        is_optional = type_.name == "optional_type"
        if is_optional:
            type_ = type_.params[0]
        if type_.name == "map":
            field_type = type_.params[1]
        elif type_ == DEVICE:
            if name not in self._fields:
                raise self._error(f"undefined field {name!r}: a device has {', '.join(sorted(self._fields))}", node)
            field_type = self._fields[name]
        elif type_.name.startswith("kubernetes."):
            raise self._error(f"undefined field {name!r} of {type_}", node)
        elif type_.is_parameter or type_.is_dyn or type_ == ERROR:
            self._bindings.assign([(DYN, type_)])
            field_type = DYN
        else:
            raise self._error(f"type {type_} has no fields: {name!r}", node)
        return optional_of(field_type) if is_optional else field_type

    def _call(self, node: Call) -> CelType:
        if node.function == "_?._":
            self._overloads[node] = ("select_optional_field",)
            operand, field_name = node.arguments
            self._check(field_name)
            type_ = self._field(node, operand, str(field_name.value) if isinstance(field_name, Literal) else "")
            return self._bindings.resolve(type_ if type_.name == "optional_type" else optional_of(type_))
        arguments = [self._check(argument) for argument in node.arguments]
        prefix = None if node.target is None else _qualified_name(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in functions():
            self._names[node] = f"{prefix}.{node.function}"
            return self._resolve(node, self._names[node], arguments, is_member=False)
        if node.target is not None:
            arguments.insert(0, self._check(node.target))
        return self._resolve(node, node.function, arguments, is_member=node.target is not None)

    def _resolve(self, node: Call, name: str, arguments: list[CelType], *, is_member: bool) -> CelType:
        declared = functions().get(name)
        if declared is None or (name == "includes" and not self._stored):
            raise self._error(f"undeclared reference to function {name!r}", node)
        result: CelType | None = None
        matching: list[str] = []
        for overload in declared:
            if overload.is_member != is_member:
                continue
            parameters, declared_result = self._instantiate(overload)
            if len(parameters) != len(arguments) or not self._bindings.assign(
                list(zip(arguments, parameters, strict=True))
            ):
                continue
            matching.append(overload.id)
            type_ = self._bindings.resolve(declared_result)
            if result is None:
                result = type_
            elif not result.is_dyn and type_ != result:
                result = DYN
        if result is None:
            raise self._error(self._no_overload(name, arguments, is_member=is_member), node)
        self._overloads[node] = tuple(matching)
        return result

    def _no_overload(self, name: str, arguments: list[CelType], *, is_member: bool) -> str:
        shown = [str(self._bindings.resolve(type_, to_dyn=True)) for type_ in arguments]
        call = f"{shown[0]}.({', '.join(shown[1:])})" if is_member else f"({', '.join(shown)})"
        return f"found no matching overload for {name!r} applied to '{call}'"

    def _instantiate(self, overload: Overload) -> tuple[list[CelType], CelType]:
        """Return the overload's types with fresh type parameters."""
        fresh: dict[str, CelType] = {}

        def renamed(type_: CelType) -> CelType:
            if type_.is_parameter:
                if type_.name not in fresh:
                    fresh[type_.name] = self._bindings.fresh()
                return fresh[type_.name]
            return CelType(type_.name, tuple(map(renamed, type_.params))) if type_.params else type_

        return [renamed(parameter) for parameter in overload.parameters], renamed(overload.result)

    def _list(self, node: ListNode) -> CelType:
        element: CelType | None = None
        for index, child in enumerate(node.elements):
            type_ = self._check(child)
            if index in node.optional:
                type_ = self._unwrapped(child, type_)
            element = self._joined(child, element, type_)
        return list_of(element or self._bindings.fresh())

    def _map(self, node: MapNode) -> CelType:
        key: CelType | None = None
        value: CelType | None = None
        for entry in node.entries:
            key = self._joined(entry.key, key, self._check(entry.key))
            type_ = self._check(entry.value)
            value = self._joined(entry.value, value, self._unwrapped(entry.value, type_) if entry.optional else type_)
        return map_of(key or self._bindings.fresh(), value or self._bindings.fresh())

    def _unwrapped(self, node: Node, type_: CelType) -> CelType:
        if type_.name == "optional_type":
            return type_.params[0]
        if type_.is_dyn:
            return type_
        raise self._error(f"expected type 'optional_type({type_})' but found '{type_}'", node)

    def _joined(self, node: Node, previous: CelType | None, current: CelType) -> CelType:
        """Return the type of elements, given one more of them."""
        if previous is None:
            return current
        if not self._bindings.assign([(previous, current)]):
            raise self._error(f"expected type '{previous}' but found '{current}'", node)
        return more_general(previous, current)

    def _comprehension(self, node: Comprehension) -> CelType:
        range_ = self._bindings.resolve(self._check(node.range_))
        accumulated = self._check(node.init)
        if range_.name == "list":
            variables = (INT, range_.params[0]) if node.variable2 else (range_.params[0], ERROR)
        elif range_.name == "map":
            variables = (range_.params[0], range_.params[1])
        elif range_ == DYN or range_.is_parameter:
            self._bindings.assign([(DYN, range_)])
            variables = (DYN, DYN)
        else:
            problem = (
                f"expression of type '{range_}' cannot be range of a comprehension (must be list, map, or dynamic)"
            )
            raise self._error(problem, node.range_)
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append({node.variable: variables[0]} | ({node.variable2: variables[1]} if node.variable2 else {}))
        self._expect(node.condition, BOOL)
        self._expect(node.step, accumulated)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return self._bindings.resolve(result)

    def _expect(self, node: Node, type_: CelType) -> None:
        found = self._check(node)
        if not self._bindings.assign([(type_, found)]):
            resolve = self._bindings.resolve
            raise self._error(f"expected type '{resolve(type_)}' but found '{resolve(found)}'", node)

    def _check_homogeneous(self, node: Node, types: dict[Node, CelType]) -> None:
        """Refuse lists and maps in the expression that mix types, even through dyn (cel/validator.go)."""
        if isinstance(node, ListNode):
            elements = [(child, index in node.optional) for index, child in enumerate(node.elements)]
            self._check_alike(elements, types)
        elif isinstance(node, MapNode):
            self._check_alike([(entry.key, False) for entry in node.entries], types)
            self._check_alike([(entry.value, entry.optional) for entry in node.entries], types)

    def _check_alike(self, nodes: list[tuple[Node, bool]], types: dict[Node, CelType]) -> None:
        first: CelType | None = None
        for node, is_optional in nodes:
            type_ = types[node].params[0] if is_optional and types[node].params else types[node]
            if first is not None and type_ != first:
                raise self._error(f"expected type '{first}' but found '{type_}'", node)
            first = first or type_


def _literal_type(value: Constant) -> CelType:
    match value:
        case bool():
            return BOOL
        case int():
            return INT
        case Uint():
            return UINT
        case float():
            return DOUBLE
        case str():
            return STRING
        case bytes():
            return BYTES
        case None:
            return NULL


def _qualified_name(node: Node) -> str | None:
    """Return ``a.b.c`` as text if the node consists of nothing but names."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test_only:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))
