"""The catalogue of instance types says what files of the same machines say, and what sysfs of such nodes says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.host import HostRoot
from driver.adapters.machines.instance_types import instance_types, read_instance_type
from driver.adapters.machines.topology import read_topology
from driver.adapters.sysfs.discovery import discover
from driver.errors import InputError
from driver.layout.slices import resource_slices
from driver.model.devices import Gpu
from driver.model.inventory import Inventory
from tests.support.sysfs_tree import DOWNSTREAM_PORT, ROOT_PORT, UPSTREAM_PORT, SysfsTree
from tests.support.topologies import OTHERS_FILES, machine_file

AMAZON = 0x1D0F
SAME_MACHINE = {
    "p4d.24xlarge": "aws-p4d.24xlarge",
    "p4de.24xlarge": "aws-p4d.24xlarge",
    "Standard_ND96asr_v4": "azure-nd-a100-v4",
    "Standard_ND96amsr_A100_v4": "azure-nd-a100-v4",
    "Standard_ND96isr_H100_v5": "azure-nd-h100-v5",
}
"""Instance type to the file of the machine, for which clouds publish one that has a node's PCI addresses."""
NOT_IN_FILES = {"nvlinkDomain", "linkSpeed"}
"""What the catalogue has from other sources than the file."""
NOT_OF_NODES = {"pcieSwitch", "resource.kubernetes.io/pcieRoot"}
"""What a cloud's file leads to and a node does not report: its switches are virtual, and it has no roots."""


def files_of(name: str) -> list[Any]:
    theirs = OTHERS_FILES / "nccl" / f"{name}.xml"
    missing = pytest.mark.skipif(not theirs.is_file(), reason=f"{theirs} is not there")
    return [machine_file(name), pytest.param(theirs, marks=missing)]


PAIRS = [
    pytest.param(name, *getattr(file, "values", (file,)), marks=getattr(file, "marks", ()), id=f"{name}-{number}")
    for name, machine in SAME_MACHINE.items()
    for number, file in enumerate(files_of(machine))
]


def published(inventory: Inventory) -> dict[str, dict[str, Any]]:
    slices = [part.to_wire()["spec"] for part in resource_slices(inventory)]
    return {device["name"]: device for spec in slices for device in spec.get("devices", ())}


def attributes(device: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in device["attributes"].items() if name not in without}


def groups(pairs: Iterable[tuple[str, Hashable]]) -> set[frozenset[str]]:
    found: defaultdict[Hashable, set[str]] = defaultdict(set)
    for name, key in pairs:
        found[key].add(name)
    return {frozenset(names) for names in found.values()}


@pytest.mark.parametrize(("name", "file"), PAIRS)
def test_an_instance_type_publishes_what_the_file_of_its_machine_leads_to(name: str, file: Path) -> None:
    ours = published(read_instance_type(name, node="n"))
    model = instance_types()[name].named.gpu_model
    theirs = published(read_topology(file, node="n", hardware=HardwareFacts(gpu_model=model)))

    assert list(ours) == list(theirs)
    unlike = {*NOT_IN_FILES, *NOT_OF_NODES, "model"}  # one file is of two types: the model is what is said of it
    for device, fields in ours.items():
        of_file = attributes(theirs[device], *unlike)
        assert attributes(fields, *unlike) == of_file, device
        if not device.startswith("rdma"):
            assert fields.get("capacity") == theirs[device].get("capacity")
            assert fields.get("consumesCounters") == theirs[device].get("consumesCounters")


@pytest.mark.parametrize(("name", "file"), PAIRS)
def test_what_shares_a_virtual_switch_in_the_file_shares_a_root_or_numa_node(name: str, file: Path) -> None:
    ours = read_instance_type(name, node="n")
    theirs = read_topology(file, node="n")
    behind = groups((device.address, device.pcie.switch) for device in (*theirs.gpus, *theirs.nics))

    if instance_types()[name].facts.pcie_roots:
        assert groups((device.address, device.pcie.root) for device in (*ours.gpus, *ours.nics)) == behind
    else:
        near = groups((device.address, device.pcie.numa_node) for device in (*ours.gpus, *ours.nics))
        assert all(any(switch <= node for node in near) for switch in behind)
        assert not any(device.pcie.root for device in (*ours.gpus, *ours.nics))


@pytest.mark.parametrize("name", instance_types())
def test_nothing_is_said_of_switches_that_no_source_names(name: str) -> None:
    assert not any(
        "pcieSwitch" in device["attributes"] for device in published(read_instance_type(name, node="n")).values()
    )


