"""Finds in an expression's text constants, and comparisons of types that can never be equal.

``device.attributes["rootport.dev"].model == 5`` compiles, as an attribute may have any type, and is false for a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from driver.cel import nodes
from driver.cel.errors import CelCompileError
from driver.cel.nodes import Call, Comprehension, ListNode, Node, Uint, children
from driver.cel.parser import parse
from driver.cel.reads import Read, read_of

__all__ = ["Comparison", "ConstantType", "comparisons", "constant_amounts", "is_all_evaluated"]

ConstantType: TypeAlias = Literal["string", "int", "bool", "double", "bytes", "null"]

_OPERATORS: Final = {"_==_": "==", "_!=_": "!=", "@in": "in"}
_BY_VALUE: Final = frozenset({"_&&_", "_||_", "_?_:_", "_[?_]", "_?._", "or", "orValue"})
"""Functions of which one argument's value decides whether the others are evaluated or their errors count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """An attribute compared with a constant, or looked up among constants.

    Attributes:
        read: The attribute.
        operator: ``==``, ``!=`` or ``in``.
        types: The constants' types.
        is_all: Whether the expression is nothing but this comparison.
    """

    read: Read
    operator: str
    types: frozenset[ConstantType]
    is_all: bool


def comparisons(expression: str) -> Iterator[Comparison]:
    """Yield all comparisons of an expression; none if it does not compile."""
    root = _root(expression)
    for node in () if root is None else _below(root):
        if not isinstance(node, Call) or node.function not in _OPERATORS or len(node.arguments) != 2:
            continue
        operator = _OPERATORS[node.function]
        for one, other in (node.arguments, node.arguments[::-1] if operator != "in" else node.arguments):
            read, types = read_of(one), _types(other)
            if read is not None and read.part == "attributes" and types:
                yield Comparison(read=read, operator=operator, types=types, is_all=node is root)
                break


def constant_amounts(expression: str) -> Iterator[str]:
    """Yield the texts of all ``quantity("80Gi")``; none if the expression does not compile."""
    root = _root(expression)
    for node in () if root is None else _below(root):
        if isinstance(node, Call) and node.function == "quantity" and len(node.arguments) == 1:
            (argument,) = node.arguments
            if isinstance(argument, nodes.Literal) and isinstance(argument.value, str):
                yield argument.value


def is_all_evaluated(expression: str) -> bool:
    """Whether all parts of an expression are evaluated for any values, so that a part's error is the expression's.

    Then no type depends on a value either: lists and maps may not mix types.
    """
    root = _root(expression)
    return root is not None and not any(
        isinstance(node, Comprehension) or (isinstance(node, Call) and node.function in _BY_VALUE)
        for node in _below(root)
    )


def _root(expression: str) -> Node | None:
    try:
        return parse(expression)
    except (CelCompileError, RecursionError):
        return None


def _below(root: Node) -> Iterator[Node]:
    seen: set[Node] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending.extend(children(node))


def _types(node: Node) -> frozenset[ConstantType]:
    """Return the types of a constant, or of a list of constants; none for other nodes."""
    if isinstance(node, ListNode):
        inner = [_type(element) for element in node.elements]
        return frozenset(filter(None, inner)) if all(inner) else frozenset()
    type_ = _type(node)
    return frozenset() if type_ is None else frozenset({type_})


def _type(node: Node) -> ConstantType | None:
    if not isinstance(node, nodes.Literal):
        return None
    match node.value:
        case bool():
            return "bool"
        case int() | Uint():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
        case _:
            return "null"
