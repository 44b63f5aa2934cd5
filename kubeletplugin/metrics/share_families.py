"""The shares of a node's devices as families of samples: sums by device, and each share with its containers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from driver.status.metric_family import Family, Sample, family
from kubeletplugin.metrics.pod_resources import PodContainer
from kubeletplugin.metrics.shares import Share
from kubeletplugin.metrics.snapshot import NodeSnapshot

__all__ = ["share_families"]

_DEVICE: Final = ("node", "device")
_SHARE: Final = (*_DEVICE, "namespace", "claim", "request", "share_id", "pod", "container")
_NOBODY: Final = (PodContainer(pod="", container=""),)


def share_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    """Yield the families; a device without shares has zero."""
    yield from _sums(snapshot)
    yield family(
        "gauge",
        "rootport_share_info",
        "How a claim has a device, or a part of it; always 1. A series for each container that has the claim.",
        (*_SHARE, "mode", "isolation", "isolated_by", "partition"),
        (
            ((*labels, share.mode, share.isolation, share.isolated_by, share.partition), 1.0)
            for share in snapshot.shares
            for labels in _labels(snapshot, share)
        ),
    )
    yield family(
        "gauge",
        "rootport_share_core_ratio",
        "Part of the GPU's core that the claim reserves, from 0 to 1. A series for each container that has the claim.",
        _SHARE,
        _each(snapshot, lambda share: share.core),
    )
    yield family(
        "gauge",
        "rootport_share_memory_bytes",
        "Memory of the GPU that the claim has. A series for each container that has the claim.",
        _SHARE,
        _each(snapshot, lambda share: share.memory_bytes),
    )


def _sums(snapshot: NodeSnapshot) -> Iterator[Family]:
    node = snapshot.node
    inventory = None if snapshot.prepared_claims is None else snapshot.inventory
    gpus = inventory.gpus if inventory else ()
    others = (*inventory.nics, *inventory.fpgas) if inventory else ()
    number, memory, core = Counter[str](), Counter[str](), dict[str, float]()
    for share in snapshot.shares:
        number[share.device] += 1
        memory[share.device] += share.memory_bytes or 0
        core[share.device] = core.get(share.device, 0.0) + (share.core or 0.0)
    yield family(
        "gauge",
        "rootport_device_shares",
        "Allocations of the device, or of parts of it, that are prepared; one that is given whole has 1.",
        _DEVICE,
        (((node, device.name), float(number[device.name])) for device in (*gpus, *others)),
    )
    yield family(
        "gauge",
        "rootport_device_core_allocated_ratio",
        "Part of the GPU's core that prepared claims reserve, from 0 to 1; above 1 where GpuPolicies promise it twice.",
        _DEVICE,
        # Thirds and sevenths may add up to a little more than 1.
        (((node, gpu.name), round(core.get(gpu.name, 0.0), 6)) for gpu in gpus),
    )
    yield family(
        "gauge",
        "rootport_device_memory_allocated_bytes",
        "Memory of the GPU that prepared claims have.",
        _DEVICE,
        (((node, gpu.name), float(memory[gpu.name])) for gpu in gpus),
    )


def _labels(snapshot: NodeSnapshot, share: Share) -> Iterator[tuple[str, ...]]:
    holders = snapshot.containers.get((share.namespace, share.claim)) or _NOBODY
    whose = (snapshot.node, share.device, share.namespace, share.claim, share.request, share.share_id)
    for holder in holders:
        yield (*whose, holder.pod, holder.container)


def _each(snapshot: NodeSnapshot, value: Callable[[Share], float | None]) -> Iterator[Sample]:
    for share in snapshot.shares:
        amount = value(share)
        if amount is not None:
            for labels in _labels(snapshot, share):
                yield labels, float(amount)
