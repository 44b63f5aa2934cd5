"""A node's inventory: all its devices and what the source could not tell. The one input of layout and prepare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from driver.model.devices import Device, Fpga, Gpu, RdmaNetnsMode, RdmaNic

__all__ = ["Inventory", "InventorySource"]


class InventorySource(StrEnum):
    """Who described the node."""

    LIVE = "live"
    SYSFS = "sysfs"
    NCCL_TOPOLOGY = "nccl-topology"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one node has, complete.

    Attributes:
        node: The node's name; it is the pool's name as well.
        source: Who described the node.
        gpus: By index.
        nics: RDMA PFs by index, their VFs inside.
        fpgas: By index.
        rdma_netns_mode: Who sees the RDMA devices; None where the source does not tell.
        notes: What the source could not tell, or what was left out and why; one sentence each, for a person.
    """

    node: str
    source: InventorySource
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[RdmaNic, ...] = ()
    fpgas: tuple[Fpga, ...] = ()
    rdma_netns_mode: RdmaNetnsMode | None = None
    notes: tuple[str, ...] = ()

    def devices(self) -> Iterator[Device]:
        """Yield every device: GPUs, then each NIC with its VFs behind it, then FPGAs."""
        yield from self.gpus
        for nic in self.nics:
            yield nic
            yield from nic.vfs
        yield from self.fpgas

    def renamed(self, node: str) -> Inventory:
        """Return the same hardware as another node (``simulate --nodes``); devices are shared, not copied."""
        return replace(self, node=node)
