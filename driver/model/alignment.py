"""How near the GPUs and the NICs of a pod are to each other, and whether they could have been nearer.

The allocator gives what the claims ask for and no more: two requests without a matchAttribute constraint, or two claims
of one pod (which no constraint can join), may well come from two ends of a machine, and nothing but the throughput
tells. What could have been nearer is found by the node alone. Who has which device at that moment plays no part: a
constraint makes the scheduler look for a pair, and it may find one on another node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from driver import DRIVER_NAME
from driver.model.devices import DeviceName, DeviceType, Gpu, LinkLayer, RdmaFunction, RdmaNic, RdmaVf
from driver.model.distance import Distance, distances
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, RdmaVfPool, whole_device
from driver.model.pci import PciAddress, PciePath

__all__ = [
    "LAST_RUNG",
    "NO_NUMA",
    "NUMA_NODE",
    "PCIE_ROOT",
    "PCIE_SWITCH",
    "Misalignment",
    "PairDistance",
    "group_on_last_rung",
    "misalignments",
    "pair_distances",
]

PCIE_SWITCH: Final = f"{DRIVER_NAME}/pcieSwitch"
"""The attributes, with their domains, that express nearness (``driver.layout.attributes``), nearest first."""

PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"

LAST_RUNG: Final = "node"
"""The alternative of a ladder (``driver.pairs``) for devices from anywhere on the node."""

NO_NUMA: Final = "-no-numa"
"""How the name of an alternative ends that is for devices of which no NUMA node is known."""

_Nic: TypeAlias = RdmaNic | RdmaVf | RdmaVfPool
_Kind: TypeAlias = tuple[DeviceType, frozenset[LinkLayer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDistance:
    """A GPU and a NIC that were given together.

    Attributes:
        gpu: The name in the pool of what was given of the GPU.
        nic: The name in the pool of what was given of the NIC.
        distance: Between the two cards.
    """

    gpu: DeviceName
    nic: DeviceName
    distance: Distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Misalignment:
    """A GPU whose nearest NIC among those given with it is farther than the nearest that the node has.

    Attributes:
        gpu: The name in the pool of what was given of the GPU.
        nearest: The nearest NIC that was given; distance: how far that is.
        nearer: A NIC of the node that is nearer, by the name of its physical function, whether that is given or its
            virtual functions are.
        possible: How near that one is.
        attribute: The attribute, with its domain, that a matchAttribute constraint on the GPU and the NIC needs for it.
    """

    gpu: DeviceName
    nearest: DeviceName
    distance: Distance
    nearer: DeviceName
    possible: Distance
    attribute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A NIC of the node that a GPU could have had instead, by a constraint on an attribute."""

    nic: RdmaNic
    distance: Distance
    attribute: str
    kind: _Kind


def group_on_last_rung(request: str) -> str | None:
    """Return the group, such as ``0``, of a result's request that is on a ladder's last rung; None for others.

    Args:
        request: As the result writes it, such as ``nic-0/node``.
    """
    name, _, alternative = request.partition("/")
    return name.rpartition("-")[2] if alternative.removesuffix(NO_NUMA) == LAST_RUNG else None


def pair_distances(inventory: Inventory, devices: Sequence[AllocatableDevice]) -> tuple[PairDistance, ...]:
    """Return the distance of each GPU from each NIC among some devices, in their order; parts count as their cards.

    A device that stands there more than once, as its shares do, is in the answer once.

    Raises:
        InputError: A device is none of the inventory's.
    """
    gpus = {device.name: device for device in devices if isinstance(whole_device(device), Gpu)}
    nics = {device.name: device for device in devices if isinstance(whole_device(device), RdmaFunction)}
    between = distances(inventory)
    return tuple(
        PairDistance(gpu=gpu.name, nic=nic.name, distance=between(gpu.address, nic.address))
        for gpu in gpus.values()
        for nic in nics.values()
    )


def misalignments(inventory: Inventory, devices: Sequence[AllocatableDevice]) -> tuple[Misalignment, ...]:
    """Return the GPUs of one pod that could have had a nearer NIC; none where no NIC was given.

    A GPU is reported when both are so:

    - A constraint would have brought it nearer: the node has a NIC that is nearer than the nearest one given, and
      shares its switch, PCIe root or NUMA node where the nearest one given does not. The NIC is alike one that was
      given (PF or VF, link layer), and it can be given (device nodes known, where the node names any; its link not
      known to be down). Whether another claim has it is not checked.
    - A NIC was given in vain: without it, every GPU that has its nearest possible NIC would still have one. So 8 GPUs
      with one NIC, which is next to one of them, are what was asked for, and so are two GPUs that share the NIC at
      their switch.

    As many other NICs are proposed as were given in vain; those GPUs come first that would win most.

    Args:
        inventory: The node.
        devices: What the pod was given there. A VF pool stands there once for each of its VFs, likewise a shared NIC.

    Raises:
        InputError: A device is none of the inventory's.
    """
    nics = [device for device in devices if isinstance(device, RdmaNic | RdmaVf | RdmaVfPool)]
    gpus: dict[str, AllocatableDevice] = {}
    for device in devices:
        card = whole_device(device)
        if isinstance(card, Gpu):
            gpus.setdefault(card.address, device)
    if not nics or not gpus:
        return ()
    names = {nic.name: nic for nic in nics}
    between = distances(inventory)
    far = {gpu.name: {name: between(gpu.address, nic.address) for name, nic in names.items()} for gpu in gpus.values()}
    candidates = list(_candidates(inventory, {_kind(nic) for nic in nics}))
    choices = {
        gpu.name: _choices(between, gpu, names[_nearest(far[gpu.name])], far[gpu.name], candidates)
        for gpu in gpus.values()
    }
    content = [far[name] for name, found in choices.items() if not found]
    spare = [_kind(nic) for nic in _in_vain(nics, content)]
    better = {name: [item for item in found if item.kind in spare] for name, found in choices.items()}
    return tuple(_proposals(better, far, spare))


