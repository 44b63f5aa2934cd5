"""Devices that are in several places: Data Direct functions of NICs, and NUMA nodes of one socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from driver.model.distance import Level, distance
from driver.model.inventory import Inventory
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from tests.support.sysfs_tree import MELLANOX, ROOT_PORT, SysfsTree

CONNECTX_8, DATA_DIRECT = 0x1023, 0x2100
UUID = "V3", "mlx-0f1e2d3c"


def vital_product_data(*keywords: tuple[str, str], name: str = "ConnectX-8") -> bytes:
    fields = b"".join(key.encode() + bytes((len(value),)) + value.encode() for key, value in keywords)
    parts = ((0x82, name.encode()), (0x90, fields))
    return b"".join(bytes((tag,)) + len(data).to_bytes(2, "little") + data for tag, data in parts) + b"\x78"


class Direct(SysfsTree):
    """A GPU and the Data Direct function of a NIC under one switch; the NIC itself at the CPU, as in a GB300."""

    def __init__(self, root: Path, own: bytes | None, of_function: bytes | None) -> None:
        super().__init__(root)
        self.proc("driver/nvidia/version", "")
        far = self.host_bridge("pci0002:00")
        port = self.bridge(far, "0002:00:00.0", ROOT_PORT)
        nic = self.rdma_nic(port, "0002:01:00.0", device=CONNECTX_8, numa_node=0)
        self.rdma_device(nic, "mlx5_0", number=0)
        near = self.host_bridge("pci0009:00")
        above, below = self.switch(
            self.bridge(near, "0009:00:00.0", ROOT_PORT), "0009:01:00.0", ["0009:02:00.0", "0009:02:01.0"]
        )
        function = self.function(
            above, "0009:03:00.0", class_code=0x080000, vendor=MELLANOX, device=DATA_DIRECT, numa_node=0
        )
        (last,) = self.switch(below, "0009:04:00.0", ["0009:05:00.0"])
        self.nvidia_gpu(last, "0009:06:00.0", numa_node=0, minor=0)
        for folder, data in ((nic, own), (function, of_function)):
            if data is not None:
                self.write(f"{folder}/vpd", data)

    def found(self) -> Inventory:
        return discover(HostRoot(self.root), node="node-a")


def test_a_nic_has_the_path_of_the_data_direct_function_with_its_uuid(tmp_path: Path) -> None:
    data = vital_product_data(("PN", "900-9X81E"), UUID, ("RV", "0"))
    inventory = Direct(tmp_path, data, data).found()
    (nic,), (gpu,) = inventory.nics, inventory.gpus
    assert (nic.pcie.root, nic.pcie.switches) == ("pci0002:00", ())
    assert nic.pcie.direct is not None
    assert (nic.pcie.direct.address, nic.pcie.direct.root) == ("0009:03:00.0", "pci0009:00")
    # The switch in the card joins the two; the one that has the GPU alone below it does not count.
    assert nic.pcie.direct.switches == gpu.pcie.switches == ("0009:01:00.0",)
    assert distance(inventory, gpu.address, nic.address).level is Level.PIX
    # What the plugin writes is what the controller reads.
    assert inventory_of(parse_node_inventory(node_inventory(inventory))) == inventory


@pytest.mark.parametrize(
    ("own", "of_function", "noted"),
    [
        pytest.param(None, vital_product_data(UUID), False, id="the-nic-has-no-data"),
        pytest.param(vital_product_data(UUID), None, True, id="the-function-has-no-data"),
        pytest.param(vital_product_data(UUID), vital_product_data(("V3", "another")), False, id="another-uuid"),
        pytest.param(vital_product_data(UUID), vital_product_data(("V2", UUID[1])), True, id="another-keyword"),
        pytest.param(vital_product_data(UUID), vital_product_data(("V3", "")), True, id="empty"),
        pytest.param(vital_product_data(UUID), vital_product_data(UUID)[:20], True, id="cut"),
    ],
)
def test_a_function_that_no_nic_has_gives_none_a_path(
    tmp_path: Path, own: bytes | None, of_function: bytes | None, noted: bool
) -> None:
    inventory = Direct(tmp_path, own, of_function).found()
    assert inventory.nics[0].pcie.direct is None
    assert any("vital product data name no NIC" in note for note in inventory.notes) is noted


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300))
def test_any_vital_product_data_are_read_without_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    tree = Direct(tmp_path_factory.mktemp("any"), vital_product_data(UUID), data)
    assert len(tree.found().nics) == 1


class Divided(SysfsTree):
    """Two sockets of two NUMA nodes each; a GPU at every node."""

    def __init__(self, root: Path, *lines: str, sockets: bool = True) -> None:
        super().__init__(root)
        self.proc("driver/nvidia/version", "")
        bridge = self.host_bridge("pci0000:00")
        for node, line in enumerate(lines):
            self.write(f"devices/system/node/node{node}/distance", line)
            if sockets:
                self.write(f"devices/system/node/node{node}/cpulist", f"{8 * node}-{8 * node + 7}")
                self.write(f"devices/system/cpu/cpu{8 * node}/topology/physical_package_id", str(node // 2))
            self.nvidia_gpu(bridge, f"0000:{node:02x}:10.0", numa_node=node, minor=node)

    def near(self) -> list[tuple[int, ...]]:
        return [gpu.pcie.near_numa_nodes for gpu in discover(HostRoot(self.root), node="node-a").gpus]


SLIT = ("10 12 21 21", "12 10 21 21", "21 21 10 12", "21 21 12 10")


def test_numa_nodes_of_a_socket_are_near_each_other(tmp_path: Path) -> None:
    assert Divided(tmp_path, *SLIT).near() == [(1,), (0,), (3,), (2,)]


@pytest.mark.parametrize(
    ("lines", "sockets", "expected"),
    [
        pytest.param(("10 20", "20 10"), False, [(1,), (0,)], id="sockets-not-known"),
        pytest.param(("10 20 20", "20 10 20", "20 20 10"), True, [(1,), (0,), ()], id="other-sockets-are-left-out"),
        pytest.param(("10",), True, [()], id="one-node"),
        pytest.param(("10 x", "20 10"), True, [(), (0,)], id="not-numbers"),
        pytest.param(("", ""), True, [(), ()], id="empty"),
    ],
)
def test_only_nodes_of_the_same_socket_at_the_least_distance_are_near(
    tmp_path: Path, lines: tuple[str, ...], sockets: bool, expected: list[tuple[int, ...]]
) -> None:
    assert Divided(tmp_path, *lines, sockets=sockets).near() == expected
