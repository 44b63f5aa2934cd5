"""Any machine that can be written down is found as it was written; and as NCCL's view of the same machine has it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.adapters.host import HostRoot
from driver.adapters.machines.topology import read_topology
from driver.adapters.nccl.tree import EndpointKind, read_pci_tree
from driver.adapters.nccl.xml import read_document
from driver.adapters.sysfs.discovery import discover
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from tests.support.sysfs_tree import DOWNSTREAM_PORT, ROOT_PORT, UPSTREAM_PORT, SysfsTree
from tests.support.topologies import nccl_file


@dataclass(frozen=True)
class Card:
    """A card in a slot: a GPU, a NIC with its VFs, or something that is not ours."""

    kind: str
    numa_node: int
    vfs: int


@dataclass(frozen=True)
class Switch:
    """A switch with something behind each downstream port."""

    below: list[Card | Switch]


@dataclass(frozen=True)
class Machine:
    """Host bridges with root ports; ``readable`` as for a reader who is root; ``bus`` where there is a bus folder."""

    roots: list[list[Card | Switch]]
    readable: bool
    bus: bool


cards = st.builds(
    Card,
    kind=st.sampled_from(["gpu", "nic", "other"]),
    numa_node=st.integers(-1, 3),
    vfs=st.integers(0, 3),
)
slots: st.SearchStrategy[Card | Switch] = st.recursive(
    cards, lambda below: st.builds(Switch, st.lists(below, min_size=1, max_size=3)), max_leaves=6
)
machines = st.builds(
    Machine,
    roots=st.lists(st.lists(slots, max_size=3), max_size=3),
    readable=st.booleans(),
    bus=st.booleans(),
)


@dataclass
class Written:
    """A machine's tree and, noted while writing, what is in it."""

    tree: SysfsTree
    readable: bool
    gpus: dict[str, PciePath] = field(default_factory=dict)
    nics: dict[str, PciePath] = field(default_factory=dict)
    vfs: dict[str, list[str]] = field(default_factory=dict)
    behind: dict[str, int] = field(default_factory=dict)

    def write(self, slot: Card | Switch, under: str, buses: Iterator[int], path: PciePath) -> None:
        """Whatever is in a slot, on the next bus of its domain."""
        domain, bus = (path.root or "")[3:7], next(buses)
        if isinstance(slot, Card):
            self._write_card(slot, under, f"{domain}:{bus:02x}", path)
            return
        upstream = f"{domain}:{bus:02x}:00.0"
        folder = self.tree.bridge(under, upstream, UPSTREAM_PORT, readable=self.readable)
        inner = PciePath(
            root=path.root, root_port=path.root_port, switches=(*path.switches, PciAddress(upstream)), numa_node=None
        )
        inside = next(buses)
        for number, below in enumerate(slot.below):
            address = f"{domain}:{inside:02x}:{number:02x}.0"
            port = self.tree.bridge(folder, address, DOWNSTREAM_PORT, readable=self.readable)
            self.write(below, port, buses, inner)

    def _write_card(self, card: Card, under: str, bus: str, path: PciePath) -> None:
        address = f"{bus}:00.0"
        known = None if card.numa_node < 0 else card.numa_node
        where = PciePath(root=path.root, root_port=path.root_port, switches=path.switches, numa_node=known)
        if card.kind == "other":
            self.tree.function(
                under, address, class_code=0x010802, vendor=0x144D, device=0xA80A, numa_node=card.numa_node
            )
            return
        for switch in path.switches:
            self.behind[switch] = self.behind.get(switch, 0) + 1
        if card.kind == "gpu":
            self.tree.nvidia_gpu(under, address, numa_node=card.numa_node)
            self.gpus[address] = where
            return
        nic = self.tree.rdma_nic(under, address, numa_node=card.numa_node)
        self.nics[address] = where
        self.vfs[address] = [f"{bus}:00.{number + 1}" for number in range(card.vfs)]
        for number, virtual in enumerate(self.vfs[address]):
            self.tree.virtual_function(nic, number, virtual)

    def expected(self, path: PciePath) -> PciePath:
        """The path without the switches that have one of our cards behind them and no other."""
        joining = tuple(switch for switch in path.switches if self.behind[switch] > 1)
        return PciePath(root=path.root, root_port=path.root_port, switches=joining, numa_node=path.numa_node)


