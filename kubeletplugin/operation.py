"""Gives each call of the kubelet an id for its log lines, and a ``key=value`` log line at its end."""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["Operation", "current_operation", "log_line"]

_CURRENT: Final[ContextVar[str]] = ContextVar("operation", default="-")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=@+-]+", re.ASCII)
_LOG: Final = logging.getLogger(__name__)


def current_operation() -> str:
    """Return the id of the operation that this thread works on, for log lines; ``-`` outside of one."""
    return _CURRENT.get()


def log_line(**fields: object) -> str:
    """Return ``key=value`` pairs on one line; values that are not plain are quoted as JSON: none can forge a line."""
    return " ".join(f"{key}={_value(value)}" for key, value in fields.items())


class Operation:
    """One call of the kubelet.

    Attributes:
        name: The method, for the log.
        id: Eight hexadecimal digits; every log line of the call carries them as ``op``.
    """

    __slots__ = ("_fields", "id", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = secrets.token_hex(4)
        self._fields: dict[str, object] = {}

    def note(self, **fields: object) -> None:
        """Add fields to the line that ends the operation."""
        self._fields.update(fields)

    @contextmanager
    def running(self) -> Iterator[Operation]:
        """Run the block as this operation: set the id, measure, write the log line."""
        token = _CURRENT.set(self.id)
        start = time.monotonic()
        try:
            yield self
        except BaseException as error:
            self.note(raised=type(error).__name__)
            raise
        finally:
            milliseconds = (time.monotonic() - start) * 1000
            _LOG.info("%s", log_line(call=self.name, op=self.id, **self._fields, ms=f"{milliseconds:.1f}"))
            _CURRENT.reset(token)


def _value(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
