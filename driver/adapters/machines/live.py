"""The inventory of a running node: sysfs for the PCIe tree, NICs and FPGAs, and NVML for NVIDIA's GPUs."""

from __future__ import annotations

from dataclasses import replace

from driver.adapters.host import HostRoot
from driver.adapters.nvml import discovery as nvml
from driver.adapters.sysfs import discovery as sysfs
from driver.errors import NodeError
from driver.model.inventory import Inventory, InventorySource
from driver.model.merge import merge_nvml

__all__ = ["discover"]


def discover(host: HostRoot, *, node: str) -> Inventory:
    """Everything the node has now.

    Without an NVIDIA driver, or without its library in this container, the inventory is what sysfs tells, with a note.
    A driver that is there and broken is an error where the node has NVIDIA GPUs, since to leave them all out would look
    as if they had been taken from the node; where it has none (a VM image with the driver installed), it is a note.

    Args:
        host: Where the node's ``/sys`` and ``/proc`` are. NVML always tells of the machine that this process runs on.
        node: The node's name.

    Raises:
        InputError: There is no sysfs in ``host``.
        NodeError: sysfs cannot be read, or NVML does not start although the node has NVIDIA GPUs.
    """
    tree = sysfs.discover(host, node=node)
    try:
        report = nvml.read_gpus(host)
    except NodeError as error:
        has_nvidia = any(gpu.vendor == "nvidia" for gpu in tree.gpus)
        if has_nvidia and not isinstance(error, nvml.NvmlUnavailableError):
            raise
        note = f"{error}; what only NVML tells of a GPU is not known: MIG, ECC, NVLink"
        return replace(tree, source=InventorySource.LIVE, notes=(*tree.notes, note))
    left_out = tuple(part.note for part in report.partitions_left_out)
    return merge_nvml(tree, report.gpus, (*report.notes, *left_out))
