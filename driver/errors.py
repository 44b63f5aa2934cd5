"""Every error that Rootport raises on purpose, in one small tree: whose fault it is, and whether a retry helps.

``str(error)`` is one message for a person: what is wrong, where (file, line or field; claim, request, device), and
behind it, as ``hint``, what to do next. The CLI prints it as it is and exits with ``exit_code``; nothing else in the
tree ever reaches a user as a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

__all__ = ["LINES_SHOWN", "InputError", "NodeError", "RootportError", "UnsupportedError"]

LINES_SHOWN: Final = 20
"""The most errors that :meth:`InputError.of_all` writes out."""


class RootportError(Exception):
    """Base of all errors that Rootport raises on purpose.

    Args:
        message: What is wrong and where, in one sentence without a closing full stop.
        hint: What the reader can do next, if there is something.
    """

    exit_code: ClassVar[int] = 1
    retry_helps: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(RootportError):
    """What the user gave is wrong: a file, a claim, a class, a flag. A retry with the same input fails again."""

    exit_code = 2

    @classmethod
    def of_all(cls, errors: Sequence[str]) -> InputError:
        """Return one error for several, a line each; a list without end is cut."""
        lines = list(errors[:LINES_SHOWN])
        if len(errors) > len(lines):
            lines.append(f"and {len(errors) - len(lines)} more errors")
        return cls("\n".join(lines))


class UnsupportedError(InputError):
    """The input is valid for Kubernetes, but asks for something that this version of Rootport does not do yet."""


class NodeError(RootportError):
    """The node is in the way: a driver library is missing, a device does not answer, a folder cannot be written."""

    retry_helps = True
