"""What the node has for RDMA NICs, as far as planning a claim depends on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from driver.model.devices import DeviceName

__all__ = ["NicHost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicHost:
    """What the node has, and what of it other claims hold.

    Attributes:
        taken_vfs: The VFs that other claims hold, by their names in the pool.
        own_vfs: The VFs that the claim itself was given before, in the allocation's order, by (request, share id): a
            claim that is planned anew keeps them.
        has_cni_plugin: Whether Rootport's CNI plugin is part of the node's network configuration.
        simulated: Nothing is known of the host and everything is assumed to be there, for ``rootport simulate``.
    """

    taken_vfs: Collection[DeviceName] = frozenset()
    own_vfs: tuple[tuple[str, str | None, DeviceName], ...] = ()
    has_cni_plugin: bool = False
    simulated: bool = False
