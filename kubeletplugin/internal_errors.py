"""Unexpected errors: each concerns one object, is logged and counted, and ends neither a thread nor the process.

Code that works on one claim, device or file of several does so inside of :func:`guarded`; a loop does the same around
its whole action. The errors are counted by part of the plugin, for the whole process.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from driver.errors import NodeError, RootportError

__all__ = ["InternalError", "guarded", "internal_error", "internal_errors", "summary"]

_LOG: Final = logging.getLogger(__name__)
_HINT: Final = "this is a mistake in Rootport: report it with the log of the kubelet plugin on this node"
_MAX_TEXT: Final = 500
_MOST_KNOWN: Final = 1024

_lock: Final = threading.Lock()
_counts: Final[Counter[str]] = Counter()
_known: Final[set[tuple[str, str, str]]] = set()


class InternalError(NodeError):
    """A mistake in Rootport kept something from being done for one object; it is tried again, and others go on."""


def internal_error(part: str, subject: str, error: BaseException) -> InternalError:
    """Log an unexpected error, with its traceback if it is new, and count it for the metrics.

    Args:
        part: The part of the plugin, one of few: a label of the metric.
        subject: The object that was worked on, such as ``claim a/b (uid …)``.
        error: The exception.

    Returns:
        The error to raise or report.
    """
    text = f"{type(error).__name__}: {error}"[:_MAX_TEXT]
    key = (part, subject, text)
    with _lock:
        _counts[part] += 1
        is_new = key not in _known
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known.add(key)
    fields = {"part": part, "subject": subject, "error": text}
    if is_new:
        _LOG.error("an error that was not expected", extra=fields, exc_info=error)
    else:
        _LOG.debug("an error that was not expected, as before", extra=fields)
    return InternalError(f"{subject}: the plugin failed unexpectedly: {text}", hint=_HINT)


@contextmanager
def guarded(part: str, subject: object) -> Iterator[None]:
    """Turn an unexpected exception of the block into an :class:`InternalError` that concerns its subject alone.

    Args:
        part: As for :func:`internal_error`.
        subject: Likewise.

    Raises:
        RootportError: What the block raises on purpose, as it is; an InternalError in place of any other exception.
    """
    try:
        yield
    except RootportError:
        raise
    except Exception as error:
        raise internal_error(part, str(subject), error) from error


def summary(message: str, errors: Sequence[RootportError]) -> NodeError:
    """Return one error for those of several objects; an InternalError if one of them is.

    Args:
        message: What could not be done, and for how many.
        errors: At least one; the message contains the first.
    """
    first = next((error for error in errors if isinstance(error, InternalError)), errors[0])
    kind = InternalError if isinstance(first, InternalError) else NodeError
    return kind(f"{message}, the first: {first.message}", hint=first.hint)


def internal_errors() -> Mapping[str, int]:
    """Return the number of unexpected errors since the process was started, by part."""
    with _lock:
        return dict(_counts)
