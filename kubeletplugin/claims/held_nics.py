"""What prepared claims hold of the node's RDMA NICs, for planning the next one: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from driver.model.devices import DeviceName
from driver.plan.nic_host import NicHost
from kubeletplugin.state.entry import Entry

__all__ = ["held_of_nics", "with_taken"]


def held_of_nics(claim_uid: str, entries: Iterable[Entry], *, boot_id: str) -> NicHost:
    """The virtual functions that other claims hold, and those that the claim itself was given before.

    A claim of an earlier boot holds nothing; what the claim itself had then it gets
    again if nobody else has it now.

    Args:
        claim_uid: The claim that is to be planned.
        entries: All prepared claims.
        boot_id: The node's current boot.
    """
    entries = tuple(entries)
    taken = frozenset(
        use.vf
        for entry in entries
        if entry.uid != claim_uid and entry.boot_id == boot_id
        for use in entry.nic_uses
        if use.vf is not None
    )
    own = tuple(
        (request, device.share_id, DeviceName(device.nic_use.vf))
        for entry in entries
        if entry.uid == claim_uid
        for device in entry.devices
        if device.nic_use is not None and device.nic_use.vf is not None and not device.admin_access
        for request in device.request_names
    )
    return NicHost(taken_vfs=taken, own_vfs=tuple(item for item in own if item[2] not in taken))


def with_taken(nics: NicHost, names: Collection[str]) -> NicHost:
    """The same, with more that is not to be had.

    Args:
        nics: What claims hold.
        names: Of functions, or of other devices, which do not matter.
    """
    taken = frozenset(nics.taken_vfs) | {DeviceName(name) for name in names}
    return replace(nics, taken_vfs=taken, own_vfs=tuple(item for item in nics.own_vfs if item[2] not in taken))
