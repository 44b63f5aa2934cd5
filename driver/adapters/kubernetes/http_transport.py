"""Sends requests with the standard library alone: see docs/dev/performance.md for what it saves each node.

It knows tokens, client certificates and the server's authority (:mod:`driver.adapters.kubernetes.credentials`). Proxies
and credential plugins are the official client's.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Final

from driver import __version__
from driver.adapters.kubernetes.credentials import Credentials
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.transport import CredentialsError, DroppedError, TlsError, TransportError

__all__ = ["HttpTransport"]

_CHUNK: Final = 64 * 1024
_CONNECTIONS_KEPT: Final = 8  # idle ones; more requests than that at once still get one each
# As client-go asks of the kernel: a watch may be silent for minutes, and only TCP's own probes notice a lost peer.
_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 9),
)


class HttpTransport:
    """The :class:`driver.adapters.kubernetes.transport.Transport` over ``http.client``.

    Args:
        credentials: The server's address, and how to be let in.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []

    def send(self, request: Request, timeout_s: float) -> _Answer:
        """As :meth:`Transport.send`."""
        body = None if request.body is None else json.dumps(request.body).encode()
        headers = {"Accept": request.accept, "User-Agent": f"rootport/{__version__}"}
        if body is not None:
            headers["Content-Type"] = request.content_type
        try:
            token = self._credentials.token()
        except (OSError, ValueError) as error:
            raise CredentialsError(str(error)) from error
        if token:
            headers["Authorization"] = f"Bearer {token}"
        connection = self._connected(timeout_s)
        try:
            connection.request(request.method, f"{self._credentials.prefix}{request.target}", body, headers)
            response = connection.getresponse()
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            raise _failure(error) from error
        return _Answer(connection, response, self)

    def close(self) -> None:
        """As :meth:`Transport.close`."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def put_back(self, connection: _Connection) -> None:
        """Keep a connection whose answer was read, for the next request."""
        with self._lock:
            if len(self._idle) < _CONNECTIONS_KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def _connected(self, timeout_s: float) -> _Connection:
        """Return an idle connection, the last used one first, or a new one."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            if connection.is_usable():
                connection.set_timeout(timeout_s)
                return connection
            connection.close()
        connection = _Connection(self._credentials, timeout_s)
        try:
            connection.connect()
        except (OSError, HTTPException, ValueError) as error:
            connection.close()
            if isinstance(error, ssl.SSLError):
                raise TlsError(str(error)) from error
            raise TransportError(_text(error)) from error
        return connection


class _Connection(HTTPConnection):
    """One connection, by TLS where the server's address says so."""

    def __init__(self, credentials: Credentials, timeout_s: float) -> None:
        super().__init__(credentials.host, credentials.port, timeout=timeout_s)
        self._credentials = credentials

    def connect(self) -> None:
        """Connect; what is sent is never delayed to be joined with more (TCP_NODELAY, http.client's own)."""
        # A name as bytes is taken as it is; as text it would go through IDNA, whose tables are a megabyte.
        host: Any = self._credentials.host.encode("ascii")  # which typeshed's stubs do not know
        self.sock = socket.create_connection((host, self.port), self.timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in _KEEP_ALIVE:
            self.sock.setsockopt(*option)
        context = self._credentials.tls()
        if context is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname=self._credentials.server_name.encode("ascii"))

    def set_timeout(self, seconds: float) -> None:
        """Set the limit of each wait."""
        self.sock.settimeout(seconds)

    def is_usable(self) -> bool:
        """Whether the server has kept the connection: nothing, not even its end, can be read from it."""
        try:
            poll = select.poll()
            poll.register(self.sock, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False


class _Answer:
    """The :class:`driver.adapters.kubernetes.transport.Answer` of a connection."""

    def __init__(self, connection: _Connection, response: HTTPResponse, transport: HttpTransport) -> None:
        self._connection = connection
        # The connection forgets it where the answer is its last one.
        self._socket = connection.sock
        self._response = response
        self._transport = transport
        self._is_over = False

    @property
    def status(self) -> int:
        return self._response.status

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    def chunks(self) -> Iterator[bytes]:
        try:
            while chunk := self._response.read1(_CHUNK):
                yield chunk
            if self._response.length:  # read1() does not mind
                raise DroppedError(f"{self._response.length} bytes of the answer are missing")
        except (OSError, HTTPException, ValueError) as error:
            raise _failure(error) from error
        else:
            self._end()
        finally:
            self.close()  # where nobody read to the end

    def set_silence(self, seconds: float) -> None:
        if self._socket is not None and not self._is_over:
            self._socket.settimeout(seconds)

    def shut_down(self) -> None:
        # Once all was read, the connection is in the pool, or another request's.
        if self._socket is not None and not self._is_over:
            self._socket.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            with suppress(OSError, ValueError):
                self._response.close()
            self._connection.close()

    def _end(self) -> None:
        if self._is_over or self._response.will_close:
            return
        self._is_over = True
        self._response.close()
        self._transport.put_back(self._connection)


def _failure(error: Exception) -> TransportError:
    """Return the error for a request that was sent, or begun to be."""
    if isinstance(error, ConnectionError | HTTPException | ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return DroppedError(_text(error))
    # With TLS 1.3 the server refuses a client's certificate only after the handshake.
    kind = TlsError if isinstance(error, ssl.SSLError) else TransportError
    return kind(_text(error))


def _text(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return "timed out" if isinstance(error, TimeoutError) else text
