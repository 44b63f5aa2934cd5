"""Header compression, against the examples of RFC 7541 and an encoder that tests write."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeletplugin.rpc import huffman
from kubeletplugin.rpc.hpack import Decoder, HpackError, encode

_BITS = {symbol: bin(code)[3:] for code, symbol in huffman._CODES.items()}

# RFC 7541, C.3 and C.4: three requests on one connection, without and with the Huffman code.
REQUESTS = [
    [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")],
    [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":path", b"/"),
        (b":authority", b"www.example.com"),
        (b"cache-control", b"no-cache"),
    ],
    [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":path", b"/index.html"),
        (b":authority", b"www.example.com"),
        (b"custom-key", b"custom-value"),
    ],
]
PLAIN = [
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
]
HUFFMAN = [
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
]


def huffman_encoded(text: bytes) -> bytes:
    bits = "".join(_BITS[byte] for byte in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


@pytest.mark.parametrize("blocks", [PLAIN, HUFFMAN], ids=["plain", "huffman"])
def test_the_examples_of_the_rfc_are_read(blocks: list[str]) -> None:
    decoder = Decoder()
    assert [decoder.decode(bytes.fromhex(block)) for block in blocks] == REQUESTS


def test_former_headers_are_forgotten_when_the_table_is_full() -> None:
    # RFC 7541, C.5: responses, with a table of 256 bytes.
    decoder = Decoder()
    blocks = [
        "3fe101" + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a3231204"
        "74d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
    ]
    first, second = (dict(decoder.decode(bytes.fromhex(block))) for block in blocks)
    assert first[b":status"] == b"302"
    assert second == first | {b":status": b"307"}
    with pytest.raises(HpackError, match="there is no header"):
        decoder.decode(bytes.fromhex("c2"))


@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=8))
def test_what_is_written_can_be_read(headers: list[tuple[bytes, bytes]]) -> None:
    assert Decoder().decode(encode(headers)) == headers


@given(st.binary(max_size=200))
def test_the_huffman_code_is_read(text: bytes) -> None:
    assert huffman.decode(huffman_encoded(text)) == text


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\xff", b"\x00\x3f\xff", b"\x18"])
def test_what_is_not_in_the_huffman_code_is_refused(data: bytes) -> None:
    with pytest.raises(huffman.HuffmanError):
        huffman.decode(data)


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("80", "there is no header 0"),
        ("be", "there is no header 62"),
        ("ff", "cut off"),
        ("ffffffffffff7f", "too large"),
        ("400a6375", "cut off"),
        ("40", "cut off"),
        ("0084ffffffff00", "no symbol|middle"),
        ("3fe21f", "larger than allowed"),
        ("823fe101", "in the middle of a block"),
    ],
)
def test_what_cannot_be_read_is_refused(block: str, reason: str) -> None:
    with pytest.raises(HpackError, match=reason):
        Decoder().decode(bytes.fromhex(block))


def test_a_small_block_cannot_stand_for_endless_headers() -> None:
    decoder = Decoder()
    decoder.decode(b"\x40" + encode([(b"a", b"v" * 3000)])[1:])
    with pytest.raises(HpackError, match="too many"):
        decoder.decode(b"\xbe" * 100)


@given(st.binary(max_size=400))
def test_anything_is_read_or_refused(block: bytes) -> None:
    decoder = Decoder()
    with suppress(HpackError):
        decoder.decode(block)
    assert decoder._size <= 4096
