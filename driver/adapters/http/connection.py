"""One client's connection: its socket, what has come in and what is to go out. Nothing here ever waits."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from driver.adapters.http.exchange import Request
from driver.adapters.http.head import RequestHead

__all__ = ["Channel", "Connection", "Phase", "PlainChannel"]

_RECEIVED_BYTES: Final = 64 * 1024
_SENT_BYTES: Final = 64 * 1024
_SENDS_AT_ONCE: Final = 16  # then others have their turn


class Channel(Protocol):
    """What is between the bytes on the network and HTTP: nothing, or TLS."""

    def receive(self, data: bytes) -> bytes:
        """What the bytes that came say; what is to go out for them is in :meth:`reply`.

        Raises:
            OSError: They are not what the channel expects, or the client has ended it.
        """

    def reply(self) -> bytes:
        """What the channel itself has to say, such as its part of a handshake."""

    def send(self, data: memoryview) -> bytes | memoryview:
        """The bytes to put on the network for these."""

    def end(self) -> bytes:
        """The last bytes to put on the network."""


class PlainChannel:
    """HTTP as it is."""

    def receive(self, data: bytes) -> bytes:
        """The same bytes."""
        return data

    def reply(self) -> bytes:
        """Nothing."""
        return b""

    def send(self, data: memoryview) -> bytes | memoryview:
        """The same bytes."""
        return data

    def end(self) -> bytes:
        """Nothing."""
        return b""


class Phase(Enum):
    """Whose turn it is. Told by who has to act next: the client, or this server."""

    READING = "the client sends its request"
    PAUSED = "its large body waits for a place"
    QUEUED = "the request waits for a thread"
    WORKING = "a thread works on the answer"
    WRITING = "the client takes its answer"
    STREAMING = "pieces are sent as they come"
    LINGERING = "the client is to close its side"
    CLOSED = "closed"


class Connection:
    """A client's connection. The server's loop alone calls its methods; other threads may look at ``phase``.

    Args:
        plain: The socket, accepted.
        source: Whose it is.
        open_channel: Makes how it speaks, once the client has said something.
        now: Monotonic seconds.
        timeout_s: How long the request may take in all.

    Attributes:
        phase: Whose turn it is.
        began: When it was accepted.
        since: When the client last did something, or its turn began.
        deadline: When it is cut, whatever it does; infinity for never.
        head: The request's head, once it is there.
        inbox: What came and was not made a request yet.
        request: The request, once it is there.
    """

    def __init__(
        self,
        plain: socket.socket,
        source: str,
        open_channel: Callable[[], Channel],
        *,
        now: float,
        timeout_s: float,
    ) -> None:
        plain.settimeout(0)
        self.socket = plain
        self.source = source
        self.phase = Phase.READING
        self.began = self.since = now
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
    def weight(self) -> int:
        """How many bytes it keeps in memory."""
        body = len(self.request.body) if self.request is not None else 0
        return len(self.inbox) + len(self._raw) + len(self._plain) + body

    def receive(self) -> bool:
        """Take what has come into ``inbox``; False where the client has closed its side.

        Raises:
            OSError: The connection is broken.
        """
        try:
            data = self.socket.recv(_RECEIVED_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        channel = self._speaking()
        try:
            self.inbox += channel.receive(data)
        finally:
            self._raw = bytes(self._raw) + channel.reply()
            self.flush()
        return True

    def discard(self) -> bool:
        """Take what has come and forget it; False where the client has closed its side.

        Raises:
            OSError: The connection is broken.
        """
        try:
            return bool(self.socket.recv(_RECEIVED_BYTES))
        except BlockingIOError:
            return True

    def find(self, mark: bytes) -> int:
        """Where the mark is in ``inbox``, or -1; what was searched before is not searched again."""
        at = self.inbox.find(mark, max(0, self._searched - len(mark) + 1))
        self._searched = len(self.inbox)
        return at

    def write(self, data: bytes, is_written: threading.Event | None = None) -> None:
        """Send after what was not sent yet.

        Args:
            data: What to send.
            is_written: Set when the network has taken it, or the connection is closed.
        """
        self._plain = memoryview(bytes(self._plain) + data if self._plain else data)
        self._is_written = is_written

    def flush(self) -> bool:
        """Send what the network takes now; whether all is sent.

        Raises:
            OSError: The connection is broken.
        """
        for _ in range(_SENDS_AT_ONCE):
            if not self._raw:
                if not self._plain:
                    if self._is_written is not None:
                        self._is_written.set()
                    return True
                self._raw = self._speaking().send(self._plain[:_SENT_BYTES])
                self._plain = self._plain[_SENT_BYTES:]
            try:
                sent = self.socket.send(self._raw)
            except BlockingIOError:
                return False
            self._raw = self._raw[sent:]
        return False

    def end(self) -> None:
        """Tell the client that nothing more comes.

        Raises:
            OSError: The connection is broken.
        """
        self._raw = self._speaking().end()
        self.flush()
        self.socket.shutdown(socket.SHUT_WR)

    def _speaking(self) -> Channel:
        # Not before the client has said something: a silent one costs as little as may be.
        if self._channel is None:
            self._channel = self._open_channel()
        return self._channel

    def close(self) -> None:
        """Let the socket and all that is in memory go."""
        self.phase = Phase.CLOSED
        self.deadline = math.inf
        with contextlib.suppress(OSError):
            self.socket.close()
        self.request, self.head = None, None
        self.inbox, self._raw, self._plain = bytearray(), b"", memoryview(b"")
        if self._is_written is not None:
            self._is_written.set()