def write(machine: Machine, folder: Path) -> Written:
    written = Written(SysfsTree(folder), machine.readable)
    for domain, slots_below in enumerate(machine.roots):
        root = f"pci{domain:04x}:00"
        bridge = written.tree.host_bridge(root)
        buses = count(1)
        for number, slot in enumerate(slots_below):
            address = f"{domain:04x}:00:{number + 1:02x}.0"
            port = written.tree.bridge(bridge, address, ROOT_PORT, readable=machine.readable)
            written.write(slot, port, buses, PciePath(root=root, root_port=PciAddress(address)))
    if not machine.bus:
        (folder / "sys/bus/pci").rename(folder / "bus-pci")
    return written


@given(machines)
@settings(max_examples=60, deadline=None)
def test_a_machine_is_found_as_it_was_written(machine: Machine) -> None:
    with tempfile.TemporaryDirectory() as name:
        written = write(machine, Path(name))
        inventory = discover(HostRoot(name), node="n")
        again = discover(HostRoot(name), node="n")
    assert {gpu.address: gpu.pcie for gpu in inventory.gpus} == {
        address: written.expected(path) for address, path in written.gpus.items()
    }
    assert {nic.address: nic.pcie for nic in inventory.nics} == {
        address: written.expected(path) for address, path in written.nics.items()
    }
    assert {nic.address: [vf.address for vf in nic.vfs] for nic in inventory.nics} == written.vfs
    assert all(vf.pcie == nic.pcie for nic in inventory.nics for vf in nic.vfs)
    assert [gpu.index for gpu in inventory.gpus] == list(range(len(written.gpus)))
    assert [nic.rail for nic in inventory.nics] == list(range(len(written.nics)))
    assert again == inventory


def same_machine(topology: Path, folder: Path) -> SysfsTree:
    """The sysfs tree of the machine in an NCCL topology file, with the ports that NCCL leaves out."""
    tree, ports, bridges = SysfsTree(folder), count(), dict[str, str]()
    for endpoint in read_pci_tree(read_document(topology)).endpoints:
        if not endpoint.bridges:
            under = tree.host_bridge(f"pci{next(ports):04x}:00")
        for number, bridge in enumerate(endpoint.bridges):
            if bridge not in bridges:
                above = under if number else tree.host_bridge(f"pci{next(ports):04x}:00")
                kind = DOWNSTREAM_PORT if number else ROOT_PORT
                port = tree.bridge(above, f"eeee:{next(ports):02x}:00.0", kind)
                bridges[bridge] = tree.bridge(port, bridge, UPSTREAM_PORT)
            under = bridges[bridge]
        if endpoint.bridges:
            under = tree.bridge(under, f"eeee:{next(ports):02x}:00.0", DOWNSTREAM_PORT)
        numa_node = -1 if endpoint.numa_node is None else endpoint.numa_node
        if endpoint.kind is EndpointKind.GPU:
            tree.nvidia_gpu(under, endpoint.address, numa_node=numa_node)
        elif endpoint.kind is EndpointKind.NIC:
            tree.rdma_nic(under, endpoint.address, numa_node=numa_node)
    return tree


def places(inventory: Inventory) -> dict[PciAddress, tuple[tuple[PciAddress, ...], int | None]]:
    return {device.address: (device.pcie.switches, device.pcie.numa_node) for device in inventory.devices()}


@pytest.mark.parametrize(
    "name",
    [
        "aws-g5.48xlarge",
        "aws-p4d.24xlarge",
        "azure-nd-a100-v4",
        "azure-nd-h100-v5",
        "rccl-16p1h",
        "rccl-4p4h",
        "rccl-8p_90a",
        "rccl-8p_pcie_2nic",
        "rccl-8p_rome_4nics",
        "rccl-8p_ts1_n4",
    ],
)
def test_sysfs_and_nccl_agree_on_where_a_real_machines_devices_are(name: str, tmp_path: Path) -> None:
    topology = nccl_file(name)
    by_nccl = places(read_topology(topology))
    by_sysfs = places(discover(HostRoot(same_machine(topology, tmp_path).root), node="n"))
    # NCCL's reader leaves out NICs that NCCL could not use; sysfs does not know.
    assert {address: by_sysfs[address] for address in by_nccl} == by_nccl
