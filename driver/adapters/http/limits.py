"""What a server takes upon itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one server.

    Attributes:
        threads: How many requests are worked on at once, besides ``own_threads``.
        own_threads: By path prefix: so many requests of these paths, in threads of their own.
        streams: How many streams may be open at once, besides; one thread each.
        timeout_s: For a request in all, and for each piece of a stream.
        silence_s: How long a client may say or take nothing.
        connections: How many may be open, besides streams.
        connections_of_source: How many of these one source may have.
        head_bytes: Of a request's head.
        body_bytes: Of a request's body.
        small_body_bytes: A larger body is read on only when it has the one place for large bodies.
        buffered_bytes: What may be kept in memory for clients in all: requests, and answers that they do not take.
    """

    threads: int
    own_threads: Mapping[str, int] = field(default_factory=dict)
    streams: int = 0
    timeout_s: float
    silence_s: float = 5.0
    connections: int = 256
    connections_of_source: int = 64
    head_bytes: int = 8 * 1024
    body_bytes: int = 0
    small_body_bytes: int = 256 * 1024
    buffered_bytes: int = 16 * 1024 * 1024
