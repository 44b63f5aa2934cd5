"""What a node should publish of each GPU: a preference, without regard to how to get there safely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState, fitting, partitions_of
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
            return {gpu.modes.gpu: frozenset(gpu.modes.names) for gpu in gpus}
        case Layout.LEAN:
            return _lean(gpus, mig_gpus_ahead, may_drop=may_drop)
        case Layout.ONE:
            return {gpu.modes.gpu: _one(gpu) for gpu in gpus}


def _lean(gpus: Sequence[GpuState], ahead: int, *, may_drop: bool) -> Wanted:
    """Every GPU whole and by percent, and the partitions of some.

    Those of free GPUs are published of the last ones: claims for whole GPUs come from the front.
    """
    free = [gpu for gpu in reversed(gpus) if gpu.is_healthy and not gpu.in_use and "mig" in gpu.modes.offered]
    has_them = [gpu for gpu in free if _has_partitions(gpu, gpu.opened | gpu.closed)]
    others = [gpu for gpu in free if not _has_partitions(gpu, gpu.opened | gpu.closed)]
    published_ahead = {gpu.modes.gpu for gpu in [*has_them, *others][:ahead]}

    def of(gpu: GpuState) -> frozenset[DeviceName]:
        offered = gpu.modes.offered
        # A GPU that is offered in partitions alone has nothing else to publish.
        with_partitions = (
            gpu.modes.gpu in published_ahead
            or offered.keys() == {"mig"}
            or _has_partitions(gpu, gpu.in_use | gpu.wish)
            or (not may_drop and _has_partitions(gpu, gpu.opened))
        )
        return frozenset(name for mode, names in offered.items() if with_partitions or mode != "mig" for name in names)

    return {gpu.modes.gpu: of(gpu) for gpu in gpus}


def _one(gpu: GpuState) -> frozenset[DeviceName]:
    """What is in use, what pending claims need beside it, and else what is published, as far as that fits together."""
    modes, names = gpu.modes, gpu.modes.names
    preferred = [name for some in (gpu.in_use, gpu.wish, gpu.opened, gpu.closed) for name in names if name in some]
    return fitting(modes, preferred, gpu.in_use) or fitting(modes, names, gpu.in_use)


def _has_partitions(gpu: GpuState, names: Iterable[DeviceName]) -> bool:
    return bool(partitions_of(gpu.modes, names))
