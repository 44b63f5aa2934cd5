"""Distinguishes this process's own writes of Device objects from others' when the watch shows them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Final

from controller.cluster.stored_devices import (
    applied_digest,
    has_status,
    is_same_but_status,
    is_same_status,
    status_digest,
)
from driver.adapters.kubernetes.resources import JsonObject

__all__ = ["ExpectedDevices"]

_UNWRITTEN: Final = status_digest({"state": "Unknown"})  # the CRD's default


@dataclass(frozen=True, slots=True)
class _Expected:
    applied: str | None = None
    status: bytes | None = None


class ExpectedDevices:
    """What was written and has not been seen yet, by the objects' names. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: dict[str, _Expected] = {}

    def expect(self, name: str, *, applied: str | None = None, status: JsonObject | None = None) -> None:
        """Remember what is about to be written.

        Args:
            name: The object's name.
            applied: The digest of its applied specification; None if that is not written.
            status: Its status; None likewise.
        """
        with self._lock:
            found = self._expected.get(name, _Expected())
            if applied is not None:
                found = replace(found, applied=applied)
            if status is not None:
                found = replace(found, status=status_digest(status))
            self._expected[name] = found

    def is_own(self, name: str, known: JsonObject | None, seen: JsonObject | None) -> bool:
        """Return whether a change is this process's own, so that nothing has to be done about it.

        Specification and status are two writes, and the watch shows the object between them as well. So each of the
        two is what was expected, or as it was.

        Args:
            name: The object's name.
            known: What :func:`transform_device` kept before; None if the object is new.
            seen: What it keeps now; None if the object is gone.
        """
        with self._lock:
            expected = self._expected.pop(name, None)
            if expected is None or seen is None:
                return False
            has_spec = applied_digest(seen) == expected.applied
            has_new_status = has_status(seen, expected.status)
            is_own = (has_spec or is_same_but_status(known, seen)) and (has_new_status or _has_old_status(known, seen))
            is_complete = (has_spec or expected.applied is None) and (has_new_status or expected.status is None)
            if is_own and not is_complete:
                self._expected[name] = expected
            return is_own


def _has_old_status(known: JsonObject | None, seen: JsonObject) -> bool:
    return has_status(seen, _UNWRITTEN) if known is None else is_same_status(known, seen)
