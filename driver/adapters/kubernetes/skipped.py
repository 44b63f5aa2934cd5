"""Counts and logs the objects that were left out because they could not be read or processed."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from driver.adapters.kubernetes.resources import Resource

__all__ = ["SkipReason", "SkippedObjects", "identity"]

_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 1024
_TEXT: Final = 300  # characters

SkipReason: TypeAlias = Literal["TooLarge", "Unreadable", "Failed"]
"""``TooLarge``: above the size limit; ``Unreadable``: no object of the API; ``Failed``: a bug of Rootport."""


class SkippedObjects:
    """Counts the objects skipped since the process started. Thread-safe, and of bounded size.

    Args:
        logs: Whether each is logged: not in a command, which prints :meth:`notes`.
    """

    def __init__(self, *, logs: bool = True) -> None:
        self._logs = logs
        self._lock = threading.Lock()
        self._counts = Counter[tuple[str, SkipReason]]()
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def skip(self, resource: Resource, reason: SkipReason, what: str, error: Exception | str) -> None:
        """Count an object that is skipped, and log it unless that was done before.

        Args:
            resource: The object's kind.
            reason: Why it is skipped.
            what: The object and its version (:func:`identity`): each is logged once, unless many others came since.
            error: What went wrong; for a bug of Rootport the traceback is logged.
        """
        with self._lock:
            self._counts[str(resource), reason] += 1
            key = (str(resource), what)
            is_known = key in self._logged
            self._logged[key] = None
            self._logged.move_to_end(key)
            if len(self._logged) > _REMEMBERED:
                self._logged.popitem(last=False)
        if is_known or not self._logs:
            return
        fields = {"resource": str(resource), "object": what, "reason": reason, "error": _shown(str(error))}
        if reason == "Failed":
            _LOG.error("object skipped", extra=fields, exc_info=error if isinstance(error, Exception) else None)
        else:
            _LOG.warning("object skipped", extra=fields)

    def so_far(self) -> Mapping[tuple[str, SkipReason], int]:
        """Return how many were skipped, by kind and reason; an object that comes again counts again."""
        with self._lock:
            return dict(self._counts)

    def notes(self) -> tuple[str, ...]:
        """Return a line for people for each kind of which objects were skipped."""
        kinds = Counter[str]()
        for (resource, _), count in self.so_far().items():
            kinds[resource] += count
        return tuple(f"{count} {resource} could not be read and are left out" for resource, count in kinds.items())


def identity(stored: object) -> str:
    """Identify a version of an object, as far as it has the fields: ``namespace/name@version``."""
    metadata = stored.get("metadata") if isinstance(stored, dict) else None
    if not isinstance(metadata, dict):
        return "(without metadata)"
    namespace, name = metadata.get("namespace"), metadata.get("name")
    text = f"{namespace}/{name}" if namespace else f"{name}"
    return _shown(f"{text}@{metadata.get('resourceVersion')}")


def _shown(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
