"""A node's inventory: all its devices and what the source could not report. The one input of layout and prepare."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from driver.model.devices import Device, Fpga, Gpu, RdmaNetnsMode, RdmaNic

__all__ = ["Inventory", "InventorySource", "lacks_nvlinks"]

# NVML's names of the modules on boards with NVLinks, and of the cards that a bridge joins in pairs (data sheets of the
# A30, A40, A100 PCIe, H100 PCIe, H100 NVL and H200 NVL). Other cards have none.
_MAY_HAVE_NVLINKS: Final = re.compile(
    r"SXM|HBM3|NVL|[AH][18]00.*PCIe|A[34]0\b|H[128]00\b|H20\b|B[23]00\b", re.IGNORECASE
)


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
        rdma_netns_mode: Who sees the RDMA devices; None where the source does not report it.
        notes: What the source could not report, or what was left out and why; one sentence each, for a person.
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


def lacks_nvlinks(gpus: Sequence[Gpu]) -> bool:
    """Whether no NVLinks are known of several NVIDIA GPUs that may have some, as far as their models say."""
    nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    if len(nvidia) < 2 or any(gpu.links for gpu in gpus):
        return False
    return any(gpu.model is None or _MAY_HAVE_NVLINKS.search(gpu.model) for gpu in nvidia)
