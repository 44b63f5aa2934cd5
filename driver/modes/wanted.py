"""What a node should publish of each GPU: a preference, without regard to how to get there safely."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState, fitting
from driver.modes.rule import Layout

__all__ = ["Wanted", "wanted"]

Wanted: TypeAlias = dict[DeviceName, frozenset[DeviceName]]
"""By the GPU's name: the devices that should be published, and open to be allocated."""


def wanted(layout: Layout, gpus: Sequence[GpuState], *, mig_gpus_ahead: int = 1, may_drop: bool = True) -> Wanted:
    """Return what should be published of a node's GPUs.

    Args:
        layout: The cluster's layout.
        gpus: The node's GPUs in their order of allocation.
        mig_gpus_ahead: How many free GPUs should be published in all their modes before a claim asks for them, in the
            layout ``lean``.
        may_drop: Whether that layout may take away what no claim needs any more of free GPUs: only now and then, so
            that writes stay few.
    """
    match layout:
        case Layout.FULL:
            return {gpu.modes.gpu: frozenset(gpu.modes.names) for gpu in gpus}
        case Layout.LEAN:
            return _lean(gpus, mig_gpus_ahead, may_drop=may_drop)
        case Layout.ONE:
            return {gpu.modes.gpu: _one(gpu) for gpu in gpus}


def _lean(gpus: Sequence[GpuState], ahead: int, *, may_drop: bool) -> Wanted:
    """Every GPU in the first mode that it is offered in, without counters; the other modes of some free GPUs.

    Those are the last ones: claims for whole GPUs come from the front. A GPU in use is published in the mode in which
    it is used, so that the next partition comes from it and not from one that is free. (What counters cost
    kube-scheduler, and why not every GPU is published by percent as well: docs/dev/performance.md.)
    """
    free = [gpu for gpu in reversed(gpus) if gpu.is_healthy and not gpu.in_use and len(gpu.modes.offered) > 1]
    in_all_modes = {gpu.modes.gpu for gpu in free if _ahead(gpu) <= gpu.opened | gpu.closed}
    published_ahead = {gpu.modes.gpu for gpu in sorted(free, key=lambda gpu: gpu.modes.gpu not in in_all_modes)[:ahead]}

    def of(gpu: GpuState) -> frozenset[DeviceName]:
        modes = gpu.modes
        offered = frozenset(modes.names)
        if gpu.in_use:
            used = {modes.mode_of(name) for name in gpu.in_use}
            return frozenset(name for name in offered if modes.mode_of(name) in used)
        names = _ahead(gpu) if modes.gpu in published_ahead else _first(gpu)
        return names | (gpu.wish & offered) | (frozenset() if may_drop else gpu.opened & offered)

    return {gpu.modes.gpu: of(gpu) for gpu in gpus}


def _first(gpu: GpuState) -> frozenset[DeviceName]:
    """What is published of a free GPU without demand for anything else."""
    return next((_enough(gpu, names) for names in gpu.modes.offered.values()), frozenset())


def _ahead(gpu: GpuState) -> frozenset[DeviceName]:
    """What is published of a free GPU that should be there for a claim of any kind."""
    return frozenset(name for names in gpu.modes.offered.values() for name in _enough(gpu, names))


def _enough(gpu: GpuState, names: Sequence[DeviceName]) -> frozenset[DeviceName]:
    """Return what has to be published of a free GPU so that a claim for any device of one mode finds one.

    Of partitions one of each profile is enough, the one that leaves most room: once it is in use, all are published.
    """
    if gpu.modes.fit(names):
        return frozenset(names)
    first_of_profile = {name.rpartition("-")[0]: name for name in reversed(names)}
    return frozenset(first_of_profile.values())


def _one(gpu: GpuState) -> frozenset[DeviceName]:
    """What is in use, what pending claims need beside it, and else what is published, as far as that fits together."""
    modes, names = gpu.modes, gpu.modes.names
    preferred = [name for some in (gpu.in_use, gpu.wish, gpu.opened, gpu.closed) for name in names if name in some]
    return fitting(modes, preferred, gpu.in_use) or fitting(modes, names, gpu.in_use)
