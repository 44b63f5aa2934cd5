"""Splits an expression into terms that must all hold, and finds the term that a device fails, with its values.

Most selectors are conjunctions, and one term of it refuses a device; that term is what to show.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driver.api import resource_v1
from driver.cel.cache import AnswerCache, CompileCache
from driver.cel.errors import CelCompileError, CelEvaluationError, CelLimitError
from driver.cel.lexer import Token, tokenize
from driver.cel.reads import Read
from driver.cel.selector import Selector, compile_selector, find_amount, find_attribute

__all__ = ["ABSENT", "Term", "TermAnswer", "Terms", "compile_terms"]

ABSENT: Final = "absent"
"""The text for an attribute or capacity that the device does not have."""

_TERMS: Final = 1024
_LENGTH_OF_ALL: Final = 64 * 1024  # characters of all that are remembered: some 40 MiB at most
_ANSWERS: Final = 4096
_LONGEST_SHOWN: Final = 80
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One part of a conjunction.

    Attributes:
        text: The term as it is written, with its own parentheses.
        offset: Its place in the expression, in characters from the start.
        reads: The values of a device that it reads; None if it depends on the device as a whole.
    """

    text: str
    offset: int
    reads: tuple[Read, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermAnswer:
    """The term that keeps a device from being selected.

    Attributes:
        index: Its index in :attr:`Terms.terms`; None if only the expression as a whole fails, because all of it
            together costs too much.
        text: The term as it is written.
        values: What it reads, by name (``rootport.dev/model``, ``device.driver``), each as CEL would write the value,
            or :data:`ABSENT`. Empty if it depends on the device as a whole.
        error: Why it has no value; empty if the value is false. kube-scheduler does not schedule a pod for which a
            selector ends with an error.
        is_known: False if Rootport stopped the evaluation (:class:`driver.cel.CelLimitError`): the device may be
            selected or not, ``error`` says what took too much, and ``text`` is the whole expression.
    """

    index: int | None
    text: str
    values: tuple[tuple[str, str], ...]
    error: str = ""
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the expression: a term, or, with ``parts``, several terms in one pair of parentheses."""

    start: int
    end: int
    parts: tuple[_Span, ...] = ()


class Terms:
    """The terms of an expression. Made by :func:`compile_terms`.

    ``a && (b && c)`` has three terms; what stands below ``||``, ``!``, ``?:`` or in a macro is one.

    Attributes:
        expression: The expression.
        selector: The selector of all of it.
        terms: The terms in the order in which they are written; at least one.
    """

    __slots__ = ("_answers", "_root", "_selectors", "_spans", "expression", "selector", "terms")

    def __init__(self, expression: str, *, stored: bool) -> None:
        self.expression = expression
        self.selector: Selector = compile_selector(expression, stored=stored)
        root = _split(tokenize(expression)[:-1])
        try:
            selectors = [compile_selector(expression[span.start : span.end], stored=stored) for span in _leaves(root)]
        except CelCompileError:
            # A term of type dyn stands in a conjunction, not alone.
            root = _Span(root.start, root.end)
            selectors = [self.selector]
        self._root = root
        self._spans = _leaves(root)
        self._selectors = selectors
        self.terms: tuple[Term, ...] = tuple(
            Term(text=expression[span.start : span.end], offset=span.start, reads=selector.reads)
            for span, selector in zip(self._spans, selectors, strict=True)
        )
        self._answers: AnswerCache[tuple[object, ...], TermAnswer | None] = AnswerCache()

    def first_false(self, driver: str, device: resource_v1.Device) -> TermAnswer | None:
        """Return the first term that is false, or that ends with an error if the expression does.

        None exactly if :meth:`driver.cel.Selector.matches` returns true. It never raises: if the evaluation is stopped,
        the answer says that it is not known.

        Args:
            driver: The driver of the slice that the device is in.
            device: The device. It must not change: answers are cached by the values that the expression reads.
        """
        key = self.selector.key(driver, device)
        try:
            return self._answers[key]
        except KeyError:
            answer = self._first_false(driver, device)
        # The selector knows whether another attempt may get further.
        if answer is None or answer.is_known:
            weight = self.selector.key_size(device) + (0 if answer is None else 2 + len(answer.values))
            self._answers.put(key, answer, most=_ANSWERS, weight=weight)
        return answer

    def without(self, index: int) -> str:
        """Return the expression without one term; ``true`` if there is no other."""
        if len(self._spans) == 1:
            return "true"
        gone = self._spans[index]
        group = self._root
        while gone not in group.parts:
            inner = next(part for part in group.parts if part.start <= gone.start < part.end)
            group = inner
        place = group.parts.index(gone)
        if place + 1 < len(group.parts):
            start, end = gone.start, group.parts[place + 1].start
        else:
            start, end = group.parts[place - 1].end, gone.end
        return self.expression[:start] + self.expression[end:]

    def replaced(self, index: int, text: str) -> str:
        """Return the expression with ``text`` in place of one term; the caller takes care of its precedence."""
        span = self._spans[index]
        return self.expression[: span.start] + text + self.expression[span.end :]

    def _first_false(self, driver: str, device: resource_v1.Device) -> TermAnswer | None:
        try:
            if self.selector.matches(driver, device):
                return None
            problem = ""
        except CelLimitError as error:
            return self._of_all(driver, device, error.problem, is_known=False)
        except CelEvaluationError as error:
            problem = error.problem
        for index, (term, selector) in enumerate(zip(self.terms, self._selectors, strict=True)):
            error_text = ""
            try:
                fails = not selector.matches(driver, device)
            except CelLimitError:
                break  # the clock: with the others it was quick enough
            except CelEvaluationError as error:
                fails, error_text = True, error.problem
            # false && an error is false: then the term that fails to answer decides nothing.
            if fails and bool(error_text) == bool(problem):
                return TermAnswer(
                    index=index, text=term.text, values=_values(term.reads, driver, device), error=error_text
                )
        return self._of_all(driver, device, problem)

    def _of_all(self, driver: str, device: resource_v1.Device, error: str, *, is_known: bool = True) -> TermAnswer:
        values = _values(self.selector.reads, driver, device)
        return TermAnswer(index=None, text=self.expression, values=values, error=error, is_known=is_known)


def compile_terms(expression: str, *, stored: bool = False) -> Terms:
    """Return the terms of an expression; the same object for the same expression, while it is cached.

    Raises:
        CelCompileError: As :func:`driver.cel.compile_selector`.
    """
    return _COMPILED(expression, stored)


_COMPILED: Final = CompileCache(
    lambda expression, lists: Terms(expression, stored=lists), most=_TERMS, length=_LENGTH_OF_ALL
)


def _value_text(read: Read, driver: str, device: resource_v1.Device) -> str:
    """Return a device's value as CEL would write it, on one line of bounded length, or :data:`ABSENT`."""
    if read.part == "driver":
        return _quoted(driver)
    if read.part == "allowMultipleAllocations":
        return "true" if device.allow_multiple_allocations else "false"
    if read.part == "capacity":
        amount = find_amount(read, driver, device)
        return ABSENT if amount is None else str(amount.value)
    attribute = find_attribute(read, driver, device)
    return ABSENT if attribute is None else _attribute_text(attribute)


def _attribute_text(attribute: resource_v1.DeviceAttribute) -> str:
    """Return the value of an attribute as CEL would write it, on one line of bounded length."""
    if attribute.string_value is not None:
        return _quoted(attribute.string_value)
    if attribute.version_value is not None:
        return _quoted(attribute.version_value)
    if attribute.bool_value is not None:
        return "true" if attribute.bool_value else "false"
    if attribute.int_value is not None:
        return str(attribute.int_value)
    shown = json.dumps(next(iter(attribute.to_wire().values()), None), ensure_ascii=False)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[: _LONGEST_SHOWN - 1]}…"


