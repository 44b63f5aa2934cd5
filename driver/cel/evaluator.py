"""Evaluates an expression: Rootport's visitor of the tree, as a subclass of cel-python's ``Evaluator``.

Used from cel-python are :meth:`celpy.evaluation.Evaluator.evaluate`, which visits the root and raises an error that is
the result; :class:`CELEvalError`, an error that is also a value; and the 64-bit integers (:mod:`driver.cel.values`).
Every method that evaluates a node is Rootport's, because cel-python's results differ from those of cel-go
(docs/design/cel.md lists them) and every step is charged to a meter. The tree is lark's, built by
:mod:`driver.cel.lowering`.

Source of the rules: cel-go v0.29.2, interpreter/{interpretable,attributes,runtimecost}.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from celpy.evaluation import Activation, CELEvalError, Evaluator
from lark import Tree

from driver.cel.calls import Function
from driver.cel.costs import call_cost
from driver.cel.lowering import Fold
from driver.cel.meter import ENTRY, OBJECT, Meter
from driver.cel.operators import contains
from driver.cel.values import (
    NONE,
    Accumulator,
    CelMap,
    IntType,
    MapAccumulator,
    Optional,
    UintType,
    Value,
    fail,
    integer,
    type_name,
)

__all__ = ["SelectorEvaluator"]

_NOTHING: Final = Activation()
_ATTRIBUTES: Final = frozenset({"ident", "member_dot", "member_index", "optional_index"})
_LIST_COST: Final = 10
_MAP_COST: Final = 30


class _Lazy:
    """The value of ``cel.bind``: computed once, when first used, in the scope where it was written."""

    __slots__ = ("is_known", "scope", "tree", "value")

    def __init__(self, tree: Tree[Any], scope: dict[str, Value | _Lazy]) -> None:
        self.tree = tree
        self.scope = scope
        self.is_known = False
        self.value: Value = None


class SelectorEvaluator(Evaluator):
    """Evaluates one expression once.

    Args:
        tree: The expression, from :func:`driver.cel.lowering.lower`.
        device: The value of the variable ``device``.
        meter: Counts the costs and ends the evaluation at their limits.
    """

    def __init__(self, tree: Tree[Any], device: Value, meter: Meter) -> None:
        super().__init__(tree, _NOTHING)
        self._scope: dict[str, Value | _Lazy] = {"device": device}
        self._meter = meter

    def run(self) -> Value:
        """Return the value of the expression; raise its error.

        Raises:
            CELEvalError: The expression has no value.
            BudgetExceededError: The evaluation costs too much.
        """
        # cel-python declares its own types of values only.
        return cast("Value", self.evaluate())

    def visit(self, tree: Tree[Any]) -> Any:
        """Evaluate a subexpression; an error is a value, too."""
        return getattr(self, tree.data)(tree)

    def _value(self, tree: Tree[Any]) -> Value:
        value: Value = getattr(self, tree.data)(tree)
        return value

    def literal(self, tree: Tree[Any]) -> Value:
        """Evaluate a constant."""
        value: Value = _parts(tree)[0]
        return value

    def ident(self, tree: Tree[Any]) -> Value:
        """Evaluate a variable."""
        self._meter.charge(1)
        known = self._scope[_parts(tree)[0]]
        if not isinstance(known, _Lazy):
            return known
        if not known.is_known:
            here, self._scope = self._scope, known.scope
            known.value = self._value(known.tree)
            known.is_known = True
            self._scope = here
        return known.value

    def member_dot(self, tree: Tree[Any]) -> Value:
        """Evaluate ``operand.field``."""
        operand_tree, field = _parts(tree)
        return self._looked_up(self._operand(operand_tree), field, optional=False)

    def has(self, tree: Tree[Any]) -> Value:
        """Evaluate ``has(operand.field)``, free of charge in Kubernetes."""
        operand_tree, field = _parts(tree)
        operand = self._value(operand_tree)
        if isinstance(operand, CELEvalError):
            return operand
        found = _find(operand, field)
        return found if isinstance(found, CELEvalError) else found.present

    def member_index(self, tree: Tree[Any]) -> Value:
        """Evaluate ``operand[index]``."""
        return self._indexed(tree, optional=False)

    def optional_index(self, tree: Tree[Any]) -> Value:
        """Evaluate ``operand[?index]`` and ``operand.?field``."""
        return self._indexed(tree, optional=True)

    def _indexed(self, tree: Tree[Any], *, optional: bool) -> Value:
        operand_tree, index_tree = _parts(tree)
        operand = self._operand(operand_tree)
        index = self._value(index_tree)
        if isinstance(index, CELEvalError) and not isinstance(operand, CELEvalError):
            return index
        # An index that is itself a path into the device has been charged for already.
        return self._looked_up(operand, index, optional=optional, cost=int(index_tree.data not in _ATTRIBUTES))

    def _operand(self, tree: Tree[Any]) -> Value:
        value = self._value(tree)
        if tree.data not in _ATTRIBUTES and tree.data != "expr":
            self._meter.charge(1)
        return value

    def _looked_up(self, operand: Value, key: Value, *, optional: bool, cost: int = 1) -> Value:
        if isinstance(operand, Optional):
            if not operand.present:
                return NONE
            operand, optional = operand.value, True
        found = operand if isinstance(operand, CELEvalError) else _find(operand, key)
        if isinstance(found, CELEvalError) or found.present or not optional:
            self._meter.charge(cost)
        if isinstance(found, CELEvalError) or optional:
            return found
        if not found.present:
            problem = "index out of bounds" if isinstance(operand, list) else "no such key"
            return fail(f"{problem}: {_shown(key)}")
        return found.value

    def conditionaland(self, tree: Tree[Any]) -> Value:
        """Evaluate ``&&``: false wins over an error on either side."""
        return self._logical(tree, decides=False)

    def conditionalor(self, tree: Tree[Any]) -> Value:
        """Evaluate ``||``: true wins over an error on either side."""
        return self._logical(tree, decides=True)

    def _logical(self, tree: Tree[Any], *, decides: bool) -> Value:
        error: CELEvalError | None = None
        for child in _parts(tree):
            value = self._value(child)
            if value is decides:
                return decides
            if not isinstance(value, bool) and error is None:
                error = value if isinstance(value, CELEvalError) else fail("no such overload")
        return error if error is not None else not decides

    def expr(self, tree: Tree[Any]) -> Value:
        """Evaluate ``condition ? a : b``."""
        condition = self._value(_parts(tree)[0])
        if isinstance(condition, CELEvalError):
            return condition
        if not isinstance(condition, bool):
            return fail("no such overload")
        branch = _parts(tree)[1 if condition else 2]
        if branch.data in _ATTRIBUTES:
            # In cel-go the branch becomes part of the conditional's own attribute, whose root is not charged.
            self._meter.cost -= 1
        return self._value(branch)

    def not_strictly_false(self, tree: Tree[Any]) -> Value:
        """Evaluate the condition under which ``all`` and ``exists`` go on."""
        value = self._value(_parts(tree)[0])
        self._meter.charge(1)
        return value if isinstance(value, bool) else True

    def optional_or(self, tree: Tree[Any]) -> Value:
        """Evaluate ``a.or(b)``: the first optional that has a value."""
        first = self._optional(_parts(tree)[0])
        if not isinstance(first, Optional) or first.present:
            return first
        return self._value(_parts(tree)[1])

    def optional_or_value(self, tree: Tree[Any]) -> Value:
        """Evaluate ``a.orValue(b)``: the optional's value, or b."""
        first = self._optional(_parts(tree)[0])
        if not isinstance(first, Optional):
            return first
        return first.value if first.present else self._value(_parts(tree)[1])

    def _optional(self, tree: Tree[Any]) -> Value:
        """Return the value of ``tree``: an optional or an error."""
        value = self._value(tree)
        return value if isinstance(value, Optional | CELEvalError) else fail("no such overload")

    def list_lit(self, tree: Tree[Any]) -> Value:
        """Evaluate a list."""
        optional, *elements = _parts(tree)
        self._meter.elements(len(elements))
        items: list[Value] = []
        for index, element in enumerate(elements):
            value = self._value(element)
            if isinstance(value, CELEvalError):
                return value
            if index in optional:
                if not isinstance(value, Optional):
                    return fail("cannot initialize optional list element from non-optional value")
                if not value.present:
                    continue
                value = value.value
            items.append(value)
        self._meter.charge(_LIST_COST)
        return items

    def map_lit(self, tree: Tree[Any]) -> Value:
        """Evaluate a map."""
        made = self._made_map(tree)
        self._meter.charge(_MAP_COST)
        return made

    def _made_map(self, tree: Tree[Any]) -> Value:
        optional, *parts = _parts(tree)
        self._meter.memory(OBJECT + len(parts) // 2 * ENTRY)
        made = CelMap()
        for index in range(len(parts) // 2):
            key = self._value(parts[2 * index])
            value = key if isinstance(key, CELEvalError) else self._value(parts[2 * index + 1])
            if isinstance(value, CELEvalError):
                return value
            if index in optional:
                if not isinstance(value, Optional):
                    return fail("cannot initialize optional entry from non-optional value")
                if not value.present:
                    made.remove(key)
                    continue
                value = value.value
            try:
                made.put(key, value)
            except CELEvalError as error:
                return error
        return made

    def relation_in(self, tree: Tree[Any]) -> Value:
        """Evaluate ``in`` with a list of constants: a set in Kubernetes, so free of charge."""
        _, item_tree, list_tree = _parts(tree)
        items = _parts(list_tree)[0]
        if not items:
            return False
        item = self._value(item_tree)
        if isinstance(item, CELEvalError):
            return item
        if type_name(item) in ("kubernetes.Semver", "bytes") and not isinstance(items[0], bytes):
            return fail(f"a value of type {type_name(item)} cannot be looked up in a list of constants")
        return contains(items, item, self._meter)

    def ident_arg(self, tree: Tree[Any]) -> Value:
        """Evaluate a call of a function, method or operator."""
        function: Function = _parts(tree)[0]
        children = _parts(tree)[1:]
        # In cel-go, calls with two arguments evaluate both before they look for an error; others stop at the first one.
        stops = len(children) != 2
        arguments: list[Value] = []
        error: CELEvalError | None = None
        for child in children:
            value = self._value(child)
            arguments.append(value)
            if isinstance(value, CELEvalError):
                error = error or value
                if stops:
                    break
        result = function(self._meter, arguments) if error is None else error
        if len(arguments) == len(children):
            self._meter.charge(call_cost(function.name, function.overload, arguments, result, self._meter))
        return result

    def comprehension(self, tree: Tree[Any]) -> Value:
        """Evaluate what a macro expands to: see :class:`driver.cel.nodes.Comprehension`."""
        fold: Fold = _parts(tree)[0]
        range_tree, init, condition, step, result = _parts(tree)[1:]
        outer = self._scope
        if fold.is_bind:
            self._scope = {**outer, fold.accumulator: _Lazy(init, outer)}
        else:
            range_ = self._value(range_tree)
            if isinstance(range_, CELEvalError):
                return range_
            if not isinstance(range_, list | CelMap):
                return fail(f"got '{type_name(range_)}', expected iterable type")
            self._scope = {**outer, fold.accumulator: _mutable(self._value(init))}
            self._iterate(fold, range_, condition, step)
            self._scope = {**outer, fold.accumulator: self._scope[fold.accumulator]}
        value = self._value(result)
        self._scope = outer
        return _immutable(value)

    def _iterate(self, fold: Fold, range_: list[Value] | CelMap, condition: Tree[Any], step: Tree[Any]) -> None:
        for first, second in _pairs(range_, two=bool(fold.variable2)):
            self._scope[fold.variable] = first
            if fold.variable2:
                self._scope[fold.variable2] = second
            goes_on = self._value(condition)
            if isinstance(goes_on, bool) and not goes_on:
                return
            self._meter.work(fold.steps)
            self._scope[fold.accumulator] = self._value(step)


def _parts(tree: Tree[Any]) -> list[Any]:
    """Return a tree's children: subtrees, and for some kinds a first item from :mod:`driver.cel.lowering`."""
    return tree.children


def _pairs(range_: list[Value] | CelMap, *, two: bool) -> Iterator[tuple[Value, Value]]:
    if isinstance(range_, CelMap):
        return range_.items()
    if two:
        return ((integer(index), item) for index, item in enumerate(range_))
    return ((item, None) for item in range_)


def _mutable(value: Value) -> Value:
    """Return an empty list or map, from which a macro starts, as one that it may add to."""
    if isinstance(value, list) and not value:
        return Accumulator()
    return MapAccumulator() if isinstance(value, CelMap) and len(value) == 0 else value


def _immutable(value: Value) -> Value:
    return list(value) if isinstance(value, Accumulator) else value


def _find(operand: Value, key: Value) -> Optional | CELEvalError:
    """Look up a key in an operand; values without keys have nothing (cel-go, refQualify)."""
    if isinstance(operand, CelMap):
        return operand.find(key)
    if isinstance(operand, list):
        index = _index(key)
        if isinstance(index, CELEvalError):
            return index
        return Optional(present=True, value=operand[index]) if 0 <= index < len(operand) else NONE
    return NONE


def _shown(key: Value) -> str:
    """Return a key for a message: nested lists may be too large to write."""
    return str(key) if isinstance(key, str | IntType | UintType | float | bool) else f"a key of type {type_name(key)}"


def _index(key: Value) -> int | CELEvalError:
    if isinstance(key, IntType | UintType) or (isinstance(key, float) and key.is_integer()):
        return int(key)
    return fail(f"unsupported index type {type_name(key)!r} in list")
