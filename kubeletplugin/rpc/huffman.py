"""The Huffman code of HTTP/2's header compression (RFC 7541, appendix B): reading it.

The code is canonical: the length of each symbol's code says what the code is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["HuffmanError", "decode"]

_LENGTHS: Final = (
    "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxx"
    "bffhibdgffdgdbbbaaabbbbbbbcdkbhf"
    "ibccccccccccccccccccccccdcdioijb"
    "kabababbbaccbbbabcbaabccccckgjix"
    "prpprrrsrssssststtrstssssqrsrsst"
    "rqprrssqsrrtqrssqqrqsrssprrrsrrs"
    "vvporsruvvvwwvtuoqvwwvwtqqvvxwww"
    "ptpqrqqsrruuttvsvwvvwwwwwxwwwwwv"
)
"""The bits of each byte's code, ``a`` for 5, ``b`` for 6 and so on. The code of the end (30 ones) is left out: a text
that has it is wrong."""

_LONGEST: Final = 30
_MOST_PADDING: Final = 7


class HuffmanError(ValueError):
    """What was received is not in this code."""


def _codes() -> dict[int, int]:
    """Return the bytes by their codes, each with a 1 before it, so that no two codes of different lengths are equal."""
    lengths = [ord(letter) - ord("a") + 5 for letter in _LENGTHS]
    codes, code, length = {}, 0, 0
    for symbol in sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol)):
        code <<= lengths[symbol] - length
        length = lengths[symbol]
        codes[1 << length | code] = symbol
        code += 1
    return codes


_CODES: Final = _codes()


@lru_cache(maxsize=256)
def decode(data: bytes) -> bytes:
    """Return what was encoded.

    Args:
        data: Bounded by the caller; it takes up to 30 bits for a byte, and 5 at least.

    Raises:
        HuffmanError: It is not in this code, or does not end with the first bits of the end's code.
    """
    found = bytearray()
    code = 1
    for byte in data:
        for bit in (7, 6, 5, 4, 3, 2, 1, 0):
            code = code << 1 | byte >> bit & 1
            symbol = _CODES.get(code)
            if symbol is not None:
                found.append(symbol)
                code = 1
        if code >> _LONGEST:
            raise HuffmanError("no symbol has this code")
    padding = code.bit_length() - 1
    if padding > _MOST_PADDING or code != (2 << padding) - 1:
        raise HuffmanError("it ends in the middle of a symbol")
    return bytes(found)
