"""Reads JSON from untrusted writers, within bounds of size, depth and length of numbers.

``json.loads`` raises ``RecursionError`` on JSON nested about 1,000 levels deep, and ``ValueError`` on an integer of
more than 4,300 digits, while Kubernetes' API server takes 10,000 levels (``encoding/json`` of Go) and keeps the opaque
parameters of a claim byte by byte. So what Rootport did not write itself is read through this module.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

__all__ = ["LEFT_OUT_DEPTH", "LEFT_OUT_NUMBER", "MAX_DEPTH", "JsonError", "parse_foreign_json", "parse_json"]

MAX_DEPTH: Final = 200
"""How many levels deep JSON may nest: the bound of pydantic-core's parser, which reads what is large."""

_KEPT_DEPTH: Final = 100  # less than MAX_DEPTH, so that what is kept can be written into something else and read again
_MAX_NUMBER: Final = 400  # characters; a double has at most 309 digits before its point

LEFT_OUT_DEPTH: Final = f"(left out by Rootport: nested more than {_KEPT_DEPTH} levels deep)"
"""What stands for a part that :func:`parse_foreign_json` leaves out for its depth."""

LEFT_OUT_NUMBER: Final = f"(left out by Rootport: a number of more than {_MAX_NUMBER} characters)"
"""Likewise for a number."""

# Possessive quantifiers: one pass over the text, and no memory for ways back.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]|[-+0-9.eE]{%d,}+' % (_MAX_NUMBER + 1), re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_SMALL: Final = 1024 * 1024
"""Bytes up to which the standard library reads: it is slower, and saves a process that reads nothing large 4 MiB."""


class JsonError(ValueError):
    """The text is no JSON, or exceeds a bound; the message says which, and where."""


def parse_json(data: bytes | bytearray | str, *, max_bytes: int) -> Any:
    """Return the value of a JSON text, all of it or nothing.

    Args:
        data: The text; bytes in UTF-8.
        max_bytes: The most that it may be long, in bytes (of a ``str``: in characters).

    Raises:
        JsonError: It is longer, nested deeper than :data:`MAX_DEPTH`, has a number of more than 4,300 digits or NaN, or
            is no JSON.
    """
    _check_length(data, max_bytes)
    try:
        return _read(data, allow_nan=False)
    except ValueError as error:
        raise JsonError(f"not valid JSON: {error}") from None


def parse_foreign_json(data: bytes | bytearray, *, max_bytes: int) -> tuple[Any, bool]:
    """Read a JSON text that a server passes on for others, of which one part must not spoil the rest.

    What is nested too deeply and numbers that are too long are left out: :data:`LEFT_OUT_DEPTH` and
    :data:`LEFT_OUT_NUMBER` stand for them. What is no UTF-8, or half of a surrogate pair, becomes U+FFFD, as in Go.

    Args:
        data: The text.
        max_bytes: The most that it may be long, in bytes.

    Returns:
        The value, and whether anything in it was left out or replaced.

    Raises:
        JsonError: It is longer, or no JSON.
    """
    _check_length(data, max_bytes)
    try:
        return _read(data), False
    except ValueError:
        pass
    try:
        return _read(_pruned(bytes(data).decode(errors="replace").encode())), True
    except ValueError as error:
        raise JsonError(f"not valid JSON: {error}") from None


def _read(data: bytes | bytearray | str, *, allow_nan: bool = True) -> Any:
    """Return the value of a text.

    Raises:
        ValueError: It is no JSON, nested too deeply, has half of a surrogate pair or a number that is too long.
    """
    if len(data) > _SMALL:
        from pydantic_core import from_json  # noqa: PLC0415 - see _SMALL

        return from_json(data, allow_inf_nan=allow_nan)
    encoded = data.encode() if isinstance(data, str) else data
    if encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH and _depth(encoded) > MAX_DEPTH:
        raise ValueError("recursion limit exceeded")
    if rb"\u" in encoded and any(escape[1] for escape in _ESCAPE.finditer(encoded)):
        raise ValueError("half of a surrogate pair")
    return (_LENIENT if allow_nan else _STRICT).decode(encoded.decode())


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # which advises to change a setting of Python
        raise ValueError(f"number of {len(digits)} digits") from None


def _depth(data: bytes | bytearray) -> int:
    """Return how many levels deep brackets nest outside of strings."""
    steps = _STRING.sub(b"", data).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_LENIENT: Final = json.JSONDecoder(parse_int=_integer)
_STRICT: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse)


def _check_length(data: bytes | bytearray | str, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise JsonError(f"too long: {len(data)} bytes, at most {max_bytes} are read")


def _pruned(data: bytes) -> bytes:
    """Return the text without what is too deep, too long or no Unicode, in one pass and without recursion."""
    pieces: list[bytes] = []
    kept_to = 0  # everything before is in pieces
    depth = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            depth += 1
            if depth == _KEPT_DEPTH + 1:
                pieces.append(data[kept_to : token.start()])
                kept_to = len(data)  # unless its end comes
        elif first in b"]}":
            if depth == _KEPT_DEPTH + 1:
                pieces.append(b'"%s"' % LEFT_OUT_DEPTH.encode())
                kept_to = token.end()
            depth -= 1
        elif depth <= _KEPT_DEPTH:
            if first != ord('"'):
                pieces += (data[kept_to : token.start()], b'"%s"' % LEFT_OUT_NUMBER.encode())
                kept_to = token.end()
            elif b"\\u" in token[0]:
                pieces += (data[kept_to : token.start()], _paired(token[0]))
                kept_to = token.end()
    pieces.append(data[kept_to:])
    return b"".join(pieces)


def _paired(text: bytes) -> bytes:
    """Return the string without halves of surrogate pairs."""
    made = bytearray()  # ``re.sub`` would keep an object for each escape: 130 MB for a string of 3
    kept_to = 0
    for escape in _ESCAPE.finditer(text):
        if escape[1]:
            made += text[kept_to : escape.start()] + rb"\ufffd"
            kept_to = escape.end()
    return bytes(made + text[kept_to:])
