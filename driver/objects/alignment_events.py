"""The Event that informs a pod's owner that its GPU and its NIC could have been nearer to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.times import micro_time_text
from driver.model.alignment import Misalignment
from driver.model.devices import DeviceType
from driver.model.distance import LEGEND
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import PodConsumer

__all__ = ["REASON", "alignment_event", "alignment_note"]

REASON: Final = "DevicesNotAligned"

# Limits of k8s.io/kubernetes v1.36.3, pkg/apis/core/validation/events.go.
_NOTE_BYTES: Final = 1024
_CONTROLLER: Final = f"{DRIVER_NAME}/controller"
_NICS: Final = f"{DeviceType.RDMA}-"  # so begins the name of all that is given of a NIC
_ROOM_FOR_END: Final = len("; and 999 more GPUs.")


def alignment_event(
    pod: PodConsumer,
    *,
    allocations: Sequence[ClaimAllocation],
    found: Sequence[Misalignment],
    instance: str,
    now: datetime,
) -> dict[str, Any]:
    """Return a Warning on the pod for events.k8s.io/v1. It is named by the pod's UID, so there is one for a pod.

    Args:
        pod: The pod.
        allocations: What its claims were given on its node; at least one.
        found: What could have been nearer; at least one.
        instance: Who reports it, at most 128 bytes.
        now: The time of the Event.
    """
    namespace = allocations[0].namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"devices-not-aligned.{pod.uid}", "namespace": namespace},
        "eventTime": micro_time_text(now),
        "reportingController": _CONTROLLER,
        "reportingInstance": instance,
        "action": "Allocating",
        "reason": REASON,
        "type": "Warning",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod.name, "uid": pod.uid},
        "note": alignment_note(allocations, found),
    }


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
