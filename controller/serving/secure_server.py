"""The controller's HTTPS server: the admission webhook's, and of what else is asked over the network.

Anybody in the cluster's network reaches it, and the API server shows no credentials to webhooks. So all that a client
can make it do is bounded: the size of a body, the time of a request, how many are answered at once, how many streams
are open, and how long a piece of one may take to be read. One request a connection: no idle connections must be
guarded, and a new certificate is in use from the next request on.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from controller.serving.bounded_server import POLL_S, READ_TIMEOUT_S, BoundedServer
from controller.serving.exchange import Request, Response, Route
from driver.errors import NodeError

__all__ = ["MAX_BODY_BYTES", "SecureServer"]

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""Of a request. The API server takes no larger request either (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

_LOG: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 15.0  # of a request in all, the TLS handshake included
_MAX_REQUESTS: Final = 32
_MAX_STREAMS: Final = 64
_MAX_QUERY_FIELDS: Final = 32


class SecureServer:
    """Answers requests over TLS 1.2 or newer. Until :meth:`use` has given it a certificate it takes no connection.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        routes: By path prefix: ``/claims`` is for ``/claims`` and all below it. The longest that fits answers.
        timeout_s: The limit for a request in all; then the connection is cut.
        max_requests: How many are answered at once; one thread each.
        max_streams: How many streams are open at once, besides; one thread each as well. The limit in time is then that
            of each piece.

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
        max_streams: int = _MAX_STREAMS,
    ) -> None:
        try:
            self._server = BoundedServer(
                port,
                routes,
                handler=_Handler,
                timeout_s=timeout_s,
                max_requests=max_requests,
                max_streams=max_streams,
            )
        except OSError as error:
            raise NodeError(f"cannot listen on port {port}: {error}", hint="choose another --https-port") from error
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
        """Take no more connections; requests under way are not waited for, streams are cut."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._server.cut_streams()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=POLL_S)


def _context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module reads files alone. This one is in memory: the key never reaches a disk, and the container's root
    # file system is read-only.
    descriptor = os.memfd_create("rootport-https")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


def _has_left(connection: socket.socket) -> bool:
    """Whether the client has closed its side. It has nothing more to say, so whatever comes is taken for that."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


class _Handler(BaseHTTPRequestHandler):
    server: BoundedServer
    timeout = READ_TIMEOUT_S
    protocol_version = "HTTP/1.1"
    server_version = "rootport"
    sys_version = ""
    disable_nagle_algorithm = True  # an event is a small piece, and is to be there at once

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Every new claim comes by: no log."""

    def _answer(self) -> None:
        self.close_connection = True
        response = self._response()
        if response.stream is not None:
            self._stream(response, response.stream)
            return
        self.server.answers(self.connection)
        self._head(response, {"Content-Length": str(len(response.body))})
        self.wfile.write(response.body)

    def _stream(self, response: Response, stream: Iterator[bytes]) -> None:
        """Each piece as a chunk, so that the client knows an end from a break."""
        try:
            if not self.server.begin_stream(self.connection):
                busy = _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many streams are open: try again later")
                self._head(busy, {"Content-Length": str(len(busy.body)), "Retry-After": "10"})
                self.wfile.write(busy.body)
                return
            is_chunked = self.request_version != "HTTP/1.0"
            self._head(response, {"Transfer-Encoding": "chunked"} if is_chunked else {})
            self.server.limit(self.connection, is_writing=False)
            for piece in stream:
                if piece:
                    self.server.limit(self.connection, is_writing=True)
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
                    self.server.limit(self.connection, is_writing=False)
                elif _has_left(self.connection):
                    return
            if is_chunked:
                self.server.limit(self.connection, is_writing=True)
                self.wfile.write(b"0\r\n\r\n")
        finally:
            if close := getattr(stream, "close", None):
                close()

    def _head(self, response: Response, further: Mapping[str, str]) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Connection", "close")
        # What is JSON or text stays that, whatever a browser thinks of it.
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in {**further, **response.headers}.items():
            self.send_header(name, value)
        self.end_headers()

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
