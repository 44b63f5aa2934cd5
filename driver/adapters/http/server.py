"""The server: one thread that reads and writes for all clients and waits for none, and few threads that do the work.

A client that is slow, silent or broken costs a socket and what it has sent, never a thread. What is bounded, and who
gives way:

- open connections, of one source and in all; memory for what was sent and not read: beyond that, the source that has
  the most loses the connection that its client has kept waiting longest;
- threads: each source has its turn, and paths may have threads of their own;
- large bodies: one at a time is read to its end;
- the time of a request in all, and how long a client may say nothing.

One request a connection: no idle connections must be guarded, and a new certificate is in use from the next one on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from driver.adapters.http.connection import Channel, Connection, Phase, PlainChannel
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.http.head import END_OF_HEAD, BadRequestError, RequestHead, parse_head, response_head
from driver.adapters.http.lane import Lane
from driver.adapters.http.large_bodies import LargeBodies
from driver.adapters.http.limits import Limits
from driver.adapters.http.room import in_excess, oldest_of_the_most
from driver.adapters.http.sources import source_of
from driver.adapters.http.spent import Spent

__all__ = ["HttpServer"]

_LOG: Final = logging.getLogger(__name__)

_BACKLOG: Final = 512
_ACCEPTED_AT_ONCE: Final = 64
_TURN_S: Final = 0.02  # then new connections are accepted, and it is decided anew who comes first
_PAUSE_S: Final = 0.1  # between two looks at deadlines, and where no socket can be had
_LINGER_S: Final = 1.0
_SMALL_BYTES: Final = 32 * 1024  # what has no more in memory is bounded by the number of connections
_MAX_QUERY_FIELDS: Final = 32
_TOLD_S: Final = 60.0
_METHODS: Final = frozenset({"GET", "POST"})


class HttpServer:
    """Answers requests by its routes, each of them in a thread.

    Args:
        port: TCP port, on all addresses; 0 for any free one. Connections are accepted once it is started.
        routes: By path prefix: ``/claims`` is for ``/claims`` and all below it. The longest that fits answers.
        limits: What it takes upon itself.
        name: Of its threads.
        channel: Makes what is between network and HTTP; None while connections are to be refused.

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
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._connections: dict[Connection, None] = {}  # in the order in which they came; streams are not among them
        self._of_source: dict[str, dict[Connection, None]] = {}
        self._streams: set[Connection] = set()
        self._large_bodies = LargeBodies()
        self._spent = Spent()
        self._lanes = {
            prefix: Lane(f"{name}{prefix}", threads, self._work) for prefix, threads in limits.own_threads.items()
        }
        self._lane = Lane(name, limits.threads, self._work)
        self._free_streams = threading.Semaphore(limits.streams)
        self._jobs: deque[Callable[[], None]] = deque()  # for the loop, by other threads
        self._is_stopping = False
        self._looked_at = self._told_at = -math.inf
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def use(self, channel: Callable[[], Channel]) -> None:
        """From the next connection on, this is what makes what is between network and HTTP."""
        self._channel = channel

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End at once: all connections are closed, and work under way is not waited for."""
        if self._thread.is_alive():
            self._post(self._stop)
            self._thread.join()
        elif not self._is_stopping:
            self._close()

    # In the loop's thread.

    def _run(self) -> None:
        for own in (self._listener, self._woken):
            own.settimeout(0)
            self._selector.register(own, selectors.EVENT_READ)
        try:
            while not self._is_stopping:
                try:
                    self._turn()
                except Exception:  # noqa: BLE001 - without this thread nobody is answered any more
                    _LOG.exception("unexpected error; the server goes on", extra={"port": self.port})
                    time.sleep(_PAUSE_S)
        finally:
            self._close()

    def _turn(self) -> None:
        """Do what can be done now."""
        is_busy = self._connections or self._streams
        ready: list[Connection] = []
        for key, _ in self._selector.select(_PAUSE_S if is_busy else None):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                self._do_jobs()
            else:
                ready.append(key.data)
        self._serve(ready)
        if (now := time.monotonic()) > self._looked_at + _PAUSE_S:
            self._looked_at = now
            self._cut_overdue(now)

    def _serve(self, ready: list[Connection]) -> None:
        """Whose source has taken the least of this thread's time comes first; who is left is ready in the next turn."""
        now = began = time.monotonic()
        ready.sort(key=lambda each: self._spent.of(each.source, began))
        for connection in ready:
            self._guarded(connection, self._served)
            before, now = now, time.monotonic()
            self._spent.add(connection.source, now - before, now)
            if now > began + _TURN_S:
                return

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Nothing about one connection may end the others."""
        try:
            if connection.phase is not Phase.CLOSED:
                act(connection)
        except OSError:
            self._drop(connection)  # scanners and broken clients are no news
        except Exception:  # noqa: BLE001 - a mistake of ours about one connection is none about the others
            _LOG.exception("a connection failed", extra={"client": connection.source})
            self._drop(connection)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                plain, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # No descriptors are left, mostly; a client that has gone again is the other case.
                if not self._make_room(self._connections):
                    time.sleep(_PAUSE_S)
                return
            if self._channel is None:
                plain.close()
            else:
                self._welcome(plain, source_of(address[0]), self._channel)

    def _welcome(self, plain: socket.socket, source: str, channel: Callable[[], Channel]) -> None:
        limits = self._limits
        if len(of_source := self._of_source.get(source, {})) >= limits.connections_of_source:
            self._make_room(of_source)
        if len(self._connections) >= limits.connections:
            self._make_room(self._connections)
        connection = Connection(plain, source, channel, now=time.monotonic(), timeout_s=limits.timeout_s)
        self._add(connection)
        self._selector.register(plain, selectors.EVENT_READ, connection)

    def _served(self, connection: Connection) -> None:
        """Its client has sent something, or takes something."""
        match connection.phase:
            case Phase.READING:
                self._read(connection)
            case Phase.WRITING:
                self._write(connection)
            case Phase.STREAMING:
                # It has nothing more to say, so whatever it says is taken for its leaving.
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
            connection.since = time.monotonic()
        if connection.head is None:
            at = connection.find(END_OF_HEAD)
            if (at if at >= 0 else len(connection.inbox)) > self._limits.head_bytes:
                self._refuse(connection, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
                return
            if at >= 0 and not self._take_head(connection, at):
                return
        if connection.head is not None and len(connection.inbox) >= connection.head.body_bytes:
            self._take_request(connection, connection.head)
        elif not is_open:
            if connection.head is None:
                self._drop(connection)
            else:
                self._refuse(connection, HTTPStatus.BAD_REQUEST, "the body ends before its Content-Length")
        elif self._is_large(connection) and not self._large_bodies.take(connection, time.monotonic()):
            self._selector.unregister(connection.socket)
        self._relieve(connection)

    def _is_large(self, connection: Connection) -> bool:
        return len(connection.inbox) > self._limits.small_body_bytes

    def _take_head(self, connection: Connection, at: int) -> bool:
        """Whether the request is one that can be answered when its body is there."""
        try:
            head = parse_head(bytes(connection.inbox[:at]))
            path = urlsplit(head.target).path
        except BadRequestError as error:
            self._refuse(connection, error.status, str(error))
        except ValueError:
            self._refuse(connection, HTTPStatus.BAD_REQUEST, "the URL cannot be read")
        else:
            del connection.inbox[: at + len(END_OF_HEAD)]
            connection.head = head
            if head.method not in _METHODS:
                self._refuse(connection, HTTPStatus.NOT_IMPLEMENTED, "only GET and POST are answered here")
            elif _longest(self._routes, path) is None:
                self._refuse(connection, HTTPStatus.NOT_FOUND, "there is nothing here")
            elif head.body_bytes > self._limits.body_bytes:
                text = f"expected at most {self._limits.body_bytes} bytes"
                self._refuse(connection, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            else:
                if head.headers.get("expect", "").lower() == "100-continue" and not connection.inbox:
                    connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    connection.flush()
                return True
        return False

    def _take_request(self, connection: Connection, head: RequestHead) -> None:
        try:
            url = urlsplit(head.target)
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS))
        except ValueError:
            self._refuse(connection, HTTPStatus.BAD_REQUEST, "the URL cannot be read")
            return
        connection.request = Request(
            method=head.method,
            path=url.path,
            query=query,
            headers=head.headers,
            body=bytes(memoryview(connection.inbox)[: head.body_bytes]),
            source=connection.source,
        )
        connection.inbox = bytearray()
        self._selector.unregister(connection.socket)
        connection.since = time.monotonic()
        try:
            self._lane_of(url.path).put(connection)
        except RuntimeError:
            _LOG.warning("no thread can be started for a request", extra={"client": connection.source})
            self._lane_of(url.path).remove(connection)
            self._answer(connection, _busy("no thread can be started", HTTPStatus.SERVICE_UNAVAILABLE))

    def _lane_of(self, path: str) -> Lane:
        prefix = _longest(self._lanes, path)
        return self._lane if prefix is None else self._lanes[prefix]

    def _needs_no_large_place(self, connection: Connection) -> None:
        following = self._large_bodies.leave(connection, time.monotonic())
        if following is not None:
            self._selector.register(following.socket, selectors.EVENT_READ, following)

    def _refuse(self, connection: Connection, status: HTTPStatus, text: str) -> None:
        self._selector.unregister(connection.socket)
        self._answer(connection, _refusal(status, text))

    def _answered(self, lane: Lane, connection: Connection, response: Response) -> None:
        """A thread of the lane has made the answer."""
        self._returned(lane, is_idle=True)
        self._guarded(connection, partial(self._answer, response=response))

    def _returned(self, lane: Lane, *, is_idle: bool) -> None:
        try:
            lane.give_back(is_idle=is_idle)
        except RuntimeError:
            _LOG.warning("no thread can be started: requests wait")

    def _answer(self, connection: Connection, response: Response) -> None:
        """Send the answer; the connection is not registered."""
        self._needs_no_large_place(connection)
        connection.request = None
        connection.inbox = bytearray()
        head = response_head(response.status, _headers(response) | {"Content-Length": str(len(response.body))})
        connection.write(head + response.body)
        self._relieve(connection)
        connection.phase = Phase.WRITING
        connection.since = time.monotonic()
        self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        before = connection.weight
        is_all = connection.flush()
        if connection.weight != before:
            connection.since = time.monotonic()
        if is_all:
            self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        """All is sent. Closed at once, a client that still sends would not read it; so the client closes first."""
        connection.end()
        connection.phase = Phase.LINGERING
        connection.since = time.monotonic()
        connection.deadline = connection.since + _LINGER_S
        self._selector.modify(connection.socket, selectors.EVENT_READ, connection)

    def _add(self, connection: Connection) -> None:
        self._connections[connection] = None
        self._of_source.setdefault(connection.source, {})[connection] = None

    def _remove(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        of_source = self._of_source.get(connection.source, {})
        of_source.pop(connection, None)
        if not of_source:
            self._of_source.pop(connection.source, None)

    def _drop(self, connection: Connection) -> None:
        """Close it, in whatever phase it is."""
        if connection.phase is Phase.CLOSED:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        if connection.phase is Phase.QUEUED and connection.request is not None:
            self._lane_of(connection.request.path).remove(connection)
        self._remove(connection)
        self._streams.discard(connection)
        connection.close()
        self._needs_no_large_place(connection)

    def _cut_overdue(self, now: float) -> None:
        silence = now - self._limits.silence_s
        for connection in (*self._connections, *self._streams):
            is_silent = connection.phase in {Phase.READING, Phase.WRITING} and connection.since < silence
            if now > connection.deadline or is_silent:
                self._drop(connection)
            elif self._large_bodies.has_waited_too_long(connection, now):
                self._guarded(connection, partial(self._answer, response=_busy("too many large requests at once")))
        if (slow := self._large_bodies.too_slow(now)) is not None:
            self._drop(slow)

    def _make_room(self, connections: Collection[Connection]) -> bool:
        """Cut one of these; False where none can be."""
        victim = oldest_of_the_most(connections)
        if victim is not None:
            self._cut(victim)
        return victim is not None

    def _relieve(self, grown: Connection) -> None:
        """Keep what is in memory for clients within its bounds."""
        if grown.weight > _SMALL_BYTES:
            for victim in in_excess(self._connections, self._limits.buffered_bytes, spared=grown):
                self._cut(victim)

    def _cut(self, victim: Connection) -> None:
        now = time.monotonic()
        if victim.phase is not Phase.LINGERING and now > self._told_at + _TOLD_S:
            self._told_at = now
            _LOG.warning(
                "too much at once: connections are cut, of the client that has the most",
                extra={"client": victim.source, "port": self.port, "connections": len(self._connections)},
            )
        self._drop(victim)

    def _do_jobs(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        while self._jobs:
            self._jobs.popleft()()

    def _stop(self) -> None:
        self._is_stopping = True

    def _close(self) -> None:
        self._is_stopping = True
        for connection in (*self._connections, *self._streams):
            self._drop(connection)
        for lane in (self._lane, *self._lanes.values()):
            lane.stop()
        for own in (self._listener, self._woken, self._waker, self._selector):
            own.close()

    def _begin_stream(self, lane: Lane, connection: Connection) -> None:
        """From now on its thread is none of the lane's, and it is none of the connections that make room."""
        self._returned(lane, is_idle=False)
        if connection.phase is Phase.CLOSED:
            return
        self._remove(connection)
        self._streams.add(connection)
        connection.request = None
        connection.phase = Phase.STREAMING
        connection.deadline = math.inf
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)

    def _begin_piece(self, connection: Connection, data: bytes, is_written: threading.Event) -> None:
        if connection.phase is not Phase.STREAMING:
            is_written.set()
            return
        connection.write(data, is_written)
        # Of a stream each piece has its time; between two pieces it is our work that takes time.
        connection.deadline = time.monotonic() + self._limits.timeout_s
        self._guarded(connection, self._write_piece)

    def _write_piece(self, connection: Connection) -> None:
        if connection.flush():
            connection.deadline = math.inf
            self._selector.modify(connection.socket, selectors.EVENT_READ, connection)
        else:
            self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)

    def _end_stream(self, connection: Connection) -> None:
        if connection in self._streams:
            self._streams.discard(connection)
            self._add(connection)
            self._guarded(connection, self._finish)

    # In the lanes' threads.

    def _post(self, job: Callable[[], None]) -> None:
        """Have the loop do this."""
        self._jobs.append(job)
        with contextlib.suppress(OSError):  # it is awake anyway, or has ended
            self._waker.send(b"\0", socket.MSG_DONTWAIT)

    def _work(self, lane: Lane, connection: Connection) -> bool:
        """Make the answer; whether the thread goes on with others."""
        request, head = connection.request, connection.head
        if request is None or head is None:  # cut a moment ago
            self._post(partial(self._returned, lane, is_idle=True))
            return True
        response = self._response(request)
        stream = response.stream
        if stream is not None and not self._free_streams.acquire(blocking=False):
            _close(stream)
            response, stream = _busy("too many streams are open", HTTPStatus.SERVICE_UNAVAILABLE, after_s=10), None
        if stream is None:
            self._post(partial(self._answered, lane, connection, response))
            return True
        try:
            self._post(partial(self._begin_stream, lane, connection))
            self._send_stream(connection, response, stream, is_chunked=not head.is_http10)
        except Exception:  # noqa: BLE001 - the client sees the break, and the log says why
            _LOG.exception("a stream failed", extra={"path": request.path[:200]})
        finally:
            _close(stream)
            self._free_streams.release()
            self._post(partial(self._end_stream, connection))
        return False

    def _response(self, request: Request) -> Response:
        try:
            return self._routes[_longest(self._routes, request.path) or ""](request)
        except Exception:  # noqa: BLE001 - one request's mistake must not look like a broken connection
            _LOG.exception("a request failed", extra={"path": request.path[:200]})
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error: the log says more")

    def _send_stream(
        self, connection: Connection, response: Response, stream: Iterator[bytes], *, is_chunked: bool
    ) -> None:
        """Each piece as a chunk, so that the client knows an end from a break."""
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
        """Whether the network took it, which it is waited for."""
        is_written = threading.Event()
        self._post(partial(self._begin_piece, connection, data, is_written))
        while not is_written.wait(1.0):
            if self._is_stopping:
                return False
        return connection.phase is Phase.STREAMING


def _listener(port: int) -> socket.socket:
    """On IPv4 and IPv6 where the kernel has both: the kubelet probes the pod's own address.

    The standard library's HTTP server asks here for the host's name in the DNS, which can take half a minute.
    """
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    return socket.create_server(("", port), backlog=_BACKLOG)


def _longest(prefixes: Iterable[str], path: str) -> str | None:
    fits = [prefix for prefix in prefixes if path == prefix or path.startswith(f"{prefix.rstrip('/')}/")]
    return max(fits, key=len) if fits else None


def _headers(response: Response) -> dict[str, str]:
    # What is JSON or text stays that, whatever a browser thinks of it.
    return {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff", **response.headers}


def _refusal(status: HTTPStatus, text: str) -> Response:
    return Response.of_text(text, status=status)


def _busy(text: str, status: HTTPStatus = HTTPStatus.TOO_MANY_REQUESTS, *, after_s: int = 1) -> Response:
    body = f"{text}: try again later\n".encode()
    return Response(status=status, body=body, headers={"Retry-After": str(after_s)})


def _close(stream: Iterator[bytes]) -> None:
    if close := getattr(stream, "close", None):
        close()
