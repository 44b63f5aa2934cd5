"""Through which NICs the node's default routes go: by the kernel's tables, and by what stands on an interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.discovery import discover
from tests.support.sysfs_tree import SysfsTree

V4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ZERO = "0" * 32


def v4(*interfaces: str, flags: str = "0003", destination: str = "00000000", mask: str = "00000000") -> str:
    rows = (f"{name}\t{destination}\t0101A8C0\t{flags}\t0\t0\t100\t{mask}\t0\t0\t0\n" for name in interfaces)
    return V4 + "".join(rows)


def v6(interface: str, *, length: str = "00", flags: str = "00450003") -> str:
    return f"{ZERO} {length} {ZERO} 00 fe80{'0' * 27}1 00000400 00000001 00000000 {flags} {interface:>8}\n"


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    tree = SysfsTree(tmp_path)
    bridge = tree.host_bridge("pci0000:00")
    for number, name in enumerate(("eth0", "eth1"), 1):
        function = tree.rdma_nic(bridge, f"0000:0{number}:00.0")
        tree.rdma_device(function, f"mlx5_{number}", number=number, interfaces=[name])
    return tree


def carriers(tree: SysfsTree) -> list[str]:
    nics = discover(HostRoot(tree.root), node="n").nics
    return [name for nic in nics if nic.default_route for name in nic.if_names]


@pytest.mark.parametrize(
    ("routes", "routes6", "wanted"),
    [
        pytest.param(v4("eth0"), "", ["eth0"], id="IPv4"),
        pytest.param("", v6("eth1"), ["eth1"], id="IPv6"),
        pytest.param(v4("eth0"), v6("eth1"), ["eth0", "eth1"], id="both"),
        pytest.param(v4("eth0", "eth1"), "", ["eth0", "eth1"], id="two metrics"),
        pytest.param(v4("other"), v6("lo"), [], id="another interface"),
        pytest.param(v4("eth0", destination="0001A8C0", mask="00FFFFFF"), "", [], id="another network"),
        pytest.param(v4("eth0", mask="00000080"), "", [], id="half of all"),
        pytest.param(v4("eth0", flags="0002"), "", [], id="down"),
        pytest.param(v4("*", flags="0201"), v6("eth0", flags="00200200"), [], id="unreachable"),
        pytest.param("eth0\n\n\0\n" + "x" * 100, "a b c\n" * 10, [], id="no table"),
        pytest.param(v4("../eth0", "."), v6("/"), [], id="no names"),
        pytest.param("", "", [], id="none"),
    ],
)
def test_default_routes_are_read(tree: SysfsTree, routes: str, routes6: str, wanted: list[str]) -> None:
    tree.proc("1/net/route", routes)
    tree.proc("1/net/ipv6_route", routes6)
    assert carriers(tree) == wanted


def test_without_proc_nothing_is_known(tree: SysfsTree) -> None:
    assert carriers(tree) == []


def stand(tree: SysfsTree, upper: str, *lower: str) -> None:
    """As netdev_adjacent_sysfs_add() of Linux links them."""
    tree.folder(f"devices/virtual/net/{upper}")
    tree.link(f"class/net/{upper}", f"devices/virtual/net/{upper}")
    for name in lower:
        tree.link(f"devices/virtual/net/{upper}/lower_{name}", f"class/net/{name}")


def test_the_route_of_a_vlan_on_a_bond_is_that_of_the_bonds_nics(tree: SysfsTree) -> None:
    stand(tree, "bond0", "eth0", "eth1")
    stand(tree, "bond0.100", "bond0")
    tree.proc("1/net/route", v4("bond0.100"))
    assert carriers(tree) == ["eth0", "eth1"]


def test_the_route_of_a_bridge_is_that_of_its_port(tree: SysfsTree) -> None:
    stand(tree, "br0", "eth1")
    tree.proc("1/net/route", v4("br0"))
    assert carriers(tree) == ["eth1"]


def test_a_bridge_of_open_vswitch_shows_no_ports_so_all_of_the_datapath_count(tree: SysfsTree) -> None:
    stand(tree, "br-ex")
    stand(tree, "ovs-system", "eth0")
    tree.proc("1/net/route", v4("br-ex"))
    assert carriers(tree) == ["eth0"]


def test_interfaces_in_a_circle_end(tree: SysfsTree) -> None:
    stand(tree, "a", "b", "eth0")
    stand(tree, "b", "a")
    tree.proc("1/net/route", v4("a"))
    assert carriers(tree) == ["eth0"]
