"""Which function of a NIC a claim gets: the one that it names, or one of a pool of virtual functions (VFs)."""

from __future__ import annotations

from collections.abc import Sequence

from driver.errors import NodeError
from driver.model.devices import DeviceName, RdmaFunction, RdmaNic, RdmaVf
from driver.model.parts import RdmaVfPool
from driver.plan.given import Given
from driver.plan.nic_host import NicHost

__all__ = ["chosen_functions"]


def chosen_functions(given: Sequence[Given], nics: NicHost) -> tuple[RdmaFunction | None, ...]:
    """The function that each device stands for; None for what is no NIC, and for a pool that is only watched over.

    Of a pool it is the VF that the claim itself was given before, else the free one with the lowest number.

    Args:
        given: What the claim was given.
        nics: Which VFs other claims hold, and which the claim itself.

    Raises:
        NodeError: No VF is free, or a NIC's link is down and the request does not tolerate it.
    """
    for item in given:
        if item.nic is not None and item.nic.link_is_down and not item.admin_access and not item.tolerates_link_down:
            raise _link_down(item, item.nic)
    # What the claim names or had before comes first: a free choice must not take it away.
    functions = {place: _named(item) or _former(item, nics) for place, item in enumerate(given)}
    taken = set(nics.taken_vfs) | {function.name for function in functions.values() if function is not None}
    for place, item in enumerate(given):
        if functions[place] is None and isinstance(item.device, RdmaVfPool) and not item.admin_access:
            functions[place] = chosen = _free(item, item.device, taken)
            taken.add(chosen.name)
    return tuple(functions[place] for place in range(len(given)))


def _named(item: Given) -> RdmaFunction | None:
    device = item.device
    return device if isinstance(device, RdmaFunction) else None


def _former(item: Given, nics: NicHost) -> RdmaVf | None:
    if not isinstance(item.device, RdmaVfPool) or item.admin_access:
        return None
    own = {name for request, share, name in nics.own_vfs if (request, share) == (item.base_request, item.share_id)}
    return next((vf for vf in item.device.vfs if vf.name in own), None)


def _free(item: Given, pool: RdmaVfPool, taken: set[DeviceName]) -> RdmaVf:
    # A pool's VFs are in the order of their numbers.
    free = next((vf for vf in pool.vfs if vf.name not in taken), None)
    if free is None:
        raise NodeError(
            f"{item.subject}: none of the {len(pool.vfs)} virtual functions of NIC {pool.nic.name} is free",
            hint="the kubelet retries; a pod that ends gives its own back, and an administrator can make more by "
            "sriov_numvfs while none is in use",
        )
    return free


def _link_down(item: Given, nic: RdmaNic) -> NodeError:
    states = {port.state for port in nic.ports if port.state}
    of_nic = "" if item.device is nic else f" of its NIC {nic.name}"
    return NodeError(
        f"{item.subject}: the link{of_nic} is not active ({', '.join(sorted(states))})",
        hint="the kubelet retries; check the cable, the switch port and, with InfiniBand, the subnet manager, or "
        "delete the pod so that its claim is allocated anew",
    )
