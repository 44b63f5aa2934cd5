"""What of a node is in no ResourceSlice, and why; without the models of the API's objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from driver.api.gpu_modes import ALL_MODES, GpuMode
from driver.layout.offers import gpu_offer
from driver.model.devices import Device, DeviceName, Gpu
from driver.model.inventory import Inventory, InventorySource

if TYPE_CHECKING:
    from driver.api.device_policies import DevicePolicies
    from driver.api.gpu_policies import GpuPolicies

__all__ = ["left_out", "left_out_notes", "names_device_nodes"]

_GIVEN_BY_VFS: Final = "a NIC with VFs is given by its VFs alone"
_NO_NODES: Final = (
    "no device node that a container could be given: bound to no driver, to vfio-pci, or in use in a network namespace "
    "of its own"
)


def left_out(
    inventory: Inventory, *, policies: GpuPolicies | None = None, device_policies: DevicePolicies | None = None
) -> dict[DeviceName, str]:
    """Return the devices that are not on offer, each with a reason for a person, which names no device.

    A GPU of which MIG partitions are not published has an entry by the name with which theirs begin. A VF that its
    NIC's pool can give is on offer. The arguments are those of :func:`resource_slices`; what is on offer of a NIC is on
    offer under any NicPolicies. None: GPUs are on offer in all modes, and nothing is kept off.
    """
    offers = [gpu_offer(gpu, _modes(gpu, inventory.node, policies)) for gpu in inventory.gpus]
    reasons = {name: reason for offer in offers for name, reason in offer.left_out}
    reasons |= {nic.name: _GIVEN_BY_VFS for nic in inventory.nics if nic.vfs}
    if names_device_nodes(inventory):
        wanted = (*(offer.gpu for offer in offers if offer), *_others(inventory))
        reasons |= {device.name: _NO_NODES for device in wanted if not device.device_nodes_known}
    return reasons if device_policies is None else reasons | _kept_off(inventory, policies, device_policies)


def left_out_notes(
    inventory: Inventory, *, policies: GpuPolicies | None = None, device_policies: DevicePolicies | None = None
) -> tuple[str, ...]:
    """Return the same as :func:`left_out`, as one sentence per reason."""
    devices = defaultdict[str, list[DeviceName]](list)
    for name, reason in left_out(inventory, policies=policies, device_policies=device_policies).items():
        devices[reason].append(name)
    return tuple(f"not published ({reason}): {', '.join(sorted(names))}" for reason, names in devices.items())


def names_device_nodes(inventory: Inventory) -> bool:
    """Whether the source names device nodes; topology files never do, and simulation assumes them."""
    return inventory.source is not InventorySource.NCCL_TOPOLOGY


def _modes(gpu: Gpu, node: str, policies: GpuPolicies | None) -> Collection[GpuMode]:
    if policies is None:
        return ALL_MODES
    return policies.of(model=gpu.model, node=node, address=gpu.address).modes


def _kept_off(
    inventory: Inventory, policies: GpuPolicies | None, device_policies: DevicePolicies
) -> dict[DeviceName, str]:
    """Return what the DevicePolicies keep off, and GPUs of which nothing else is left."""
    # Here, because a node asks for the rest as well, and has no models of policies.
    from driver.api.gpu_policies import DEFAULT_POLICIES  # noqa: PLC0415
    from driver.layout.device_rules import OFF, gpu_policy, node_rules  # noqa: PLC0415

    off = set(node_rules(inventory, device_policies).off)
    for gpu in inventory.gpus:
        policy = gpu_policy(gpu, inventory.node, policies or DEFAULT_POLICIES, device_policies)
        if gpu_offer(gpu, _modes(gpu, inventory.node, policies)) and not gpu_offer(gpu, policy.modes):
            off.add(gpu.name)
    return {device.name: OFF for device in inventory.devices() if device.name in off}


def _others(inventory: Inventory) -> Iterator[Device]:
    """Yield what would be published, GPUs apart, if all device nodes were known."""
    for nic in inventory.nics:
        yield from nic.vfs or (nic,)
    yield from inventory.fpgas
