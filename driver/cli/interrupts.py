"""Handles Ctrl-C: the command ends quietly, with exit code 130, at any time.

Imports next to nothing, as it is in force before the imports that take their time.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final, NoReturn

__all__ = ["EXIT_CODE", "MESSAGE", "end", "ends_at_once", "happened", "raises"]

EXIT_CODE: Final = 130
MESSAGE: Final = "rootport: interrupted"

_happened: list[bool] = []


def ends_at_once() -> None:
    """End the process at once on Ctrl-C, for times in which nothing is half done: before and after a command."""
    signal.signal(signal.SIGINT, _end)


def raises() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, so that everything half done is cleaned up."""
    signal.signal(signal.SIGINT, _raise)


def happened() -> bool:
    """Whether Ctrl-C was pressed; code in between may have taken the KeyboardInterrupt for an error."""
    return bool(_happened)


def end() -> NoReturn:
    """Say that the command was interrupted, and exit."""
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(EXIT_CODE)


def _end(_signal: int, _frame: FrameType | None) -> None:
    end()


def _raise(_signal: int, _frame: FrameType | None) -> None:
    _happened.append(True)
    raise KeyboardInterrupt
