"""Options that describe what the source of a simulated node leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.explain.explanation import Explanation
from driver.explain.reasons import Reason
from driver.layout.attributes import BANDWIDTH, MEMORY
from driver.model.devices import DeviceType
from driver.model.inventory import InventorySource
from driver.simulation.run import Simulation

__all__ = ["OptionHints"]

_MODEL: Final = (
    "name the GPUs' model with --gpu-model: without it it is not known which shares by percent and MIG partitions they"
    " would have (not tried)"
)
_MEMORY: Final = "name the GPUs' model with --gpu-model, or their memory with --gpu-memory (not tried)"
_VFS: Final = "say with --vfs-per-nic how many VFs each NIC has: no topology file records it (not tried)"
_SPEED: Final = "say with --nic-speed how fast the NICs' links are: it is not known of all (not tried)"


class OptionHints:
    """Finds the option that may give what a pod of a simulation misses.

    Args:
        simulation: The result.
    """

    def __init__(self, simulation: Simulation) -> None:
        gpus = [gpu for inventory in simulation.inventories for gpu in inventory.gpus]
        nics = [(inventory.source, nic) for inventory in simulation.inventories for nic in inventory.nics]
        options = {
            DeviceType.MIG: _MODEL if any(gpu.model is None for gpu in gpus) else "",
            DeviceType.GPU_RATIO: _MODEL if any(gpu.memory_bytes is None for gpu in gpus) else "",
            DeviceType.RDMA_VF: _VFS
            if any(source is InventorySource.NCCL_TOPOLOGY and not nic.vfs for source, nic in nics)
            else "",
        }
        self._by_class = {
            item.metadata.name: option
            for item in simulation.classes
            for selector in item.spec.selectors
            for kind, option in options.items()
            if option and selector.cel is not None and f'"{kind}"' in selector.cel.expression
        }
        self._memory = _MEMORY if any(gpu.memory_bytes is None for gpu in gpus) else ""
        self._speed = _SPEED if any(nic.speed_gbps is None for _, nic in nics) else ""

    def hint(self, explanation: Explanation, specs: Mapping[str, str]) -> str:
        """Return the option that may give what an explanation misses, in a sentence; empty where there is none.

        Args:
            explanation: Why something does not fit.
            specs: The claims' specs as JSON, by ``namespace/name``.
        """
        first = explanation.findings[0]
        if first.claim is None:
            return ""
        if first.reason is Reason.CLASS_SELECTS_TOO_FEW:
            classes = [item.device_class for item in explanation.requests if item.request == first.request]
            return next((self._by_class[name] for name in classes if name in self._by_class), "")
        spec = specs.get(f"{first.claim.namespace}/{first.claim.name}", "")
        if first.reason is not Reason.CAPACITY_UNKNOWN:
            return ""
        if f'"{BANDWIDTH}"' in spec:
            return self._speed
        return self._memory if f'"{MEMORY}"' in spec else ""
