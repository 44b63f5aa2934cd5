"""A node's ResourceSlices as a pure function of its inventory: the same hardware gives the same bytes.

What is published: whole GPUs, RDMA NICs without VFs, VFs, FPGAs. A device that cannot be given as what it would be
published as is left out, and :func:`left_out` says why. Shares, MIG partitions and VF pools are not laid out yet.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from driver import DRIVER_NAME
from driver.api import resource_v1
from driver.api.validation.names import subdomain
from driver.api.validation.slices import DEVICES_PER_SLICE
from driver.errors import InputError
from driver.layout.devices import fpga_device, gpu_device, nic_device, vf_device
from driver.layout.neighbours import link_domains
from driver.layout.order import fpgas_in_order, gpus_in_order, nics_in_order, vfs_in_order
from driver.model.devices import Device, DeviceName, Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory, InventorySource

__all__ = ["left_out", "left_out_notes", "resource_slices"]

_IN_MIG_MODE: Final = "MIG mode is on, and MIG partitions are not published yet"
_GIVEN_BY_VFS: Final = "in place of a NIC that has VFs, these are published"
_NO_NODES: Final = (
    "no device node that a container could be given: bound to no driver, to vfio-pci, or in use in a network namespace "
    "of its own"
)
_NAME_LENGTH: Final = 253
_KINDS_OF_NODES: Final = 64


def resource_slices(inventory: Inventory, *, generation: int = 1) -> tuple[resource_v1.ResourceSlice, ...]:
    """The ResourceSlices of a node, in their order of allocation, which is the order of their names as well.

    The pool is named after the node. A node without devices has one slice without devices: the driver is up. Nodes
    with equal hardware share the tuples of devices (``is``), so that consumers can cache by identity.

    Args:
        inventory: The node.
        generation: The pool's generation: raised by the publisher with each change.

    Raises:
        InputError: The node's name is not one that Kubernetes allows, or two devices have one PCI address.
    """
    _check(inventory)
    chunks = _chunks(inventory.gpus, inventory.nics, inventory.fpgas, _nodes_told(inventory))
    pool = resource_v1.ResourcePool(name=inventory.node, generation=generation, resource_slice_count=len(chunks))
    spec = resource_v1.ResourceSliceSpec(driver=DRIVER_NAME, pool=pool, node_name=inventory.node)
    return tuple(
        resource_v1.ResourceSlice(
            api_version=resource_v1.API_VERSION,
            kind="ResourceSlice",
            metadata=resource_v1.ObjectMeta(name=_slice_name(inventory.node, index)),
            # A copy, because pydantic's constructor would make a tuple of its own.
            spec=spec.model_copy(update={"devices": devices}),
        )
        for index, devices in enumerate(chunks)
    )


def left_out(inventory: Inventory) -> dict[DeviceName, str]:
    """Which devices of the node are in no slice, and why: a reason for a person, that names no device."""
    told = _nodes_told(inventory)
    reasons = {gpu.name: _IN_MIG_MODE for gpu in inventory.gpus if not _is_whole(gpu)}
    reasons |= {nic.name: _GIVEN_BY_VFS for nic in inventory.nics if nic.vfs}
    reasons |= {device.name: _NO_NODES for device in _candidates(inventory) if told and not device.device_nodes_known}
    return reasons


def left_out_notes(inventory: Inventory) -> tuple[str, ...]:
    """As :func:`left_out`, as one sentence per reason."""
    devices = defaultdict[str, list[DeviceName]](list)
    for name, reason in left_out(inventory).items():
        devices[reason].append(name)
    return tuple(f"not published ({reason}): {', '.join(sorted(names))}" for reason, names in devices.items())


def _nodes_told(inventory: Inventory) -> bool:
    """Whether the source tells device nodes; topology files never do, and simulation assumes them."""
    return inventory.source is not InventorySource.NCCL_TOPOLOGY


def _candidates(inventory: Inventory) -> Iterator[Device]:
    """What would be published if all device nodes were known."""
    yield from (gpu for gpu in inventory.gpus if _is_whole(gpu))
    for nic in inventory.nics:
        yield from _given_as(nic)
    yield from inventory.fpgas


def _given_as(nic: RdmaNic) -> tuple[RdmaNic | RdmaVf, ...]:
    # A PF is not given to one claim while its VFs are given to others.
    return nic.vfs or (nic,)


def _is_whole(gpu: Gpu) -> bool:
    # NVIDIA MIG User Guide: with MIG mode on, no CUDA work runs on the GPU outside of its partitions.
    return gpu.mig is None or not gpu.mig.enabled


def _check(inventory: Inventory) -> None:
    for error in subdomain("node", inventory.node):
        raise InputError(f"the node's name {error.message}", hint="give the node a name that Kubernetes allows")
    twice = [address for address, times in Counter(d.address for d in inventory.devices()).items() if times > 1]
    if twice:
        raise InputError(f"node {inventory.node} has two devices with the PCI address {min(twice)}")


@lru_cache(maxsize=_KINDS_OF_NODES)
def _chunks(
    gpus: tuple[Gpu, ...],
    nics: tuple[RdmaNic, ...],
    fpgas: tuple[Fpga, ...],
    nodes_told: bool,  # noqa: FBT001 - a part of the cache's key
) -> tuple[tuple[resource_v1.Device, ...], ...]:
    def can_be_given(device: Device) -> bool:
        # prepare would refuse it each time, and the scheduler would choose it again.
        return device.device_nodes_known or not nodes_told

    domains = link_domains(gpus)
    usable_nics = [nic for nic in nics if any(map(can_be_given, _given_as(nic)))]
    # A GPU in MIG mode is no use as a whole one.
    usable_gpus = [gpu for gpu in gpus if _is_whole(gpu) and can_be_given(gpu)]
    ordered_gpus = gpus_in_order(usable_gpus, usable_nics, domains)
    ordered_nics = nics_in_order(usable_nics, ordered_gpus)
    vendors = {nic.address: nic.vendor for nic in nics}
    devices = (
        *(gpu_device(gpu, domains=domains) for gpu in ordered_gpus),
        *(nic_device(nic) for nic in ordered_nics if not nic.vfs),
        *(vf_device(vf, vendor=vendors.get(vf.parent)) for vf in vfs_in_order(ordered_nics) if can_be_given(vf)),
        *(fpga_device(fpga) for fpga in fpgas_in_order([fpga for fpga in fpgas if can_be_given(fpga)])),
    )
    starts = range(0, max(len(devices), 1), DEVICES_PER_SLICE)
    return tuple(devices[start : start + DEVICES_PER_SLICE] for start in starts)


def _slice_name(node: str, index: int) -> str:
    suffix = f"-{DRIVER_NAME}-{index:04}"
    if len(node) + len(suffix) > _NAME_LENGTH:
        digest = hashlib.sha256(node.encode()).hexdigest()[:12]
        node = f"{node[: _NAME_LENGTH - len(suffix) - len(digest) - 1].rstrip('-.')}-{digest}"
    return node + suffix
