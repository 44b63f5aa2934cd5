"""A watch: the changes of one kind of object, as the API server tells them, until it ends or somebody closes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, cast, get_args

from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError

from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.refusals import refusal_of_status
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.resources import JsonObject

__all__ = ["EventType", "WatchEvent", "WatchStream"]

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]

_TYPES: Final = frozenset(get_args(EventType))
_CHUNK: Final = 64 * 1024
_CLOSE_LIMIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change.

    Attributes:
        type: What happened; a ``BOOKMARK`` only tells how far the watch has come, by its ``metadata.resourceVersion``.
        object: The object after the change; a deleted one as it was last.
    """

    type: EventType
    object: JsonObject


class WatchStream:
    """The events of one watch, in order; one thread iterates, any thread may close.

    The iteration ends when the server's time limit is reached or the stream is closed.

    Args:
        request: What is watched, for messages.
        response: The open answer; the stream closes it.

    Raises:
        ApiServerError: While iterating. ExpiredError: the resource version is too old, list anew. UnavailableError: the
            connection broke; watch again from the last version seen.
    """

    def __init__(self, request: Request, response: HTTPResponse) -> None:
        self._request = request
        self._response = response
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
                # A read that close() cuts off may fail in any way: what it stood on is gone.
                if self._closed.is_set():
                    raise StopIteration from None
                if isinstance(error, HTTPError | OSError | ValueError):
                    raise UnavailableError(f"cannot {self._request} any longer: the stream broke: {error}") from error
                raise

    def close(self) -> None:
        """End the stream and free its connection, at once even while another thread waits for an event."""
        self._closed.set()
        # Only a shutdown wakes a blocked read. It fails where there is nothing left to wake.
        with suppress(OSError, RuntimeError, ValueError):
            self._response.shutdown()
        # To close while another thread reads would wait for that thread's buffer lock: it must wake first.
        if self._reading.acquire(timeout=_CLOSE_LIMIT_S):
            try:
                self._response.close()
            finally:
                self._reading.release()

    def _read(self) -> Iterator[WatchEvent]:
        line = bytearray()
        for chunk in self._response.stream(_CHUNK):
            first, *others = chunk.split(b"\n")
            line += first
            for other in others:
                if line.strip():
                    yield self._event(bytes(line))
                line = bytearray(other)

    def _event(self, line: bytes) -> WatchEvent:
        event = json.loads(line)
        kind, stored = (event.get("type"), event.get("object")) if isinstance(event, dict) else (None, None)
        if kind == "ERROR" and isinstance(stored, dict):
            raise refusal_of_status(self._request, stored)
        if kind not in _TYPES or not isinstance(stored, dict):
            raise ValueError(f"an event of unknown type {kind!r}")
        return WatchEvent(cast("EventType", kind), stored)
