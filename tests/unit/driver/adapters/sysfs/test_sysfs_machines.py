"""Discovery on the /sys of real machines (sysfs_machines.py); what is expected was read there by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.errors import InputError
from driver.model.devices import LinkLayer, RdmaNic, RdmaPort
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath
from tests.support import sysfs_machines


@pytest.fixture(scope="module", name="xeon")
def _xeon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("xeon") / "machine"
    sysfs_machines.xeon(root)
    return root


def test_a_xeon_with_an_infiniband_hca(xeon: Path) -> None:
    assert discover(HostRoot(xeon), node="xeon") == Inventory(
        node="xeon",
        source=InventorySource.SYSFS,
        nics=(
            RdmaNic(
                # Its class is 0x0c06, an InfiniBand serial bus, and not 0x0207: the RDMA device tells what it is.
                address=PciAddress("0000:43:00.0"),
                pcie=PciePath(root="pci0000:40", root_port=PciAddress("0000:40:03.0"), switches=(), numa_node=2),
                index=0,
                rdma_device="qib0",
                if_names=("ib0",),
                vendor="0x1077",
                model="InfiniPath_QLE7340",
                ports=(
                    RdmaPort(
                        number=1,
                        link_layer=LinkLayer.INFINIBAND,
                        state="active",
                        speed_gbps=40,
                        guid="0011:7500:0077:cfc8",
                    ),
                ),
                verbs_minor=0,
                umad_minors=(0,),
                issm_minors=(0,),
                rail=0,
            ),
        ),
        notes=(
            (
                "0000:09:03.0: a display controller of vendor 0x102b; only GPUs of NVIDIA and AMD are supported, so it "
                "was left out"
            ),
        ),
    )


def test_the_sys_folder_itself_will_do(xeon: Path) -> None:
    assert discover(HostRoot(xeon / "sys"), node="xeon") == discover(HostRoot(xeon), node="xeon")


def test_an_archive_without_the_pci_bus_is_read_by_walking_the_devices(xeon: Path) -> None:
    complete = discover(HostRoot(xeon), node="xeon")
    (xeon / "sys/bus/pci").rename(xeon / "bus-pci")
    try:
        assert discover(HostRoot(xeon), node="xeon") == complete
    finally:
        (xeon / "bus-pci").rename(xeon / "sys/bus/pci")


def test_a_gb10_whose_archive_has_no_pci_devices(tmp_path: Path) -> None:
    sysfs_machines.gb10(tmp_path)
    assert discover(HostRoot(tmp_path), node="gb10") == Inventory(
        node="gb10",
        source=InventorySource.SYSFS,
        notes=(
            (
                "no PCI function was found: sys/bus/pci/devices and sys/devices/pci* were looked at; an archive of "
                "sysfs may have been made without them"
            ),
        ),
    )


def test_the_folder_around_a_machines_tree_is_the_users_error(xeon: Path) -> None:
    with pytest.raises(InputError, match=r"holds no sysfs .*give the folder that has sys below it"):
        discover(HostRoot(xeon.parent), node="xeon")
