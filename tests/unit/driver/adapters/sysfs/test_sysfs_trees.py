"""Discovery on written trees: whole nodes, and where in the PCIe tree a device is."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.model.devices import Gpu, LinkLayer, RdmaNic, RdmaPort, RdmaVf
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from tests.support.sysfs_tree import DOWNSTREAM_PORT, ROOT_PORT, UPSTREAM_PORT, SysfsTree, dgx, guid_of, uuid_of

MIB = 1024**2


def discovered(tree: SysfsTree) -> Inventory:
    return discover(HostRoot(tree.root), node="n")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path)


def test_a_dgx_is_found_whole(tmp_path: Path) -> None:
    inventory = discovered(dgx(tmp_path, switches=4, vfs=2))
    first = PciePath(
        root="pci0000:10",
        root_port=PciAddress("0000:10:01.0"),
        switches=(PciAddress("0000:11:00.0"),),
        numa_node=0,
    )
    assert inventory.gpus[0] == Gpu(
        address=PciAddress("0000:13:00.0"),
        pcie=first,
        index=0,
        minor=0,
        vendor="nvidia",
        uuid=uuid_of(0),
        model="NVIDIA H100 80GB HBM3",
        memory_bytes=81559 * MIB,
        architecture="Hopper",
        cuda_compute_capability="9.0",
        driver_version="580.95.05",
    )

    def port(number: int) -> RdmaPort:
        return RdmaPort(number=1, link_layer=LinkLayer.INFINIBAND, state="active", speed_gbps=400, guid=guid_of(number))

    assert inventory.nics[0] == RdmaNic(
        address=PciAddress("0000:14:00.0"),
        pcie=first,
        index=0,
        rdma_device="mlx5_0",
        if_names=("ib0",),
        vendor="nvidia",
        model="ConnectX-7",
        ports=(port(0),),
        verbs_minor=0,
        umad_minors=(0,),
        issm_minors=(0,),
        rail=0,
        sriov_total_vfs=16,
        vfs=tuple(
            RdmaVf(
                address=PciAddress(f"0000:14:00.{vf + 1}"),
                pcie=first,
                index=vf,
                parent=PciAddress("0000:14:00.0"),
                rdma_device=f"mlx5_{8 + vf}",
                if_names=(f"ib0v{vf}",),
                model="ConnectX-7",
                ports=(port(8 + vf),),
                verbs_minor=8 + vf,
                umad_minors=(8 + vf,),
                issm_minors=(8 + vf,),
                rail=0,
            )
            for vf in range(2)
        ),
    )
    assert [gpu.minor for gpu in inventory.gpus] == list(range(8))
    assert [nic.rail for nic in inventory.nics] == list(range(8))
    assert inventory.notes == ()


@pytest.mark.parametrize("readable", [True, False], ids=["config readable", "config cut to 64 bytes"])
@pytest.mark.parametrize("switches", [4, 8])
def test_a_gpu_and_its_nic_share_a_switch_a_root_and_a_numa_node(tmp_path: Path, switches: int, readable: bool) -> None:
    inventory = discovered(dgx(tmp_path, switches=switches, readable=readable))
    assert [gpu.pcie for gpu in inventory.gpus] == [nic.pcie for nic in inventory.nics]
    assert len({gpu.pcie.switch for gpu in inventory.gpus}) == switches
    assert len({gpu.pcie.root for gpu in inventory.gpus}) == switches
    assert [gpu.pcie.numa_node for gpu in inventory.gpus] == [0] * 4 + [1] * 4


def test_sixty_four_vfs_hang_where_their_pf_hangs(tmp_path: Path) -> None:
    inventory = discovered(dgx(tmp_path, switches=8, vfs=8))
    vfs = [(nic, vf) for nic in inventory.nics for vf in nic.vfs]
    assert len(vfs) == 64
    assert all(vf.pcie == nic.pcie and vf.parent == nic.address and vf.rail == nic.rail for nic, vf in vfs)
    assert [vf.index for vf in inventory.nics[0].vfs] == list(range(8))
    assert len({vf.verbs_minor for _, vf in vfs}) == 64


class TestPcieTree:
    def test_a_device_integrated_in_the_root_complex_has_neither_port_nor_switch(self, tree: SysfsTree) -> None:
        tree.nvidia_gpu(tree.host_bridge("pci0000:00"), "0000:00:02.0")
        assert discovered(tree).gpus[0].pcie == PciePath(root="pci0000:00")

    def test_a_device_right_below_a_root_port_has_no_switch(self, tree: SysfsTree) -> None:
        port = tree.bridge(tree.host_bridge("pci0000:00"), "0000:00:01.0", ROOT_PORT)
        tree.nvidia_gpu(port, "0000:01:00.0")
        assert discovered(tree).gpus[0].pcie == PciePath(root="pci0000:00", root_port=PciAddress("0000:00:01.0"))

    @pytest.mark.parametrize("readable", [True, False], ids=["by port type", "by order"])
    def test_cascaded_switches_are_listed_outermost_first(self, tree: SysfsTree, readable: bool) -> None:
        port = tree.bridge(tree.host_bridge("pci0000:00"), "0000:00:01.0", ROOT_PORT, readable=readable)
        outer = tree.switch(port, "0000:01:00.0", ["0000:02:00.0", "0000:02:01.0"], readable=readable)
        left = tree.switch(outer[0], "0000:03:00.0", ["0000:04:00.0", "0000:04:01.0"], readable=readable)
        tree.nvidia_gpu(left[0], "0000:05:00.0")
        tree.nvidia_gpu(left[1], "0000:06:00.0")
        tree.nvidia_gpu(outer[1], "0000:07:00.0")
        assert [gpu.pcie.switches for gpu in discovered(tree).gpus] == [
            ("0000:01:00.0", "0000:03:00.0"),
            ("0000:01:00.0", "0000:03:00.0"),
            ("0000:01:00.0",),
        ]

    def test_a_switch_that_is_part_of_one_card_is_not_a_switch(self, tree: SysfsTree) -> None:
        port = tree.bridge(tree.host_bridge("pci0000:00"), "0000:00:01.0", ROOT_PORT)
        card = tree.switch(port, "0000:01:00.0", ["0000:02:00.0"])
        nic = tree.rdma_nic(card[0], "0000:03:00.0")
        tree.virtual_function(nic, 0, "0000:03:01.0")
        assert discovered(tree).nics[0].pcie.switches == ()
        assert discovered(tree).nics[0].vfs[0].pcie.switches == ()

    def test_port_types_are_believed_over_the_order(self, tree: SysfsTree) -> None:
        # As in a virtual machine that shows a switch without the root port above it.
        upstream = tree.bridge(tree.host_bridge("pci0000:00"), "0000:00:01.0", UPSTREAM_PORT)
        for slot in range(2):
            port = tree.bridge(upstream, f"0000:01:0{slot}.0", DOWNSTREAM_PORT)
            tree.nvidia_gpu(port, f"0000:0{2 + slot}:00.0")
        assert discovered(tree).gpus[0].pcie == PciePath(root="pci0000:00", switches=(PciAddress("0000:00:01.0"),))

    def test_a_bridge_of_conventional_pci_is_neither_root_port_nor_switch(self, tree: SysfsTree) -> None:
        bridge = tree.bridge(tree.host_bridge("pci0000:00"), "0000:00:1e.0", None)
        tree.nvidia_gpu(bridge, "0000:01:01.0")
        assert discovered(tree).gpus[0].pcie == PciePath(root="pci0000:00")

    def test_below_intel_vmd_the_root_is_the_first_host_bridge_and_the_port_that_of_the_inner_domain(
        self, tree: SysfsTree
    ) -> None:
        outer = tree.host_bridge("pci0000:00")
        vmd = tree.function(outer, "0000:00:0e.0", class_code=0x010400, vendor=0x8086, device=0x201D)
        port = tree.bridge(tree.host_bridge("pci10000:e0", under=vmd), "10000:e0:06.0", ROOT_PORT, readable=False)
        tree.nvidia_gpu(port, "10000:e1:00.0")
        (gpu,) = discovered(tree).gpus
        assert gpu.address == "10000:e1:00.0"
        assert gpu.pcie == PciePath(root="pci0000:00", root_port=PciAddress("10000:e0:06.0"))

    @pytest.mark.parametrize(
        "parent",
        ["devices/platform/3f000000.pcie", "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001"],
        ids=["arm64 platform device", "Hyper-V VMBus"],
    )
    def test_a_host_bridge_that_is_not_right_below_devices_is_no_standard_root(
        self, tree: SysfsTree, parent: str
    ) -> None:
        # deviceattribute.GetPCIeRootAttributeByPCIBusID gives an error there; drivers leave the attribute out.
        bridge = tree.host_bridge("pci0001:00", under=parent)
        tree.nvidia_gpu(tree.bridge(bridge, "0001:00:01.0", ROOT_PORT), "0001:01:00.0", numa_node=1)
        inventory = discovered(tree)
        assert inventory.gpus[0].pcie == PciePath(root=None, root_port=PciAddress("0001:00:01.0"), numa_node=1)
        assert "pcieRoot cannot name it" in inventory.notes[0]

    def test_devices_are_numbered_in_the_order_of_their_addresses(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        for address in (
            "10000:01:00.0",
            "2000:01:00.0",
            "0000:81:00.0",
            "0000:01:00.1",
            "0001:00:00.0",
            "0000:01:00.0",
        ):
            tree.nvidia_gpu(bridge, address)
        assert [gpu.address for gpu in discovered(tree).gpus] == [
            "0000:01:00.0",
            "0000:01:00.1",
            "0000:81:00.0",
            "0001:00:00.0",
            "2000:01:00.0",
            "10000:01:00.0",
        ]


def test_a_node_without_devices_says_what_was_looked_at(tree: SysfsTree) -> None:
    tree.function(tree.host_bridge("pci0000:00"), "0000:00:1f.0", class_code=0x060100, vendor=0x8086, device=0x1234)
    inventory = discovered(tree)
    assert list(inventory.devices()) == []
    assert inventory.notes == ("no GPU, RDMA NIC or FPGA is among the 1 PCI functions below sys/devices",)
