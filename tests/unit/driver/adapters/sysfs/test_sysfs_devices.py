"""What discovery tells of GPUs and FPGAs, on written trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.model.devices import Fpga, Gpu
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from tests.support.sysfs_tree import SysfsTree

MIB = 1024**2


def discovered(tree: SysfsTree) -> Inventory:
    return discover(HostRoot(tree.root), node="n")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path)


class TestGpus:
    def test_without_its_driver_an_nvidia_gpu_is_known_by_its_pci_id(self, tree: SysfsTree) -> None:
        tree.nvidia_gpu(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        (gpu,) = discovered(tree).gpus
        assert (gpu.minor, gpu.uuid, gpu.driver_version) == (None, None, None)
        assert (gpu.model, gpu.memory_bytes) == ("NVIDIA H100 80GB HBM3", 81559 * MIB)

    def test_a_gpu_that_nobody_knows_is_listed_without_a_model(self, tree: SysfsTree) -> None:
        tree.nvidia_gpu(tree.host_bridge("pci0000:00"), "0000:01:00.0", device=0xFFFE)
        (gpu,) = discovered(tree).gpus
        assert (gpu.model, gpu.memory_bytes) == (None, None)

    def test_a_uuid_that_the_driver_does_not_know_yet_is_not_taken(self, tree: SysfsTree) -> None:
        tree.nvidia_gpu(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        tree.proc(
            "driver/nvidia/gpus/0000:01:00.0/information",
            "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 3\n",
        )
        (gpu,) = discovered(tree).gpus
        assert (gpu.uuid, gpu.minor) == (None, 3)

    @pytest.mark.parametrize("class_code", [0x030000, 0x038000, 0x120000], ids=["VGA", "display", "accelerator"])
    def test_an_amd_gpu_is_told_by_amdgpu(self, tree: SysfsTree, class_code: int) -> None:
        tree.write("module/amdgpu/version", "6.12.12")
        folder = tree.function(
            tree.host_bridge("pci0000:00"),
            "0000:0c:00.0",
            class_code=class_code,
            vendor=0x1002,
            device=0x74A1,
            attributes={
                "mem_info_vram_total": str(196592 * 1024**2),
                "product_name": "AMD Instinct MI300X OAM",
                "unique_id": "a1b2c3d4e5f60718",
            },
        )
        tree.folder(f"{folder}/drm/card1")
        tree.folder(f"{folder}/drm/renderD129")
        assert discovered(tree).gpus == (
            Gpu(
                address=PciAddress("0000:0c:00.0"),
                pcie=PciePath(root="pci0000:00"),
                index=0,
                minor=129,
                vendor="amd",
                uuid="GPU-a1b2c3d4e5f60718",
                model="AMD Instinct MI300X OAM",
                memory_bytes=196592 * 1024**2,
                architecture="gfx942",
                driver_version="6.12.12",
            ),
        )

    def test_without_its_driver_an_amd_gpu_is_known_by_its_pci_id(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(bridge, "0000:0c:00.0", class_code=0x120000, vendor=0x1002, device=0x74A1)
        (gpu,) = discovered(tree).gpus
        assert (gpu.model, gpu.memory_bytes, gpu.uuid) == ("AMD Instinct MI300X", 196592 * MIB, None)

    def test_a_gpu_of_which_the_driver_tells_no_memory_has_the_nominal_one_and_a_note(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        for bus in ("0c", "0d"):
            tree.function(bridge, f"0000:{bus}:00.0", class_code=0x120000, vendor=0x1002, device=0x74A0)
        inventory = discovered(tree)
        assert {gpu.memory_bytes for gpu in inventory.gpus} == {128 * 1024 * MIB}
        assert [note for note in inventory.notes if "MI300A: the memory, 128 GiB, is the nominal size" in note] == [
            "AMD Instinct MI300A: the memory, 128 GiB, is the nominal size; the driver may report less."
        ]

    @pytest.mark.parametrize("vendor", [0x1A03, 0x102B, 0x8086], ids=["ASPEED", "Matrox", "Intel"])
    def test_a_display_controller_of_another_vendor_is_left_out_with_a_note(self, tree: SysfsTree, vendor: int) -> None:
        tree.function(tree.host_bridge("pci0000:00"), "0000:03:00.0", class_code=0x030000, vendor=vendor, device=0x2000)
        inventory = discovered(tree)
        assert inventory.gpus == ()
        assert f"0000:03:00.0: a display controller of vendor 0x{vendor:04x}" in inventory.notes[0]

    def test_what_else_a_gpu_card_has_is_no_gpu(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(bridge, "0000:01:00.1", class_code=0x040300, vendor=0x10DE, device=0x22BA)  # its audio
        tree.function(bridge, "0000:02:00.0", class_code=0x068000, vendor=0x10DE, device=0x22A3)  # an NVSwitch
        assert discovered(tree).gpus == ()

    def test_a_virtual_function_of_a_gpu_is_no_whole_gpu(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        physical = tree.nvidia_gpu(bridge, "0000:01:00.0")
        virtual = tree.nvidia_gpu(bridge, "0000:01:00.4")
        tree.link(f"{virtual}/physfn", physical)
        inventory = discovered(tree)
        assert [gpu.address for gpu in inventory.gpus] == ["0000:01:00.0"]
        assert inventory.notes == ("0000:01:00.4: a virtual function of a GPU; it was left out",)


class TestFpgas:
    def test_the_two_functions_of_a_xilinx_card_are_one_fpga_named_by_the_users(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(
            bridge,
            "0000:65:00.0",
            class_code=0x120000,
            vendor=0x10EE,
            device=0x5000,
            attributes={"instance": "25856"},
        )
        user = tree.function(bridge, "0000:65:00.1", class_code=0x120000, vendor=0x10EE, device=0x5001, numa_node=1)
        tree.folder(f"{user}/drm/renderD130")
        assert discovered(tree).fpgas == (
            Fpga(
                address=PciAddress("0000:65:00.1"),
                pcie=PciePath(root="pci0000:00", numa_node=1),
                index=0,
                vendor="xilinx",
                device_paths=("/dev/dri/renderD130",),
            ),
        )

    def test_an_intel_card_is_told_by_its_fpga_region(self, tree: SysfsTree) -> None:
        card = tree.function(
            tree.host_bridge("pci0000:00"), "0000:b1:00.0", class_code=0x120000, vendor=0x8086, device=0x0B2B
        )
        tree.folder(f"{card}/fpga_region/region0/dfl-fme.0/dfl-fme-region.1")
        tree.folder(f"{card}/fpga_region/region0/dfl-port.0")
        tree.link("class/fpga_region/region0", f"{card}/fpga_region/region0")
        (fpga,) = discovered(tree).fpgas
        assert (fpga.address, fpga.vendor, fpga.device_paths) == (
            "0000:b1:00.0",
            "intel",
            ("/dev/dfl-port.0",),
        )

    def test_an_intel_npu_is_a_processing_accelerator_but_no_fpga(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(bridge, "0000:00:0b.0", class_code=0x120000, vendor=0x8086, device=0x7D1D)
        assert discovered(tree).fpgas == ()

    def test_an_fpga_of_an_aws_instance_is_told_by_its_id_alone(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(bridge, "0000:00:1d.0", class_code=0x058000, vendor=0x1D0F, device=0xF000)
        tree.function(bridge, "0000:00:05.0", class_code=0x020000, vendor=0x1D0F, device=0xEC20)  # its network card
        assert [(fpga.address, fpga.vendor) for fpga in discovered(tree).fpgas] == [("0000:00:1d.0", "amazon")]

    def test_a_region_of_a_system_on_chip_is_no_pci_fpga(self, tree: SysfsTree) -> None:
        tree.folder("devices/soc0/fpga-region/fpga_region/region0")
        tree.link("class/fpga_region/region0", "devices/soc0/fpga-region/fpga_region/region0")
        assert discovered(tree).fpgas == ()
