"""An HTTP request, its response, and the routes that make the one from the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

__all__ = ["Request", "Response", "Route", "longest_prefix"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request.

    Attributes:
        method: The method, such as ``GET``.
        path: The path as the client wrote it, percent-encoded, without the query: ``/claims/default/training/explain``.
        query: The query's parameters; of a name given twice, the last.
        headers: The headers by lower-case name. Not in the ``repr``: the caller's token is among them.
        body: The body; empty if there is none.
        client: The client by its address: see :func:`~driver.adapters.http.clients.client_of`.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An HTTP response.

    Attributes:
        status: The HTTP status.
        body: The body.
        content_type: The body's media type.
        headers: Further headers.
        stream: Sent piece by piece, in place of ``body``, until it ends or the client leaves; each piece at once. The
            server calls its ``close`` if it has one, also if it has not begun. The number of open streams is bounded:
            beyond it the client gets 503. An empty piece is not sent, and lets the server check whether the client is
            still there.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = field(default=None, repr=False)

    @classmethod
    def of_json(cls, value: object, *, status: int = 200) -> Response:
        """Return a JSON document."""
        body = json.dumps(value, separators=(",", ":")).encode()
        return cls(status=status, body=body, content_type="application/json")

    @classmethod
    def of_text(cls, text: str, *, status: int = 200) -> Response:
        """Return plain text; a closing newline is added if it has none."""
        return cls(status=status, body=(text if text.endswith("\n") else f"{text}\n").encode())

    @classmethod
    def busy(cls, text: str, *, status: int = HTTPStatus.TOO_MANY_REQUESTS, after_s: int = 1) -> Response:
        """Return the answer that something has run short, and after how many seconds to try again."""
        body = f"{text}: try again later\n".encode()
        return cls(status=status, body=body, headers={"Retry-After": str(after_s)})


Route: TypeAlias = Callable[[Request], Response]
"""Answers a request, in a thread of the server: it must be thread-safe. What it raises becomes a 500."""


def longest_prefix(prefixes: Iterable[str], path: str) -> str | None:
    """Return the longest of the path prefixes that the path is, or lies below; None if there is none."""
    matching = [prefix for prefix in prefixes if path == prefix or path.startswith(f"{prefix.rstrip('/')}/")]
    return max(matching, key=len) if matching else None
