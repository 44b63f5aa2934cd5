"""The inventory of a running node: sysfs for the PCIe tree, NICs and FPGAs, and NVML for NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from driver.adapters.host import HostRoot
from driver.adapters.nvml import discovery as nvml
from driver.adapters.sysfs import discovery as sysfs
from driver.errors import NodeError
from driver.model.inventory import Inventory, InventorySource
from driver.model.merge import merge_nvml

__all__ = ["HostReading", "discover", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """What the two sources report of a node, not merged yet.

    Attributes:
        tree: The devices that sysfs shows.
        report: What NVML reports of the GPUs, or why it does not.
        lent: The RDMA functions that were lent to pods while sysfs was read, by name.
    """

    tree: Inventory
    report: nvml.NvmlReport | NodeError
    lent: frozenset[str]


def read(
    host: HostRoot,
    *,
    node: str,
    lent: Callable[[], frozenset[str]] = frozenset,
    read_gpus: Callable[[HostRoot], nvml.NvmlReport] = nvml.read_gpus,
) -> HostReading:
    """Read sysfs and NVML. An NVML that fails is part of the result: what it means is for the caller to decide.

    Args:
        host: Where the node's ``/sys`` and ``/proc`` are. NVML always reports the machine that this process runs on.
        node: The node's name.
        lent: Returns the names of the RDMA functions that are lent to pods: from before one is moved into a network
            namespace until after it is back.
        read_gpus: Asks NVML; it may have to load the library first.

    Raises:
        InputError: There is no sysfs in ``host``.
        NodeError: sysfs cannot be read.
    """
    before = lent()
    tree = sysfs.discover(host, node=node, lent=before)
    after = lent()
    if not after <= before:
        # One that went while sysfs was read may have taken its NIC with it.
        tree = sysfs.discover(host, node=node, lent=before | after)
    tree = replace(tree, source=InventorySource.LIVE)
    report: nvml.NvmlReport | NodeError
    try:
        report = read_gpus(host)
    except NodeError as error:
        report = error
    return HostReading(tree=tree, report=report, lent=before | after)


def discover(host: HostRoot, *, node: str) -> Inventory:
    """Return everything that the node has now.

    Without an NVIDIA driver, or without its library in this container, the inventory is what sysfs shows, with a note.
    A driver that is there and broken is an error where the node has NVIDIA GPUs, since to leave them all out would look
    as if they had been taken from the node; where it has none (a VM image with the driver installed), it is a note.

    Args:
        host: As for :func:`read`.
        node: The node's name.

    Raises:
        InputError: There is no sysfs in ``host``.
        NodeError: sysfs cannot be read, or NVML does not start although the node has NVIDIA GPUs.
    """
    reading = read(host, node=node)
    tree, report = reading.tree, reading.report
    if isinstance(report, NodeError):
        has_nvidia = any(gpu.vendor == "nvidia" for gpu in tree.gpus)
        if has_nvidia and not isinstance(report, nvml.NvmlUnavailableError):
            raise report
        note = f"{report}; what only NVML tells of a GPU is not known: MIG, ECC, NVLink"
        return replace(tree, notes=(*tree.notes, note))
    left_out = tuple(part.note for part in report.partitions_left_out)
    return merge_nvml(tree, report.gpus, (*report.notes, *left_out))
