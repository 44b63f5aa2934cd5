"""The bounds of one HTTP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server accepts and keeps at most.

    Attributes:
        threads: How many requests are worked on at once, besides ``own_threads``.
        own_threads: How many requests below a path prefix are worked on at once, in threads of their own.
        streams: How many streams may be open at once, besides; one thread each.
        timeout_s: The time for a request in all, and for each piece of a stream.
        silence_s: How long a client may neither send nor take anything.
        connections: How many connections may be open, besides streams.
        connections_per_client: How many of these one client may have.
        head_bytes: The size of a request's head.
        body_bytes: The size of a request's body.
        small_body_bytes: A larger body must have the one slot for large bodies to be read further.
        buffered_bytes: The memory for all clients' requests, and for responses that they have not taken yet.
    """

    threads: int
    own_threads: Mapping[str, int] = field(default_factory=dict)
    streams: int = 0
    timeout_s: float
    silence_s: float = 5.0
    connections: int = 256
    connections_per_client: int = 64
    head_bytes: int = 8 * 1024
    body_bytes: int = 0
    small_body_bytes: int = 256 * 1024
    buffered_bytes: int = 16 * 1024 * 1024
