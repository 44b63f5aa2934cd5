"""The interfaces between the gRPC server and the rest of the plugin.

The gRPC server knows nothing of checkpoints, hardware or the API server, and what stands behind these interfaces knows
nothing of gRPC. An implementation must be safe to call from several threads at once: the kubelet calls in parallel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from driver.plan import PreparedDevice

__all__ = ["ClaimPrepared", "ClaimService", "DeviceHealth", "HealthSource", "RegistrationListener", "StreamListener"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPrepared:
    """A claim that is ready for its containers.

    Attributes:
        devices: In the allocation's order; empty where the claim has no device of this driver.
    """

    devices: tuple[PreparedDevice, ...]


class ClaimService(Protocol):
    """Prepares and unprepares claims; each call is idempotent, since the kubelet repeats them at will."""

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """Prepare claims.

        Args:
            claims: Which ones; every UID once.

        Returns:
            By claim UID, an entry for every claim of the call: its devices, or the error.
        """
        ...

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """Undo the preparation of claims; one that was never prepared is undone already.

        Args:
            claims: Which ones; every UID once. The objects may be gone from the API server.

        Returns:
            By claim UID, an entry for every claim of the call: None if it is undone, or the error.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """The health of one published device, as the kubelet shows it in a pod's status.

    Attributes:
        pool: Its pool: the node.
        device: Its name in the pool.
        healthy: Whether it is; None where that is not known.
        message: Why it is not; the kubelet cuts it at 1,024 bytes.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


class HealthSource(Protocol):
    """The health of all published devices, with a version that grows with every change."""

    def current(self) -> Sequence[DeviceHealth]:
        """Return the health of every published device: the kubelet takes a missing device's health as unknown."""
        ...

    def version(self) -> int:
        """Return a number that grows with every change."""
        ...

    def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the version is no longer ``version``, at most ``timeout_s`` seconds; returns the version then."""
        ...


class StreamListener(Protocol):
    """Learns which streams of the devices' health are open. Must not block, and may be called from any thread."""

    def opened(self, service: str) -> None:
        """Learn that a client has opened a stream of this gRPC service."""
        ...

    def closed(self, service: str) -> None:
        """Learn that such a stream has ended."""
        ...


class RegistrationListener(Protocol):
    """Receives the kubelet's answers to the registration."""

    def registered(self, ok: bool, error: str) -> None:  # noqa: FBT001 - as the kubelet reports it
        """Receive the kubelet's answer; called again after every restart of the kubelet.

        Args:
            ok: Whether the kubelet accepted this plugin.
            error: Why it did not; empty where it did.
        """
        ...
