"""Which devices of a node are tried first: GPUs that are joined, NICs near them, and what keeps other GPUs whole.

Only the order is decided here. Which devices are free, and whether they serve, is the allocator's word; where the first
ones do not, it goes on with the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from driver import DRIVER_NAME
from driver.allocator.identity import DeviceId
from driver.placement.devices.layout import GpuPlace, NicPlace, NodeLayout

__all__ = ["best_set", "device_ranks"]

_LEVELS = 6


def device_ranks(
    layout: NodeLayout, pool: str, gpus: Sequence[int], *, beside: Collection[int] = ()
) -> dict[DeviceId, int]:
    """Return ranks for the allocator: devices of GPUs in the order given, and NICs by how near they are to them.

    Args:
        layout: The node.
        pool: The name of its pool.
        gpus: Indexes of GPUs, the best first; those left out are tried last.
        beside: Of GPUs that the pod has, or is to get: NICs near these come first, those of the first one before
            those of the second.
    """
    names = [name for index in gpus for name in layout.gpus[index].devices]
    if beside:
        names += [nic.device for nic in _nearest([layout.gpus[index] for index in beside], layout.nics)]
    return {DeviceId(DRIVER_NAME, pool, name): rank for rank, name in enumerate(dict.fromkeys(names))}


def best_set(layout: NodeLayout, among: Sequence[int], count: int, *, with_nics: bool) -> tuple[int, ...]:
    """Return ``count`` GPUs that are joined best, and whose loss leaves the others joined best.

    On each level, from the NVLink domain down to the PCIe switch, they come from the smallest group that has enough,
    or from as few groups as can be. Of equal groups, one with NICs beside its GPUs comes first for a pod that wants
    NICs, and last for others.

    Args:
        layout: The node.
        among: The indexes of those that can be taken.
        count: How many; at most as many as there are.
        with_nics: Whether the pod wants NICs as well.
    """
    switches = {nic.switch for nic in layout.nics if nic.switch}
    has_nic = {index: layout.gpus[index].switch in switches for index in among}

    def choose(left: Sequence[int], wanted: int, level: int) -> list[int]:
        if wanted <= 0:
            return []
        if wanted >= len(left) or level == _LEVELS:
            return sorted(left, key=lambda index: (has_nic[index] != with_nics, index))[:wanted]
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for index in left:
            groups[_group(layout.gpus[index], level)].append(index)

        def preference(group: Sequence[int]) -> tuple[int, int, int]:
            matching = sum(has_nic[index] == with_nics for index in group)
            return len(group), -matching, group[0]

        enough = [group for group in groups.values() if len(group) >= wanted]
        if enough:
            return choose(min(enough, key=preference), wanted, level + 1)
        largest = max(groups.values(), key=lambda group: (len(group), -group[0]))
        rest = [index for index in left if index not in largest]
        return [*choose(largest, len(largest), level + 1), *choose(rest, wanted - len(largest), level)]

    return tuple(choose(list(among), count, 0))


def _group(gpu: GpuPlace, level: int) -> object:
    return (*gpu.links, gpu.numa, gpu.switch)[level]


def _nearest(gpus: Sequence[GpuPlace], nics: Iterable[NicPlace]) -> list[NicPlace]:
    """Return the NICs: one at the switch of each GPU in turn, then those of its NUMA node; others are left out."""
    left = list(nics)
    found: list[NicPlace] = []
    for is_near in (_at_switch, _at_numa_node):
        while True:
            before = len(found)
            for gpu in gpus:
                nic = next((nic for nic in left if is_near(gpu, nic)), None)
                if nic is not None:
                    left.remove(nic)
                    found.append(nic)
            if len(found) == before:
                break
    return found


def _at_switch(gpu: GpuPlace, nic: NicPlace) -> bool:
    return bool(gpu.switch) and gpu.switch == nic.switch


def _at_numa_node(gpu: GpuPlace, nic: NicPlace) -> bool:
    return gpu.numa >= 0 and gpu.numa == nic.numa
