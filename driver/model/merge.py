"""Merges two inventories: the PCIe tree of sysfs, and the GPUs as NVIDIA's driver (NVML) reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from driver.model.devices import Gpu
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, pci_order

__all__ = ["merge_nvml"]


def merge_nvml(tree: Inventory, gpus: Iterable[Gpu], notes: Iterable[str] = ()) -> Inventory:
    """Put what NVML knows of a node's GPUs into the inventory that sysfs gave, by PCI address.

    NVML wins for each fact that it reports, the index included; the PCIe path is the tree's. A GPU that only NVML knows
    is kept without a path. An NVIDIA GPU that only the tree has is left out: CUDA cannot use it (bound to vfio-pci,
    fallen off the bus, or too old for the driver). Each of the two gets a note. GPUs of
    other vendors take the indices behind NVML's, in PCI order. All else stays as it was.

    Args:
        tree: From sysfs.
        gpus: From NVML; their addresses differ from each other.
        notes: From NVML; they go behind the tree's.

    Returns:
        The merged inventory, its source LIVE.
    """
    in_tree = {gpu.address: gpu for gpu in tree.gpus}
    known: dict[PciAddress, Gpu] = {}
    remarks: list[str] = []
    for gpu in gpus:
        below = in_tree.get(gpu.address)
        known[gpu.address] = gpu if below is None else _merged(below, gpu)
        if below is None:
            remarks.append(f"GPU {gpu.address}: NVML knows it, sysfs does not: its PCIe path is not known")
    others: list[Gpu] = []
    for gpu in tree.gpus:
        if gpu.address in known:
            continue
        if gpu.vendor == "nvidia":
            remarks.append(
                f"GPU {gpu.address}: left out, since sysfs has it and NVML does not list it, so CUDA cannot use it "
                f"(bound to vfio-pci, or broken? `lspci -k -s {gpu.address}` and `dmesg` tell)"
            )
        else:
            others.append(gpu)
    # NVML counts from 0 and knows nothing of other vendors' GPUs, which have numbers of the whole tree.
    behind = max((gpu.index for gpu in known.values()), default=-1) + 1
    others.sort(key=lambda gpu: pci_order(gpu.address))
    numbered = (replace(gpu, index=index) for index, gpu in enumerate(others, start=behind))
    return replace(
        tree,
        source=InventorySource.LIVE,
        gpus=tuple(sorted((*known.values(), *numbered), key=lambda gpu: (gpu.index, pci_order(gpu.address)))),
        notes=(*tree.notes, *notes, *remarks),
    )


def _merged(tree: Gpu, nvml: Gpu) -> Gpu:
    untold = {f.name: getattr(tree, f.name) for f in fields(Gpu) if getattr(nvml, f.name) is None}
    return replace(nvml, pcie=tree.pcie, **untold)
