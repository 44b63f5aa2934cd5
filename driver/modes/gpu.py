"""What there is of one GPU at the moment, and which of its devices can be in use at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.layout.conflicts import GpuModes, gpu_modes
from driver.layout.device_rules import gpu_policy
from driver.layout.left_out import names_device_nodes
from driver.layout.neighbours import link_groups
from driver.layout.order import gpus_in_order
from driver.model.devices import DeviceName, Gpu
from driver.model.inventory import Inventory
from driver.model.pci import PciePath

__all__ = ["GpuState", "card_of", "fitting", "known_modes", "modes_in_order"]

_GPUS: Final = 1024
_CARD: Final = re.compile(r"(?:gpu-ratio|gpu|mig)-([0-9a-f]+-[0-9a-f]+-[0-9a-f]+-[0-9a-f]+)(?![0-9a-z])")
_NONE: Final[frozenset[DeviceName]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What there is of one GPU at the moment, by the names of its devices.

    Attributes:
        modes: What it could publish, and what the policies offer of that.
        opened: The devices that are published, and that can be allocated.
        closed: The devices that are published with the taint that keeps them from being allocated.
        in_use: The devices that claims have.
        wish: The devices that pending claims need; none for no wish.
        is_healthy: Whether nothing but claims and this driver's own changes keeps it from being allocated.
    """

    modes: GpuModes
    opened: frozenset[DeviceName] = _NONE
    closed: frozenset[DeviceName] = _NONE
    in_use: frozenset[DeviceName] = _NONE
    wish: frozenset[DeviceName] = _NONE
    is_healthy: bool = True


def card_of(device: str) -> str | None:
    """Return the part of a device's name that all devices of one GPU have in common; None for other devices."""
    found = _CARD.match(device)
    return None if found is None else found[1]


def known_modes(gpu: Gpu, policy: GpuPolicy) -> GpuModes:
    """Return :func:`driver.layout.conflicts.gpu_modes`, remembered: GPUs of equal nodes have one answer.

    Args:
        gpu: The GPU.
        policy: The rules for it.
    """
    return _modes(replace(gpu, pcie=PciePath(), index=0, minor=None, uuid=None, links=()), policy)


@lru_cache(maxsize=_GPUS)
def _modes(gpu: Gpu, policy: GpuPolicy) -> GpuModes:
    return gpu_modes(gpu, policy)


def modes_in_order(
    inventory: Inventory, policies: GpuPolicies, device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES
) -> list[GpuModes]:
    """Return what a node's GPUs could publish, in the order in which whole ones are allocated.

    A GPU without the device nodes that a container would need is left out, as it is by
    :func:`driver.layout.resource_slices`.

    Args:
        inventory: The node.
        policies: What the administrator lets be given of GPUs.
        device_policies: What the administrator keeps off the offer.
    """
    gpus = inventory.gpus
    if names_device_nodes(inventory):
        gpus = tuple(gpu for gpu in gpus if gpu.device_nodes_known)
    return [
        known_modes(gpu, gpu_policy(gpu, inventory.node, policies, device_policies))
        for gpu in gpus_in_order(gpus, inventory.nics, link_groups(inventory.gpus))
    ]


def fitting(
    modes: GpuModes, names: Iterable[DeviceName], beside: Collection[DeviceName] = _NONE
) -> frozenset[DeviceName]:
    """Return those of a GPU's devices that can be in use at once, the first ones first.

    Args:
        modes: The GPU's.
        names: The devices in the order of preference; those that the policies do not offer are passed over.
        beside: Devices that have to fit as well.
    """
    offered = set(modes.names)
    wanted = [name for name in names if name in offered]
    if modes.fit({*beside, *wanted}):  # as it nearly always is
        return frozenset(wanted)
    chosen: set[DeviceName] = set()
    for name in wanted:
        if modes.fit({*beside, *chosen, name}):
            chosen.add(name)
    return frozenset(chosen)
