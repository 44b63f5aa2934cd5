"""Parses the heads of HTTP/1 requests and formats those of responses. Pure.

Source: RFC 9112, sections 2 to 6. Strict: a request that two parsers could understand in two ways is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

__all__ = ["END_OF_HEAD", "BadRequestError", "RequestHead", "parse_head", "response_head"]

END_OF_HEAD: Final = b"\r\n\r\n"

_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.([01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\0\r\n]*)")
_MAX_FIELDS: Final = 100
_MAX_DIGITS: Final = 19


class BadRequestError(Exception):
    """The request cannot be answered as it is.

    Attributes:
        status: The HTTP status to answer with, beside the exception's text.
    """

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """The request line and the headers of a request.

    Attributes:
        method: The method, such as ``GET``.
        target: The path with its query, as the client wrote it.
        is_http10: Whether the client speaks only HTTP/1.0, and so knows no chunks.
        headers: The headers by lower-case name; the values of a repeated one are joined by commas. Not in the
            ``repr``: the caller's token is among them.
        body_bytes: The length of the body.
    """

    method: str
    target: str
    is_http10: bool
    headers: Mapping[str, str] = field(repr=False)
    body_bytes: int


def parse_head(data: bytes) -> RequestHead:
    """Parse the head of a request.

    Args:
        data: The bytes from the request line to before :data:`END_OF_HEAD`.

    Raises:
        BadRequestError: The head is malformed, or gives the body no length.
    """
    first, *lines = data.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadRequestError("the request line cannot be read")
    if len(lines) > _MAX_FIELDS:
        raise BadRequestError(f"expected at most {_MAX_FIELDS} headers", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    headers: dict[str, str] = {}
    for text in lines:
        found = _FIELD.fullmatch(text)
        if found is None:
            raise BadRequestError("a header cannot be read")
        name, value = found[1].decode("ascii").lower(), found[2].strip(b" \t").decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return RequestHead(
        method=line[1].decode("ascii"),
        target=line[2].decode("ascii"),
        is_http10=line[3] == b"0",
        headers=headers,
        body_bytes=_body_bytes(headers),
    )


def _body_bytes(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequestError("expected a Content-Length", HTTPStatus.LENGTH_REQUIRED)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) <= _MAX_DIGITS):
        raise BadRequestError("the Content-Length is not a number")
    return int(length)


def response_head(status: int, headers: Mapping[str, str]) -> bytes:
    """Return the head of a response, after which the connection ends."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    fields = {"Date": formatdate(time.time(), usegmt=True), "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + END_OF_HEAD
