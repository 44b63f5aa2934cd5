"""The controller's HTTPS server: the admission webhook's, and of what else is asked over the network.

Anybody in the cluster's network reaches it, and the API server shows no credentials to webhooks. So all that a client
can make it do is bounded: the size of a body, the time of a request, and how many are answered at once. One request a
connection: no idle connections must be guarded, and a new certificate is in use from the next request on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from controller.serving.exchange import Request, Response, Route
from driver.errors import NodeError

__all__ = ["MAX_BODY_BYTES", "SecureServer"]

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""Of a request. The API server takes no larger request either (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

_LOG: Final = logging.getLogger(__name__)
_READ_TIMEOUT_S: Final = 5.0
_TIMEOUT_S: Final = 15.0  # of a request in all, the TLS handshake included
_MAX_REQUESTS: Final = 32
_BUSY_S: Final = 2.0  # how long a connection waits for a thread
_PATIENCE_S: Final = 1.0  # while others wait, who has not sent a whole request by then makes room
_POLL_S: Final = 0.25
_MAX_QUERY_FIELDS: Final = 32


class SecureServer:
    """Answers requests over TLS 1.2 or newer. Until :meth:`use` has given it a certificate it takes no connection.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        routes: By path prefix: ``/claims`` is for ``/claims`` and all below it. The longest that fits answers.
        timeout_s: The limit for a request in all; then the connection is cut.
        max_requests: How many are answered at once; one thread each.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Route],
        *,
        timeout_s: float = _TIMEOUT_S,
        max_requests: int = _MAX_REQUESTS,
    ) -> None:
        try:
            self._server = _Server(port, routes, timeout_s, max_requests)
        except OSError as error:
            raise NodeError(f"cannot listen on port {port}: {error}", hint="choose another --webhook-port") from error
        self._thread = threading.Thread(target=self._serve, name="https", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def use(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate from the next connection on.

        Args:
            certificate: PEM, with what it was issued by where clients need that.
            key: Its private key, PEM.

        Raises:
            ssl.SSLError: They do not belong together, or are no PEM.
        """
        self._server.context = _context(certificate, key)

    def start(self) -> None:
        """Listen; connections wait until there is a certificate."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections; requests under way are not waited for."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=_POLL_S)


def _context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module reads files alone. This one is in memory: the key never reaches a disk, and the container's root
    # file system is read-only.
    descriptor = os.memfd_create("rootport-webhook")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int, routes: Mapping[str, Route], timeout_s: float, max_requests: int) -> None:
        self.context: ssl.SSLContext | None = None
        self.routes = routes
        self._timeout_s = timeout_s
        self._free = threading.BoundedSemaphore(max_requests)
        self._lock = threading.Lock()
        self._deadlines: dict[ssl.SSLSocket, float] = {}
        self._reading: dict[ssl.SSLSocket, float] = {}  # since when
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the request's thread where one of the bounded number is free, soon."""
        for _ in range(int(_BUSY_S / _POLL_S)):
            if self._free.acquire(timeout=_POLL_S):
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
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        context = self.context
        if context is None:
            return  # no certificate yet: the pod is not ready, and who comes all the same comes again
        request.settimeout(_READ_TIMEOUT_S)
        tls = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._reading[tls] = now = time.monotonic()
            self._deadlines[tls] = now + self._timeout_s
        try:
            tls.do_handshake()
            super().finish_request(tls, client_address)
        finally:
            with self._lock:
                del self._deadlines[tls]
                self._reading.pop(tls, None)
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
            self._reading.pop(connection, None)

    def _make_room(self) -> None:
        """Others wait: cut who says little. The API server sends its reviews in milliseconds."""
        now = time.monotonic()
        with self._lock:
            for tls, began in self._reading.items():
                if now > began + _PATIENCE_S:
                    _cut(tls)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        """Port scanners, probes and broken clients are no news."""
        _LOG.debug("connection failed", exc_info=True, extra={"client": str(client_address[0])})


def _cut(tls: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):  # gone already
        socket.socket.shutdown(tls, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _READ_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "rootport"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Every new claim comes by: no log."""

    def _answer(self) -> None:
        self.close_connection = True
        response = self._response()
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Connection", "close")
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)

    def _response(self) -> Response:
        try:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS))
        except ValueError:
            return _refusal(HTTPStatus.BAD_REQUEST, "the URL cannot be read")
        route = _route(self.server.routes, url.path)
        if route is None:
            return _refusal(HTTPStatus.NOT_FOUND, "there is nothing here")
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self._body(headers)
        if isinstance(body, Response):
            return body
        self.server.has_read(self.connection)
        request = Request(method=self.command, path=url.path, query=query, headers=headers, body=body)
        try:
            return route(request)
        except Exception:  # noqa: BLE001 - one request's mistake must not look like a broken connection
            _LOG.exception("a request failed", extra={"path": url.path[:200]})
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: the controller's log says more")

    def _body(self, headers: Mapping[str, str]) -> bytes | Response:
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return _refusal(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            return _refusal(HTTPStatus.BAD_REQUEST, "the Content-Length is not a number")
        if int(length) > MAX_BODY_BYTES:
            return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY_BYTES} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return _refusal(HTTPStatus.BAD_REQUEST, "the body ends before its Content-Length")
        return body


def _route(routes: Mapping[str, Route], path: str) -> Route | None:
    fits = [prefix for prefix in routes if path == prefix or path.startswith(f"{prefix.rstrip('/')}/")]
    return routes[max(fits, key=len)] if fits else None


def _refusal(status: HTTPStatus, text: str) -> Response:
    return Response.of_text(text, status=status)
