"""How many streams each caller may have open: one user cannot take them all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final

from controller.serving.callers import Caller
from driver.adapters.http.exchange import Response

__all__ = ["StreamPlaces"]

_MOST_OF_ONE: Final = 8


class StreamPlaces:
    """Counts the streams of each caller, over all paths. Safe for threads.

    Args:
        most_of_one: How many one caller may have open at once.
    """

    def __init__(self, *, most_of_one: int = _MOST_OF_ONE) -> None:
        self._most_of_one = most_of_one
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def stream(
        self, caller: Caller, pieces: Iterator[bytes], *, content_type: str, headers: Mapping[str, str] | None = None
    ) -> Response:
        """The pieces as a stream; 429 where the caller has too many open.

        Args:
            caller: Who asks.
            pieces: Not begun yet.
            content_type: Of the stream.
            headers: Further ones of the stream.
        """
        with self._lock:
            if self._open[caller.username] >= self._most_of_one:
                text = f"you have {self._most_of_one} streams open already\n"
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
    """Tells when it is closed, also where it never began: a generator would not."""

    def __init__(self, pieces: Iterator[bytes], *, closed: Callable[[], None]) -> None:
        self._pieces = pieces
        self._closed: Callable[[], None] | None = closed

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()
