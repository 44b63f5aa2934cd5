"""One thread that waits for sockets, and makes the calls that other threads hand over."""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["EventLoop"]

_LOG: Final = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1  # after an unexpected error


class EventLoop:
    """Runs one round after the other in a thread, until it is stopped.

    Args:
        name: The thread's name.
        run_once: Runs one round: it serves the sockets that :meth:`ready` returns. What it raises is logged.
        close: Called once, at the end.
        log_fields: Fields of the log lines.

    Attributes:
        selector: The sockets to wait for; only the loop's thread may use it.
        is_stopping: Whether the loop ends with this round.
    """

    def __init__(
        self, name: str, run_once: Callable[[], None], close: Callable[[], None], *, log_fields: dict[str, object]
    ) -> None:
        self.selector = selectors.DefaultSelector()
        self.is_stopping = False
        self._run_once = run_once
        self._close = close
        self._log_fields = log_fields
        self._waker, self._woken = socket.socketpair()
        self._calls: deque[Callable[[], None]] = deque()  # from other threads
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the loop, and wait for its end."""
        if self._thread.is_alive():
            self.call_soon(self._stop)
            self._thread.join()
        elif not self.is_stopping:
            self._end()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Have the loop's thread make the call; for any thread."""
        self._calls.append(call)
        with contextlib.suppress(OSError):  # it is awake anyway, or has ended
            self._waker.send(b"\0", socket.MSG_DONTWAIT)

    def ready(self, timeout_s: float | None) -> Iterator[Any]:
        """Wait for sockets and calls; make the calls, and yield the data with which ready sockets were registered.

        Args:
            timeout_s: The longest wait; None for no limit.
        """
        for key, _ in self.selector.select(timeout_s):
            if key.fileobj is self._woken:
                self._make_calls()
            else:
                yield key.data

    def _run(self) -> None:
        self._woken.settimeout(0)
        self.selector.register(self._woken, selectors.EVENT_READ)
        try:
            while not self.is_stopping:
                try:
                    self._run_once()
                except Exception:  # noqa: BLE001 - without this thread no client is answered any more
                    _LOG.exception("unexpected error; the server goes on", extra=self._log_fields)
                    time.sleep(_PAUSE_S)
        finally:
            self._end()

    def _make_calls(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._calls:
            self._calls.popleft()()

    def _stop(self) -> None:
        self.is_stopping = True

    def _end(self) -> None:
        self.is_stopping = True
        self._close()
        for own in (self._woken, self._waker, self.selector):
            own.close()
