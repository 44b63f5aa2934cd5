"""The shares of a node's devices that prepared claims have, in the whole device's terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from driver.model.devices import DeviceType
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, MigPartition, named_devices
from driver.plan import PreparedDevice
from kubeletplugin.claims.device_status import device_mode
from kubeletplugin.state.entry import Entry

__all__ = ["Share", "shares_of"]

_ALL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A claim's share of a device by one allocation result: all of the device, or a part.

    Attributes:
        device: The whole device: the GPU of a part, the NIC of a virtual function.
        namespace: The claim's.
        claim: The claim's name.
        request: The request in the claim.
        share_id: Tells shares of one device in one request apart: the share's ID; without one the partition's name.
        mode: whole, shared, ratio or mig, as in the Device's status; vf for a virtual function of a NIC.
        isolation: enforced or advisory: whether the limits of a GPU's share hold; empty for what has none.
        isolated_by: By what.
        partition: Of a MIG partition or a virtual function, its name; empty else.
        core: Of a GPU's compute, from 0 to 1; None for what has none, or where it is not known.
        memory_bytes: Of a GPU's memory; None likewise.
    """

    device: str
    namespace: str
    claim: str
    request: str
    share_id: str
    mode: str
    isolation: str = ""
    isolated_by: str = ""
    partition: str = ""
    core: float | None = None
    memory_bytes: int | None = None


def shares_of(entries: Iterable[Entry], inventory: Inventory | None) -> tuple[Share, ...]:
    """Return the shares of prepared claims, sorted; admin access gives no share (KEP-5018).

    Args:
        entries: The prepared claims.
        inventory: Has the sizes of MIG partitions; None if it is not known.
    """
    known = [(entry, device) for entry in entries for device in entry.devices if not device.admin_access]
    names = {device.device for _, device in known if device.use and device.use.mode is DeviceType.MIG}
    parts = named_devices(inventory, names) if inventory else {}
    found = [_share(entry, device, parts) for entry, device in known]
    return tuple(sorted(found, key=lambda one: (one.device, one.namespace, one.claim, one.request, one.share_id)))


def _share(entry: Entry, device: PreparedDevice, parts: Mapping[str, AllocatableDevice]) -> Share:
    use, nic_use, isolation = device.use, device.nic_use, device.isolation
    whole, mode, partition = device.device, "whole", ""
    core: float | None = None
    if use is not None:
        whole = use.gpu
        mode = device_mode(use)
        if use.mode is DeviceType.MIG:
            partition = device.device
            core = _core_of(parts.get(partition))
        elif use.core is not None:
            core = use.core / _ALL
    elif nic_use is not None:
        whole = nic_use.nic
        partition = nic_use.vf or ""
        mode = "vf" if partition else "shared" if nic_use.is_part else "whole"
    return Share(
        device=whole,
        namespace=entry.namespace,
        claim=entry.name,
        request=device.request_names[0] if device.request_names else "",
        share_id=device.share_id or partition,
        mode=mode,
        isolation="" if isolation is None else "enforced" if isolation.enforced else "advisory",
        isolated_by=isolation.by if isolation else "",
        partition=partition,
        core=core,
        memory_bytes=use.memory_bytes if use else None,
    )


def _core_of(part: AllocatableDevice | None) -> float | None:
    """Return a partition's part of its GPU's compute slices; the profile with the most of them has all."""
    if not isinstance(part, MigPartition) or part.gpu.mig is None:
        return None
    most = max((profile.compute_slices for profile in part.gpu.mig.profiles), default=0)
    return part.profile.compute_slices / most if most else None
