"""One client's connection: its socket and its buffers. Nothing here blocks."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from driver.adapters.http.exchange import Request
from driver.adapters.http.http1 import RequestHead

__all__ = ["Channel", "Connection", "Phase", "PlainChannel"]

_RECEIVED_BYTES: Final = 64 * 1024
_SENT_BYTES: Final = 64 * 1024
_SENDS_AT_ONCE: Final = 16  # then other connections are served


class Channel(Protocol):
    """Translates between the bytes on the network and HTTP: nothing to do, or TLS."""

    def receive(self, data: bytes) -> bytes:
        """Return the HTTP bytes within what has arrived. What must be sent in reply is in :meth:`reply`.

        Raises:
            OSError: The bytes are not what the channel expects, or the client has ended it.
        """

    def reply(self) -> bytes:
        """Return the channel's own bytes to send, such as its part of a handshake."""

    def send(self, data: memoryview) -> bytes | memoryview:
        """Return the bytes to put on the network for these HTTP bytes."""

    def end(self) -> bytes:
        """Return the last bytes to put on the network."""


class PlainChannel:
    """HTTP without TLS."""

    def receive(self, data: bytes) -> bytes:
        """Return the same bytes."""
        return data

    def reply(self) -> bytes:
        """Return nothing."""
        return b""

    def send(self, data: memoryview) -> bytes | memoryview:
        """Return the same bytes."""
        return data

    def end(self) -> bytes:
        """Return nothing."""
        return b""


class Phase(Enum):
    """Who has to act next: the client, or this server."""

    READING = "the client sends its request"
    PAUSED = "its large body waits for the slot"
    QUEUED = "the request waits for a thread"
    WORKING = "a thread works on the answer"
    WRITING = "the client takes its answer"
    STREAMING = "pieces are sent as they come"
    LINGERING = "the client is to close its side"
    CLOSED = "closed"


class Connection:
    """A client's connection. Only the server's loop calls its methods; other threads may read ``phase``.

    Args:
        plain: The accepted socket.
        client: The client's name, as :func:`~driver.adapters.http.clients.client_of` makes it.
        open_channel: Makes the channel, once the client has sent something.
        now: Monotonic seconds.
        timeout_s: How long the request may take in all.

    Attributes:
        phase: Who has to act next.
        accepted_at: When it was accepted, in monotonic seconds.
        last_activity: When the client last did something, or the phase began.
        deadline: When it is closed in any case; infinity for never.
        head: The request's head, once it has arrived.
        inbox: What has arrived and is not part of ``head`` or ``request`` yet.
        request: The request, once it has arrived whole.
    """

    def __init__(
        self,
        plain: socket.socket,
        client: str,
        open_channel: Callable[[], Channel],
        *,
        now: float,
        timeout_s: float,
    ) -> None:
        plain.settimeout(0)
        self.socket = plain
        self.client = client
        self.phase = Phase.READING
        self.accepted_at = self.last_activity = now
        self.deadline = now + timeout_s
        self.head: RequestHead | None = None
        self.inbox = bytearray()
        self.request: Request | None = None
        self._open_channel = open_channel
        self._channel: Channel | None = None
        self._searched = 0
        self._raw: bytes | memoryview = b""
        self._plain = memoryview(b"")
        self._is_written: threading.Event | None = None

    @property
    def buffered_bytes(self) -> int:
        """How many bytes are kept in memory for the client."""
        body = len(self.request.body) if self.request is not None else 0
        return len(self.inbox) + len(self._raw) + len(self._plain) + body

    def receive(self) -> bool:
        """Move what has arrived into ``inbox``.

        Returns:
            False if the client has closed its side.

        Raises:
            OSError: The connection is broken.
        """
        try:
            data = self.socket.recv(_RECEIVED_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        channel = self._opened_channel()
        try:
            self.inbox += channel.receive(data)
        finally:
            self._raw = bytes(self._raw) + channel.reply()
            self.flush()
        return True

    def discard(self) -> bool:
        """Read what has arrived and forget it.

        Returns:
            False if the client has closed its side.

        Raises:
            OSError: The connection is broken.
        """
        try:
            return bool(self.socket.recv(_RECEIVED_BYTES))
        except BlockingIOError:
            return True

    def find(self, mark: bytes) -> int:
        """Return where the mark is in ``inbox``, or -1. What was searched before is not searched again."""
        at = self.inbox.find(mark, max(0, self._searched - len(mark) + 1))
        self._searched = len(self.inbox)
        return at

    def write(self, data: bytes, is_written: threading.Event | None = None) -> None:
        """Add to what is to be sent.

        Args:
            data: What to send.
            is_written: Set when the network has taken the data, or the connection is closed.
        """
        self._plain = memoryview(bytes(self._plain) + data if self._plain else data)
        self._is_written = is_written

    def flush(self) -> bool:
        """Send what the network takes now.

        Returns:
            Whether all is sent.

        Raises:
            OSError: The connection is broken.
        """
        for _ in range(_SENDS_AT_ONCE):
            if not self._raw:
                if not self._plain:
                    if self._is_written is not None:
                        self._is_written.set()
                    return True
                self._raw = self._opened_channel().send(self._plain[:_SENT_BYTES])
                self._plain = self._plain[_SENT_BYTES:]
            try:
                sent = self.socket.send(self._raw)
            except BlockingIOError:
                return False
            self._raw = self._raw[sent:]
        return False

    def end(self) -> None:
        """Close the sending side, so that the client knows the end.

        Raises:
            OSError: The connection is broken.
        """
        self._raw = self._opened_channel().end()
        self.flush()
        self.socket.shutdown(socket.SHUT_WR)

    def _opened_channel(self) -> Channel:
        # Not before the client has sent something: a silent one must cost as little as possible.
        if self._channel is None:
            self._channel = self._open_channel()
        return self._channel

    def close(self) -> None:
        """Close the socket and free all buffers."""
        self.phase = Phase.CLOSED
        self.deadline = math.inf
        with contextlib.suppress(OSError):
            self.socket.close()
        self.request, self.head = None, None
        self.inbox, self._raw, self._plain = bytearray(), b"", memoryview(b"")
        if self._is_written is not None:
            self._is_written.set()
