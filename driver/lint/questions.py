"""Evaluates expressions of what is linted.

What is linted may come from anybody, and no API server has looked at it: so nothing is evaluated that the API server
would refuse, and the rest in small portions.
"""

from __future__ import annotations

from typing import Final

from driver.api.resource_v1 import Device
from driver.budget import check
from driver.cel import CelCompileError, CelLimitError, Limits, Terms, compile_selector, compile_terms

__all__ = ["ask", "terms_of"]

_QUESTION: Final = Limits(steps=10_000, memory=2**20, seconds=0.05)
"""The limits of one evaluation. An expression that somebody means takes some dozen steps."""


def terms_of(expression: str) -> Terms | None:
    """Return the terms of an expression; None if the API server refuses it, which is another finding.

    Raises:
        SpentError: The budget in force is spent.
    """
    check()
    try:
        compile_selector(expression).check_cost()
        return compile_terms(expression)
    except CelCompileError:
        return None


def ask(expression: str, driver: str, device: Device) -> bool | None:
    """Return the expression's answer for a device; None if it takes too much, or the API server refuses it.

    Raises:
        CelEvaluationError: It has no answer.
        SpentError: The budget in force is spent.
    """
    check()
    try:
        selector = compile_selector(expression)
        selector.check_cost()
        return selector.matches(driver, device, _QUESTION)
    except (CelCompileError, CelLimitError):
        return None
