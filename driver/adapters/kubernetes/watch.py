"""A watch: the changes of one kind of object, until the server or a caller ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, cast, get_args

from driver.adapters.kubernetes.connection import MAX_OBJECT_BYTES
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.refusals import refusal_of_status
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.resources import JsonObject
from driver.adapters.kubernetes.skipped import SkippedObjects, SkipReason
from driver.adapters.kubernetes.transport import Answer, TransportError
from driver.bounded_json import JsonError, parse_foreign_json

__all__ = ["EventType", "WatchEvent", "WatchStream"]

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

_TYPES: Final = frozenset(get_args(EventType))
_CHUNK: Final = 64 * 1024
_SHOWN: Final = 200  # bytes of a line that is skipped
_CLOSE_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A change of an object.

    Attributes:
        type: What happened; a ``BOOKMARK`` only carries the watch's ``metadata.resourceVersion``.
        object: The object after the change; a deleted one in its last version.
    """

    type: EventType
    object: JsonObject


class WatchStream:
    """The events of one watch, in order; one thread iterates, any thread may close.

    The iteration ends when the server's time limit is reached or the stream is closed. A line that is too long or no
    event is skipped and does not end it: a new watch from the last version would bring the same line again.

    Args:
        request: The watch's request, for messages.
        answer: The open answer; the stream closes it.
        skipped: Gets the events that are skipped.

    Raises:
        ApiServerError: While iterating. ExpiredError: the resource version is too old, list anew. UnavailableError: the
            connection broke; watch again from the last version seen.
    """

    def __init__(self, request: Request, answer: Answer, skipped: SkippedObjects) -> None:
        self._request = request
        self._answer = answer
        self._skipped = skipped
        self._events = self._read()
        self._closed = threading.Event()
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        with self._reading:
            if self._closed.is_set():
                raise StopIteration
            try:
                return next(self._events)
            except StopIteration:
                raise
            except Exception as error:
                # A read that close() interrupts may fail in any way.
                if self._closed.is_set():
                    raise StopIteration from None
                if isinstance(error, TransportError | OSError | ValueError):
                    raise UnavailableError(f"cannot {self._request} any longer: the stream broke: {error}") from error
                raise

    def close(self) -> None:
        """End the stream and free its connection, at once even while another thread waits for an event."""
        self._closed.set()
        # Only a shutdown wakes a blocked read. It fails where there is nothing left to wake.
        with suppress(OSError, RuntimeError, ValueError):
            self._answer.shut_down()
        # To close while another thread reads would wait for that thread's buffer lock: it must wake first.
        if self._reading.acquire(timeout=_CLOSE_LIMIT_S):
            try:
                self._answer.close()
            finally:
                self._reading.release()

    def _read(self) -> Iterator[WatchEvent]:
        line, is_too_long = bytearray(), False
        for chunk in self._answer.chunks():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line += end
                if not is_too_long and (event := self._event(line)) is not None:
                    yield event
                line, is_too_long = bytearray(), False
            if is_too_long:
                continue
            line += rest
            if len(line) > MAX_OBJECT_BYTES:
                self._skip("TooLarge", line, f"longer than {MAX_OBJECT_BYTES} bytes")
                line, is_too_long = bytearray(), True

    def _event(self, line: bytearray) -> WatchEvent | None:
        """Return the event of a line; None for an empty line, and for one that is skipped."""
        if not line.strip():
            return None
        try:
            event, _ = parse_foreign_json(line, max_bytes=MAX_OBJECT_BYTES + _CHUNK)
        except JsonError as error:
            self._skip("Unreadable", line, str(error))
            return None
        kind, stored = (event.get("type"), event.get("object")) if isinstance(event, dict) else (None, None)
        if kind == "ERROR" and isinstance(stored, dict):
            raise refusal_of_status(self._request, stored)
        if not isinstance(kind, str) or kind not in _TYPES or not isinstance(stored, dict):
            self._skip("Unreadable", line, "no event of a known type")
            return None
        return WatchEvent(cast("EventType", kind), stored)

    def _skip(self, reason: SkipReason, line: bytearray, why: str) -> None:
        what = f"event {line[:_SHOWN].decode(errors='replace')}"
        self._skipped.skip(self._request.resource, reason, what, why)
