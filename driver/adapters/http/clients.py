"""Names the client behind an address: the unit among which connections, requests and server time are shared out."""

from __future__ import annotations

import socket
from typing import Final, Literal, TypeAlias, get_args

__all__ = ["READERS", "Readers", "client_of", "is_local"]

Readers: TypeAlias = Literal["everyone", "localhost", "nobody"]
"""Who may read a page: every client; the pod itself and ``kubectl port-forward``; no client."""

READERS: Final[tuple[Readers, ...]] = get_args(Readers)

_MAPPED: Final = "::ffff:"
_PREFIX_BYTES: Final = 8


def client_of(host: str) -> str:
    """Return the client's name: its IPv4 address, or its IPv6 network of 64 bits.

    The owner of one IPv6 address has all 2^64 addresses of its network.

    Args:
        host: An address as ``accept`` returns it: a dual-stack socket writes IPv4 as ``::ffff:192.0.2.1``.
    """
    if host.startswith(_MAPPED) and "." in host:
        return host.removeprefix(_MAPPED)
    if ":" not in host or host == "::1":
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:_PREFIX_BYTES].ljust(len(packed), bytes(1)))}/64"


def is_local(client: str) -> bool:
    """Whether a client is in this network namespace: one of the pod's containers, or ``kubectl port-forward``."""
    return client == "::1" or client.startswith("127.")
