"""One end of an HTTP/2 connection (RFC 9113), without I/O: bytes come in, events and bytes to send come out.

Streams are opened by the client alone; what is optional and of no use here (priorities, pushes, padding of what is
sent) is passed over or refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kubeletplugin.rpc.hpack import Decoder, Header, HpackError, encode

__all__ = [
    "CANCEL",
    "ENHANCE_YOUR_CALM",
    "NO_ERROR",
    "REFUSED_STREAM",
    "Connection",
    "Data",
    "Event",
    "GoAway",
    "Headers",
    "ProtocolError",
    "Reset",
    "WindowGrown",
    "frame",
]

_HEAD: Final = struct.Struct(">IBI")  # length and type in the first four bytes
_WORD: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")

_DATA, _HEADERS, _RST_STREAM, _SETTINGS = 0, 1, 3, 4
_PUSH_PROMISE, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 5, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20

NO_ERROR: Final = 0
_PROTOCOL_ERROR: Final = 1
_FLOW_CONTROL_ERROR: Final = 3
_FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
_COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11

_INITIAL_WINDOW_SIZE, _MAX_FRAME_SIZE, _MAX_CONCURRENT_STREAMS, _MAX_HEADER_LIST_SIZE = 4, 5, 3, 6

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_LARGEST_FRAME: Final = 16384  # what either end takes by default, and what this one keeps
_LARGEST_WINDOW: Final = 2**31 - 1
_WINDOW: Final = 65535
_MOST_HEADERS: Final = 32 * 1024  # bytes of one compressed block


class ProtocolError(ValueError):
    """The peer broke a rule, or a limit, and the connection is to be closed.

    Args:
        code: HTTP/2's number of it.
        message: What it did.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Headers:
    """A stream was opened, or has its trailers."""

    stream: int
    headers: list[Header]
    ends: bool


