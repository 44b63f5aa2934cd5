"""The syntax tree of an expression, with macros already expanded (as cel-go's ``common/ast`` has it).

Nodes are compared by identity, so that tables may be keyed by node. ``offset`` is the node's place in the text, in
characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Call",
    "Comprehension",
    "Constant",
    "Ident",
    "ListNode",
    "Literal",
    "MapEntry",
    "MapNode",
    "Node",
    "Select",
    "Uint",
    "children",
]


@dataclass(frozen=True, slots=True)
class Uint:
    """An unsigned literal; plain integers are CEL's int."""

    value: int


Constant: TypeAlias = bool | int | Uint | float | str | bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant."""

    offset: int
    value: Constant


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A name."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """A selection ``operand.field``; with ``test_only`` it is ``has(operand.field)``."""

    offset: int
    operand: Node
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a function, method or operator (``_+_``, ``_[_]``, ``_?._`` …) with its arguments."""

    offset: int
    function: str
    arguments: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ListNode:
    """A list ``[a, ?b]``; ``optional`` holds the indices of the elements marked with ``?``."""

    offset: int
    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """An entry of a map literal."""

    key: Node
    value: Node
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapNode:
    """A map ``{k: v, ?k: v}``."""

    offset: int
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """The expansion of every macro over a range: a fold of ``step`` over ``range_`` while ``condition``.

    ``variable2`` is empty except in the forms with two variables. A fold over nothing (``is_bind``) is how
    ``cel.bind(variable, init, result)`` is written.
    """

    offset: int
    range_: Node
    variable: str
    variable2: str
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node

    @property
    def is_bind(self) -> bool:
        """Whether this only names a value: the range is empty, and ``step`` never runs."""
        return (
            isinstance(self.range_, ListNode)
            and not self.range_.elements
            and isinstance(self.condition, Literal)
            and self.condition.value is False
        )


Node: TypeAlias = Literal | Ident | Select | Call | ListNode | MapNode | Comprehension


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case ListNode():
            return node.elements
        case MapNode():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case Comprehension():
            return (node.range_, node.init, node.condition, node.step, node.result)
        case _:
            return ()
