"""Rails are numbered among the NICs of one fabric, in PCI order."""

from __future__ import annotations

import pytest

from driver.model.devices import LinkLayer, RdmaNic, RdmaPort, RdmaVf
from driver.model.pci import PciAddress, PciePath
from driver.model.rails import with_rails


def nic(
    address: str, speed: int = 400, link_layer: LinkLayer = LinkLayer.INFINIBAND, model: str | None = "CX7"
) -> RdmaNic:
    ports = (RdmaPort(link_layer=link_layer, speed_gbps=speed),)
    return RdmaNic(address=PciAddress(address), pcie=PciePath(), index=0, model=model, ports=ports)


def test_rails_follow_the_pci_order_and_the_nics_keep_theirs() -> None:
    nics = with_rails([nic("0000:85:00.0"), nic("0000:13:00.0"), nic("10000:01:00.0"), nic("ffff:01:00.0")])
    assert [nic.rail for nic in nics] == [1, 0, 3, 2]
    assert nics[0].address == "0000:85:00.0"


ETHERNET = LinkLayer.ETHERNET


def test_only_the_largest_group_of_alike_nics_has_rails() -> None:
    nics = with_rails(
        [
            nic("0000:01:00.0"),
            nic("0000:03:00.0", link_layer=ETHERNET),
            nic("0000:04:00.0", model="CX6"),
            nic("0000:05:00.0"),
        ]
    )
    assert [nic.rail for nic in nics] == [0, None, None, 1]


def test_of_groups_as_large_infiniband_has_the_rails() -> None:
    nics = with_rails([nic("0000:01:00.0", link_layer=ETHERNET), nic("0000:02:00.0")])
    assert [nic.rail for nic in nics] == [None, 0]


@pytest.mark.parametrize("layer", LinkLayer)
def test_no_nic_has_a_rail_where_the_compute_fabric_cannot_be_told(layer: LinkLayer) -> None:
    nics = with_rails([nic("0000:01:00.0", link_layer=layer, model="CX6"), nic("0000:02:00.0", link_layer=layer)])
    assert [nic.rail for nic in nics] == [None, None]


def test_a_port_without_a_cable_keeps_its_neighbours_rails() -> None:
    nics = with_rails([nic("0000:01:00.0"), nic("0000:02:00.0", speed=10), nic("0000:03:00.0")])
    assert [nic.rail for nic in nics] == [0, 1, 2]


def test_speed_tells_nics_of_an_unknown_model_apart() -> None:
    nics = with_rails(
        [nic("0000:01:00.0", model=None), nic("0000:02:00.0", 100, model=None), nic("0000:03:00.0", model=None)]
    )
    assert [nic.rail for nic in nics] == [0, None, 1]


def test_a_nic_without_ports_is_alike_others_without() -> None:
    bare = [RdmaNic(address=PciAddress(f"0000:0{bus}:00.0"), pcie=PciePath(), index=0) for bus in (1, 3)]
    assert [nic.rail for nic in with_rails([*bare, nic("0000:02:00.0")])] == [0, 1, None]


def test_vfs_take_the_rail_of_their_pf() -> None:
    vf = RdmaVf(address=PciAddress("0000:02:00.1"), pcie=PciePath(), index=0, parent=PciAddress("0000:02:00.0"))
    pf = RdmaNic(address=PciAddress("0000:02:00.0"), pcie=PciePath(), index=1, vfs=(vf,))
    first = RdmaNic(address=PciAddress("0000:01:00.0"), pcie=PciePath(), index=0)
    assert with_rails([first, pf])[1].vfs[0].rail == 1
