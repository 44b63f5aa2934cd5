"""What all providers have in common: whose GPU a share is of, what a whole one is, how amounts are written."""

from __future__ import annotations

from typing import Final

from driver.api.quantity import Quantity
from driver.config.gpu_classes import class_of_strategy
from driver.errors import NodeError
from driver.model.devices import DeviceType
from driver.plan.isolation.provider import GpuShare, Isolation, IsolationHost

__all__ = ["NO_CORE", "OTHER_CLASS", "WHOLE_GPU", "gpu_uuid", "is_nvidia", "shown_share"]

WHOLE_GPU: Final = Isolation(
    enforced=True,
    by="device",
    version=None,
    message="the whole GPU is given to this claim: no other claim can have a share of it",
)
"""The isolation of a whole GPU, whatever the strategy: the claim's own containers may share it, nobody else can."""

NO_CORE: Final = "no core reserved: its core is not limited"
"""What is said of a share that asked for no core, and that the policies give none."""

OTHER_CLASS: Final = (
    f"name a DeviceClass of another strategy, such as {class_of_strategy(DeviceType.GPU, 'timeSlicing')}"
)
"""What to do where a strategy cannot serve a share: the class chooses the strategy, and a share may name no other."""


def is_nvidia(share: GpuShare) -> bool:
    """Whether the GPU is NVIDIA's: time slices, MPS and HAMi-core are for these alone."""
    return share.gpu.vendor == "nvidia"


def gpu_uuid(share: GpuShare, host: IsolationHost, subject: str) -> str:
    """Return the GPU's UUID, by which NVIDIA's tools know it.

    Raises:
        NodeError: The inventory has none.
    """
    if share.gpu.uuid is not None:
        return share.gpu.uuid
    if host.simulated:
        return f"GPU-assumed-{share.gpu.address}"
    raise NodeError(
        f"{subject}: the GPU's UUID is not known, and NVIDIA's tools need it to share the GPU",
        hint="check that the NVIDIA driver and libnvidia-ml.so.1 work on the node: nvidia-smi -L",
    )


def shown_share(core: int | None, memory_bytes: int | None) -> str:
    """Return amounts of a GPU for a message, such as ``50 % of the core and 20Gi of memory``.

    Args:
        core: In percent; None and 0 for none.
        memory_bytes: None for none.
    """
    parts = (
        f"{core} % of the core" if core else "",
        f"{Quantity.of(memory_bytes, binary=True)} of memory" if memory_bytes is not None else "",
    )
    return " and ".join(part for part in parts if part) or "nothing"
