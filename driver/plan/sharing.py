"""The table of what may share a device, a GPU or a NIC: within one claim, and beside the other claims of the node.

kube-scheduler allocates; this is the last line of defence behind it. Within a claim it matters where somebody else
allocated. Between claims it matters when a pod was force-deleted (its claim is free in the API, and its containers
still run), and for what no scheduler can know: two shares of one GPU must be kept apart in the same way, and which
virtual function a claim was given out of a pool.

Admin access is no use of a device (KEP-5018): it never stands in anybody's way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.api.quantity import Quantity
from driver.errors import InputError, NodeError
from driver.model.devices import DeviceName, DeviceType
from driver.plan.uses import GpuUse, HeldDevice, NicUse

__all__ = ["GpuConflict", "gpu_conflict", "refuse_double_use", "refuse_nics_twice", "refuse_overlap"]

_ALL: Final = 100
_ONCE: Final = "Kubernetes gives a device once unless it is shareable: delete the claim and create it anew"
_SUM: Final = "Kubernetes gives no more than there is: delete the claim and create it anew"
_ONE_MODE: Final = (
    "a GPU is given whole, in shares or in MIG partitions, one at a time: delete the claim and create it anew, with "
    "requests that differ so in claims of their own"
)
_UNTIL_FREE: Final = (
    "the kubelet retries; it is free once that claim's pods have ended on this node and the kubelet has unprepared it"
)
_ONE_WAY: Final = (
    "all shares of a GPU are kept apart in one way at a time: give both claims the same sharing in their GpuConfig, or "
    "have them allocated on different GPUs by different DeviceClasses; the kubelet retries, and this claim is prepared "
    "once the other one's pods have ended"
)


class GpuConflict(Enum):
    """A reason why two uses of one GPU exclude each other."""

    MODE = auto()
    """One has the GPU by bytes, by percent or in MIG partitions, and the other in another of these ways."""
    PLACEMENT = auto()
    """Their MIG partitions overlap."""
    WHOLE = auto()
    """One of them has the GPU alone: it takes all of the memory, or all of the core where the memory is not known."""
    SHARING = auto()
    """Their shares are kept apart in different ways."""


class _NicConflict(Enum):
    """A reason why two uses of NICs exclude each other."""

    SAME_VF = auto()
    """Both have one virtual function."""
    PF_BESIDE_VF = auto()
    """One has the physical function, and the other one of its virtual functions."""
    WHOLE = auto()
    """Both have the physical function, and one of them all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excess:
    """More of a card than it has.

    Attributes:
        of: ``core``, ``memory``, ``bandwidth`` or ``bandwidthRatio``.
        amount: How much is allocated: percent, bytes or bits per second.
        total: How much there is.
    """

    of: str
    amount: int
    total: int


def _exclude_each_other(one: HeldDevice, other: HeldDevice) -> bool:
    """Whether two claims' holds of the same device exclude each other: only different shares of it do not."""
    if one.admin_access or other.admin_access:
        return False
    return one.share_id is None or other.share_id is None or one.share_id == other.share_id


def gpu_conflict(one: GpuUse, other: GpuUse) -> GpuConflict | None:
    """Return why two uses exclude each other; None where they do not, as those of different GPUs."""
    if one.gpu != other.gpu:
        return None
    if one.mode != other.mode:
        return GpuConflict.MODE
    if one.mode == DeviceType.MIG:
        apart = one.placement and other.placement and not one.placement.overlaps(other.placement)
        return None if apart else GpuConflict.PLACEMENT
    if one.whole or other.whole:
        return GpuConflict.WHOLE
    return GpuConflict.SHARING if one.sharing != other.sharing else None


def _nic_conflict(one: NicUse, other: NicUse) -> _NicConflict | None:
    """Return why two uses exclude each other; None where they do not, as those of different NICs."""
    if one.vf is not None and one.vf == other.vf:
        return _NicConflict.SAME_VF
    if one.nic != other.nic or (one.vf is not None and other.vf is not None):
        return None
    if one.vf is not None or other.vf is not None:
        return _NicConflict.PF_BESIDE_VF
    return None if one.is_part and other.is_part else _NicConflict.WHOLE


