"""GPUs that NVIDIA's driver has and NVML does not report, as a rule because they are lost: they must not vanish."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from driver.model.devices import Gpu
from driver.model.inventory import Inventory

__all__ = ["silent_gpus", "with_silent", "without_silent"]

_NVIDIA: Final = "nvidia"


def silent_gpus(tree: Inventory, reported: Collection[Gpu]) -> tuple[Gpu, ...]:
    """Return the GPUs that NVIDIA's driver shows in procfs and NVML does not report."""
    answering = {gpu.address for gpu in reported if gpu.uuid is not None}
    return tuple(
        replace(gpu, minor=None)
        for gpu in tree.gpus
        if gpu.vendor == _NVIDIA and gpu.minor is not None and gpu.address not in answering
    )


def without_silent(found: Inventory, silent: Collection[Gpu]) -> Inventory:
    """Return the inventory without them and without the notes on them."""
    if not silent:
        return found
    addresses = {gpu.address for gpu in silent}
    about = tuple(f"GPU {address}: " for address in addresses)
    return replace(
        found,
        gpus=tuple(gpu for gpu in found.gpus if gpu.address not in addresses),
        notes=(
            *(note for note in found.notes if not note.startswith(about)),
            *(f"GPU {gpu.address}: NVML tells nothing of it; what was known of it before stays" for gpu in silent),
        ),
    )


def with_silent(inventory: Inventory, silent: Collection[Gpu], former: Inventory | None) -> Inventory:
    """Return the inventory with the GPUs that NVML does not report: a device with a fault must not vanish.

    One that was seen before is as it was then; one that this process has not seen cannot be given to anybody. An index
    that another GPU has by now is another's: NVML counts the others.
    """
    before = {gpu.address: gpu for gpu in former.gpus} if former else {}
    gpus = list(inventory.gpus)
    for gpu in silent:
        if any(gpu.address == known.address for known in gpus):
            continue
        kept = before.get(gpu.address, gpu)
        taken = {known.index for known in gpus}
        gpus.append(kept if kept.index not in taken else replace(kept, index=max(taken) + 1))
    return replace(inventory, gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index))) if silent else inventory
