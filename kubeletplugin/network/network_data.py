"""How a pod sees an interface that was moved into it: the mover says it, and the claim's status tells it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NetworkData"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkData:
    """An interface as its pod has it, for ``status.devices[].networkData`` of the claim.

    Attributes:
        interface_name: Its name in the pod.
        hardware_address: Its MAC address, or InfiniBand's 20 bytes; empty where it has none.
        ips: Its addresses with their prefix lengths, such as ``10.0.0.7/24``.
    """

    interface_name: str
    hardware_address: str
    ips: tuple[str, ...]
