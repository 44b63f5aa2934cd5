"""Network interfaces on a test node: veths that stand for those of NICs, for the kernel here has no NIC."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.support.cluster.machine import Machine

__all__ = ["add_interfaces", "interfaces", "remove_interfaces"]


def add_interfaces(machine: Machine, names: Iterable[str]) -> None:
    """Make them in the machine's own network namespace. The peer of each stays there: ``<name>-p``."""
    for name in names:
        machine.run("ip", "link", "add", "name", name, "type", "veth", "peer", "name", f"{name}-p")
        machine.run("ip", "link", "set", f"{name}-p", "up")


def interfaces(machine: Machine) -> dict[str, int]:
    """The interfaces in the machine's own network namespace, with their MTUs."""
    found = json.loads(machine.run("ip", "-json", "link", "show").stdout)
    return {item["ifname"]: item["mtu"] for item in found}


def remove_interfaces(machine: Machine, names: Iterable[str]) -> None:
    """Remove those that are there."""
    for name in names:
        machine.run("ip", "link", "delete", f"{name}-p", check=False)
