"""The Event that informs a pod's owner that its GPU and its NIC are far apart, or could have been nearer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from driver.model.alignment import Misalignment, PairDistance, group_on_last_rung, pair_distances
from driver.model.devices import DeviceType
from driver.model.distance import LEGEND, Level
from driver.model.inventory import Inventory
from driver.model.parts import named_devices
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer
from driver.objects.events import consumer_reference, controller_event

__all__ = ["REASON", "alignment_event", "alignment_note", "far_pairs", "last_rung_note"]

REASON: Final = "DevicesNotAligned"

# Limits of k8s.io/kubernetes v1.36.3, pkg/apis/core/validation/events.go.
_NOTE_BYTES: Final = 1024
_NICS: Final = f"{DeviceType.RDMA}-"  # so begins the name of all that is given of a NIC
_ROOM_FOR_END: Final = len("; and 999 more GPUs.")


def alignment_event(
    pod: Consumer,
    *,
    allocations: Sequence[ClaimAllocation],
    found: Sequence[Misalignment],
    far: Sequence[PairDistance] = (),
    instance: str,
    now: datetime,
) -> dict[str, Any]:
    """Return a Warning on the pod or PodGroup for events.k8s.io/v1, named by its UID, so that there is one for each.

    Args:
        pod: The pod, or the PodGroup whose pods share the claims.
        allocations: What its claims were given on its node; at least one.
        found: What could have been nearer; at least one, or one of ``far``.
        far: What a ladder's last rung gave: of these the note is, if there are any.
        instance: Who reports it, at most 128 bytes.
        now: The time of the Event.
    """
    namespace = allocations[0].namespace
    return controller_event(
        f"devices-not-aligned.{pod.uid}",
        namespace,
        regarding=consumer_reference(namespace, pod),
        type_="Warning",
        reason=REASON,
        action="Allocating",
        note=last_rung_note(allocations, far) if far else alignment_note(allocations, found),
        instance=instance,
        now=now,
    )


def alignment_note(allocations: Sequence[ClaimAllocation], found: Sequence[Misalignment]) -> str:
    """Return how far which GPU is from its nearest NIC, what would have been nearer, and which constraint helps.

    At most 1024 bytes: of many GPUs the last are only counted.
    """
    first = found[0]
    text = (
        f"GPU {first.gpu} and the nearest NIC that the pod was given, {first.nearest}, are {first.distance} apart "
        f"({LEGEND[first.distance.level.name]}). Node {allocations[0].pool} has {first.nearer} at {first.possible}, in "
        f"use or not. {_advice(allocations, found)}"
    )
    others = [
        f"{item.gpu} ({item.nearest} {item.distance}, {item.nearer} {item.possible}, {item.attribute})"
        for item in found[1:]
    ]
    return _with_others(text, others)


def far_pairs(inventory: Inventory, allocations: Sequence[ClaimAllocation]) -> tuple[PairDistance, ...]:
    """Return each GPU that a ladder's last rung gave, with the nearest NIC of its group, where that is far: SYS.

    Args:
        inventory: The node.
        allocations: What a pod's claims were given there; devices that the node no longer has count for nothing.
    """
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for item in allocations:
        group = group_on_last_rung(item.request)
        if group is not None:
            groups[item.uid, group].append(item.device)
    if not groups:
        return ()
    devices = named_devices(inventory, {name for names in groups.values() for name in names})
    far: list[PairDistance] = []
    for names in groups.values():
        nearest: dict[str, PairDistance] = {}
        for pair in pair_distances(inventory, [devices[name] for name in names if name in devices]):
            if pair.gpu not in nearest or pair.distance < nearest[pair.gpu].distance:
                nearest[pair.gpu] = pair
        far += (pair for pair in nearest.values() if pair.distance.level is Level.SYS)
    return tuple(far)


def last_rung_note(allocations: Sequence[ClaimAllocation], far: Sequence[PairDistance]) -> str:
    """Return which GPUs have no NIC near them, although their claim prefers one, and what to do; at most 1024 bytes."""
    first = far[0]
    claim = next((item.claim for item in allocations if item.device == first.gpu), allocations[0].claim)
    text = (
        f"GPU {first.gpu} and its NIC, {first.nic}, are {first.distance} apart ({LEGEND[first.distance.level.name]}): "
        f"node {allocations[0].pool} had nothing nearer left when claim {claim} was allocated, so they are on the last "
        "rung of its ladder. 'rootport pairs --farthest numa' writes a claim that waits instead."
    )
    return _with_others(text, [f"{pair.gpu} ({pair.nic} {pair.distance})" for pair in far[1:]])


def _with_others(text: str, others: Sequence[str]) -> str:
    """Return a note with what is alike for other GPUs; the last are only counted where there are too many."""
    for number, other in enumerate(others):
        before = "; " if number else " Likewise "
        if len(text) + len(before) + len(other) + _ROOM_FOR_END > _NOTE_BYTES:
            rest = len(others) - number
            text += f"{'; and' if number else ' Likewise'} {rest} {'more ' if number else 'other '}GPUs"
            break
        text += before + other
    return text[: _NOTE_BYTES - 1] + "." if others else text[:_NOTE_BYTES]


def _advice(allocations: Sequence[ClaimAllocation], found: Sequence[Misalignment]) -> str:
    """Return what to write into the first GPU's claim, as far as its results show how it is written."""
    by_device: Mapping[str, ClaimAllocation] = {allocation.device: allocation for allocation in allocations}
    attribute, gpu = found[0].attribute, by_device[found[0].gpu]
    of_claim = [allocation for allocation in allocations if allocation.uid == gpu.uid]
    nics = [allocation for allocation in of_claim if allocation.device.startswith(_NICS)]
    if not nics:
        return (
            f"They are of two claims, {gpu.claim} and {by_device[found[0].nearest].claim}, which no constraint can "
            f"join: ask for both in one claim, with a constraint matchAttribute {attribute}."
        )
    if gpu.is_extended:
        return (
            f"kube-scheduler made claim {gpu.claim} of the pod's extended resources, without a constraint: a claim "
            f"that the pod names, for both, can have one with matchAttribute {attribute}."
        )
    if len(found) == len(nics) == 1 and [_request(item) for item in of_claim].count(_request(gpu)) == 1:
        return (
            f"In claim {gpu.claim}, the constraint {{matchAttribute: {attribute}, requests: "
            f"[{_request(gpu)}, {_request(nics[0])}]}} gives such a pair or lets the pod wait for one."
        )
    return (
        f"In claim {gpu.claim}, one request for each GPU and each NIC, and for each pair of them a constraint "
        f"matchAttribute {attribute}, gives such pairs or lets the pod wait for them: 'rootport pairs' writes it."
    )


def _request(allocation: ClaimAllocation) -> str:
    return allocation.request.partition("/")[0]
