"""The errors of a device selector: in its text (compile), or in its evaluation against one device."""

from __future__ import annotations

from driver.errors import InputError
from driver.wording import short

__all__ = ["CelCompileError", "CelEvaluationError", "CelLimitError"]


class CelCompileError(InputError):
    """The expression cannot be a device selector: the API server would refuse it.

    Args:
        problem: What is wrong, without the expression.
        expression: The expression, in full.
        offset: The place in the expression, in characters, if there is one.
        hint: What to do about it.
    """

    def __init__(self, problem: str, expression: str, *, offset: int | None = None, hint: str | None = None) -> None:
        where = ""
        if offset is not None:
            before = expression[:offset]
            self.line = before.count("\n") + 1
            self.column = offset - (before.rfind("\n") + 1) + 1
            where = f" at line {self.line}, column {self.column}"
        super().__init__(f"CEL expression {short(expression)!r}: {problem}{where}", hint=hint)
        self.problem = problem
        self.expression = expression


class CelEvaluationError(InputError):
    """The expression has no value for one device, for example because the device lacks an attribute.

    Args:
        problem: What is wrong, without the expression.
        expression: The expression, in full.
    """

    def __init__(self, problem: str, expression: str) -> None:
        super().__init__(f"CEL expression {short(expression)!r}: {problem}")
        self.problem = problem
        self.expression = expression


class CelLimitError(CelEvaluationError):
    """Rootport stopped the evaluation at its own limits, so that kube-scheduler's result is not known.

    The device may be selected, or not, or the selector may end with an error: nothing follows from this. Treat it as
    the end of a search, not as a property of the device.
    """
