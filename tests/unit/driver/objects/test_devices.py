"""What a Device object says of each device of a node."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.api.resource_v1 import ObjectMeta
from driver.api.rootport_v1alpha1 import Device
from driver.api.validation.names import label_value, metadata, subdomain
from driver.errors import InputError
from driver.model.devices import DeviceName, LinkLayer, RdmaPort
from driver.model.distance import distance
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from driver.objects import NODE_LABEL, device_object_name, device_objects, node_label
from tests.support.inventories import MACHINES, drawn_inventories, machine
from tests.support.machines import fpga, gpu, nic, node
from tests.support.topologies import machine_file


def by_name(inventory: Inventory) -> dict[str, Device]:
    return {made.spec.device_name: made for made in device_objects(inventory)}


def near(inventory: Inventory, device: str) -> list[tuple[str, str]]:
    return [(item.name, item.distance) for item in by_name(inventory)[device].spec.near]


def test_a_gpu_of_a_real_machine() -> None:
    facts = HardwareFacts(gpu_model="NVIDIA H100 80GB HBM3", gpu_memory_bytes=80 << 30)
    first, *_ = device_objects(read_topology(machine_file("azure-nd-h100-v5"), node="h100", hardware=facts))
    assert first.to_wire() == {
        "apiVersion": "rootport.dev/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": "h100.gpu-0001-00-00-0",
            "labels": {
                "rootport.dev/node": "h100",
                "rootport.dev/type": "gpu",
                "rootport.dev/model": "NVIDIA-H100-80GB-HBM3",
            },
        },
        "spec": {
            "nodeName": "h100",
            "deviceName": "gpu-0001-00-00-0",
            "type": "gpu",
            "index": 0,
            "vendor": "nvidia",
            "model": "NVIDIA H100 80GB HBM3",
            "memory": "81920Mi",
            "architecture": "Hopper",
            "pciBusID": "0001:00:00.0",
            "pcieSwitch": "ffff:ff:01.0",
            "pcieRoot": "pci0001:00",
            "numaNode": 0,
            "near": [{"name": "rdma-0101-00-00-0", "distance": "PIX"}],
        },
        "status": {"state": "Unknown"},
    }


def test_a_vf_names_its_nic_and_has_the_nics_vendor_and_neighbours() -> None:
    inventory = node(gpu("01", 0, "f0"), nic("03", 0, "f0", vfs=1, vendor="nvidia"))
    spec = by_name(inventory)["rdma-vf-0000-03-01-0"].spec
    assert (spec.type, spec.parent, spec.vendor, spec.minor) == ("rdma-vf", "rdma-0000-03-00-0", "nvidia", 0)
    assert [(item.name, item.distance) for item in spec.near] == [("gpu-0000-01-00-0", "PIX")]


def test_a_nic_tells_its_interfaces_and_its_link() -> None:
    ports = (
        RdmaPort(number=1, link_layer=LinkLayer.ETHERNET, state="down", speed_gbps=25, guid="0002:c903:00a1:0001"),
        RdmaPort(number=2, link_layer=LinkLayer.ETHERNET, state="active", speed_gbps=100, guid="0002:c903:00a1:0002"),
    )
    spec = by_name(node(nic("03", ports=ports, if_names=("eth0", "eth1"))))["rdma-0000-03-00-0"].spec
    assert (spec.if_names, spec.link_type, spec.link_state) == (("eth0", "eth1"), "ethernet", "active")
    assert (spec.link_speed_gbps, spec.guid) == (100, "0002:c903:00a1:0001")


def test_a_nic_whose_ports_are_all_down_has_the_first_ones_state() -> None:
    ports = (RdmaPort(number=1, state="init"), RdmaPort(number=2, state="down", link_layer=LinkLayer.ETHERNET))
    spec = by_name(node(nic("03", ports=ports)))["rdma-0000-03-00-0"].spec
    assert (spec.link_state, spec.link_type, spec.guid) == ("init", None, None)


def test_an_fpga_tells_the_nodes_of_its_users() -> None:
    assert by_name(node(fpga("04")))["fpga-0000-04-00-0"].spec.device_paths == ("/dev/dfl-port.4",)


@pytest.mark.parametrize("name", MACHINES)
def test_every_device_of_every_machine_has_an_object(name: str) -> None:
    inventory = machine(name)
    made = device_objects(inventory)
    assert [item.spec.device_name for item in made] == [device.name for device in inventory.devices()]
    assert [item.spec.pci_bus_id for item in made] == [device.address for device in inventory.devices()]


@given(drawn_inventories())
def test_every_object_is_one_that_the_api_server_takes(inventory: Inventory) -> None:
    made = device_objects(inventory)
    assert len({item.metadata.name for item in made}) == len(list(inventory.devices()))
    for item in made:
        assert list(metadata(item.metadata, namespaced=False)) == []
        assert Device.model_validate(json.loads(json.dumps(item.to_wire()))) == item


def test_near_are_all_devices_of_the_other_kind_at_the_least_distance() -> None:
    inventory = node(gpu("01", 0, "f0"), gpu("02", 1, "f1"), nic("03", 0, "f0"), nic("04", 0, "f0"), nic("05", 1, "f2"))
    assert near(inventory, "gpu-0000-01-00-0") == [("rdma-0000-03-00-0", "PIX"), ("rdma-0000-04-00-0", "PIX")]
    assert near(inventory, "gpu-0000-02-00-0") == [("rdma-0000-05-00-0", "NODE")]
    assert near(inventory, "rdma-0000-03-00-0") == [("gpu-0000-01-00-0", "PIX")]
    assert near(inventory, "rdma-0000-05-00-0") == [("gpu-0000-02-00-0", "NODE")]


def test_near_an_fpga_are_nics_and_near_a_nic_no_fpga() -> None:
    inventory = node(nic("03", 0), fpga("04", 0))
    assert near(inventory, "fpga-0000-04-00-0") == [("rdma-0000-03-00-0", "NODE")]
    assert near(inventory, "rdma-0000-03-00-0") == []


def test_a_node_of_one_kind_only_has_nothing_near() -> None:
    assert near(node(gpu("01", 0, "f0"), gpu("02", 0, "f0")), "gpu-0000-01-00-0") == []


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_is_nearer_than_near(name: str) -> None:
    inventory = machine(name)
    nics = {device.name: device.address for device in inventory.nics}
    for made in device_objects(inventory):
        if made.spec.type == "gpu" and nics:
            away = {
                name: str(distance(inventory, PciAddress(made.spec.pci_bus_id), address))
                for name, address in nics.items()
            }
            order = ["PIX", "PXB", "PHB", "NODE", "SYS"]
            least = min(away.values(), key=order.index)
            assert {item.name: item.distance for item in made.spec.near} == {
                name: level for name, level in away.items() if level == least
            }


def test_a_device_that_is_not_offered_says_why() -> None:
    reasons = {DeviceName("gpu-0000-01-00-0"): "MIG mode is on"}
    one, other = device_objects(node(gpu("01"), gpu("02")), left_out=reasons)
    assert (one.spec.left_out, other.spec.left_out) == ("MIG mode is on", None)


def test_a_name_that_is_too_long_is_cut_and_stays_unique() -> None:
    device = DeviceName("rdma-vf-0000-3b-00-2")
    names = [device_object_name(f"{'a' * 240}{end}", device) for end in ("b", "c")]
    assert len(set(names)) == 2
    for name in names:
        assert len(name) == 253
        assert name.endswith(".rdma-vf-0000-3b-00-2")
        assert list(subdomain("name", name)) == []


@pytest.mark.parametrize("length", [1, 62, 63, 64, 232, 233, 253])
def test_a_name_is_whole_as_long_as_it_can_be(length: int) -> None:
    device = DeviceName("gpu-0000-3b-00-0")
    name = device_object_name("n" * length, device)
    assert (name == f"{'n' * length}.{device}") is (length + 1 + len(device) <= 253)


@pytest.mark.parametrize("node_name", ["n1", "ip-10-0-0-1.ec2.internal", "a" * 63, f"{'a' * 49}.{'b' * 60}", "x" * 253])
def test_a_nodes_devices_are_found_by_its_label(node_name: str) -> None:
    (made,) = device_objects(node(gpu("01"), name=node_name))
    assert made.metadata.labels[NODE_LABEL] == node_label(node_name)
    assert list(label_value("label", node_label(node_name))) == []
    assert (node_label(node_name) == node_name) is (len(node_name) <= 63)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", id="spaces"),
        pytest.param("InfiniPath_QLE7340", "InfiniPath_QLE7340", id="as-it-is"),
        pytest.param("Alveo™ U250 (rev. B)", "Alveo-U250-rev.-B", id="other-characters"),
        pytest.param("x" * 62 + " y", "x" * 62, id="cut-at-a-space"),
        pytest.param("™", None, id="nothing-left"),
        pytest.param(None, None, id="unknown"),
    ],
)
def test_a_model_as_a_label(name: str | None, label: str | None) -> None:
    (made,) = device_objects(node(gpu("01", model=name)))
    assert made.metadata.labels.get("rootport.dev/model") == label


@given(st.text(min_size=1, max_size=128).filter(str.isprintable))
def test_any_model_gives_a_label_that_the_api_server_takes(name: str) -> None:
    (made,) = device_objects(node(gpu("01", model=name)))
    assert list(metadata(made.metadata, namespaced=False)) == []


def test_the_node_decides_the_name_so_nodes_do_not_meet() -> None:
    inventory = node(gpu("01"))
    names = {made.metadata.name for name in ("a", "b") for made in device_objects(inventory.renamed(name))}
    assert names == {"a.gpu-0000-01-00-0", "b.gpu-0000-01-00-0"}


def test_a_node_that_kubernetes_does_not_allow_is_refused() -> None:
    with pytest.raises(InputError, match="node's name"):
        device_objects(node(gpu("01"), name="No Node"))


def test_what_a_device_cannot_hold_is_told_with_device_and_field() -> None:
    inventory = node(gpu("01", model="x" * 200), replace(nic("03"), rdma_device="../x"))
    with pytest.raises(InputError) as caught:
        device_objects(inventory)
    first, second = str(caught.value).splitlines()
    assert first.startswith("Device 'gpu-0000-01-00-0' of node node-a: spec.model")
    assert second.startswith("Device 'rdma-0000-03-00-0' of node node-a: spec.rdmaDevice")


def test_metadata_has_nothing_but_name_and_labels() -> None:
    (made,) = device_objects(node(gpu("01")))
    assert made.metadata == ObjectMeta(name=made.metadata.name, labels=made.metadata.labels)


def test_what_is_near_is_that_of_the_inventory_and_of_no_equal_looking_one_before() -> None:
    """What is near is worked out once for machines that are equal apart from names and identities."""
    apart = node(gpu("01", 0, uuid="GPU-1"), gpu("02", 1), nic("03", 0), nic("04", 1))
    assert near(apart, "gpu-0000-01-00-0") == [("rdma-0000-03-00-0", "NODE")]
    renamed = replace(apart, node="other", gpus=(replace(apart.gpus[0], uuid="GPU-2"), apart.gpus[1]))
    first, second = ({name: item.spec.near for name, item in by_name(one).items()} for one in (apart, renamed))
    assert all(first[name] == second[name] for name in first)
    moved = replace(apart, nics=(replace(apart.nics[0], pcie=apart.nics[1].pcie), apart.nics[1]))
    assert [distance for _, distance in near(moved, "gpu-0000-01-00-0")] == ["SYS", "SYS"]


@pytest.mark.parametrize("numa_node", [None, 1])
def test_a_numa_node_that_a_vf_alone_reports_keeps_others_from_counting_as_on_one_node(numa_node: int | None) -> None:
    card = nic("03", vfs=2)
    vfs = (card.vfs[0], replace(card.vfs[1], pcie=replace(card.vfs[1].pcie, numa_node=numa_node)))
    inventory = node(gpu("01"), replace(card, vfs=vfs))
    wanted = str(distance(inventory, PciAddress("0000:01:00.0"), PciAddress("0000:03:00.0")))
    assert near(inventory, "gpu-0000-01-00-0") == [("rdma-0000-03-00-0", wanted)]
    assert wanted == ("NODE" if numa_node is None else "SYS")
