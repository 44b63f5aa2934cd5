"""Tells how many NICs some GPUs of a machine need for one at each PCIe switch, root or NUMA node that has GPUs of them.

That is how Koordinator counts the NICs of a joint allocation (pkg/scheduler/plugins/deviceshare/device_allocator.go:
as many as the allocated GPUs have PCIe groups). A claim has to name the number, so the machine has to be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from driver.errors import InputError
from driver.model.inventory import Inventory
from driver.model.pci import PciePath
from driver.pairs.request import Scope

__all__ = ["nics_per_place"]

_PLACES: Final[Mapping[Scope, Callable[[PciePath], object | None]]] = {
    Scope.SWITCH: lambda path: path.switch,
    Scope.ROOT: lambda path: path.root,
    Scope.NUMA: lambda path: path.numa_node,
}
_NAMES: Final[Mapping[Scope, str]] = {
    Scope.SWITCH: "PCIe switch",
    Scope.ROOT: "PCIe root",
    Scope.NUMA: "NUMA node",
}


def nics_per_place(machines: Sequence[Inventory], gpus: int, scope: Scope) -> int:
    """Return how many NICs go with so many GPUs, one for each place that has GPUs of them: as few as there can be.

    Groups are of one size, as :class:`driver.pairs.PairsRequest` has them.

    Args:
        machines: At least one; the number is one with which every one of them has room.
        gpus: How many GPUs; at least one.
        scope: What a NIC is for: SWITCH, ROOT or NUMA.

    Raises:
        InputError: Some machine does not have so many GPUs in places of that kind that have a NIC.
    """
    sizes = [_sizes(machine, scope) for machine in machines]
    for each in range(gpus, 0, -1):
        if gpus % each == 0 and all(sum(size >= each for size in of_machine) >= gpus // each for of_machine in sizes):
            return gpus // each
    machine, of_machine = next(
        ((machine, own) for machine, own in zip(machines, sizes, strict=True) if sum(own) < gpus),
        (machines[0], sizes[0]),
    )
    name = _NAMES[scope]
    if not of_machine:
        raise InputError(
            f"{machine.node}: no {name} is known to have a GPU and an RDMA NIC",
            hint="use --nic-per root or numa" if scope is Scope.SWITCH else "`rootport topo` shows what is known",
        )
    shown = ", ".join(map(str, sorted(of_machine, reverse=True)))
    raise InputError(
        f"{machine.node}: {gpus} GPUs cannot be put into equal groups with a {name} and a NIC each: its {name}s with a"
        f" NIC have {shown} GPUs",
        hint=f"ask for a multiple of {max(of_machine)} GPUs, up to {sum(of_machine)}",
    )


def _sizes(machine: Inventory, scope: Scope) -> list[int]:
    """Return how many GPUs each place has that has a NIC."""
    place = _PLACES[scope]
    with_nic = {place(nic.pcie) for nic in machine.nics} - {None}
    counted = Counter(place(gpu.pcie) for gpu in machine.gpus)
    return [count for found, count in counted.items() if found in with_nic]
