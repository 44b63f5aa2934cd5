"""Turns a checked expression into the tree that the evaluator visits.

The trees are lark's, with cel-python's names for the nodes that cel-python has (``expr``, ``conditionaland``,
``member_dot`` …) and names of our own for the rest; each name is a method of
:class:`driver.cel.evaluator.SelectorEvaluator`. Constants are folded here, as cel-go's planner does with Kubernetes'
options: an error in a constant conversion or pattern is an error of the expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from celpy.evaluation import CELEvalError
from lark import Tree

from driver.cel.calls import Function
from driver.cel.checker import Checked
from driver.cel.errors import CelCompileError
from driver.cel.meter import Meter
from driver.cel.nodes import (
    Call,
    Comprehension,
    Constant,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    Uint,
    children,
)
from driver.cel.strings import PatternTooLargeError, compile_pattern
from driver.cel.values import CelMap, IntType, TypeName, UintType, Value

__all__ = ["Fold", "lower"]

# What the evaluator does itself, because not all of its arguments are evaluated, or because it looks things up.
_BUILT_IN: Final = {
    "_&&_": "conditionaland",
    "_||_": "conditionalor",
    "_?_:_": "expr",
    "_[_]": "member_index",
    "_[?_]": "optional_index",
    "_?._": "optional_index",
    "@not_strictly_false": "not_strictly_false",
    "or": "optional_or",
    "orValue": "optional_or_value",
}
_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
_STEPS_OF_CALL: Final = 3
_STEPS_OF_COMPREHENSION: Final = 3


@dataclass(frozen=True, slots=True)
class Fold:
    """The names of a comprehension, and the steps (:class:`driver.cel.meter.Limits`) that each iteration takes."""

    variable: str
    variable2: str
    accumulator: str
    is_bind: bool
    steps: int


def lower(checked: Checked, expression: str) -> tuple[Tree[Any], int]:
    """Return the tree to evaluate, and the steps that it takes without the iterations of its comprehensions.

    Raises:
        CelCompileError: A function is not implemented, or a constant part has no value.
    """
    lowering = _Lowering(checked, expression)
    return lowering.lower(checked.root), lowering.steps(checked.root)


class _Lowering:
    def __init__(self, checked: Checked, expression: str) -> None:
        self._checked = checked
        self._expression = expression
        self._done: dict[Node, Tree[Any]] = {}
        self._steps: dict[Node, int] = {}
        self._functions: dict[Node, Function] = {}

    def lower(self, node: Node) -> Tree[Any]:
        # Some macros use a node twice.
        if node not in self._done:
            self._done[node] = self._lower(node)
        return self._done[node]

    def steps(self, node: Node) -> int:
        """Return the most steps of a part; for a comprehension, those before and after its iterations."""
        if node not in self._steps:
            parts = children(node)
            if isinstance(node, Comprehension):
                parts = (node.range_, node.init, node.result)
            self._steps[node] = self._own_steps(node) + sum(map(self.steps, parts))
        return self._steps[node]

    def _own_steps(self, node: Node) -> int:
        if isinstance(node, Comprehension):
            return _STEPS_OF_COMPREHENSION
        function = self._functions.get(node)
        # Which overload runs is found by trying them.
        return 1 if function is None else _STEPS_OF_CALL + len(function.candidates) // 4

    def _lower(self, node: Node) -> Tree[Any]:
        name = self._checked.names.get(node)
        match node:
            case Literal():
                return _constant(_value(node.value))
            case Ident():
                return self._ident(node, node.name)
            case Select() if name is not None:
                return self._ident(node, name)
            case Select():
                return Tree("has" if node.test_only else "member_dot", [self.lower(node.operand), node.field])
            case Call():
                return self._call(node, name or node.function)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Comprehension():
                parts = [self.lower(part) for part in children(node)]
                steps = 1 + self.steps(node.condition) + self.steps(node.step)
                fold = Fold(node.variable, node.variable2, node.accumulator, node.is_bind, steps)
                return Tree("comprehension", [fold, *parts])

    def _ident(self, node: Node, name: str) -> Tree[Any]:
        type_ = self._checked.types[node]
        if type_.name == "type" and type_.params:
            return _constant(TypeName(type_.params[0].name))
        if name == "type":
            return _constant(TypeName("type"))
        return Tree("ident", [name])

    def _list(self, node: ListNode) -> Tree[Any]:
        elements = [self.lower(element) for element in node.elements]
        if not node.optional and all(element.data == "literal" for element in elements):
            values: list[Any] = [element.children[0] for element in elements]
            return _constant(values)
        return Tree("list_lit", [node.optional, *elements])

    def _map(self, node: MapNode) -> Tree[Any]:
        parts = [self.lower(part) for entry in node.entries for part in (entry.key, entry.value)]
        optional = frozenset(index for index, entry in enumerate(node.entries) if entry.optional)
        if optional or any(part.data != "literal" for part in parts):
            return Tree("map_lit", [optional, *parts])
        values: list[Any] = [part.children[0] for part in parts]
        made = CelMap()
        try:
            for key, value in zip(values[::2], values[1::2], strict=True):
                made.put(key, value)
        except CELEvalError as error:
            raise CelCompileError(str(error.args[0]), self._expression, offset=node.offset) from None
        return _constant(made)

    def _call(self, node: Call, name: str) -> Tree[Any]:
        is_member = node.target is not None and node not in self._checked.names
        targets = [node.target] if is_member and node.target is not None else []
        arguments = [self.lower(argument) for argument in (*targets, *node.arguments)]
        if name in _BUILT_IN:
            return Tree(_BUILT_IN[name], arguments)
        self._check_constants(node, name, arguments)
        self._functions[node] = self._function(node, name, len(arguments))
        tree = Tree("ident_arg", [self._functions[node], *arguments])
        if name == "@in" and self._checked.overloads[node] == ("in_list",) and _is_set(arguments[1]):
            tree.data = "relation_in"
        if name in _CONVERSIONS and arguments[0].data == "literal":
            return self._folded(node, tree)
        return tree

    def _function(self, node: Call, name: str, arity: int) -> Function:
        function = Function.resolve(name, self._checked.overloads[node], arity)
        if function is None:
            raise CelCompileError(
                f"function {name!r} is not supported by Rootport yet", self._expression, offset=node.offset
            )
        return function

    def _check_constants(self, node: Call, name: str, arguments: list[Tree[Any]]) -> None:
        """Check that constant patterns are valid."""
        if name not in _PATTERNS:
            return
        # cel-go's validator takes the first argument for the pattern, even that of matches(text, pattern).
        checked = {1} | ({0} if name == "matches" and node.target is None else set())
        for index in checked:
            pattern = arguments[index]
            if pattern.data == "literal" and isinstance(pattern.children[0], str):
                try:
                    compile_pattern(pattern.children[0])
                except CELEvalError as error:
                    raise self._invalid(node, name, error) from None
                except PatternTooLargeError:
                    continue  # Kubernetes may accept it: an evaluation that uses it is stopped

    def _folded(self, node: Call, tree: Tree[Any]) -> Tree[Any]:
        parts: list[Any] = tree.children
        function: Function = parts[0]
        value = function(Meter(1), [parts[1].children[0]])
        if isinstance(value, CELEvalError):
            raise self._invalid(node, function.name, value)
        return _constant(value)

    def _invalid(self, node: Call, name: str, error: Exception) -> CelCompileError:
        return CelCompileError(f"invalid {name} argument: {error.args[0]}", self._expression, offset=node.offset)


def _is_set(tree: Tree[Any]) -> bool:
    """Whether cel-go makes a set of a list, because all its items are constants of simple types."""
    parts: list[Any] = tree.children
    return tree.data == "literal" and all(
        isinstance(item, bool | IntType | UintType | float | str) for item in parts[0]
    )


def _constant(value: Value) -> Tree[Any]:
    return Tree("literal", [value])


def _value(literal: Constant) -> Value:
    if isinstance(literal, Uint):
        return UintType(literal.value)
    if isinstance(literal, int) and not isinstance(literal, bool):
        return IntType(literal)
    return literal