def _proposals(
    choices: dict[DeviceName, list[_Choice]], far: dict[DeviceName, dict[DeviceName, Distance]], spare: list[_Kind]
) -> Iterable[Misalignment]:
    """Propose other NICs for those given in vain, each for the GPU that would win most."""
    proposed: set[DeviceName] = set()

    def gain(gpu: DeviceName) -> int:
        return choices[gpu][0].distance.level - far[gpu][_nearest(far[gpu])].level

    for gpu in sorted((gpu for gpu, found in choices.items() if found), key=gain):
        best = [item for item in choices[gpu] if item.distance == choices[gpu][0].distance]
        fresh = next((item for item in best if item.kind in spare and item.nic.name not in proposed), None)
        choice = fresh or next((item for item in best if item.nic.name in proposed), None)
        if choice is None:
            continue
        if fresh is not None:
            spare.remove(fresh.kind)
            proposed.add(fresh.nic.name)
        nearest = _nearest(far[gpu])
        yield Misalignment(
            gpu=gpu,
            nearest=nearest,
            distance=far[gpu][nearest],
            nearer=choice.nic.name,
            possible=choice.distance,
            attribute=choice.attribute,
        )


def _choices(
    between: Callable[[PciAddress, PciAddress], Distance],
    gpu: AllocatableDevice,
    nearest: _Nic,
    far: dict[DeviceName, Distance],
    candidates: Sequence[tuple[RdmaNic, _Kind]],
) -> list[_Choice]:
    """Return the NICs that a constraint would have given the GPU, nearest first; empty where none is nearer."""
    found = []
    for nic, kind in candidates:
        away = between(gpu.address, nic.address)
        if away < far[nearest.name]:
            attribute = _constraint(gpu.pcie, nic.pcie, nearest.pcie)
            if attribute is not None:
                found.append(_Choice(nic=nic, distance=away, attribute=attribute, kind=kind))
    return sorted(found, key=lambda item: item.distance)


def _candidates(inventory: Inventory, kinds: set[_Kind]) -> Iterable[tuple[RdmaNic, _Kind]]:
    """Yield the NICs of these kinds that the node can give."""
    names_device_nodes = any(function.device_nodes_known for nic in inventory.nics for function in (nic, *nic.vfs))
    for nic in inventory.nics:
        functions: tuple[RdmaNic | RdmaVf, ...] = nic.vfs or (nic,)  # a PF with VFs is given by them alone
        usable = [one for one in functions if one.device_nodes_known or not names_device_nodes]
        if usable and not nic.link_is_down and _kind(usable[0]) in kinds:
            yield nic, _kind(usable[0])


def _in_vain(nics: Sequence[_Nic], content: Sequence[dict[DeviceName, Distance]]) -> list[_Nic]:
    """Return NICs without all of which each GPU that has its nearest possible NIC would still have one."""
    served = [{name for name, away in far.items() if away == min(far.values())} for far in content]
    kept = list(nics)
    vain = []
    for nic in nics:
        others = list(kept)
        others.remove(nic)
        if all(any(other.name in names for other in others) for names in served):
            kept = others
            vain.append(nic)
    return vain


def _nearest(far: dict[DeviceName, Distance]) -> DeviceName:
    return min(far, key=lambda name: far[name])


def _kind(nic: _Nic) -> _Kind:
    """Return what a claim's author usually chooses by: physical or virtual, InfiniBand or RoCE."""
    function = nic.vfs[0] if isinstance(nic, RdmaVfPool) else nic
    return nic.type, frozenset(port.link_layer for port in function.ports if port.link_layer is not None)


def _constraint(gpu: PciePath, nearer: PciePath, nearest: PciePath) -> str | None:
    """Return the attribute that the GPU has in common with the nearer NIC, and not with the nearest that was given."""
    for attribute, own, wanted, had in (
        (PCIE_SWITCH, gpu.switch, nearer.switch, nearest.switch),
        (PCIE_ROOT, gpu.root, nearer.root, nearest.root),
        (NUMA_NODE, gpu.numa_node, nearer.numa_node, nearest.numa_node),
    ):
        if own is not None and own == wanted and own != had:
            return attribute
    return None
