"""Device selectors: CEL expressions over a device, with the meaning that Kubernetes gives them.

Importing this package is cheap; cel-python is loaded when the first selector is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driver.cel.errors import CelCompileError, CelEvaluationError

if TYPE_CHECKING:
    from driver.cel.reads import Read
    from driver.cel.selector import Selector
    from driver.cel.terms import Term, TermAnswer, Terms

__all__ = [
    "CelCompileError",
    "CelEvaluationError",
    "Read",
    "Selector",
    "Term",
    "TermAnswer",
    "Terms",
    "compile_selector",
    "compile_terms",
]


def compile_selector(expression: str, *, list_attributes: bool = False) -> Selector:
    """The selector of an expression; the same object for the same expression, while it is remembered.

    Args:
        expression: A CEL expression over the variable ``device``.
        list_attributes: The feature gate DRAListTypeAttributes (alpha in Kubernetes 1.36, off by default): attributes
            may be lists, and then macros may range over them.

    Raises:
        CelCompileError: Kubernetes would not compile it: not CEL, unknown names, wrong types, too long; or it uses what
            Rootport does not support yet.
    """
    from driver.cel.selector import compile_selector as compile_  # noqa: PLC0415 - loads cel-python

    return compile_(expression, list_attributes=list_attributes)


def compile_terms(expression: str, *, list_attributes: bool = False) -> Terms:
    """The terms of an expression that must all hold; the same object for the same expression, while it is remembered.

    Raises:
        CelCompileError: As :func:`compile_selector`.
    """
    from driver.cel.terms import compile_terms as compile_  # noqa: PLC0415 - loads cel-python

    return compile_(expression, list_attributes=list_attributes)


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
