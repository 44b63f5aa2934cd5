"""An FPGA from sysfs to the device nodes of the container that is given it, as Koordinator schedules whole FPGAs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.config import FpgaConfig
from driver.layout.left_out import left_out
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.objects.devices import device_objects
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from driver.plan.device_nodes import device_nodes
from tests.support.sysfs_tree import SysfsTree

NAMES = ("fpga-0000-b1-00-0", "fpga-0000-b2-00-0")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    made = SysfsTree(tmp_path)
    bridge = made.host_bridge("pci0000:b0")
    for number in range(2):
        made.fpga(bridge, f"0000:b{number + 1}:00.0", number=number, numa_node=1)
    return made


@pytest.fixture
def inventory(tree: SysfsTree) -> Inventory:
    """What the controller reads of what the node's plugin wrote."""
    found = discover(HostRoot(tree.root), node="n")
    return inventory_of(parse_node_inventory(json.loads(json.dumps(node_inventory(found)))))


def test_each_card_is_published_once_where_it_hangs(inventory: Inventory) -> None:
    devices = [device.to_wire() for part in resource_slices(inventory) for device in part.spec.devices]
    assert [device["name"] for device in devices] == list(NAMES)
    for device in devices:
        assert device["attributes"]["type"] == {"string": "fpga"}
        assert device["attributes"]["vendor"] == {"string": "intel"}
        assert device["attributes"]["numaNode"] == {"int": 1}
        assert device["attributes"]["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:b0"}
        assert "allowMultipleAllocations" not in device


def test_each_card_has_an_object_that_names_its_character_device(inventory: Inventory) -> None:
    specs = [made.spec for made in device_objects(inventory)]
    assert [(spec.device_name, spec.type, spec.device_paths) for spec in specs] == [
        (NAMES[0], "fpga", ("/dev/dfl-port.0",)),
        (NAMES[1], "fpga", ("/dev/dfl-port.1",)),
    ]


def test_a_container_gets_the_users_node_and_not_the_one_that_reprograms_the_card(inventory: Inventory) -> None:
    assert device_nodes(inventory.fpgas[1], FpgaConfig(), "claim") == ("/dev/dfl-port.1",)


def test_a_card_without_a_driver_is_shown_and_not_published(tree: SysfsTree) -> None:
    tree.function(
        tree.host_bridge("pci0000:c0"), "0000:c1:00.0", class_code=0x120000, vendor=0x8086, device=0x0B30, numa_node=0
    )
    inventory = discover(HostRoot(tree.root), node="n")
    reasons = left_out(inventory)
    objects = {made.spec.device_name: made.spec for made in device_objects(inventory, left_out=reasons)}
    assert list(reasons) == ["fpga-0000-c1-00-0"]
    assert "device node" in (objects["fpga-0000-c1-00-0"].left_out or "")
    assert len([device for part in resource_slices(inventory) for device in part.spec.devices]) == 2
