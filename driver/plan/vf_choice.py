"""Chooses which function of a NIC a claim gets: the one that it names, or one of a pool of virtual functions (VFs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driver.errors import NodeError
from driver.model.devices import DeviceName, RdmaFunction, RdmaNic, RdmaVf
from driver.model.parts import RdmaVfPool
from driver.plan.allocated import AllocatedDevice
from driver.plan.decided import DecidedDevice, NicPlan
from driver.plan.host import NicHost

__all__ = ["with_functions"]


def with_functions(devices: Sequence[DecidedDevice], nics: NicHost) -> tuple[DecidedDevice, ...]:
    """Return the devices, those of NICs with the function that the container gets.

    Of a pool that is the VF that the claim itself was given before, else the free one with the lowest number; a pool
    that is only watched over has none.

    Args:
        devices: The claim's devices.
        nics: Which VFs other claims hold, and which the claim itself.

    Raises:
        NodeError: No VF is free, or a NIC's link is down and the request does not tolerate it.
    """
    for item in (device.allocated for device in devices):
        if item.nic is not None and item.nic.link_is_down and not item.admin_access and not item.tolerates_link_down:
            raise _link_down(item, item.nic)
    # What the claim names or had before comes first: a free choice must not take it away.
    known = [_with_function(device, device.function or _former(device.allocated, nics)) for device in devices]
    taken = set(nics.taken_vfs) | {device.nic.function.name for device in known if device.nic is not None}
    chosen = []
    for device in known:
        item = device.allocated
        if device.nic is None and isinstance(item.device, RdmaVfPool) and not item.admin_access:
            function = _free(item, item.device, taken)
            taken.add(function.name)
            chosen.append(_with_function(device, function))
        else:
            chosen.append(device)
    return tuple(chosen)


def _with_function(device: DecidedDevice, function: RdmaFunction | None) -> DecidedDevice:
    return device if function is None else replace(device, nic=NicPlan(function=function))


def _former(item: AllocatedDevice, nics: NicHost) -> RdmaVf | None:
    if not isinstance(item.device, RdmaVfPool) or item.admin_access:
        return None
    own = {name for request, share, name in nics.own_vfs if (request, share) == (item.base_request, item.share_id)}
    return next((vf for vf in item.device.vfs if vf.name in own), None)


def _free(item: AllocatedDevice, pool: RdmaVfPool, taken: set[DeviceName]) -> RdmaVf:
    # A pool's VFs are in the order of their numbers.
    free = next((vf for vf in pool.vfs if vf.name not in taken), None)
    if free is None:
        raise NodeError(
            f"{item.subject}: none of the {len(pool.vfs)} virtual functions of NIC {pool.nic.name} is free",
            hint="the kubelet retries; a pod that ends gives its own back, and an administrator can make more by "
            "sriov_numvfs while none is in use",
        )
    return free


def _link_down(item: AllocatedDevice, nic: RdmaNic) -> NodeError:
    states = {port.state for port in nic.ports if port.state}
    of_nic = "" if item.device is nic else f" of its NIC {nic.name}"
    return NodeError(
        f"{item.subject}: the link{of_nic} is not active ({', '.join(sorted(states))})",
        hint="the kubelet retries; check the cable, the switch port and, with InfiniBand, the subnet manager, or "
        "delete the pod so that its claim is allocated anew",
    )
