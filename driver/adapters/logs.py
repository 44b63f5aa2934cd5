"""Logs as ``key=value`` lines on stderr, through :mod:`logging`: one line per event, for people and collectors.

A line looks like ``time=2026-01-31T10:00:00.123Z level=info logger=kubeletplugin.main msg="claim prepared" uid=4f…``.
Each item of a call's ``extra={"uid": uid}`` becomes a pair.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final

from driver.errors import InputError

__all__ = ["LEVELS", "KeyValueFormatter", "configure"]

LEVELS: Final = ("debug", "info", "warning", "error")

_LONGEST: Final = 8192  # characters of a value: it may quote any text that a user has written into an object
_BARE: Final = re.compile(r"[A-Za-z0-9_.:/@+*,()-]+", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# A message that consists of pairs stays as it is: within msg="…" a log collector would not find them.
_PAIR: Final = r'[A-Za-z_][A-Za-z0-9_]*=(?:"(?:[^"\\]|\\.)*"|[^\s"]+)'
_PAIRS: Final = re.compile(rf"{_PAIR}(?: {_PAIR})*", re.ASCII)
# What every record has by itself (logging.LogRecord); all else came by ``extra``.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class KeyValueFormatter(logging.Formatter):
    """Formats a record as one line of ``key=value`` pairs; values with spaces or quotes are JSON strings.

    A value longer than 8,192 characters is cut.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end. A traceback is the value of ``traceback``, line feeds escaped."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = _cut(record.getMessage())
        are_pairs = message.isprintable() and _PAIRS.fullmatch(message) is not None
        rest = [(key, value) for key, value in vars(record).items() if key not in _OWN and _KEY.fullmatch(key)]
        if record.exc_info:
            rest.append(("traceback", self.formatException(record.exc_info)))
        return " ".join(
            (
                f"time={time} level={record.levelname.lower()} logger={record.name}",
                message if are_pairs else f"msg={_value(message)}",
                *(f"{key}={_value(value)}" for key, value in rest),
            )
        )


def configure(level: str) -> None:
    """Send the logs of this process to stderr, from ``level`` on, in place of former handlers.

    Libraries (urllib3 above all) log only warnings, at any level.

    Args:
        level: One of :data:`LEVELS`.

    Raises:
        InputError: There is no such level.
    """
    if level not in LEVELS:
        raise InputError(f"there is no log level {level!r}", hint=f"levels: {', '.join(LEVELS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for package in ("driver", "controller", "kubeletplugin"):
        logging.getLogger(package).setLevel(level.upper())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _value(value: object) -> str:
    text = _cut(str(value))
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=not text.isprintable())