def _excess_of_gpu(uses: Sequence[GpuUse]) -> _Excess | None:
    """Return what uses of one GPU, in one mode, have together that is more than there is; None where it is not.

    That is memory, or core where the GPU's memory is not known. Otherwise core is a promise, which the administrator's
    GpuPolicies may oversell, and kube-scheduler counts it. MIG partitions are never too many together: their places do
    not overlap.
    """
    if any(use.mode == DeviceType.MIG for use in uses):
        return None
    total = next((use.gpu_memory_bytes for use in uses if use.gpu_memory_bytes is not None), None)
    memory = sum(use.memory_bytes or 0 for use in uses)
    if total is None:
        core = sum(use.core or 0 for use in uses)
        return _Excess(of="core", amount=core, total=_ALL) if core > _ALL else None
    return _Excess(of="memory", amount=memory, total=total) if memory > total else None


def _excess_of_nic(uses: Sequence[NicUse]) -> _Excess | None:
    """Return what shares and VFs of one NIC have together that is more bandwidth than there is; None where it is not.

    They are in one unit as long as nothing changes. A NIC whose speed becomes known, or whose policy changes, may have
    shares in both.
    """
    total = next((use.nic_bandwidth for use in uses if use.nic_bandwidth is not None), None)
    bandwidth = sum(use.bandwidth or 0 for use in uses)
    ratio = sum(use.bandwidth_ratio or 0 for use in uses)
    if total is None:
        return _Excess(of="bandwidthRatio", amount=ratio, total=_ALL) if ratio > _ALL else None
    if bandwidth * _ALL + ratio * total <= total * _ALL:
        return None
    if not bandwidth:
        return _Excess(of="bandwidthRatio", amount=ratio, total=_ALL)
    return _Excess(of="bandwidth", amount=bandwidth + -(-ratio * total // _ALL), total=total)


def _amount_of_nic(excess: _Excess) -> str:
    if excess.of == "bandwidthRatio":
        return f"{excess.amount} percent of its bandwidth"
    return f"{Quantity.of(excess.amount)} of its {Quantity.of(excess.total)} bits per second"


def refuse_double_use(held_devices: Sequence[HeldDevice]) -> None:
    """Refuse a claim that was given something twice.

    A NIC and a virtual function of it may be in one claim: nobody else is in the way of either.

    Args:
        held_devices: What the claim was given, in the allocation's order. How shares are kept apart, and which virtual
            functions it gets out of pools, need not be decided yet.

    Raises:
        InputError: A device, more of a card than there is, or a GPU in two modes was given.
    """
    seen: set[tuple[tuple[str, ...], str, str | None]] = set()
    for item in held_devices:
        key = (item.requests, item.device, item.share_id)
        if key in seen:
            raise InputError(f"{item.subject} is allocated twice to one request", hint=_ONCE)
        seen.add(key)
    by_device = defaultdict[str, list[HeldDevice]](list)
    by_gpu = defaultdict[DeviceName, list[tuple[HeldDevice, GpuUse]]](list)
    for item in held_devices:
        if item.admin_access:
            continue
        for other in by_device[item.device]:
            if _exclude_each_other(item, other):
                raise InputError(f"{item.subject} is allocated to request {other.request} as well", hint=_ONCE)
        by_device[item.device].append(item)
        if item.gpu_use is not None:
            by_gpu[item.gpu_use.gpu].append((item, item.gpu_use))
    for of_gpu in by_gpu.values():
        _refuse_gpu_twice(of_gpu)
    refuse_nics_twice(held_devices)


def _refuse_gpu_twice(uses: Sequence[tuple[HeldDevice, GpuUse]]) -> None:
    """Refuse two modes, overlapping partitions, and shares that are too much together."""
    for index, (item, use) in enumerate(uses):
        for other, earlier in uses[:index]:
            conflict = gpu_conflict(use, earlier)
            if conflict is GpuConflict.MODE:
                raise InputError(
                    f"{item.subject} excludes {other.device}, which is allocated to request {other.request}: both are "
                    "of one GPU",
                    hint=_ONE_MODE,
                )
            if conflict is GpuConflict.PLACEMENT:
                raise InputError(
                    f"{item.subject} overlaps {other.device}, which is allocated to request {other.request}", hint=_SUM
                )
    for end, (item, _) in enumerate(uses, start=1):
        excess = _excess_of_gpu([use for _, use in uses[:end]])
        if excess is None:
            continue
        amount = f"{excess.amount} percent of its core"
        if excess.of == "memory":
            wanted, total = Quantity.of(excess.amount, binary=True), Quantity.of(excess.total, binary=True)
            amount = f"{wanted} of its {total} of memory"
        raise InputError(f"{item.subject}: the claim's shares of this GPU are {amount}", hint=_SUM)


def refuse_nics_twice(held_devices: Sequence[HeldDevice]) -> None:
    """Refuse a claim that was given all of a NIC and a part of it, or more bandwidth of one than there is.

    What VFs of a pool have counts as soon as they are chosen.

    Args:
        held_devices: What the claim was given, in the allocation's order.

    Raises:
        InputError: It was.
    """
    by_nic = defaultdict[DeviceName, list[tuple[HeldDevice, NicUse]]](list)
    for item in held_devices:
        if item.nic_use is not None and not item.admin_access:
            by_nic[item.nic_use.nic].append((item, item.nic_use))
    for of_nic in by_nic.values():
        _refuse_nic_twice(of_nic)


def _refuse_nic_twice(uses: Sequence[tuple[HeldDevice, NicUse]]) -> None:
    """Refuse all of a NIC beside a share of it, and shares that are too much together."""
    for index, (item, use) in enumerate(uses):
        for other, beside in (*uses[:index], *uses[index + 1 :]):
            if not use.is_part and _nic_conflict(use, beside) is _NicConflict.WHOLE:
                raise InputError(
                    f"{item.subject} is allocated with all of its bandwidth, and to request {other.request} as well",
                    hint=_SUM,
                )
        excess = _excess_of_nic([earlier for _, earlier in uses[: index + 1]])
        if excess is not None:
            raise InputError(f"{item.subject}: the claim's shares of this NIC are {_amount_of_nic(excess)}", hint=_SUM)


def refuse_overlap(claim: ClaimReference, wanted: Sequence[HeldDevice], held: Iterable[HeldDevice]) -> None:
    """Refuse a claim that would get what another prepared claim holds.

    Args:
        claim: The claim that is to be prepared.
        wanted: What it is to be given.
        held: What all prepared claims hold whose containers may run; the claim itself may be among them.

    Raises:
        NodeError: Names the device, GPU or NIC and the claim that holds it. A retry helps once that one is unprepared.
    """
    others = [item for item in held if item.claim.uid != claim.uid and not item.admin_access]
    used = [item for item in wanted if not item.admin_access]
    _refuse_held_devices(used, others)
    for item in used:
        for other in others:
            _refuse_held_gpu(item, other)
        for other in others:
            _refuse_held_nic(item, other)
    _refuse_too_much(claim, used, others)


def _refuse_held_devices(wanted: Sequence[HeldDevice], held: Sequence[HeldDevice]) -> None:
    by_device = defaultdict[tuple[str, str], list[HeldDevice]](list)
    for item in wanted:
        by_device[item.pool, item.device].append(item)
    for other in held:
        for item in by_device.get((other.pool, other.device), ()):
            if _exclude_each_other(item, other):
                raise NodeError(f"{item.subject} is still in use by claim {other.claim}", hint=_UNTIL_FREE)


def _refuse_held_gpu(wanted: HeldDevice, held: HeldDevice) -> None:
    use, other = wanted.gpu_use, held.gpu_use
    if use is None or other is None:
        return
    conflict = gpu_conflict(use, other)
    if conflict is None:
        return
    hint = _UNTIL_FREE
    match conflict:
        case GpuConflict.PLACEMENT:
            why = f"that one has {_gpu_part(other)}, which overlaps {_gpu_part(use)}"
        case GpuConflict.SHARING:
            why = f"its share is kept apart by {other.sharing!r}, and this one's would be by {use.sharing!r}"
            hint = _ONE_WAY
        case GpuConflict.MODE | GpuConflict.WHOLE:
            why = f"that one has {_gpu_part(other)}, and this one wants {_gpu_part(use)}"
    raise NodeError(f"{wanted.subject}: GPU {use.gpu} is in use by claim {held.claim}: {why}", hint=hint)


def _gpu_part(use: GpuUse) -> str:
    if use.mode == DeviceType.MIG:
        place = use.placement
        return f"the MIG partition on slices {place.start} to {place.start + place.size - 1}" if place else "MIG"
    if use.whole:
        return "all of it"
    return "a share by percent of memory" if use.mode == DeviceType.GPU_RATIO else "a share"


def _refuse_held_nic(wanted: HeldDevice, held: HeldDevice) -> None:
    use, other = wanted.nic_use, held.nic_use
    if use is None or other is None:
        return
    conflict = _nic_conflict(use, other)
    if conflict is None:
        return
    if conflict is _NicConflict.SAME_VF:
        why = f"that one has its virtual function {other.vf}, and this one would be given the same"
    else:
        why = f"that one has {_nic_part(other)}, and this one wants {_nic_part(use)}"
    raise NodeError(f"{wanted.subject}: NIC {use.nic} is in use by claim {held.claim}: {why}", hint=_UNTIL_FREE)


def _nic_part(use: NicUse) -> str:
    if use.vf is not None:
        return f"its virtual function {use.vf}"
    return "a share of its bandwidth" if use.is_part else "all of it"


def _refuse_too_much(claim: ClaimReference, wanted: Sequence[HeldDevice], held: Sequence[HeldDevice]) -> None:
    """Count the shares of each GPU, and of each NIC's bandwidth, of all claims together."""
    for gpu in dict.fromkeys(item.gpu_use.gpu for item in wanted if item.gpu_use):
        own = [item.gpu_use for item in wanted if item.gpu_use and item.gpu_use.gpu == gpu]
        others = [(item.claim, item.gpu_use) for item in held if item.gpu_use and item.gpu_use.gpu == gpu]
        excess = _excess_of_gpu([*own, *(use for _, use in others)])
        if others and excess:
            amount = f"{excess.amount} percent of its core"
            if excess.of == "memory":
                amount = f"{excess.amount} of its {excess.total} bytes of memory"
            raise _oversold(claim, f"GPU {gpu}", [holder for holder, _ in others], amount)
    uses = [item.nic_use for item in wanted if item.nic_use]
    for nic in dict.fromkeys(use.nic for use in uses if use.bandwidth or use.bandwidth_ratio):
        own_nic = [item.nic_use for item in wanted if item.nic_use and item.nic_use.nic == nic]
        beside = [(item.claim, item.nic_use) for item in held if item.nic_use and item.nic_use.nic == nic]
        excess = _excess_of_nic([*own_nic, *(use for _, use in beside)])
        if beside and excess:
            raise _oversold(claim, f"NIC {nic}", [holder for holder, _ in beside], _amount_of_nic(excess))


def _oversold(claim: ClaimReference, card: str, others: Iterable[ClaimReference], amount: str) -> NodeError:
    holders = ", ".join(dict.fromkeys(map(str, others)))
    return NodeError(
        f"claim {claim}: {card} would be given twice: with claim {holders}, {amount}",
        hint=_UNTIL_FREE,
    )
