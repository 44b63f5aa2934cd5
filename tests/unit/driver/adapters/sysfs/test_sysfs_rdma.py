"""What discovery tells of RDMA NICs, their ports and their virtual functions, on written trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.model.devices import LinkLayer, RdmaPort
from driver.model.inventory import Inventory
from tests.support.sysfs_tree import SysfsTree, guid_of


def discovered(tree: SysfsTree) -> Inventory:
    return discover(HostRoot(tree.root), node="n")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return SysfsTree(tmp_path)


class TestRdmaNics:
    def test_a_roce_nic_is_told_by_its_rdma_device_whatever_its_class(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(
            tree.host_bridge("pci0000:00"), "0000:01:00.0", class_code=0x020000, vendor=0x14E4, device=0x1750
        )
        tree.rdma_device(
            nic,
            "bnxt_re0",
            number=4,
            link_layer="Ethernet",
            state="1: DOWN",
            rate="2.5 Gb/sec (1X SDR)",
            interfaces=["ens1np1", "ens1np0"],
        )
        (found,) = discovered(tree).nics
        assert (found.rdma_device, found.vendor, found.verbs_minor) == ("bnxt_re0", "broadcom", 4)
        assert found.if_names == ("ens1np0", "ens1np1")
        assert found.ports == (
            RdmaPort(number=1, link_layer=LinkLayer.ETHERNET, state="down", speed_gbps=2, guid=guid_of(4)),
        )

    def test_an_ethernet_nic_without_an_rdma_device_is_no_rdma_nic(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        tree.function(bridge, "0000:01:00.0", class_code=0x020000, vendor=0x8086, device=0x1593)
        assert discovered(tree).nics == ()

    def test_an_infiniband_nic_without_a_driver_is_listed_with_a_note(self, tree: SysfsTree) -> None:
        tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        inventory = discovered(tree)
        assert [(nic.rdma_device, nic.model, nic.ports) for nic in inventory.nics] == [(None, "ConnectX-7", ())]
        assert inventory.notes == ("0000:01:00.0: it has no RDMA device: no driver is bound to this InfiniBand NIC",)

    def test_a_nic_that_the_catalogue_does_not_know_has_the_drivers_word_for_a_model(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0", device=0x9999)
        tree.rdma_device(nic, "mlx5_0", number=0)
        assert discovered(tree).nics[0].model == "MT4129"

    def test_a_device_of_two_ports_has_a_umad_and_an_issm_node_a_port(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        device = tree.rdma_device(nic, "mlx4_0", number=7)
        tree.write(f"{device}/ports/2/link_layer", "Ethernet")
        tree.write(f"{device}/ports/2/state", "2: INIT")
        # The number of a node does not tell its port: port 2 has the lower one here.
        for kind in ("umad", "issm"):
            tree.write(f"{nic}/infiniband_mad/{kind}3/ibdev", "mlx4_0")
            tree.write(f"{nic}/infiniband_mad/{kind}3/port", "2")
        (found,) = discovered(tree).nics
        assert [(port.number, port.link_layer, port.state) for port in found.ports] == [
            (1, LinkLayer.INFINIBAND, "active"),
            (2, LinkLayer.ETHERNET, "init"),
        ]
        assert (found.verbs_minor, found.umad_minors, found.issm_minors) == (7, (7, 3), (7, 3))

    def test_an_efa_port_has_no_link_layer_that_we_know(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(
            tree.host_bridge("pci0000:00"), "0000:10:1b.0", class_code=0x020000, vendor=0x1D0F, device=0xEFA1
        )
        tree.rdma_device(nic, "rdmap16s27", number=0, link_layer="Unspecified", rate="100 Gb/sec (4X EDR)")
        (found,) = discovered(tree).nics
        assert (found.vendor, found.ports[0].link_layer, found.ports[0].speed_gbps) == ("amazon", None, 100)

    def test_a_guid_of_zeros_is_none(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        device = tree.rdma_device(nic, "mlx5_0", number=0)
        tree.write(f"{device}/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0000")
        assert discovered(tree).nics[0].ports[0].guid is None

    @pytest.mark.parametrize("port_name", ["pf0vf3", "pf0sf88", "c1pf0vf1", "pf1"])
    def test_a_switchdev_representor_is_not_the_nics_own_interface(self, tree: SysfsTree, port_name: str) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0", class_code=0x020000)
        tree.rdma_device(nic, "mlx5_0", number=0, interfaces=["ens1np0", "ens1rep"])
        tree.write(f"{nic}/net/ens1np0/phys_port_name", "p0")
        tree.write(f"{nic}/net/ens1rep/phys_port_name", port_name)
        assert discovered(tree).nics[0].if_names == ("ens1np0",)

    def test_a_device_made_in_software_is_left_out(self, tree: SysfsTree) -> None:
        nic = tree.function(
            tree.host_bridge("pci0000:00"), "0000:01:00.0", class_code=0x020000, vendor=0x8086, device=0x1593
        )
        # As older kernels do it, below the PCI function of its interface.
        rxe = tree.rdma_device(nic, "rxe0", number=0)
        tree.write(f"{rxe}/node_desc", "rxe")
        renamed = tree.rdma_device(nic, "rxe1", number=1)
        tree.write(f"{renamed}/parent", "ens1")
        siw = tree.rdma_device(nic, "siw0", number=2)
        tree.write(f"{siw}/node_desc", "Software iWARP stack")
        inventory = discovered(tree)
        assert inventory.nics == ()
        assert [note for note in inventory.notes if "made in software (rxe or siw)" in note] == [
            f"RDMA device {name}: made in software (rxe or siw); it was left out" for name in ("rxe0", "rxe1", "siw0")
        ]

    def test_a_device_without_hardware_is_left_out(self, tree: SysfsTree) -> None:
        tree.write("devices/virtual/infiniband/rxe0/node_guid", guid_of(0))
        tree.link("class/infiniband/rxe0", "devices/virtual/infiniband/rxe0")
        inventory = discovered(tree)
        assert inventory.nics == ()
        assert any("RDMA device rxe0: no hardware behind it" in note for note in inventory.notes)

    def test_a_subfunction_is_not_taken_for_its_pf(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0")
        tree.rdma_device(nic, "mlx5_0", number=0)
        tree.rdma_device(tree.folder(f"{nic}/mlx5_core.sf.2"), "mlx5_1", number=1)
        inventory = discovered(tree)
        assert [nic.rdma_device for nic in inventory.nics] == ["mlx5_0"]
        assert (
            "RDMA device mlx5_1: 'sys/devices/pci0000:00/0000:01:00.0/mlx5_core.sf.2' is not a PCI"
            in (inventory.notes[0])
        )

    def test_a_vf_without_a_driver_is_listed(self, tree: SysfsTree) -> None:
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:01:00.0", attributes={"sriov_totalvfs": "8"})
        tree.rdma_device(nic, "mlx5_0", number=0)
        tree.virtual_function(nic, 5, "0000:01:00.6", class_code=0x020000)
        (found,) = discovered(tree).nics
        assert found.sriov_total_vfs == 8
        assert [(vf.index, vf.address, vf.rdma_device) for vf in found.vfs] == [(5, "0000:01:00.6", None)]

    def test_a_vf_in_a_virtual_machine_is_a_nic_of_its_own(self, tree: SysfsTree) -> None:
        # A guest sees neither the PF nor the link to it.
        nic = tree.rdma_nic(tree.host_bridge("pci0000:00"), "0000:00:05.0", device=0x101E)
        tree.rdma_device(nic, "mlx5_0", number=0)
        assert [nic.rdma_device for nic in discovered(tree).nics] == ["mlx5_0"]

    def test_a_vf_whose_pf_has_no_rdma_is_left_out_with_a_note(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        physical = tree.function(bridge, "0000:01:00.0", class_code=0x020000, vendor=0x15B3, device=0x1021)
        virtual = tree.virtual_function(physical, 0, "0000:01:00.1", class_code=0x020000)
        tree.rdma_device(virtual, "mlx5_1", number=1)
        inventory = discovered(tree)
        assert inventory.nics == ()
        assert "0000:01:00.1 (mlx5_1): a virtual function whose PF is not an RDMA NIC" in inventory.notes[0]

    def test_only_the_nics_of_the_largest_fabric_have_rails(self, tree: SysfsTree) -> None:
        bridge = tree.host_bridge("pci0000:00")
        for number, device in enumerate((0x1021, 0x101D, 0x1021, 0x101D, 0x1021)):
            nic = tree.rdma_nic(bridge, f"0000:0{number + 1}:00.0", device=device)
            tree.rdma_device(nic, f"mlx5_{number}", number=number)
        assert [nic.rail for nic in discovered(tree).nics] == [0, None, 1, None, 2]
