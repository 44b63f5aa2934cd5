"""HTTP/2's header compression (RFC 7541): reading what the peer compressed, writing without compression. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from kubeletplugin.rpc import huffman

__all__ = ["Decoder", "Header", "HpackError", "encode"]

Header = tuple[bytes, bytes]
"""Name and value."""

_TABLE: Final = 4096
"""Bytes of the table of former headers: the default (RFC 9113, 6.5.2), which this end never changes."""

_OVERHEAD: Final = 32  # of each header in the table, and of the limit below
_MOST: Final = 64 * 1024
"""Bytes of one list of headers, as the table counts them. A call of the kubelet has some 300."""

_LONGEST_INTEGER: Final = 4  # bytes after the first: below 2^28

_STATIC: Final[tuple[Header, ...]] = tuple(
    (name, value)
    for name, _, value in (
        item.replace(b"_", b" ").partition(b"=")
        for item in (
            b":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 "
            b":status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset "
            b"accept-encoding=gzip,_deflate accept-language accept-ranges accept access-control-allow-origin age allow "
            b"authorization cache-control content-disposition content-encoding content-language content-length "
            b"content-location content-range content-type cookie date etag expect expires from host if-match "
            b"if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards "
            b"proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie "
            b"strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    )
)
"""RFC 7541, appendix A; the first has the index 1."""


class HpackError(ValueError):
    """The peer's headers cannot be read; nothing after them on the connection can be."""


class Decoder:
    """Reads the headers of one connection, in their order: later ones refer to earlier ones."""

    def __init__(self) -> None:
        self._former: deque[Header] = deque()
        self._size = 0
        self._most = _TABLE

    def decode(self, block: bytes) -> list[Header]:
        """Return the headers of a block.

        Raises:
            HpackError: They are not as they should be, or are too many.
        """
        found: list[Header] = []
        total = place = 0
        while place < len(block):
            first = block[place]
            if first & 0x80:
                index, place = _integer(block, place, 7)
                header = self._at(index)
            elif first & 0x40:
                header, place = self._literal(block, place, 6)
                self._remember(header)
            elif first & 0x20:
                if found:
                    raise HpackError("the table's size changes in the middle of a block")
                self._most, place = _integer(block, place, 5)
                if self._most > _TABLE:
                    raise HpackError("the table is to be larger than allowed")
                self._shrink(self._most)
                continue
            else:  # not to be remembered, or never
                header, place = self._literal(block, place, 4)
            total += _size(header)
            if total > _MOST:
                raise HpackError("there are too many headers")
            found.append(header)
        return found

    def _literal(self, block: bytes, place: int, bits: int) -> tuple[Header, int]:
        index, place = _integer(block, place, bits)
        if index:
            name = self._at(index)[0]
        else:
            name, place = _string(block, place)
        value, place = _string(block, place)
        return (name, value), place

    def _at(self, index: int) -> Header:
        if 0 < index <= len(_STATIC):
            return _STATIC[index - 1]
        place = index - len(_STATIC) - 1
        if not 0 <= place < len(self._former):
            raise HpackError(f"there is no header {index}")
        return self._former[place]

    def _remember(self, header: Header) -> None:
        size = _size(header)
        self._shrink(self._most - size)
        if size <= self._most:
            self._former.appendleft(header)
            self._size += size

    def _shrink(self, most: int) -> None:
        while self._former and self._size > most:
            self._size -= _size(self._former.pop())


def encode(headers: Iterable[Header]) -> bytes:
    """Return headers as the peer can read them whatever came before: no index, no table, no Huffman code.

    Args:
        headers: Each shorter than 2^20 bytes.
    """
    return b"".join(b"\0" + _encoded(len(name)) + name + _encoded(len(value)) + value for name, value in headers)


def _encoded(length: int) -> bytes:
    """Return the length of a string: 7 bits in the first byte."""
    if length < 0x7F:
        return bytes((length,))
    found = bytearray((0x7F,))
    rest = length - 0x7F
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _size(header: Header) -> int:
    return len(header[0]) + len(header[1]) + _OVERHEAD


def _integer(block: bytes, place: int, bits: int) -> tuple[int, int]:
    """Return an integer whose first byte has so many bits of it, and the place after it."""
    if place >= len(block):
        raise HpackError("a header is cut off")
    most = (1 << bits) - 1
    value = block[place] & most
    place += 1
    if value < most:
        return value, place
    for shift in range(0, 7 * _LONGEST_INTEGER, 7):
        if place >= len(block):
            raise HpackError("a header is cut off")
        byte = block[place]
        place += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, place
    raise HpackError("an integer is too large")


def _string(block: bytes, place: int) -> tuple[bytes, int]:
    if place >= len(block):
        raise HpackError("a header is cut off")
    is_huffman = block[place] & 0x80
    length, place = _integer(block, place, 7)
    end = place + length
    if end > len(block):
        raise HpackError("a header is cut off")
    text = block[place:end]
    if is_huffman:
        try:
            text = huffman.decode(text)
        except huffman.HuffmanError as error:
            raise HpackError(str(error)) from None
    return text, end
