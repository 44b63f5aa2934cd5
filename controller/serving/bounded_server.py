"""Connections to the HTTPS server: how many, for how long, and who makes room for others."""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from controller.serving.exchange import Route

__all__ = ["POLL_S", "READ_TIMEOUT_S", "BoundedServer"]

_LOG: Final = logging.getLogger(__name__)
READ_TIMEOUT_S: Final = 5.0
"""How long a client may say, or take, nothing at all."""

POLL_S: Final = 0.25
"""How often deadlines are looked at."""

_BUSY_S: Final = 2.0  # how long a connection waits for a thread
_PATIENCE_S: Final = 1.0  # while others wait, who has not sent a whole request, or read its answer, makes room


class BoundedServer(ThreadingHTTPServer):
    """Takes connections, wraps them in TLS, and hands them to a handler, a thread each.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        routes: For the handler.
        handler: Answers a connection's one request, and tells of its steps: :meth:`has_read`, :meth:`answers`,
            :meth:`begin_stream`, :meth:`limit`.
        timeout_s: The limit for a request in all, and for each piece of a stream.
        max_requests: How many are answered at once.
        max_streams: How many streams are open besides.

    Raises:
        OSError: The port is taken.

    Attributes:
        context: What is shown; without it nobody is answered.
        routes: As given.
    """

    daemon_threads = True
    request_queue_size = 128
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Route],
        *,
        handler: type[BaseHTTPRequestHandler],
        timeout_s: float,
        max_requests: int,
        max_streams: int,
    ) -> None:
        self.context: ssl.SSLContext | None = None
        self.routes = routes
        self._timeout_s = timeout_s
        self._free = threading.BoundedSemaphore(max_requests)
        self._free_streams = threading.BoundedSemaphore(max_streams)
        self._lock = threading.Lock()
        self._deadlines: dict[ssl.SSLSocket, float] = {}
        self._waiting_for: dict[ssl.SSLSocket, float] = {}  # since when the client has to send or to read
        self._streams: set[ssl.SSLSocket] = set()
        self._streaming = threading.local()
        super().__init__(("", port), handler)

    def server_bind(self) -> None:
        """Take IPv4 and IPv6 on one socket."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the request's thread where one of the bounded number is free, soon."""
        for _ in range(int(_BUSY_S / POLL_S)):
            if self._free.acquire(timeout=POLL_S):
                try:
                    super().process_request(request, client_address)
                except RuntimeError:
                    self._free.release()  # the thread did not start, so it cannot
                    raise
                return
            self.service_actions()
            self._make_room()
        _LOG.warning("connection closed unanswered: too many requests at once")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then give the thread's place back: of the streams' places where it became one."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            (self._free_streams if getattr(self._streaming, "here", False) else self._free).release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer over TLS, within the limits."""
        context = self.context
        if context is None:
            return  # no certificate yet: the pod is not ready, and who comes all the same comes again
        request.settimeout(READ_TIMEOUT_S)
        tls = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._waiting_for[tls] = now = time.monotonic()
            self._deadlines[tls] = now + self._timeout_s
        try:
            tls.do_handshake()
            super().finish_request(tls, client_address)
        finally:
            with self._lock:
                del self._deadlines[tls]
                self._waiting_for.pop(tls, None)
                self._streams.discard(tls)
            self.shutdown_request(tls)

    def service_actions(self) -> None:
        """Called a few times a second: cut the connections that take too long."""
        now = time.monotonic()
        with self._lock:
            for tls, deadline in self._deadlines.items():
                if now > deadline:
                    # Not SSLSocket's own, which would leave its thread to go on without encryption.
                    _cut(tls)

    def has_read(self, connection: Any) -> None:
        """The connection's request is there in whole: from now on it is our work that takes time."""
        with self._lock:
            self._waiting_for.pop(connection, None)

    def answers(self, connection: Any) -> None:
        """The answer is there: from now on it is the client that takes time."""
        with self._lock:
            self._waiting_for[connection] = time.monotonic()

    def begin_stream(self, connection: Any) -> bool:
        """Whether one more stream may be open. Then its thread is none of those that answer requests any more."""
        if not self._free_streams.acquire(blocking=False):
            return False
        self._streaming.here = True
        self._free.release()
        with self._lock:
            self._streams.add(connection)
            self._waiting_for.pop(connection, None)
        return True

    def limit(self, connection: Any, *, is_writing: bool) -> None:
        """Of a stream each piece has its time; between two pieces it is our work that takes time."""
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._timeout_s if is_writing else math.inf

    def cut_streams(self) -> None:
        """End all streams."""
        with self._lock:
            for tls in self._streams:
                _cut(tls)

    def _make_room(self) -> None:
        """Others wait: cut who says little, or reads slowly. The API server sends its reviews in milliseconds."""
        now = time.monotonic()
        with self._lock:
            for tls, began in self._waiting_for.items():
                if now > began + _PATIENCE_S:
                    _cut(tls)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        """Port scanners, probes and broken clients are no news."""
        _LOG.debug("connection failed", exc_info=True, extra={"client": str(client_address[0])})


def _cut(tls: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):  # gone already
        socket.socket.shutdown(tls, socket.SHUT_RDWR)
