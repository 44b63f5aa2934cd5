"""Expands macros: calls that become comprehensions before anything is checked.

Source of the expansions: cel-go v0.29.2, parser/macro.go, ext/comprehensions.go (two variables), ext/bindings.go,
ext/lists.go (sortBy) and cel/library.go (optMap, optFlatMap). The shapes matter: cost is charged on what they expand
to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from driver.cel.nodes import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select

__all__ = ["ACCUMULATOR", "MacroError", "expand"]

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
_UNUSED: Final = "#unused"
_SORT_INPUT: Final = "@__sortBy_input__"


class MacroError(Exception):
    """A macro was called with arguments that it does not accept."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


def expand(call: Call) -> Node:
    """Return the expansion of a macro's call; a call that is no macro's is returned as it is.

    Raises:
        MacroError: The macro does not accept the arguments.
    """
    macro = _MACROS.get((call.function, len(call.arguments), call.target is not None))
    return macro(call) if macro else call


def _has(call: Call) -> Node:
    argument = call.arguments[0]
    if not isinstance(argument, Select):
        raise MacroError("invalid argument to has() macro: expected a field, as in has(a.b)", argument.offset)
    return Select(argument.offset, argument.operand, argument.field, test_only=True)


def _bind(call: Call) -> Node:
    if not (isinstance(call.target, Ident) and call.target.name == "cel"):
        return call
    name, value, result = call.arguments
    return _let(call.offset, _name(name, "cel.bind() variable names must be simple identifiers"), value, result)


def _let(offset: int, variable: str, value: Node, result: Node) -> Comprehension:
    empty, never = ListNode(offset, ()), Literal(offset, value=False)
    return Comprehension(offset, empty, _UNUSED, "", variable, value, never, Ident(offset, variable), result)


def _opt_map(call: Call) -> Node:
    return _optional(call, lambda mapped: Call(call.offset, "optional.of", (mapped,)))


def _opt_flat_map(call: Call) -> Node:
    return _optional(call, lambda mapped: mapped)


def _optional(call: Call, wrap: Callable[[Node], Node]) -> Node:
    target, offset = _target(call), call.offset
    variable = _name(call.arguments[0], f"{call.function}() variable name must be a simple identifier")
    mapped = _let(offset, variable, Call(offset, "value", (), target), call.arguments[1])
    present = Call(offset, "hasValue", (), target)
    return Call(offset, "_?_:_", (present, wrap(mapped), Call(offset, "optional.none", ())))


def _all(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    condition = Call(offset, "@not_strictly_false", (accumulator,))
    step = Call(offset, "_&&_", (accumulator, call.arguments[-1]))
    return _fold(call, Literal(offset, value=True), condition, step, accumulator)


def _exists(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    condition = Call(offset, "@not_strictly_false", (Call(offset, "!_", (accumulator,)),))
    step = Call(offset, "_||_", (accumulator, call.arguments[-1]))
    return _fold(call, Literal(offset, value=False), condition, step, accumulator)


def _exists_one(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    one = Literal(offset, 1)
    more = Call(offset, "_+_", (accumulator, one))
    step = Call(offset, "_?_:_", (call.arguments[-1], more, accumulator))
    return _fold(call, Literal(offset, 0), _always(offset), step, Call(offset, "_==_", (accumulator, one)))


def _map(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    step: Node = Call(offset, "_+_", (accumulator, ListNode(offset, (call.arguments[-1],))))
    return _collect(call, ListNode(offset, ()), step, has_filter=len(call.arguments) == 3)


def _filter(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    kept = Call(offset, "_+_", (accumulator, ListNode(offset, (call.arguments[0],))))
    step = Call(offset, "_?_:_", (call.arguments[1], kept, accumulator))
    return _fold(call, ListNode(offset, ()), _always(offset), step, accumulator)


def _transform_list(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    step = Call(offset, "_+_", (accumulator, ListNode(offset, (call.arguments[-1],))))
    return _collect(call, ListNode(offset, ()), step, has_filter=len(call.arguments) == 4)


def _transform_map(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    step = Call(offset, "cel.@mapInsert", (accumulator, call.arguments[0], call.arguments[-1]))
    return _collect(call, MapNode(offset, ()), step, has_filter=len(call.arguments) == 4)


def _transform_map_entry(call: Call) -> Node:
    offset, accumulator = call.offset, _accumulator(call)
    step = Call(offset, "cel.@mapInsert", (accumulator, call.arguments[-1]))
    return _collect(call, MapNode(offset, ()), step, has_filter=len(call.arguments) == 4)


def _sort_by(call: Call) -> Node:
    target = _target(call)
    if isinstance(target, Literal | MapNode):
        raise MacroError("sortBy can only be applied to a list", target.offset)
    items = Ident(call.offset, _SORT_INPUT)
    keys = _map(Call(call.offset, "map", call.arguments, items))
    return _let(call.offset, _SORT_INPUT, target, Call(call.offset, "@sortByAssociatedKeys", (keys,), items))


def _collect(call: Call, empty: Node, step: Node, *, has_filter: bool) -> Node:
    accumulator = _accumulator(call)
    if has_filter:
        step = Call(call.offset, "_?_:_", (call.arguments[-2], step, accumulator))
    return _fold(call, empty, _always(call.offset), step, accumulator)


def _fold(call: Call, init: Node, condition: Node, step: Node, result: Node) -> Comprehension:
    """Return a comprehension over the call's target; its variables are the call's first one or two arguments."""
    problem = "argument must be a simple name"
    variable = _name(call.arguments[0], problem)
    variable2 = ""
    if _has_two_variables(call):
        variable2 = _name(call.arguments[1], problem)
        if variable == variable2:
            raise MacroError(f"duplicate variable name: {variable}", call.arguments[1].offset)
    return Comprehension(call.offset, _target(call), variable, variable2, ACCUMULATOR, init, condition, step, result)


def _has_two_variables(call: Call) -> bool:
    if call.function in ("all", "exists", "exists_one", "existsOne"):
        return len(call.arguments) == 3
    return call.function.startswith("transform")


def _name(node: Node, problem: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(problem, node.offset)
    if node.name == _OLD_ACCUMULATOR:
        raise MacroError("iteration variable overwrites accumulator variable", node.offset)
    return node.name


def _target(call: Call) -> Node:
    assert call.target is not None  # noqa: S101 - the table below asks for one
    return call.target


def _accumulator(call: Call) -> Ident:
    return Ident(call.offset, ACCUMULATOR)


def _always(offset: int) -> Literal:
    return Literal(offset, value=True)


_MACROS: Final[dict[tuple[str, int, bool], Callable[[Call], Node]]] = {
    ("has", 1, False): _has,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("all", 2, True): _all,
    ("all", 3, True): _all,
    ("exists", 2, True): _exists,
    ("exists", 3, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("existsOne", 3, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("sortBy", 2, True): _sort_by,
}
