"""Attributes of devices that are in several places at once, as lists (KEP-5491, feature gate DRAListTypeAttributes).

With the gate, kube-scheduler takes an attribute for the set of its values: matchAttribute holds devices together that
all have a value in common (k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/experimental,
matchAttributeConstraint). A selector that compares a list with ``==`` is false, with ``<`` an error, so a list stands
only where there is more than one value, and where one value is missing something that the device is near to:

- ``resource.kubernetes.io/numaNode``: the device's own node first, then those of its socket that are as good
  (KEP-6072). Rootport's own ``numaNode`` stays one number.
- ``resource.kubernetes.io/pcieRoot``: of a NIC with a Data Direct function, its own root first, then that function's.
- ``pcieSwitch``: the nearest switch first. Where nothing below it is of the other kind, a GPU or FPGA for a NIC and a
  NIC for these, the switches above it follow, up to the first that joins both kinds; those of a Data Direct function
  follow likewise. So a GPU and a NIC below one inner switch are not mixed with those of other inner switches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from driver.layout.attributes import PCIE_SWITCH, STANDARD_NUMA_NODE, STANDARD_PCIE_ROOT
from driver.layout.values import Value, numbers, texts
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.pci import PciAddress, PciePath

__all__ = ["ListAttributes", "list_attributes"]

ListAttributes: TypeAlias = Mapping[PciAddress, dict[str, Value]]
"""By the address of a GPU, a NIC or an FPGA: the attributes that it has, and its parts and VFs have, as lists."""

# Three such attributes in place of three of 32 stay within the 48 values that a device may have
# (k8s.io/api v0.37.2, resource/v1/types.go, ResourceSliceMaxAttributeValuesPerDevice).
_MOST: Final = 6

_T = TypeVar("_T")


class _Kind(Enum):
    NIC = "nic"
    ACCELERATOR = "accelerator"


_Below: TypeAlias = Mapping[PciAddress, set[_Kind]]


def list_attributes(gpus: Iterable[Gpu], nics: Iterable[RdmaNic], fpgas: Iterable[Fpga]) -> ListAttributes:
    """Return the attributes of a node's devices that one value does not say; nothing for a device without such."""
    devices = [
        *((device.address, device.pcie, _Kind.ACCELERATOR) for device in (*gpus, *fpgas)),
        *((nic.address, nic.pcie, _Kind.NIC) for nic in nics),
    ]
    below: defaultdict[PciAddress, set[_Kind]] = defaultdict(set)
    for _, path, kind in devices:
        for chain in _chains(path):
            for switch in chain:
                below[switch].add(kind)
    found = {address: _of(path, below) for address, path, _ in devices}
    return {address: values for address, values in found.items() if values}


def _of(path: PciePath, below: _Below) -> dict[str, Value]:
    direct = path.direct
    roots = [path.root] if direct is None else [path.root, direct.root]
    nodes = [path.numa_node, *path.near_numa_nodes, *([] if direct is None else [direct.numa_node])]
    switches = [switch for chain in _chains(path) for switch in _joining(chain, below)]
    several = {
        STANDARD_PCIE_ROOT: texts(_distinct(roots)),
        STANDARD_NUMA_NODE: numbers(_distinct(nodes)),
        PCIE_SWITCH: texts(_distinct(switches)),
    }
    # One value that the path itself has is published without this.
    own = {STANDARD_PCIE_ROOT: path.root, STANDARD_NUMA_NODE: path.numa_node, PCIE_SWITCH: path.switch}
    return {name: value for name, value in several.items() if value is not None and value.value != own[name]}


def _chains(path: PciePath) -> Sequence[Sequence[PciAddress]]:
    """Return the switches of each of a device's paths, nearest first."""
    return [path.switches[::-1], *([] if path.direct is None else [path.direct.switches[::-1]])]


def _joining(chain: Sequence[PciAddress], below: _Below) -> Sequence[PciAddress]:
    """Return the switches from the nearest to the first that joins both kinds; the nearest alone where none does."""
    place = next((at for at, switch in enumerate(chain) if len(below[switch]) == len(_Kind)), 0)
    return chain[: place + 1]


def _distinct(values: Iterable[_T | None]) -> list[_T]:
    return list(dict.fromkeys(value for value in values if value is not None))[:_MOST]
