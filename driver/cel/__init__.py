"""Device selectors: CEL expressions over a device, with the meaning that Kubernetes gives them.

A selector has one of four results for a device. :meth:`Selector.matches` returns true or false; or raises
:class:`CelEvaluationError`, and then kube-scheduler ends with an error, too; or its subclass :class:`CelLimitError`,
and then Rootport stopped at :class:`Limits` of its own and kube-scheduler's result is not known: code that reports
verdicts has to catch it first. :meth:`Terms.first_false` has ``TermAnswer.is_known`` for that. Every evaluation is
bounded (:data:`STANDARD`: 250,000 steps, 16 MiB, one second of processor time), and so is every compilation; a caller
with many devices bounds the sum, for which ``Selector.cost`` is a measure.

Importing this package is cheap; cel-python is loaded when the first selector is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.cel.errors import CelCompileError, CelEvaluationError, CelLimitError
from driver.cel.literals import text_literal
from driver.cel.meter import STANDARD, Limits

if TYPE_CHECKING:
    from driver.cel.reads import Read
    from driver.cel.selector import Selector
    from driver.cel.terms import Term, TermAnswer, Terms

__all__ = [
    "STANDARD",
    "CelCompileError",
    "CelEvaluationError",
    "CelLimitError",
    "Limits",
    "Read",
    "Selector",
    "Term",
    "TermAnswer",
    "Terms",
    "compile_selector",
    "compile_terms",
    "text_literal",
]


def compile_selector(expression: str, *, stored: bool = False) -> Selector:
    """Return the selector of an expression; the same object for the same expression, while it is cached.

    Args:
        expression: A CEL expression over the variable ``device``.
        stored: Whether to compile as kube-scheduler does for a stored object: attributes may be lists, macros may range
            over them, and there is ``includes``. Otherwise as the API server does for a new object with its default
            gates, DRAListTypeAttributes off.

    Raises:
        CelCompileError: Kubernetes would refuse it (not CEL, unknown names, wrong types, too long), or it uses what
            Rootport does not support yet.
    """
    from driver.cel.selector import compile_selector as compile_  # noqa: PLC0415 - loads cel-python

    return compile_(expression, stored=stored)


def compile_terms(expression: str, *, stored: bool = False) -> Terms:
    """Return the terms of an expression, all of which must hold; the same object while it is cached.

    Raises:
        CelCompileError: As :func:`compile_selector`.
    """
    from driver.cel.terms import compile_terms as compile_  # noqa: PLC0415 - loads cel-python

    return compile_(expression, stored=stored)


def __getattr__(name: str) -> object:
    # The types, for annotations and isinstance; they come with cel-python.
    if name == "Selector":
        from driver.cel.selector import Selector  # noqa: PLC0415 - as above

        return Selector
    if name == "Read":
        from driver.cel.reads import Read  # noqa: PLC0415 - as above

        return Read
    if name in ("Term", "TermAnswer", "Terms"):
        from driver.cel import terms  # noqa: PLC0415 - as above

        return getattr(terms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
