"""A connected client: its calls are read one after the other, and answered by any number of threads."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Final

from kubeletplugin.rpc.connection import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    REFUSED_STREAM,
    Connection,
    Data,
    Event,
    Headers,
    ProtocolError,
    Reset,
    WindowGrown,
)
from kubeletplugin.rpc.hpack import encode
from kubeletplugin.rpc.service import (
    MESSAGE_HEAD,
    Method,
    RpcError,
    Status,
    framed,
    message_in,
    percent_encoded,
)

__all__ = ["Incoming", "Peer"]

_LOG: Final = logging.getLogger(__name__)
_READ: Final = 32 * 1024
_MOST_STREAMS: Final = 1024
_MOST_KEPT: Final = 8 * 1024 * 1024
"""Bytes of all requests of a connection that are not complete."""

_MOST_DUE: Final = 64 * 1024 * 1024
"""Bytes that wait to be sent: eight answers of 4 MiB, and acknowledgements."""

_MAX_ERROR: Final = 8192
_PATIENCE_S: Final = 30.0
"""Seconds for which a client may take nothing."""

_CONTENT_TYPE: Final = b"application/grpc"
_BEGIN: Final = encode([(b":status", b"200"), (b"content-type", _CONTENT_TYPE)])
_OK: Final = encode([(b"grpc-status", b"0")])
_UNSUPPORTED: Final = encode([(b":status", b"415")])


class Incoming:
    """One call of a client.

    Args:
        peer: The client.
        stream: The call's stream.
        path: ``/<service>/<method>``.

    Attributes:
        stream: As above.
        path: As above.
        content: What came of the request.
        is_complete: Whether that is all of it.
        has_begun: Whether a part of the answer was sent.
    """

    def __init__(self, peer: Peer, stream: int, path: bytes) -> None:
        self._peer = peer
        self.stream = stream
        self.path = path
        self.content = bytearray()
        self.is_complete = False
        self.has_begun = False
        self._lock = threading.Lock()
        self._gone = False
        self._callbacks: list[Callable[[], None]] = []

    def on_gone(self, callback: Callable[[], None]) -> bool:
        """As :meth:`kubeletplugin.rpc.service.Call.on_gone`."""
        with self._lock:
            if not self._gone:
                self._callbacks.append(callback)
            return not self._gone

    def gone(self) -> None:
        """Note that nobody waits for the answer any more."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self._gone = True
        for callback in callbacks:
            callback()

    def answer(self, method: Method) -> None:
        """Run the method and send what it answers, or its error."""
        try:
            answers = method.answer(message_in(bytes(self.content)), self)
            if method.streams:
                self._stream_out(answers)
            else:
                self._peer.send(self, framed(next(answers)), ends=True)
                next(answers, None)
        except RpcError as error:
            self.fail(error)
        except Exception:  # noqa: BLE001 - of this call alone
            _LOG.exception("a method raised", extra={"method": self.path.decode(errors="replace")})
            self.fail(RpcError(Status.UNKNOWN, "the plugin failed unexpectedly: see its log"))

    def fail(self, error: RpcError) -> None:
        """Answer with an error."""
        self._peer.fail(self, _trailers(error))

    def _stream_out(self, answers: Generator[bytes]) -> None:
        with closing(answers):
            for message in answers:
                if not self._peer.send(self, framed(message), ends=False):
                    return
        self._peer.send(self, b"", ends=True)


