"""A request, its answer, and what makes the one of the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["Request", "Response", "Route"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        method: Such as ``GET``.
        path: As the client wrote it, percent-encoded, without the query: ``/claims/default/training/explain``.
        query: The query's parameters; of a name given twice, the last.
        headers: By lower-case name. Not in its ``repr``: the caller's token is among them.
        body: Empty where there is none.
        source: Who sent it, as far as the network says: see :func:`~driver.adapters.http.sources.source_of`.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to a request.

    Attributes:
        status: The HTTP status.
        body: What is sent.
        content_type: What the body is.
        headers: Further headers.
        stream: Sent piece by piece, in place of ``body``, until it ends or the client goes; each piece at once. The
            server calls its ``close`` where it has one, also where it has not begun. Only so many streams are open at a
            time: who comes too late gets 503. An empty piece is not sent: then the server looks whether the client is
            still there.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Iterator[bytes] | None = field(default=None, repr=False)

    @classmethod
    def of_json(cls, value: object, *, status: int = 200) -> Response:
        """A JSON document."""
        body = json.dumps(value, separators=(",", ":")).encode()
        return cls(status=status, body=body, content_type="application/json")

    @classmethod
    def of_text(cls, text: str, *, status: int = 200) -> Response:
        """Lines for a person; a closing newline is added where there is none."""
        return cls(status=status, body=(text if text.endswith("\n") else f"{text}\n").encode())


Route: TypeAlias = Callable[[Request], Response]
"""Answers a request, in a thread of the server: it must be safe for threads. What it raises becomes a 500."""