def _quoted(text: str) -> str:
    return json.dumps(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…", ensure_ascii=False)


def _values(reads: tuple[Read, ...] | None, driver: str, device: resource_v1.Device) -> tuple[tuple[str, str], ...]:
    return tuple((read.name if read.domain else str(read), _value_text(read, driver, device)) for read in reads or ())


def _split(tokens: Sequence[Token]) -> _Span:
    """Return the terms of an expression that is known to be well formed."""
    span = _Span(tokens[0].offset, tokens[-1].offset + len(tokens[-1].text))
    parts = _conjuncts(tokens)
    if len(parts) > 1:
        return _Span(span.start, span.end, tuple(map(_split, parts)))
    if _is_enclosed(tokens):
        inner = _split(tokens[1:-1])
        if inner.parts:
            return _Span(span.start, span.end, inner.parts)
    return span


def _conjuncts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the parts between the ``&&`` outside of all brackets; one if ``||`` or ``?:`` joins them."""
    depth, start = 0, 0
    parts: list[Sequence[Token]] = []
    for place, token in enumerate(tokens):
        if token.kind in _OPENING:
            depth += 1
        elif token.kind in _CLOSING:
            depth -= 1
        elif depth == 0:
            if token.kind == "||" or (token.kind == "?" and tokens[place - 1].kind != "."):
                return [tokens]
            if token.kind == "&&":
                parts.append(tokens[start:place])
                start = place + 1
    return [*parts, tokens[start:]]


def _is_enclosed(tokens: Sequence[Token]) -> bool:
    """Whether the first token is a parenthesis that the last one closes."""
    if tokens[0].kind != "(":
        return False
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0:
            return place == len(tokens) - 1
    return False


def _leaves(span: _Span) -> list[_Span]:
    return [leaf for part in span.parts for leaf in _leaves(part)] if span.parts else [span]