class Peer:
    """A client's connection.

    Args:
        client: The socket.
        max_request: Bytes of a request's message.
        known: Whether there is a method.

    Attributes:
        reading: To be held by the thread that calls :meth:`next_call`.
        readers: How many threads hold that, or wait for it; the server's to count.
    """

    def __init__(self, client: socket.socket, *, max_request: int, known: Callable[[bytes], bool]) -> None:
        self._socket = client
        seconds = struct.pack("ll", int(_PATIENCE_S), 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
        self._max = MESSAGE_HEAD.size + max_request
        self._known = known
        self.reading = threading.Lock()
        self.readers = 0
        self._ready: deque[Incoming] = deque()
        self._writing = threading.Lock()
        # Over everything below; never held while something is sent.
        self._changed = threading.Condition()
        self._connection = Connection(is_server=True, streams=_MOST_STREAMS)
        self._calls: dict[int, Incoming] = {}
        self._kept = 0
        self._closed = False

    def next_call(self) -> Incoming | None:
        """Return the next complete call, once it is there; None if the connection is over."""
        while not self._ready:
            self._flush()
            try:
                data = self._socket.recv(_READ)
            except OSError:
                data = b""
            if not data or not self._receive(data):
                self.close()
                return None
        return self._ready.popleft()

    def send(self, call: Incoming, content: bytes, *, ends: bool) -> bool:
        """Send a part of an answer, as soon as the client takes it; returns False if it never will.

        Args:
            call: Whose answer.
            content: The part.
            ends: Whether the answer is complete with it.
        """
        rest = memoryview(content)
        deadline = 0.0
        while True:
            with self._changed:
                if deadline and not self._changed.wait_for(lambda: self._may_send(call), deadline - time.monotonic()):
                    self._connection.reset(call.stream, CANCEL)
                    self._calls.pop(call.stream, None)
                if self._closed or not self._connection.is_open(call.stream):
                    break
                if not call.has_begun:
                    self._connection.send_headers(call.stream, _BEGIN, ends=False)
                    call.has_begun = True
                rest = rest[self._connection.send_data(call.stream, rest) :]
                if not rest and ends:
                    self._connection.send_headers(call.stream, _OK, ends=True)
                    self._calls.pop(call.stream, None)
            self._flush()
            if not rest:
                return not self._closed
            deadline = deadline or time.monotonic() + _PATIENCE_S
        self._flush()
        return False

    def fail(self, call: Incoming, trailers: bytes) -> None:
        """End a call with an error, instead of an answer or after a part of one."""
        with self._changed:
            self._fail(call, trailers)
        self._flush()

    def go_away(self) -> None:
        """Tell the client to open no more streams."""
        with self._changed:
            self._connection.go_away(NO_ERROR)
        self._flush()

    def close(self) -> None:
        """End the connection and every call of it; may be called again."""
        with self._changed:
            was_closed, self._closed = self._closed, True
            calls, self._calls = tuple(self._calls.values()), {}
            self._changed.notify_all()
        if not was_closed:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        for call in calls:
            call.gone()
        if not was_closed:
            self._socket.close()

    def _may_send(self, call: Incoming) -> bool:
        return self._closed or not self._connection.is_open(call.stream) or self._connection.window(call.stream) > 0

    def _receive(self, data: bytes) -> bool:
        """Take what came; returns False if it makes the connection end."""
        gone: list[Incoming] = []
        problem: ProtocolError | None = None
        with self._changed:
            try:
                for event in self._connection.receive(data):
                    self._event(event, gone)
            except ProtocolError as error:
                problem = error
            if self._connection.output_size > _MOST_DUE:
                problem = ProtocolError(ENHANCE_YOUR_CALM, "it takes nothing and asks for more")
            if problem is not None:
                self._connection.go_away(problem.code)
        for call in gone:
            call.gone()
        if problem is not None:
            _LOG.warning("a client of the socket is not understood", extra={"error": problem})
            self._flush()
        return problem is None

    def _flush(self) -> None:
        """Send what is due, unless another thread is at it: that one takes it along.

        Nobody waits for a client that does not read: the thread that reads from it must go on reading.
        """
        while self._connection.output_size and self._writing.acquire(blocking=False):
            try:
                with self._changed:
                    out = self._connection.take_output()
                if not self._closed:
                    self._socket.sendall(out)
            except OSError:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)  # which ends the reading as well
            finally:
                self._writing.release()

    def _event(self, event: Event, gone: list[Incoming]) -> None:
        match event:
            case Headers(stream=stream, headers=headers, ends=ends):
                if stream in self._calls:
                    self._part(stream, b"", ends=ends)
                elif self._connection.is_open(stream):
                    self._opened(stream, dict(headers), ends=ends)
            case Data(stream=stream, content=content, ends=ends):
                self._part(stream, content, ends=ends)
            case Reset(stream=stream):
                if (call := self._calls.pop(stream, None)) is not None:
                    self._kept -= 0 if call.is_complete else len(call.content)
                    gone.append(call)
                self._changed.notify_all()
            case WindowGrown():
                self._changed.notify_all()
            case _:  # the client opens no more; its calls go on
                pass

    def _fail(self, call: Incoming, trailers: bytes) -> None:
        if self._calls.pop(call.stream, None) is not None and self._connection.is_open(call.stream):
            self._connection.send_headers(call.stream, trailers if call.has_begun else _BEGIN + trailers, ends=True)

    def _opened(self, stream: int, headers: dict[bytes, bytes], *, ends: bool) -> None:
        if len(self._calls) >= _MOST_STREAMS:
            self._connection.reset(stream, REFUSED_STREAM)
            return
        if not headers.get(b"content-type", b"").startswith(_CONTENT_TYPE):
            self._connection.send_headers(stream, _UNSUPPORTED, ends=True)
            return
        path = headers.get(b":path", b"")
        call = self._calls[stream] = Incoming(self, stream, path)
        if not self._known(path):
            error = RpcError(Status.UNIMPLEMENTED, f"there is no method {path.decode(errors='replace')[:200]}")
            self._fail(call, _trailers(error))
        elif ends:
            self._part(stream, b"", ends=True)

    def _part(self, stream: int, content: bytes, *, ends: bool) -> None:
        call = self._calls.get(stream)
        if call is None or call.is_complete:
            return
        call.content += content
        self._kept += len(content)
        if self._kept > _MOST_KEPT:
            raise ProtocolError(ENHANCE_YOUR_CALM, "too much is not complete")
        call.is_complete = ends or len(call.content) > self._max
        if not call.is_complete:
            return
        self._kept -= len(call.content)
        if len(call.content) > self._max:
            error = RpcError(Status.RESOURCE_EXHAUSTED, f"the message is over {self._max} bytes long")
            self._fail(call, _trailers(error))
        else:
            self._ready.append(call)


def _trailers(error: RpcError) -> bytes:
    message = percent_encoded(error.message)[:_MAX_ERROR]
    return encode([(b"grpc-status", b"%d" % error.status), (b"grpc-message", message)])
