"""The order of a GPU's MIG partitions, made so that first fit leaves room for large ones (docs/design/layout.md)."""

from __future__ import annotations

from collections.abc import Iterable

from driver.model.devices import MigProfile
from driver.model.parts import MigPartition

__all__ = ["partitions_in_order"]


def partitions_in_order(partitions: Iterable[MigPartition]) -> tuple[MigPartition, ...]:
    """Return a GPU's partitions: small profiles first, and of one profile the placements that block least.

    A claim that does not name a profile gets the smallest that serves it; of two as large, the one of which there are
    more. Of one profile each next placement is the one that takes least away from what the ones before it have left
    free: the sizes of the placements of its own size and above that it overlaps, itself excepted.
    """
    every = tuple(partitions)
    by_profile: dict[MigProfile, list[MigPartition]] = {}
    for partition in every:
        by_profile.setdefault(partition.profile, []).append(partition)
    ordered: list[MigPartition] = []
    for profile in sorted(by_profile, key=_size):
        ordered.extend(_least_harm_first(by_profile[profile], every))
    return tuple(ordered)


def _size(profile: MigProfile) -> tuple[int, int, int, int]:
    return profile.memory_bytes, profile.compute_slices, -profile.max_instances, profile.profile_id


def _least_harm_first(partitions: list[MigPartition], every: tuple[MigPartition, ...]) -> list[MigPartition]:
    left = sorted(partitions, key=lambda partition: partition.placement.start)
    free = list(every)
    ordered = []
    while left:
        harms = [_harm(partition, free) for partition in left]
        chosen = left.pop(harms.index(min(harms)))
        free = [other for other in free if not _overlap(chosen, other)]
        ordered.append(chosen)
    return ordered


def _harm(partition: MigPartition, free: list[MigPartition]) -> int:
    size = partition.placement.size
    return sum(
        other.placement.size
        for other in free
        if other is not partition and other.placement.size >= size and _overlap(partition, other)
    )


def _overlap(one: MigPartition, other: MigPartition) -> bool:
    first, second = one.placement, other.placement
    return first.start < second.start + second.size and second.start < first.start + first.size