@dataclass(frozen=True, slots=True)
class Data:
    """A part of a stream's content came."""

    stream: int
    content: bytes
    ends: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer gave a stream up."""

    stream: int
    code: int


@dataclass(frozen=True, slots=True)
class WindowGrown:
    """More may be sent on some stream."""


@dataclass(frozen=True, slots=True)
class GoAway:
    """The peer opens, or answers, no more streams."""


Event: TypeAlias = Headers | Data | Reset | WindowGrown | GoAway


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return one frame."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


class Connection:
    """The state of one end. Not to be called from two threads at once.

    Args:
        is_server: Which end it is.
        window: Bytes that the peer may send on a stream before it has to wait.
        streams: How many streams the peer may have open.
    """

    def __init__(self, *, is_server: bool, window: int = _WINDOW, streams: int = 100) -> None:
        self._is_server = is_server
        self._decoder = Decoder()
        self._received = bytearray()
        self._preface_due = is_server
        self._settings_due = True
        self._block: tuple[int, bool, bytearray] | None = None  # of headers that go on in the next frame
        self._last_stream = 0
        self._send_window = _WINDOW
        self._stream_windows: dict[int, int] = {}
        self._initial_window = _WINDOW
        self._receive_most = max(window, _WINDOW)
        self._window = window
        self._unacknowledged = 0
        self._stream_unacknowledged: dict[int, int] = {}
        self._handlers: dict[int, Callable[[int, int, bytes, list[Event]], None]] = {
            _DATA: self._data,
            _HEADERS: self._began_headers,
            _RST_STREAM: self._reset,
            _SETTINGS: self._settings,
            _PUSH_PROMISE: self._push,
            _PING: self._ping,
            _GOAWAY: self._went_away,
            _WINDOW_UPDATE: self._window_update,
            _CONTINUATION: self._headers,
        }
        settings = ((_MAX_CONCURRENT_STREAMS, streams), (_INITIAL_WINDOW_SIZE, window), (_MAX_HEADER_LIST_SIZE, 16384))
        self._out = bytearray(b"" if is_server else _PREFACE)
        self._out += frame(_SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in settings))
        if self._receive_most > _WINDOW:
            self._out += frame(_WINDOW_UPDATE, 0, 0, _WORD.pack(self._receive_most - _WINDOW))

    @property
    def output_size(self) -> int:
        """How many bytes are to be sent."""
        return len(self._out)

    def take_output(self) -> bytes:
        """Return what is to be sent by now, and forget it."""
        out = bytes(self._out)
        self._out.clear()
        return out

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes from the peer.

        Raises:
            ProtocolError: The connection is to be closed.
        """
        self._received += data
        if self._preface_due:
            if not _PREFACE.startswith(self._received[: len(_PREFACE)]):
                raise ProtocolError(_PROTOCOL_ERROR, "this is not HTTP/2")
            if len(self._received) < len(_PREFACE):
                return []
            del self._received[: len(_PREFACE)]
            self._preface_due = False
        events: list[Event] = []
        place = 0
        while len(self._received) - place >= _HEAD.size:
            word, flags, stream = _HEAD.unpack_from(self._received, place)
            length = word >> 8
            if length > _LARGEST_FRAME:
                raise ProtocolError(_FRAME_SIZE_ERROR, f"a frame has {length} bytes")
            end = place + _HEAD.size + length
            if len(self._received) < end:
                break
            self._frame(word & 0xFF, flags, stream & _LARGEST_WINDOW, bytes(self._received[end - length : end]), events)
            place = end
        del self._received[:place]
        return events

    def open_stream(self, headers: list[Header]) -> int:
        """Open a stream, as the client; returns its number."""
        self._last_stream = self._last_stream + 2 if self._last_stream else 1
        self._stream_windows[self._last_stream] = self._initial_window
        self.send_headers(self._last_stream, encode(headers), ends=False)
        return self._last_stream

    def send_headers(self, stream: int, block: bytes, *, ends: bool) -> None:
        """Send headers or trailers, encoded, at most a frame of them."""
        self._out += frame(_HEADERS, _END_HEADERS | (_END_STREAM if ends else 0), stream, block)
        if ends and self._is_server:
            self._forget(stream)

    def send_data(self, stream: int, content: memoryview, *, ends: bool = False) -> int:
        """Send as much of a stream's content as the peer takes now; returns how many bytes.

        Args:
            stream: An open one.
            content: The content.
            ends: Whether nothing follows it.
        """
        sent = 0
        while True:
            room = min(self.window(stream), _LARGEST_FRAME)
            size = min(room, len(content) - sent)
            is_last = sent + size == len(content)
            if size <= 0 and not (is_last and ends):
                return sent
            self._out += frame(
                _DATA, _END_STREAM if is_last and ends else 0, stream, bytes(content[sent : sent + size])
            )
            self._send_window -= size
            self._stream_windows[stream] -= size
            sent += size
            if is_last:
                return sent

    def window(self, stream: int) -> int:
        """Return how many bytes of a stream's content the peer takes now."""
        return min(self._send_window, self._stream_windows.get(stream, 0))

    def is_open(self, stream: int) -> bool:
        """Whether a stream can be sent on."""
        return stream in self._stream_windows

    def reset(self, stream: int, code: int) -> None:
        """Give a stream up."""
        self._forget(stream)
        self._out += frame(_RST_STREAM, 0, stream, _WORD.pack(code))

    def go_away(self, code: int) -> None:
        """Tell the peer that no stream after those it has opened will be answered."""
        self._out += frame(_GOAWAY, 0, 0, _WORD.pack(self._last_stream) + _WORD.pack(code))

    def _forget(self, stream: int) -> None:
        self._stream_windows.pop(stream, None)
        self._stream_unacknowledged.pop(stream, None)

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if self._settings_due and kind != _SETTINGS:
            raise ProtocolError(_PROTOCOL_ERROR, "settings do not come first")
        if self._block is not None and kind != _CONTINUATION:
            raise ProtocolError(_PROTOCOL_ERROR, "headers are interrupted")
        if (handle := self._handlers.get(kind)) is not None:  # else priorities, and what is not known
            handle(flags, stream, payload, events)

    def _began_headers(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        content = _unpadded(flags, payload)
        if flags & _HAS_PRIORITY:
            content = content[5:]
        self._block = (stream, bool(flags & _END_STREAM), bytearray())
        self._headers(flags, stream, content, events)

    def _reset(self, _: int, stream: int, payload: bytes, events: list[Event]) -> None:
        code = _WORD.unpack(_of_size(payload, 4))[0]
        if stream == 0 or (self._is_server and stream > self._last_stream):
            raise ProtocolError(_PROTOCOL_ERROR, "a stream that is not open is reset")
        self._forget(stream)
        events.append(Reset(stream, code))

    def _push(self, _flags: int, _stream: int, _payload: bytes, _events: list[Event]) -> None:
        raise ProtocolError(_PROTOCOL_ERROR, "a stream is pushed")

    def _ping(self, flags: int, _stream: int, payload: bytes, _events: list[Event]) -> None:
        if not flags & _ACK:
            self._out += frame(_PING, _ACK, 0, _of_size(payload, 8))

    def _went_away(self, _flags: int, _stream: int, _payload: bytes, events: list[Event]) -> None:
        events.append(GoAway())

    def _data(self, flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        if stream == 0 or (self._is_server and stream > self._last_stream):
            raise ProtocolError(_PROTOCOL_ERROR, "content comes on a stream that was never opened")
        ends = bool(flags & _END_STREAM)
        # Given back at once: whoever reads the events bounds what it keeps. Not for every small message.
        self._unacknowledged += len(payload)
        if self._unacknowledged > self._receive_most // 2:
            self._out += frame(_WINDOW_UPDATE, 0, 0, _WORD.pack(self._unacknowledged))
            self._unacknowledged = 0
        if not ends and stream in self._stream_windows:
            came = self._stream_unacknowledged.get(stream, 0) + len(payload)
            if came > self._window // 2:
                self._out += frame(_WINDOW_UPDATE, 0, stream, _WORD.pack(came))
                came = 0
            self._stream_unacknowledged[stream] = came
        else:
            self._stream_unacknowledged.pop(stream, None)
        events.append(Data(stream, _unpadded(flags, payload), ends))

    def _headers(self, flags: int, stream: int, content: bytes, events: list[Event]) -> None:
        if self._block is None or self._block[0] != stream or stream == 0:
            raise ProtocolError(_PROTOCOL_ERROR, "headers go on that did not begin")
        _, ends, block = self._block
        block += content
        if len(block) > _MOST_HEADERS:
            raise ProtocolError(ENHANCE_YOUR_CALM, "there are too many headers")
        if not flags & _END_HEADERS:
            return
        self._block = None
        try:
            headers = self._decoder.decode(bytes(block))
        except HpackError as error:
            raise ProtocolError(_COMPRESSION_ERROR, str(error)) from None
        if self._is_server and stream > self._last_stream:
            if not stream % 2:
                raise ProtocolError(_PROTOCOL_ERROR, "a client's stream has an even number")
            self._last_stream = stream
            self._stream_windows[stream] = self._initial_window
        events.append(Headers(stream, headers, ends))

    def _settings(self, flags: int, _stream: int, payload: bytes, events: list[Event]) -> None:
        self._settings_due = False
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise ProtocolError(_FRAME_SIZE_ERROR, "a setting is cut off")
        for number, value in _SETTING.iter_unpack(payload):
            # Of the others none concerns this end: it sends no pushes, no indexed headers and only small frames.
            if number == _INITIAL_WINDOW_SIZE:
                if value > _LARGEST_WINDOW:
                    raise ProtocolError(_FLOW_CONTROL_ERROR, "a window is too large")
                for stream in self._stream_windows:
                    self._stream_windows[stream] += value - self._initial_window
                self._initial_window = value
        self._out += frame(_SETTINGS, _ACK, 0, b"")
        events.append(WindowGrown())

    def _window_update(self, _flags: int, stream: int, payload: bytes, events: list[Event]) -> None:
        more = _WORD.unpack(_of_size(payload, 4))[0] & _LARGEST_WINDOW
        if more == 0:
            raise ProtocolError(_PROTOCOL_ERROR, "a window grows by nothing")
        if stream == 0:
            self._send_window += more
        elif stream in self._stream_windows:
            self._stream_windows[stream] += more
        if max(self._send_window, self._stream_windows.get(stream, 0)) > _LARGEST_WINDOW:
            raise ProtocolError(_FLOW_CONTROL_ERROR, "a window is too large")
        events.append(WindowGrown())


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ProtocolError(_PROTOCOL_ERROR, "a frame is padding alone")
    return payload[1 : len(payload) - payload[0]]


def _of_size(payload: bytes, size: int) -> bytes:
    if len(payload) != size:
        raise ProtocolError(_FRAME_SIZE_ERROR, f"a frame of {size} bytes has {len(payload)}")
    return payload
