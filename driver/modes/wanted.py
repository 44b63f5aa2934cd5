"""What a node should publish of each GPU: a preference, without regard to how to get there safely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState
from driver.modes.rule import Layout

__all__ = ["Wanted", "wanted"]

Wanted: TypeAlias = dict[DeviceName, frozenset[DeviceName]]
"""By the GPU's name: the devices that should be published, and open to be allocated."""


def wanted(layout: Layout, gpus: Sequence[GpuState], *, mig_gpus_ahead: int = 1, may_drop: bool = True) -> Wanted:
    """Return what should be published of a node's GPUs.

    Args:
        layout: The cluster's layout.
        gpus: The node's GPUs in their order of allocation.
        mig_gpus_ahead: Of how many free GPUs partitions should be published before a claim asks for them, in the layout
            ``lean``.
        may_drop: Whether that layout may take away the partitions that no claim needs any more: only now and then, so
            that writes stay few.
    """
    match layout:
        case Layout.FULL:
            return {gpu.choices.gpu: frozenset(gpu.choices.offered) for gpu in gpus}
        case Layout.LEAN:
            return _lean(gpus, mig_gpus_ahead, may_drop=may_drop)
        case Layout.ONE:
            return {gpu.choices.gpu: _one(gpu) for gpu in gpus}


def _lean(gpus: Sequence[GpuState], ahead: int, *, may_drop: bool) -> Wanted:
    """Every GPU whole and by percent, and the partitions of some.

    Those of free GPUs are published of the last ones: claims for whole GPUs come from the front.
    """
    free = [gpu for gpu in reversed(gpus) if not gpu.in_use and gpu.is_healthy]
    has_them = [gpu for gpu in free if _publishes_partitions(gpu)]
    others = [gpu for gpu in free if _offered_partitions(gpu) and not _publishes_partitions(gpu)]
    published_ahead = {gpu.choices.gpu for gpu in [*has_them, *others][:ahead]}

    def needs_partitions(gpu: GpuState) -> bool:
        partitions = gpu.choices.partitions
        return (
            gpu.choices.gpu in published_ahead
            or not partitions.isdisjoint(gpu.in_use)
            or not partitions.isdisjoint(gpu.wish)
            or (not may_drop and not partitions.isdisjoint(gpu.opened))
        )

    result: Wanted = {}
    for gpu in gpus:
        offered = gpu.choices.offered
        others_offered = [name for name in offered if name not in gpu.choices.partitions]
        # A GPU that is offered in partitions alone has nothing else to publish.
        with_partitions = not others_offered or needs_partitions(gpu)
        result[gpu.choices.gpu] = frozenset(offered if with_partitions else others_offered)
    return result


def _one(gpu: GpuState) -> frozenset[DeviceName]:
    """What is in use, what pending claims need beside it, and else what is published, as far as that fits together."""
    choices = gpu.choices

    def ordered(names: Iterable[DeviceName]) -> list[DeviceName]:
        chosen = set(names)
        return [name for name in choices.offered if name in chosen]

    preferred = [*ordered(gpu.in_use), *ordered(gpu.wish), *ordered(gpu.opened), *ordered(gpu.closed)]
    return choices.fitting(preferred, gpu.in_use) or choices.fitting(choices.offered, gpu.in_use)


def _publishes_partitions(gpu: GpuState) -> bool:
    return not gpu.choices.partitions.isdisjoint(gpu.opened | gpu.closed)


def _offered_partitions(gpu: GpuState) -> bool:
    return not gpu.choices.partitions.isdisjoint(gpu.choices.offered)
