"""The order of devices in a pool, made so that the scheduler's first fit is a good fit (docs/design/layout.md).

For each request in turn, kube-scheduler takes the first devices of the pool that satisfy the claim
(k8s.io/dynamic-resource-allocation v0.36.3, structured). So what stands side by side is given together, and what
stands first is given first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeVar

from driver.layout.neighbours import LinkGroups, Place, pcie_place
from driver.model.devices import Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.pci import PciAddress

__all__ = ["fpgas_in_order", "gpus_in_order", "nics_in_order", "vfs_in_order"]

_DeviceT = TypeVar("_DeviceT", Gpu, RdmaNic, Fpga)
_NOT_LINKED: Final = (None, None, None, None)


def gpus_in_order(gpus: Sequence[Gpu], nics: Sequence[RdmaNic], linked: Mapping[PciAddress, LinkGroups]) -> list[Gpu]:
    """Return the GPUs, those of one model, link domain, octet, quad, pair, NUMA node, root and switch side by side.

    Of any two groups, the one without an RDMA NIC beside its GPUs comes first, then the smaller one: claims for a
    single GPU use up what larger claims, and claims for a GPU with a NIC, can use least.
    """
    paths = {gpu.address: pcie_place(gpu) for gpu in gpus}
    nic_switches = {nic.pcie.switch for nic in nics} - {None}
    with_nic = {gpu.address for gpu in gpus if gpu.pcie.switch in nic_switches}
    groups = {address: (of.domain, of.octet, of.quad, of.pair) for address, of in linked.items()}
    first: dict[tuple[int, PciAddress], Place] = {}
    for gpu in gpus:
        path = paths[gpu.address]
        for level, group in enumerate(groups.get(gpu.address, _NOT_LINKED)):
            if group is not None:
                first[level, group] = min(first.get((level, group), path), path)

    def place(gpu: Gpu) -> Place:
        model = f"{gpu.memory_bytes or 0:020} {gpu.model or ''}"
        # Before the NUMA node, because links are faster than a socket is near, and there are machines whose link
        # domains span NUMA nodes. Groups themselves stand in the order of their NUMA nodes.
        linked_by = (
            "" if group is None else "/".join(first[level, group])
            for level, group in enumerate(groups.get(gpu.address, _NOT_LINKED))
        )
        return model, *linked_by, *paths[gpu.address]

    return _grouped(gpus, {gpu.address: place(gpu) for gpu in gpus}, with_nic)


def nics_in_order(nics: Sequence[RdmaNic], gpus_first_to_last: Sequence[Gpu]) -> list[RdmaNic]:
    """Return NICs without a GPU beside them first, then the others in the order of their GPUs.

    So a claim for a NIC alone does not take one from a pair while there is another, and pairs are found in step.
    """
    rank: dict[PciAddress, int] = {}
    for position, gpu in enumerate(gpus_first_to_last):
        if gpu.pcie.switch is not None:
            rank.setdefault(gpu.pcie.switch, position)

    def first_gpu(nic: RdmaNic) -> int:
        return -1 if nic.pcie.switch is None else rank.get(nic.pcie.switch, -1)

    grouped = _grouped(nics, {nic.address: pcie_place(nic) for nic in nics}, frozenset())
    return sorted(grouped, key=first_gpu)


def vfs_in_order(of_nics_first_to_last: Sequence[Sequence[RdmaVf]]) -> list[RdmaVf]:
    """Return the first VF of each NIC, then the second of each, and so on, so that VFs share bandwidth evenly."""
    by_nic = [sorted(vfs, key=lambda vf: (vf.index, vf.address)) for vfs in of_nics_first_to_last]
    depth = max((len(vfs) for vfs in by_nic), default=0)
    return [vfs[position] for position in range(depth) for vfs in by_nic if position < len(vfs)]


def fpgas_in_order(fpgas: Sequence[Fpga]) -> list[Fpga]:
    """Return the FPGAs, those of one NUMA node, root and switch side by side."""
    return _grouped(fpgas, {fpga.address: pcie_place(fpga) for fpga in fpgas}, frozenset())


def _grouped(
    devices: Sequence[_DeviceT], places: Mapping[PciAddress, Place], last: Collection[PciAddress]
) -> list[_DeviceT]:
    """Group devices by place. First comes a group without a device of ``last``, then the smaller one, then by name."""
    sizes: Counter[Place] = Counter()
    marked: set[Place] = set()
    for address, place in places.items():
        beginnings = [place[:length] for length in range(1, len(place) + 1)]
        sizes.update(beginnings)
        if address in last:
            marked.update(beginnings)

    def key(device: _DeviceT) -> tuple[tuple[bool, int, str], ...]:
        place = places[device.address]
        return tuple(
            (place[: level + 1] in marked, sizes[place[: level + 1]], name) for level, name in enumerate(place)
        )

    return sorted(devices, key=key)
