"""What can be wrong with a device selector: its text (compile), or its evaluation against one device."""

from __future__ import annotations

from typing import Final

from driver.errors import InputError

__all__ = ["CelCompileError", "CelEvaluationError", "CelLimitError", "shortened"]

_SHOWN: Final = 160


def shortened(expression: str) -> str:
    """The expression on one line and short enough for a message."""
    line = " ".join(expression.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


class CelCompileError(InputError):
    """The expression cannot be a device selector: the API server would refuse it.

    Args:
        problem: What is wrong, without the expression.
        expression: The expression, in full.
        offset: Where in the expression (in characters), if at one place.
        hint: What to do about it.
    """

    def __init__(self, problem: str, expression: str, *, offset: int | None = None, hint: str | None = None) -> None:
        where = ""
        if offset is not None:
            before = expression[:offset]
            self.line = before.count("\n") + 1
            self.column = offset - (before.rfind("\n") + 1) + 1
            where = f" at line {self.line}, column {self.column}"
        super().__init__(f"CEL expression {shortened(expression)!r}: {problem}{where}", hint=hint)
        self.problem = problem
        self.expression = expression


class CelEvaluationError(InputError):
    """The expression has no answer for one device, for example because it reads an attribute that the device lacks.

    Args:
        problem: What is wrong, without the expression.
        expression: The expression, in full.
    """

    def __init__(self, problem: str, expression: str) -> None:
        super().__init__(f"CEL expression {shortened(expression)!r}: {problem}")
        self.problem = problem
        self.expression = expression


class CelLimitError(CelEvaluationError):
    """Rootport stopped the evaluation, because it took too much: what kube-scheduler would answer is not known.

    The device may be selected, or not, or the selector may end with an error: nothing may be concluded from this. Take
    it for the end of a search, not for a property of the device.
    """
