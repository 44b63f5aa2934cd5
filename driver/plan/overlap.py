"""Whether two claims may have one device, one GPU or one NIC at the same time: the one place that says so.

The scheduler allocates; this is the last line of defence behind it. It matters in practice when a pod was
force-deleted (its claim is free in the API, and its containers still run), and for what no scheduler can know: two
shares of one GPU must be kept apart in the same way, and which virtual function a claim was given out of a pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from driver.api.resource_v1 import ClaimReference
from driver.errors import NodeError
from driver.model.devices import DeviceType
from driver.plan.finish import PreparedDevice
from driver.plan.gpu_use import GpuUse
from driver.plan.nic_use import NicUse

__all__ = ["HeldDevice", "Holder", "refuse_overlap"]

_UNTIL_FREE: Final = (
    "the kubelet retries; it is free once that claim's pods have ended on this node and the kubelet has unprepared it"
)
_ONE_WAY: Final = (
    "all shares of a GPU are kept apart in one way at a time: give both claims the same sharing in their GpuConfig, or "
    "have them allocated on different GPUs by different DeviceClasses; the kubelet retries, and this claim is prepared "
    "once the other one's pods have ended"
)


class HeldDevice(Protocol):
    """A device of a prepared claim, as :class:`~driver.plan.PreparedDevice` describes it."""

    @property
    def pool(self) -> str:
        """Its pool."""
        ...

    @property
    def device(self) -> str:
        """Its name in the pool."""
        ...

    @property
    def share_id(self) -> str | None:
        """Which share of it."""
        ...

    @property
    def admin_access(self) -> bool:
        """Whether it is only watched over."""
        ...


class Holder(Protocol):
    """A prepared claim."""

    @property
    def claim(self) -> ClaimReference:
        """Which claim it is."""
        ...

    @property
    def devices(self) -> Sequence[HeldDevice]:
        """What it was given."""
        ...

    @property
    def uses(self) -> Sequence[GpuUse]:
        """How it uses GPUs; watching over one by admin access is no use of it (KEP-5018)."""
        ...

    @property
    def nic_uses(self) -> Sequence[NicUse]:
        """How it uses RDMA NICs; as above."""
        ...


def refuse_overlap(claim: ClaimReference, devices: Sequence[PreparedDevice], others: Iterable[Holder]) -> None:
    """Refuse a claim that would get what another prepared claim holds.

    Args:
        claim: The claim that is to be prepared.
        devices: What it is to be given.
        others: All prepared claims whose containers may run; the claim itself may be among them.

    Raises:
        NodeError: Names the device, GPU or NIC and the claim that holds it. A retry helps once that one is unprepared.
    """
    holders = [other for other in others if other.claim.uid != claim.uid]
    used = [device for device in devices if not device.admin_access]
    _refuse_devices(claim, used, holders)
    for device in used:
        if device.use is not None:
            _refuse_use(claim, device, device.use, holders)
        if device.nic_use is not None:
            _refuse_nic_use(claim, device, device.nic_use, holders)
    _refuse_oversold(claim, [device.use for device in used if device.use], holders)
    _refuse_oversold_nic(claim, [device.nic_use for device in used if device.nic_use], holders)


def _refuse_devices(claim: ClaimReference, devices: Sequence[PreparedDevice], holders: Sequence[Holder]) -> None:
    wanted: dict[tuple[str, str], list[PreparedDevice]] = {}
    for device in devices:
        wanted.setdefault((device.pool, device.device), []).append(device)
    for other in holders:
        for held in other.devices:
            for device in wanted.get((held.pool, held.device), ()):
                if not _together(device, held):
                    raise NodeError(
                        f"{_subject(claim, device)} is still in use by claim {other.claim}", hint=_UNTIL_FREE
                    )


def _together(wanted: PreparedDevice, held: HeldDevice) -> bool:
    """Whether two claims may have a device together: one only watches over it (KEP-5018), or each has another share."""
    if held.admin_access:
        return True
    return wanted.share_id is not None and held.share_id is not None and wanted.share_id != held.share_id


def _refuse_use(claim: ClaimReference, device: PreparedDevice, use: GpuUse, holders: Sequence[Holder]) -> None:
    for other in holders:
        for held in other.uses:
            if held.gpu == use.gpu and (why := _contradiction(use, held)):
                what, hint = why
                raise NodeError(
                    f"{_subject(claim, device)}: GPU {use.gpu} is in use by claim {other.claim}: {what}", hint=hint
                )


def _contradiction(use: GpuUse, held: GpuUse) -> tuple[str, str] | None:
    """Why two claims cannot use one GPU at a time, and what to do."""
    if use.mode != held.mode:
        return f"that one has {_shown(held)}, and this one wants {_shown(use)}", _UNTIL_FREE
    if use.mode == DeviceType.MIG:
        if use.placement and held.placement and not use.placement.overlaps(held.placement):
            return None
        return f"that one has {_shown(held)}, which overlaps {_shown(use)}", _UNTIL_FREE
    if use.whole or held.whole:
        return f"that one has {_shown(held)}, and this one wants {_shown(use)}", _UNTIL_FREE
    if use.sharing != held.sharing:
        return f"its share is kept apart by {held.sharing!r}, and this one's would be by {use.sharing!r}", _ONE_WAY
    return None


def _shown(use: GpuUse) -> str:
    if use.mode == DeviceType.MIG:
        place = use.placement
        return f"the MIG partition on slices {place.start} to {place.start + place.size - 1}" if place else "MIG"
    if use.whole:
        return "all of it"
    return "a share by percent of memory" if use.mode == DeviceType.GPU_RATIO else "a share"


def _refuse_oversold(claim: ClaimReference, uses: Sequence[GpuUse], holders: Sequence[Holder]) -> None:
    """The shares of a GPU together: what the scheduler ensures, counted again."""
    for gpu in dict.fromkeys(use.gpu for use in uses):
        own = [use for use in uses if use.gpu == gpu]
        held = [(other.claim, use) for other in holders for use in other.uses if use.gpu == gpu]
        together = [*own, *(use for _, use in held)]
        if not held or own[0].mode == DeviceType.MIG:
            continue
        who = ", ".join(dict.fromkeys(str(reference) for reference, _ in held))
        core = sum(use.core or 0 for use in together)
        if core > 100:
            raise NodeError(
                f"claim {claim}: GPU {gpu} would be given twice: with claim {who}, {core} percent of its core",
                hint=_UNTIL_FREE,
            )
        total = next((use.gpu_memory_bytes for use in together if use.gpu_memory_bytes is not None), None)
        memory = sum(use.memory_bytes or 0 for use in together)
        if total is not None and memory > total:
            raise NodeError(
                f"claim {claim}: GPU {gpu} would be given twice: with claim {who}, {memory} of its {total} bytes of "
                "memory",
                hint=_UNTIL_FREE,
            )


def _refuse_nic_use(claim: ClaimReference, device: PreparedDevice, use: NicUse, holders: Sequence[Holder]) -> None:
    for other in holders:
        for held in other.nic_uses:
            if why := _nic_contradiction(use, held):
                raise NodeError(
                    f"{_subject(claim, device)}: NIC {use.nic} is in use by claim {other.claim}: {why}",
                    hint=_UNTIL_FREE,
                )


def _nic_contradiction(use: NicUse, held: NicUse) -> str | None:
    """Why two claims cannot use what they use of NICs at a time."""
    if use.vf is not None and use.vf == held.vf:
        return f"that one has its virtual function {held.vf}, and this one would be given the same"
    if use.nic != held.nic or (use.vf is not None and held.vf is not None):
        return None
    if use.vf is None and held.vf is None and use.bandwidth is not None and held.bandwidth is not None:
        return None
    return f"that one has {_nic_shown(held)}, and this one wants {_nic_shown(use)}"


def _nic_shown(use: NicUse) -> str:
    if use.vf is not None:
        return f"its virtual function {use.vf}"
    return "all of it" if use.bandwidth is None else "a share of its bandwidth"


def _refuse_oversold_nic(claim: ClaimReference, uses: Sequence[NicUse], holders: Sequence[Holder]) -> None:
    """The shares of a NIC's bandwidth together, as for GPUs."""
    for nic in dict.fromkeys(use.nic for use in uses if use.bandwidth is not None):
        held = [(other.claim, use) for other in holders for use in other.nic_uses if use.nic == nic]
        together = [*(use for use in uses if use.nic == nic), *(use for _, use in held)]
        total = next((use.nic_bandwidth for use in together if use.nic_bandwidth is not None), None)
        bandwidth = sum(use.bandwidth or 0 for use in together)
        if held and total is not None and bandwidth > total:
            who = ", ".join(dict.fromkeys(str(reference) for reference, _ in held))
            raise NodeError(
                f"claim {claim}: NIC {nic} would be given twice: with claim {who}, {bandwidth} of its {total} bits per "
                "second",
                hint=_UNTIL_FREE,
            )


def _subject(claim: ClaimReference, device: PreparedDevice) -> str:
    return f"claim {claim}, request {', '.join(device.request_names)}, device {device.device}"
