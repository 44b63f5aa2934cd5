"""Who counts as one client: whom connections, requests and questions are shared out among."""

from __future__ import annotations

import socket
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["READERS", "Readers", "is_local", "source_of"]

Readers: TypeAlias = Literal["everyone", "localhost", "nobody"]
"""Who is given a page: whoever reaches the port; the pod itself, and ``kubectl port-forward``; nobody."""

READERS: Final[tuple[Readers, ...]] = get_args(Readers)

_MAPPED: Final = "::ffff:"
_PREFIX_BYTES: Final = 8


def source_of(host: str) -> str:
    """The client's name in every account that is kept of clients: its IPv4 address, or its IPv6 network of 64 bits.

    Whoever has an IPv6 address has all 2^64 addresses of its network.

    Args:
        host: An address as ``accept`` gives it: on a socket for both kinds, IPv4 comes as ``::ffff:192.0.2.1``.
    """
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    if ":" not in host or host == "::1":
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:_PREFIX_BYTES].ljust(len(packed), bytes(1)))}/64"


def is_local(source: str) -> bool:
    """Whether a source is this network namespace itself: the pod's own containers, and ``kubectl port-forward``."""
    return source == "::1" or source.startswith("127.")
