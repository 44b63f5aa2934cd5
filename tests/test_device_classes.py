"""The DeviceClasses, evaluated on what real machines publish: each device is in exactly one class, that of its type."""

from __future__ import annotations

from pathlib import Path

import pytest
from layout.machines import NAMED_VFS, node
from layout.mig_machines import mig_gpu
from sysfs_tree import dgx

from driver.adapters.host import HostRoot
from driver.adapters.manifests import read_manifest_text
from driver.adapters.nccl import read_topology
from driver.adapters.sysfs import discover
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.resource_v1 import Device
from driver.api.validation import validate_device_class
from driver.cel import compile_selector
from driver.layout import resource_slices
from driver.model.devices import Fpga
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from resourceclasses import device_classes_text

REPO = Path(__file__).resolve().parents[1]
TOPOLOGIES = sorted([*REPO.glob("examples/topologies/*.xml"), *REPO.glob("tests/data/topologies/nccl/*.xml")])
CLASSES = [
    manifest.device_class for manifest in read_manifest_text(device_classes_text(), "device-classes.yaml").classes
]
FPGA = Fpga(address=PciAddress("0000:c1:00.0"), pcie=PciePath(), index=0)


def classes_of(driver: str, device: Device) -> list[str]:
    return [
        device_class.metadata.name
        for device_class in CLASSES
        if all(
            selector.cel is not None and compile_selector(selector.cel.expression).matches(driver, device)
            for selector in device_class.spec.selectors
        )
    ]


def assert_each_device_is_in_the_class_of_its_type(
    inventory: Inventory, nic_policies: NicPolicies = DEFAULT_NIC_POLICIES
) -> set[str]:
    seen = set()
    for resource_slice in resource_slices(inventory, nic_policies=nic_policies):
        for device in resource_slice.spec.devices:
            type_ = device.attributes["type"].string_value
            assert classes_of("rootport.dev", device) == [f"{type_}.rootport.dev"]
            seen.add(type_)
    return seen


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_devices_of_real_machines_are_in_the_class_of_their_type(file: Path) -> None:
    assert assert_each_device_is_in_the_class_of_its_type(read_topology(file)) >= {"gpu"}


def test_vfs_and_fpgas_are_in_the_class_of_their_type(tmp_path: Path) -> None:
    dgx(tmp_path, switches=4, vfs=2)
    for nic_policies in (DEFAULT_NIC_POLICIES, NAMED_VFS):
        inventory = discover(HostRoot(tmp_path), node="n")
        types = assert_each_device_is_in_the_class_of_its_type(inventory, nic_policies)
        assert types == {"gpu", "gpu-ratio", "rdma-vf"}
    inventory = Inventory(node="n", source=read_topology(TOPOLOGIES[0]).source, fpgas=(FPGA,))
    assert assert_each_device_is_in_the_class_of_its_type(inventory) == {"fpga"}


def test_partitions_are_in_the_class_of_their_type() -> None:
    types = assert_each_device_is_in_the_class_of_its_type(node(mig_gpu("01")))
    assert types == {"gpu", "gpu-ratio", "mig"}


def test_another_drivers_device_is_in_no_class() -> None:
    assert classes_of("gpu.nvidia.com", Device(name="gpu-0")) == []


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda device_class: device_class.metadata.name)
def test_the_api_server_takes_the_classes(device_class: object) -> None:
    assert validate_device_class(device_class) == ()  # type: ignore[arg-type]
