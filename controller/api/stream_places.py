"""Limits how many streams each caller may have open, so that one user cannot use up all of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final

from controller.serving.callers import Caller
from driver.adapters.http.exchange import Response

__all__ = ["StreamPlaces"]

_MOST: Final = 8


class StreamPlaces:
    """Counts the streams of each caller, over all paths. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def stream(
        self, caller: Caller, pieces: Iterator[bytes], *, content_type: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the pieces as a stream; 429 if the caller has too many open.

        Args:
            caller: The caller.
            pieces: The pieces, of which none is read yet.
            content_type: The stream's content type.
            headers: The stream's further headers.
        """
        with self._lock:
            if self._open[caller.username] >= _MOST:
                text = f"you have {_MOST} streams open already\n"
                return Response(status=HTTPStatus.TOO_MANY_REQUESTS, body=text.encode(), headers={"Retry-After": "10"})
            self._open[caller.username] += 1
        stream = _Counted(pieces, closed=lambda: self._closed(caller.username))
        return Response(content_type=content_type, headers=headers or {}, stream=stream)

    def _closed(self, username: str) -> None:
        with self._lock:
            self._open[username] -= 1
            if not self._open[username]:
                del self._open[username]


class _Counted(Iterator[bytes]):
    """Calls back when it is closed, even if it was never read: a generator would not."""

    def __init__(self, pieces: Iterator[bytes], *, closed: Callable[[], None]) -> None:
        self._pieces = pieces
        self._closed: Callable[[], None] | None = closed

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
