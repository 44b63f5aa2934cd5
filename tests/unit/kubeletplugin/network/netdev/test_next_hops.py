"""All next hops of the default route, of which /proc names the first, are seen when the node's devices are read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.next_hops import next_hops
from kubeletplugin.node.discovery import discover
from kubeletplugin.node.roots import Roots
from tests.support.sysfs_tree import SysfsTree
from tests.unit.kubeletplugin.network.netdev.world import World


def carriers(world: World) -> list[str]:
    tree = SysfsTree(world.folder / "node")
    bridge = tree.host_bridge("pci0000:00")
    for number in range(3):
        function = tree.rdma_nic(bridge, f"0000:0{number + 1}:00.0")
        tree.rdma_device(function, f"mlx5_{number}", number=number, interfaces=[f"nic{number}"])
    words = [world.real_ip, "netns", "exec", Path(world.host).name, "/bin/cat", "/proc/net/route"]
    tree.proc("1/net/route", subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    root = HostRoot(tree.root)
    roots = Roots(hardware=root, host=root, device_root="", driver_root="")
    found = discover(roots, node="n", next_hops=lambda: next_hops(Links(), Path(world.host)))
    return [name for nic in found.inventory.nics if nic.default_route for name in nic.if_names]


def add_route(world: World, *hops: int) -> None:
    for number in range(3):
        world.nic(f"nic{number}", f"0000:1c:00.{number}")
    words = [word for hop in hops for word in ("nexthop", "via", f"10.{10 + hop}.0.2")]
    world.ip(world.host, "route", "add", "default", *words)


def test_each_next_hop_carries_the_route(world: World) -> None:
    add_route(world, 0, 2)
    assert carriers(world) == ["nic0", "nic2"]


def test_without_ip_the_first_is_known(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    add_route(world, 0, 2)
    monkeypatch.setenv("PATH", str(world.bin))
    assert carriers(world) == ["nic0"]


def test_without_a_default_route_none_is_asked_for(world: World) -> None:
    assert carriers(world) == []
