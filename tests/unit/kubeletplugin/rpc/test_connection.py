"""HTTP/2 without I/O: what the peer may do, what it may not, and that nothing of it grows without bound."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.rpc.connection import Connection, Data, GoAway, Headers, ProtocolError, Reset, WindowGrown, frame
from kubeletplugin.rpc.hpack import encode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = frame(4, 0, 0, b"")
BLOCK = encode([(b":path", b"/s/m")])


def word(value: int) -> bytes:
    return struct.pack(">I", value)


def server() -> Connection:
    made = Connection(is_server=True)
    made.receive(PREFACE + SETTINGS)
    made.take_output()
    return made


def with_stream() -> Connection:
    made = server()
    made.receive(frame(1, 0x4, 1, BLOCK))
    made.take_output()
    return made


def test_a_call_is_read_however_its_bytes_are_cut() -> None:
    call = frame(1, 0x4, 1, BLOCK) + frame(0, 0x1, 1, b"hello")
    sent = PREFACE + SETTINGS + call
    for size in (1, 2, 5, 9, len(sent)):
        made, events = Connection(is_server=True), []
        for place in range(0, len(sent), size):
            events += made.receive(sent[place : place + size])
        assert events == [WindowGrown(), Headers(1, [(b":path", b"/s/m")], ends=False), Data(1, b"hello", ends=True)]


def test_headers_may_go_on_in_the_next_frame_and_be_padded_and_have_a_priority() -> None:
    made = server()
    first = b"\x03" + bytes(5) + BLOCK[:4] + bytes(3)
    assert made.receive(frame(1, 0x8 | 0x20 | 0x1, 1, first)) == []
    assert made.receive(frame(9, 0x4, 1, BLOCK[4:])) == [Headers(1, [(b":path", b"/s/m")], ends=True)]


def test_content_may_be_padded() -> None:
    assert with_stream().receive(frame(0, 0x8, 1, b"\x02ab\0\0")) == [Data(1, b"ab", ends=False)]


def test_settings_and_pings_are_acknowledged_and_acknowledgements_are_not() -> None:
    made = server()
    made.receive(frame(6, 0, 0, b"12345678") + frame(4, 0, 0, b"") + frame(6, 1, 0, b"12345678") + frame(4, 1, 0, b""))
    assert made.take_output() == frame(6, 1, 0, b"12345678") + frame(4, 1, 0, b"")


def test_what_is_not_known_is_passed_over() -> None:
    assert server().receive(frame(0x42, 0xFF, 7, b"?") + frame(2, 0, 1, bytes(5)) + frame(4, 0, 0, b"\0\x99" + word(1)))


def test_a_stream_that_is_given_up_is_an_event() -> None:
    made = with_stream()
    assert made.receive(frame(3, 0, 1, word(8)) + frame(7, 0, 0, bytes(8))) == [Reset(1, 8), GoAway()]
    assert not made.is_open(1)


def test_no_more_is_sent_than_the_peer_takes() -> None:
    made = with_stream()
    content = memoryview(bytes(200_000))
    sent = made.send_data(1, content)
    assert sent == 65535
    assert len(made.take_output()) == sent + 9 * 4
    assert made.send_data(1, content[sent:]) == 0
    made.receive(frame(8, 0, 0, word(1000)))
    assert made.send_data(1, content[sent:]) == 0
    assert made.receive(frame(8, 0, 1, word(400))) == [WindowGrown()]
    assert made.send_data(1, content[sent:]) == 400
    # A larger window by settings counts for the streams that are open; a smaller one may make theirs negative.
    made.receive(frame(4, 0, 0, struct.pack(">HI", 4, 65535 + 100)))
    assert made.send_data(1, content[sent:]) == 100
    made.receive(frame(4, 0, 0, struct.pack(">HI", 4, 0)))
    assert made.send_data(1, content[sent:]) == 0


def test_the_end_needs_no_window() -> None:
    made = with_stream()
    made.send_data(1, memoryview(bytes(65535)))
    made.take_output()
    assert made.send_data(1, memoryview(b""), ends=True) == 0
    assert made.take_output() == frame(0, 1, 1, b"")


def test_what_came_may_come_again() -> None:
    made = with_stream()
    for _ in range(50):
        for _ in range(3):
            made.receive(frame(0, 0, 1, bytes(16000)))
        given_back = made.take_output()
        assert frame(8, 0, 1, word(48000)) in given_back
        assert frame(8, 0, 0, word(48000)) in given_back


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(0x42, 0, 0, bytes(16385)), "a frame has 16385 bytes"),
        (frame(5, 0, 1, bytes(4)), "is pushed"),
        (frame(9, 4, 1, BLOCK), "did not begin"),
        (frame(1, 0, 1, BLOCK) + frame(6, 0, 0, bytes(8)), "interrupted"),
        (frame(1, 0, 1, BLOCK) + frame(9, 4, 3, BLOCK), "did not begin"),
        (frame(1, 4, 0, BLOCK), "did not begin"),
        (frame(1, 4, 2, BLOCK), "even number"),
        (frame(1, 4, 1, b"\xbe"), "there is no header"),
        (frame(1, 0, 1, bytes(16384)) + frame(9, 0, 1, bytes(16384)) + frame(9, 0, 1, bytes(1)), "too many headers"),
        (frame(0, 0, 1, b"x"), "never opened"),
        (frame(0, 0, 0, b"x"), "never opened"),
        (frame(3, 0, 1, word(8)), "not open"),
        (frame(3, 0, 0, bytes(3)), "a frame of 4 bytes has 3"),
        (frame(4, 0, 0, bytes(5)), "cut off"),
        (frame(4, 0, 0, struct.pack(">HI", 4, 2**31)), "too large"),
        (frame(6, 0, 0, bytes(7)), "a frame of 8 bytes has 7"),
        (frame(8, 0, 0, word(0)), "grows by nothing"),
        (frame(8, 0, 0, word(2**31 - 1)), "too large"),
        (frame(1, 0xC, 1, b"\x05abc"), "padding alone"),
    ],
)
def test_a_broken_rule_ends_the_connection(sent: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        server().receive(sent)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", PREFACE[:-1] + b"x", b"\x16\x03\x01"])
def test_another_protocol_is_refused(sent: bytes) -> None:
    with pytest.raises(ProtocolError, match="this is not HTTP/2"):
        Connection(is_server=True).receive(sent)


def test_settings_come_first() -> None:
    with pytest.raises(ProtocolError, match="do not come first"):
        Connection(is_server=True).receive(PREFACE + frame(6, 0, 0, bytes(8)))


_FRAMES = st.builds(
    frame,
    st.integers(0, 10),
    st.integers(0, 255),
    st.integers(0, 9),
    st.one_of(st.binary(max_size=40), st.just(BLOCK), st.integers(0, 2**32 - 1).map(word)),
)


@given(st.lists(st.one_of(_FRAMES, st.binary(max_size=30)), max_size=30))
def test_anything_is_understood_or_refused_and_little_of_it_is_kept(parts: list[bytes]) -> None:
    made = server()
    try:
        for part in parts:
            made.receive(part)
    except ProtocolError:
        return
    assert len(made._received) <= 16384 + 9
    assert len(made.take_output()) < 20_000
