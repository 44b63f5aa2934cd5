"""The server: one thread that reads and writes for all clients and never blocks, and a few threads that do the work.

A client that is slow, silent or broken costs a socket and what it has sent, never a thread. The bounds, and who loses
at each:

- open connections, per client and in all; memory for unread requests and untaken responses: beyond that, the client
  that has the most loses the connection that has been open longest;
- threads: clients are served round-robin, and paths may have threads of their own;
- large bodies: one at a time is read to its end;
- the time of a request in all, and how long a client may be silent.

One request per connection: no idle connections need watching, and a new certificate is used from the next one on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from driver.adapters.http.body_slot import LargeBodySlot
from driver.adapters.http.clients import client_of
from driver.adapters.http.connection import Channel, Connection, Phase, PlainChannel
from driver.adapters.http.event_loop import EventLoop
from driver.adapters.http.exchange import Request, Response, Route, longest_prefix
from driver.adapters.http.fairness import RecentUsage
from driver.adapters.http.http1 import BadRequestError, response_head
from driver.adapters.http.limits import Limits
from driver.adapters.http.open_connections import OpenConnections
from driver.adapters.http.request_reader import take_request
from driver.adapters.http.worker_pool import WorkerPool

__all__ = ["HttpServer"]

_LOG: Final = logging.getLogger(__name__)

_BACKLOG: Final = 512
_ACCEPTED_AT_ONCE: Final = 64
_ROUND_S: Final = 0.02  # after which new connections are accepted, and clients are ordered anew
_PAUSE_S: Final = 0.1  # between two checks of deadlines, and when no socket can be had
_LINGER_S: Final = 1.0
_SMALL_BYTES: Final = 32 * 1024  # buffers up to here are bounded by the number of connections
_LOG_INTERVAL_S: Final = 60.0


class HttpServer:
    """Answers requests with its routes, in a pool of threads.

    Args:
        port: The TCP port, on all addresses; 0 for any free one. Connections are accepted once it is started.
        routes: The routes by path prefix: ``/claims`` is for ``/claims`` and all below it. The longest match answers.
        limits: The server's bounds.
        name: The name of its threads.
        channel: Makes each connection's channel; None while connections are to be refused.

    Raises:
        OSError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Route],
        *,
        limits: Limits,
        name: str,
        channel: Callable[[], Channel] | None = PlainChannel,
    ) -> None:
        self._routes = routes
        self._limits = limits
        self._channel = channel
        self._listener = _listener(port)
        self._loop = EventLoop(name, self._run_once, self._close, log_fields={"port": self.port})
        self._selector = self._loop.selector
        self._open = OpenConnections()
        self._body_slot = LargeBodySlot()
        self._loop_time = RecentUsage()
        self._own_pools = {
            prefix: WorkerPool(f"{name}{prefix}", threads, self._work) for prefix, threads in limits.own_threads.items()
        }
        self._pool = WorkerPool(name, limits.threads, self._work)
        self._free_streams = threading.Semaphore(limits.streams)
        self._checked_at = self._logged_at = -math.inf

    @property
    def port(self) -> int:
        """The TCP port that it listens on."""
        return int(self._listener.getsockname()[1])

    def set_channel(self, channel: Callable[[], Channel]) -> None:
        """Make the channels of new connections with this function from now on."""
        self._channel = channel

    def start(self) -> None:
        """Start answering."""
        self._listener.settimeout(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._loop.start()

    def stop(self) -> None:
        """Stop at once: all connections are closed, and work under way is not waited for."""
        self._loop.stop()

    # In the loop's thread.

    def _run_once(self) -> None:
        """Wait for sockets and calls, and serve those that are ready."""
        ready: list[Connection] = []
        for connection in self._loop.ready(_PAUSE_S if self._open else None):
            if connection is None:
                self._accept()
            else:
                ready.append(connection)
        self._serve(ready)
        if (now := time.monotonic()) > self._checked_at + _PAUSE_S:
            self._checked_at = now
            self._close_overdue(now)

    def _serve(self, ready: list[Connection]) -> None:
        """Serve first the clients that have used least of this thread's time; the others stay ready."""
        now = began = time.monotonic()
        ready.sort(key=lambda each: self._loop_time.of(each.client, began))
        for connection in ready:
            self._guarded(connection, self._serve_one)
            before, now = now, time.monotonic()
            self._loop_time.add(connection.client, now - before, now)
            if now > began + _ROUND_S:
                return

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Keep an error of one connection from the others."""
        try:
            if connection.phase is not Phase.CLOSED:
                act(connection)
        except OSError:
            self._drop(connection)  # scanners and broken clients are not worth a log line
        except Exception:  # noqa: BLE001 - a bug that one connection meets must not close the others
            _LOG.exception("a connection failed", extra={"client": connection.client})
            self._drop(connection)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                plain, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # Mostly no descriptors are left; or the client has gone again.
                if not self._evict(self._open.oldest()):
                    time.sleep(_PAUSE_S)
                return
            if self._channel is None:
                plain.close()
            else:
                self._admit(plain, client_of(address[0]), self._channel)

    def _admit(self, plain: socket.socket, client: str, channel: Callable[[], Channel]) -> None:
        limits = self._limits
        if self._open.count(client) >= limits.connections_per_client:
            self._evict(self._open.oldest(client))
        if self._open.count() >= limits.connections:
            self._evict(self._open.oldest())
        connection = Connection(plain, client, channel, now=time.monotonic(), timeout_s=limits.timeout_s)
        self._open.add(connection)
        self._selector.register(plain, selectors.EVENT_READ, connection)

    def _serve_one(self, connection: Connection) -> None:
        """Go on with a connection whose client has sent something or can take something."""
        match connection.phase:
            case Phase.READING:
                self._read(connection)
            case Phase.WRITING:
                self._write(connection)
            case Phase.STREAMING:
                # The client has nothing more to send, so anything that arrives is taken for its end.
                if not connection.receive() or connection.inbox:
                    self._drop(connection)
                else:
                    self._write_piece(connection)
            case Phase.LINGERING:
                if not connection.discard():
                    self._drop(connection)

    def _read(self, connection: Connection) -> None:
        before = len(connection.inbox)
        is_open = connection.receive()
        if len(connection.inbox) != before:
            connection.last_activity = time.monotonic()
        try:
            request = take_request(connection, self._routes, self._limits)
            if request is None and connection.head is not None and not is_open:
                raise BadRequestError("the body ends before its Content-Length")  # noqa: TRY301 - one answer for all
        except BadRequestError as error:
            self._selector.unregister(connection.socket)
            self._answer(connection, Response.of_text(str(error), status=error.status))
            return
        if request is not None:
            self._submit(connection, request)
        elif not is_open:
            self._drop(connection)
        elif self._is_large(connection) and not self._body_slot.acquire(connection, time.monotonic()):
            self._selector.unregister(connection.socket)
        self._limit_memory(connection)

    def _is_large(self, connection: Connection) -> bool:
        return len(connection.inbox) > self._limits.small_body_bytes

    def _submit(self, connection: Connection, request: Request) -> None:
        connection.request = request
        self._selector.unregister(connection.socket)
        connection.last_activity = time.monotonic()
        pool = self._pool_of(request.path)
        try:
            pool.submit(connection)
        except RuntimeError:
            _LOG.warning("no thread can be started for a request", extra={"client": connection.client})
            pool.cancel(connection)
            answer = Response.busy("no thread can be started", status=HTTPStatus.SERVICE_UNAVAILABLE)
            self._answer(connection, answer)

    def _pool_of(self, path: str) -> WorkerPool:
        prefix = longest_prefix(self._own_pools, path)
        return self._pool if prefix is None else self._own_pools[prefix]

    def _release_body_slot(self, connection: Connection) -> None:
        following = self._body_slot.release(connection, time.monotonic())
        if following is not None:
            self._selector.register(following.socket, selectors.EVENT_READ, following)

    def _finish_work(self, pool: WorkerPool, connection: Connection, response: Response) -> None:
        """Send the answer that a thread of the pool has made."""
        self._release(pool, is_idle=True)
        self._guarded(connection, partial(self._answer, response=response))

    def _release(self, pool: WorkerPool, *, is_idle: bool) -> None:
        try:
            pool.release(is_idle=is_idle)
        except RuntimeError:
            _LOG.warning("no thread can be started: requests wait")

    def _answer(self, connection: Connection, response: Response) -> None:
        """Send the answer; the connection must not be registered with the selector."""
        self._release_body_slot(connection)
        connection.request = None
        connection.inbox = bytearray()
        head = response_head(response.status, _headers(response) | {"Content-Length": str(len(response.body))})
        connection.write(head + response.body)
        self._limit_memory(connection)
        connection.phase = Phase.WRITING
        connection.last_activity = time.monotonic()
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        before = connection.buffered_bytes
        is_all = connection.flush()
        if connection.buffered_bytes != before:
            connection.last_activity = time.monotonic()
        if is_all:
            self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        """Let the client close first: it might still be sending, and would then not read the answer."""
        connection.end()
        connection.phase = Phase.LINGERING
        connection.last_activity = time.monotonic()
        connection.deadline = connection.last_activity + _LINGER_S
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _drop(self, connection: Connection) -> None:
        """Close the connection, in any phase."""
        if connection.phase is Phase.CLOSED:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        if connection.phase is Phase.QUEUED and connection.request is not None:
            self._pool_of(connection.request.path).cancel(connection)
        self._open.remove(connection)
        connection.close()
        self._release_body_slot(connection)

    def _close_overdue(self, now: float) -> None:
        silence = now - self._limits.silence_s
        for connection in self._open:
            is_silent = connection.phase in {Phase.READING, Phase.WRITING} and connection.last_activity < silence
            if now > connection.deadline or is_silent:
                self._drop(connection)
            elif self._body_slot.has_timed_out(connection, now):
                self._guarded(
                    connection, partial(self._answer, response=Response.busy("too many large requests at once"))
                )
        if (slow := self._body_slot.slow_holder(now)) is not None:
            self._drop(slow)

    def _limit_memory(self, grown: Connection) -> None:
        """Close other connections where what is buffered exceeds its limit."""
        if grown.buffered_bytes > _SMALL_BYTES:
            for victim in self._open.over_memory(self._limits.buffered_bytes, spared=grown):
                self._evict(victim)

    def _evict(self, victim: Connection | None) -> bool:
        """Close a connection for the sake of others; return False if there is none."""
        if victim is None:
            return False
        now = time.monotonic()
        if victim.phase is not Phase.LINGERING and now > self._logged_at + _LOG_INTERVAL_S:
            self._logged_at = now
            _LOG.warning(
                "too much at once: connections are cut, of the client that has the most",
                extra={"client": victim.client, "port": self.port, "connections": self._open.count()},
            )
        self._drop(victim)
        return True

    def _close(self) -> None:
        for connection in self._open:
            self._drop(connection)
        for pool in (self._pool, *self._own_pools.values()):
            pool.stop()
        self._listener.close()

    def _begin_stream(self, pool: WorkerPool, connection: Connection) -> None:
        """Take the thread out of the pool, and the connection from among those that may be closed for others."""
        self._release(pool, is_idle=False)
        if connection.phase is Phase.CLOSED:
            return
        self._open.move_to_streams(connection)
        connection.request = None
        connection.phase = Phase.STREAMING
        connection.deadline = math.inf
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _begin_piece(self, connection: Connection, data: bytes, is_written: threading.Event) -> None:
        if connection.phase is not Phase.STREAMING:
            is_written.set()
            return
        connection.write(data, is_written)
        # Each piece of a stream has a deadline; between two pieces it is the server that takes time.
        connection.deadline = time.monotonic() + self._limits.timeout_s
        self._guarded(connection, self._write_piece)

    def _write_piece(self, connection: Connection) -> None:
        if connection.flush():
            connection.deadline = math.inf
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        else:
            self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _end_stream(self, connection: Connection) -> None:
        if connection in self._open.streams:
            self._open.add(connection)
            self._guarded(connection, self._finish)

    # In the pools' threads.

    def _work(self, pool: WorkerPool, connection: Connection) -> bool:
        """Make the answer; return whether the thread goes on with other requests."""
        request, head = connection.request, connection.head
        if request is None or head is None:  # cut a moment ago
            self._loop.call_soon(partial(self._release, pool, is_idle=True))
            return True
        response = self._response(request)
        stream = response.stream
        if stream is not None and not self._free_streams.acquire(blocking=False):
            _close(stream)
            stream = None
            response = Response.busy("too many streams are open", status=HTTPStatus.SERVICE_UNAVAILABLE, after_s=10)
        if stream is None:
            self._loop.call_soon(partial(self._finish_work, pool, connection, response))
            return True
        try:
            self._loop.call_soon(partial(self._begin_stream, pool, connection))
            self._send_stream(connection, response, stream, is_chunked=not head.is_http10)
        except Exception:  # noqa: BLE001 - the client sees the break, and the log says why
            _LOG.exception("a stream failed", extra={"path": request.path[:200]})
        finally:
            _close(stream)
            self._free_streams.release()
            self._loop.call_soon(partial(self._end_stream, connection))
        return False

    def _response(self, request: Request) -> Response:
        try:
            return self._routes[longest_prefix(self._routes, request.path) or ""](request)
        except Exception:  # noqa: BLE001 - a bug in a route must not look like a broken connection
            _LOG.exception("a request failed", extra={"path": request.path[:200]})
            return Response.of_text("internal error: the log says more", status=HTTPStatus.INTERNAL_SERVER_ERROR)

    def _send_stream(
        self, connection: Connection, response: Response, stream: Iterator[bytes], *, is_chunked: bool
    ) -> None:
        """Send each piece as a chunk, so that the client can tell an end from a break."""
        further = {"Transfer-Encoding": "chunked"} if is_chunked else {}
        if not self._send(connection, response_head(response.status, _headers(response) | further)):
            return
        for piece in stream:
            if piece and not self._send(connection, b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece):
                return
            if connection.phase is not Phase.STREAMING:
                return
        if is_chunked:
            self._send(connection, b"0\r\n\r\n")

    def _send(self, connection: Connection, data: bytes) -> bool:
        """Wait until the network has taken the data; return False if the client has gone."""
        is_written = threading.Event()
        self._loop.call_soon(partial(self._begin_piece, connection, data, is_written))
        while not is_written.wait(1.0):
            if self._loop.is_stopping:
                return False
        return connection.phase is Phase.STREAMING


def _listener(port: int) -> socket.socket:
    """Listen on IPv4 and IPv6 where the kernel has both: the kubelet probes the pod's own address.

    The standard library's HTTP server would look up the host's name in the DNS, which can take half a minute.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", port), backlog=_BACKLOG)


def _headers(response: Response) -> dict[str, str]:
    # A browser must not guess another type.
    return {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff", **response.headers}


def _close(stream: Iterator[bytes]) -> None:
    if close := getattr(stream, "close", None):
        close()
