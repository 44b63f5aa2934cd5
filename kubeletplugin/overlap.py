"""Whether two claims may have one device at the same time: the one place that says so.

The scheduler allocates; this is the last line of defence behind it. It matters in practice when a pod was
force-deleted: its claim is free in the API, and its containers still run.
"""

from __future__ import annotations

from collections.abc import Iterable

from driver.errors import NodeError
from kubeletplugin.checkpoint import Entry, EntryDevice

__all__ = ["refuse_overlap"]


def refuse_overlap(entry: Entry, others: Iterable[Entry]) -> None:
    """Refuse a claim that would get a device which another prepared claim holds.

    A claim prepared in an earlier boot of the node holds nothing: none of its containers can run. Should the kubelet
    want it again, it is planned anew, and refused then.

    Args:
        entry: The claim that is to be prepared.
        others: All prepared claims; the claim itself may be among them.

    Raises:
        NodeError: Names the device and the claim that holds it. A retry helps once that one is unprepared.
    """
    wanted = {(device.pool, device.device): device for device in entry.devices if not device.admin_access}
    for other in others:
        if other.uid == entry.uid or other.boot_id != entry.boot_id:
            continue
        for held in other.devices:
            device = wanted.get((held.pool, held.device))
            if device is not None and not _together(device, held):
                raise NodeError(
                    f"claim {entry.claim}, request {', '.join(device.request_names)}, device {device.device} is still "
                    f"in use by claim {other.claim}",
                    hint="the kubelet retries; the device is free once that claim's pods have ended on this node and "
                    "the kubelet has unprepared it",
                )


def _together(one: EntryDevice, other: EntryDevice) -> bool:
    """Whether two claims may have a device together: one only watches over it (KEP-5018), or each has another share."""
    if one.admin_access or other.admin_access:
        return True
    return one.share_id is not None and other.share_id is not None and one.share_id != other.share_id
