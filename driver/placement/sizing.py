"""How large a pod is, as policies see it: found out by what devices its claims would get on a node of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.candidates import Scene, offers
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.errors import AllocationError
from driver.allocator.view import Candidate
from driver.api.resource_v1 import DeviceToleration
from driver.explain.known.needs import PodNeeds
from driver.model.managed_nodes import TAINT
from driver.placement.devices.free import share_of
from driver.placement.devices.layout import NodeLayout
from driver.placement.shapes import WHOLE_GPU, PodShape

__all__ = ["MANAGED_TOLERATION", "Size", "size_of"]

MANAGED_TOLERATION: Final = DeviceToleration(key=TAINT, operator="Exists", effect="NoSchedule")
"""What the results of claims carry, as if each request had it."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a pod is.

    Attributes:
        shape: As policies see it.
        wants_nics: Whether it asks for NICs.
        takes_partitions: Whether what it takes of GPUs are partitions.
        is_least: Whether no node with less than the shape's GPUs can serve the claims. It is false where that depends:
            on alternatives, on taints that requests tolerate, or on whether two shares are of one GPU.
    """

    shape: PodShape
    wants_nics: bool
    takes_partitions: bool
    is_least: bool


def size_of(demands: Sequence[ClaimDemand], needs: PodNeeds, samples: Iterable[tuple[NodeLayout, Scene]]) -> Size:
    """Return how large a pod is.

    What of a GPU a request takes depends on the GPU: 20 GiB are a quarter of one and half of another. Of what it takes
    of different kinds of nodes the least counts, so that no node seems too small for it that is not.

    Args:
        demands: What its claims ask for; of alternatives the last one counts.
        needs: What else it asks for.
        samples: A node of each kind.
    """
    parts: dict[int, list[int]] = {}
    models: set[str] = set()
    refused: set[str] = set()
    wants_nics = takes_partitions = False
    asked = [request.alternatives[-1] for claim in demands for request in claim.requests]
    for layout, scene in samples:
        found = [_sample(scene, demand) for demand in asked]
        if any(item is None for item in found):
            refused.add(layout.model)
            continue
        models.add(layout.model)
        for place, item in enumerate(found):
            if item is not None:
                part, is_partition = _part(item, layout)
                parts.setdefault(place, []).append(part)
                takes_partitions = takes_partitions or is_partition
                wants_nics = wants_nics or any(item.device.id.device == nic.device for nic in layout.nics)
    counts: dict[int, int] = {}
    for place, of_nodes in parts.items():
        if min(of_nodes):
            counts[min(of_nodes)] = counts.get(min(of_nodes), 0) + (asked[place].count or 1)
    milli = max(counts, key=lambda part: (part * counts[part], part), default=0)
    shape = PodShape(
        cpu_milli=needs.requests.get("cpu", 0),
        memory=needs.requests.get("memory", 0),
        gpus=counts.get(milli, 0),
        gpu_milli=milli,
        models=frozenset(models) if refused - models and models else frozenset(),
    )
    is_least = not refused and (milli == WHOLE_GPU or shape.gpus <= 1) and all(map(_is_plain, demands))
    return Size(shape, wants_nics, takes_partitions, is_least)


def _is_plain(demand: ClaimDemand) -> bool:
    """Whether a claim asks for so many free devices and nothing else will do."""
    return all(
        len(request.alternatives) == 1
        and part.count is not None
        and not part.admin
        and set(part.tolerations) <= {MANAGED_TOLERATION}
        for request in demand.requests
        for part in request.alternatives
    )


def _sample(scene: Scene, demand: Demand) -> Candidate | None:
    """Return a device of a node that would serve a demand, in use or not."""
    try:
        found = offers(scene, demand, "")
    except AllocationError:
        return None
    usable = (
        offer.candidate
        for _, offered in found.pools
        for offer in offered
        if offer.candidate.failure is None and not offer.candidate.refused
    )
    return next(usable, None)


def _part(candidate: Candidate, layout: NodeLayout) -> tuple[int, bool]:
    """Return how many thousandths of a GPU a device is, 0 for no GPU; and whether it is a partition."""
    name = candidate.device.id.device
    consumed: Mapping[str, int] = {key: amount.nano for key, amount in candidate.consumed.items()}
    for gpu in layout.gpus:
        if name in gpu.whole:
            sizes = next(dict(sizes) for device, sizes in gpu.sizes if device == name)
            # A share of less than a thousandth is one all the same.
            return (max(1, share_of(consumed, sizes)) if candidate.device.shareable else WHOLE_GPU), False
        for partition, part in gpu.partitions:
            if partition == name:
                return part, True
    return 0, False
