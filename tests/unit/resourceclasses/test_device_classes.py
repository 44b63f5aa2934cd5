"""The DeviceClasses, evaluated on what real machines publish: each device is in exactly one class, that of its type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.host import HostRoot
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.adapters.sysfs.discovery import discover
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.resource_v1 import Device
from driver.api.validation.claims import validate_device_class
from driver.cel import compile_selector
from driver.layout.slices import resource_slices
from driver.model.devices import Fpga
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from resourceclasses import device_classes_text
from tests.support.machines import NAMED_VFS, node
from tests.support.mig_machines import mig_gpu
from tests.support.paths import REPO
from tests.support.sysfs_tree import dgx
from tests.support.topologies import REAL_MACHINE_FILES, nccl_file

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


@pytest.mark.parametrize("file", REAL_MACHINE_FILES, ids=lambda file: file.stem)
def test_devices_of_real_machines_are_in_the_class_of_their_type(file: Path) -> None:
    assert assert_each_device_is_in_the_class_of_its_type(read_topology(file)) >= {"gpu"}


def test_vfs_and_fpgas_are_in_the_class_of_their_type(tmp_path: Path) -> None:
    dgx(tmp_path, switches=4, vfs=2)
    for nic_policies in (DEFAULT_NIC_POLICIES, NAMED_VFS):
        inventory = discover(HostRoot(tmp_path), node="n")
        types = assert_each_device_is_in_the_class_of_its_type(inventory, nic_policies)
        assert types == {"gpu", "gpu-ratio", "rdma-vf"}
    inventory = Inventory(node="n", source=read_topology(REAL_MACHINE_FILES[0]).source, fpgas=(FPGA,))
    assert assert_each_device_is_in_the_class_of_its_type(inventory) == {"fpga"}


def test_partitions_are_in_the_class_of_their_type() -> None:
    types = assert_each_device_is_in_the_class_of_its_type(node(mig_gpu("01")))
    assert types == {"gpu", "gpu-ratio", "mig"}


@pytest.fixture(scope="module")
def h100_devices() -> list[Device]:
    inventory = read_topology(nccl_file("azure-nd-h100-v5"), hardware=HardwareFacts(gpu_model="H100"))
    return [device for part in resource_slices(inventory) for device in part.spec.devices]


def memory_selectors(text: str) -> list[str]:
    return re.findall(r'device\.capacity\["rootport\.dev"\]\.memory\.compareTo\(quantity\("\w+"\)\) >= 0', text)


def test_every_memory_selector_that_a_page_or_an_example_shows_selects_an_h100(h100_devices: list[Device]) -> None:
    gpu = next(device for device in h100_devices if device.attributes["type"].string_value == "gpu")
    files = [*REPO.glob("docs/**/*.md"), *REPO.glob("examples/**/*.yaml"), *REPO.glob("resourceclasses/**/*.yaml")]
    found = {(file.name, text) for file in files for text in memory_selectors(file.read_text())}
    assert {file for file, _ in found} >= {"attributes.md", "device-classes.yaml"}
    assert [item for item in found if not compile_selector(item[1]).matches("rootport.dev", gpu)] == []


def test_the_memory_selector_for_partitions_selects_those_of_20gb(h100_devices: list[Device]) -> None:
    _, of_mig = memory_selectors(device_classes_text())
    parts = [device for device in h100_devices if device.attributes["type"].string_value == "mig"]
    chosen = [part for part in parts if compile_selector(of_mig).matches("rootport.dev", part)]
    profiles = {part.attributes["profile"].string_value for part in chosen}
    assert profiles == {"1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}


def test_another_drivers_device_is_in_no_class() -> None:
    assert classes_of("gpu.nvidia.com", Device(name="gpu-0")) == []


@pytest.mark.parametrize("device_class", CLASSES, ids=lambda device_class: device_class.metadata.name)
def test_the_api_server_takes_the_classes(device_class: object) -> None:
    assert validate_device_class(device_class) == ()  # type: ignore[arg-type]
