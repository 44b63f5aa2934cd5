"""The catalogue of clouds' instance types: what a node of one has, before there is a node.

The descriptions are in the folder ``types`` beside this file; each names its sources. They say what a node's sysfs and
NVML say, not what a cloud's NCCL topology file says: the switches in such a file are often no devices of the node, and
what a node does not publish must not be promised to an autoscaler.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.files.validated import validated
from driver.adapters.files.yaml_documents import read_documents
from driver.adapters.machines.description import machine_of
from driver.adapters.nccl import inventory as nccl
from driver.adapters.nccl.xml import TopologyDocument
from driver.api.instance_type import InstanceType, NamedType
from driver.errors import InputError
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.spelling import nearest_name

__all__ = ["KnownType", "instance_types", "read_instance_type"]

_FOLDER: Final = Path("driver/adapters/machines/types")  # for messages
_ANOTHER: Final = (
    "rootport slices --list shows what it has; of another one, give a topology file of a running node: --topology FILE"
)
_ROOT: Final = re.compile(r"pci([0-9a-f]{4}):([0-9a-f]{2})", re.ASCII)
_RUNTIME: Final = (
    "A node also publishes what only it knows: uuid, driverVersion, cudaDriverVersion, ifName, rdmaDevice, rdmaNetns, "
    "linkState, guid, and the VFs that its NICs have"
)


D = TypeVar("D", Gpu, RdmaNic, Fpga)


@dataclass(frozen=True, slots=True)
class KnownType:
    """An instance type of the catalogue.

    Attributes:
        named: Its name and its GPUs' model.
        facts: What is known of its nodes, and of those of the types that have the same devices.
        machine: The devices.
    """

    named: NamedType
    facts: InstanceType
    machine: TopologyDocument


@cache
def instance_types() -> Mapping[str, KnownType]:
    """Return the catalogue by name, in the order of the names."""
    found: dict[str, KnownType] = {}
    for file in sorted(files("driver.adapters.machines").joinpath("types").iterdir(), key=lambda file: file.name):
        facts_document, machine_document = read_documents(file.read_text(encoding="utf-8"), file.name)
        facts = validated(facts_document, InstanceType)
        machine = machine_of(machine_document, _FOLDER / file.name)
        found |= {named.name: KnownType(named, facts, machine) for named in facts.instance_types}
    return dict(sorted(found.items()))


def read_instance_type(name: str, *, node: str) -> Inventory:
    """Return what a node of an instance type has.

    The notes say what a node publishes and the catalogue does not know.

    Args:
        name: The instance type, as the Node's label ``node.kubernetes.io/instance-type`` has it.
        node: The node's name.

    Raises:
        InputError: The catalogue does not have it.
    """
    known = instance_types()
    if name not in known:
        near = nearest_name(name, list(known))
        raise InputError(
            f"the catalogue has no instance type {name[:60]!r}",
            hint=f"did you mean {near}?" if near else _ANOTHER,
        )
    found = known[name]
    read = nccl.inventory(found.machine, node=node, hardware=HardwareFacts(gpu_model=found.named.gpu_model))
    roots = found.facts.pcie_roots
    return replace(
        read,
        gpus=tuple(_with_root(gpu, roots) for gpu in read.gpus),
        nics=tuple(_with_root(nic, roots) for nic in read.nics),
        fpgas=tuple(_with_root(fpga, roots) for fpga in read.fpgas),
        notes=(*found.facts.not_known, *_missing_partitions(read, found.named), _RUNTIME),
    )


def _with_root(device: D, roots: Sequence[str]) -> D:
    """Return the device with its PCIe root: each has the buses from its own up to the next one of the PCI domain."""
    domain, bus, _ = device.address.split(":")
    below = [root for root in roots if (match := _ROOT.fullmatch(root)) and match[1] == domain and match[2] <= bus]
    return replace(device, pcie=replace(device.pcie, root=max(below, default=None)))


def _missing_partitions(inventory: Inventory, named: NamedType) -> Sequence[str]:
    if any(gpu.mig for gpu in inventory.gpus):
        return ()
    return (f"MIG partitions of {named.gpu_model}, if it has any, are left out: a node has their profiles from NVML",)