@pytest.mark.parametrize(("name", "device", "nic"), [("p4d.24xlarge", 0x20B0, 0xEFA0), ("p5.48xlarge", 0x2330, 0xEFA1)])
def test_a_node_with_such_a_sysfs_publishes_the_same(name: str, device: int, nic: int, tmp_path: Path) -> None:
    """But for NVLinks, which NVML tells, and the switches of p5, which the catalogue says that it does not know."""
    ours = read_instance_type(name, node="n")
    write_sysfs(SysfsTree(tmp_path), ours, gpu_id=device, nic_id=nic)

    promised, there = published(ours), published(discover(HostRoot(tmp_path), node="n"))

    whole = [name for name in promised if name.startswith(("gpu-0", "rdma-"))]
    assert len(whole) == len(ours.gpus) + len(ours.nics)
    for each in whole:
        expected = attributes(promised[each], "nvlinkDomain")
        assert {name: there[each]["attributes"].get(name) for name in expected} == expected
        assert there[each].get("capacity") == promised[each].get("capacity")


def write_sysfs(tree: SysfsTree, machine: Inventory, *, gpu_id: int, nic_id: int) -> None:
    """A device on its root's own bus is there directly; others are below a switch."""
    bridges = {root: tree.host_bridge(root) for root in {str(gpu.pcie.root) for gpu in machine.gpus}}
    ports = dict.fromkeys(bridges, -1)
    for number, device in enumerate((*machine.gpus, *machine.nics)):
        root = str(device.pcie.root)
        ports[root] += 1
        above = bridges[root]
        if not device.address.startswith(root.removeprefix("pci")):
            domain, bus = root.removeprefix("pci").split(":")
            at = int(bus, 16)
            port, upstream = f"{domain}:{bus}:00.0", f"{domain}:{at + 1:02x}:00.0"
            if not (tree.root / "sys" / above / port).is_dir():
                tree.bridge(tree.bridge(above, port, ROOT_PORT), upstream, UPSTREAM_PORT)
            downstream = f"{domain}:{at + 2:02x}:{ports[root]:02x}.0"
            above = tree.bridge(f"{above}/{port}/{upstream}", downstream, DOWNSTREAM_PORT)
        numa = device.pcie.numa_node if device.pcie.numa_node is not None else -1
        if isinstance(device, Gpu):
            tree.nvidia_gpu(above, device.address, numa_node=numa, device=gpu_id, minor=device.index)
            told = f"Model: \t\t {device.model}\nDevice Minor: \t {device.index}\n"
            tree.proc(f"driver/nvidia/gpus/{device.address}/information", told)
        else:
            folder = tree.rdma_nic(
                above, device.address, class_code=0x020000, vendor=AMAZON, device=nic_id, numa_node=numa
            )
            rate = "100 Gb/sec (4X EDR)"
            tree.rdma_device(folder, f"efa_{number}", number=number, link_layer="Unspecified", rate=rate)


def test_each_instance_type_is_there_once_and_has_what_its_name_promises() -> None:
    shapes = {
        name: (len(read.gpus), len(read.nics), read.gpus[0].memory_bytes)
        for name in instance_types()
        for read in [read_instance_type(name, node="n")]
    }
    mib = 1 << 20
    assert shapes == {
        "Standard_ND96amsr_A100_v4": (8, 8, 81920 * mib),
        "Standard_ND96asr_v4": (8, 8, 40960 * mib),
        "Standard_ND96isr_H100_v5": (8, 8, 81559 * mib),
        "p4d.24xlarge": (8, 4, 40960 * mib),
        "p4de.24xlarge": (8, 4, 81920 * mib),
        "p5.48xlarge": (8, 32, 81559 * mib),
    }


def test_each_gpu_of_p5_has_four_nics_below_its_root() -> None:
    read = read_instance_type("p5.48xlarge", node="n")
    roots = instance_types()["p5.48xlarge"].facts.pcie_roots
    assert [gpu.pcie.root for gpu in read.gpus] == list(roots)
    assert {root: sum(nic.pcie.root == root for nic in read.nics) for root in roots} == dict.fromkeys(roots, 4)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("p5.48xlarg", "did you mean p5.48xlarge"),
        ("P5.48XLARGE", "did you mean p5.48xlarge"),
        ("standard_nd96isr_h100_v5", "did you mean Standard_ND96isr_H100_v5"),
        ("m7i.large", "rootport slices --list"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(written: str, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        read_instance_type(written, node="n")


def test_what_a_node_adds_is_told() -> None:
    notes = read_instance_type("p4de.24xlarge", node="n").notes
    assert any("MIG partitions of NVIDIA A100-SXM4-80GB" in note for note in notes)
    assert any("driverVersion" in note for note in notes)
    assert any(note.startswith("pcieSwitch") for note in read_instance_type("p5.48xlarge", node="n").notes)
