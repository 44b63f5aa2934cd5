"""Whether a node lends the interface of its default route: as the file of DevicePolicies says just then."""

from __future__ import annotations

from pathlib import Path

from driver.model.inventory import Inventory
from kubeletplugin.node.default_route_policy import DefaultRoutePolicy
from tests.support.machines import nic, node

HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: DevicePolicies\n"
NIC, OTHER = "rdma-0000-0b-00-0", "rdma-0000-0c-00-0"


def lends(file: Path | None, inventory: Inventory | None, *names: str) -> list[bool]:
    policy = DefaultRoutePolicy(file, lambda: inventory)
    return [policy.lends(name) for name in names]


def test_it_lends_what_the_policies_allow(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    inventory = node(nic("0b"), nic("0c", vfs=1))
    assert lends(None, inventory, NIC) == [False]
    assert lends(file, inventory, NIC) == [False]
    file.write_text(f"{HEADER}policies: []\n")
    assert lends(file, inventory, NIC) == [False]
    file.write_text(f"{HEADER}policies:\n- pciAddresses: ['0000:0b:*']\n  defaultRoute: allow\n")
    assert lends(file, inventory, NIC, OTHER, "unknown") == [True, False, False]
    assert lends(file, None, NIC) == [False]
    file.write_text(f"{HEADER}policies:\n- pciAddresses: ['0000:0c:*']\n  defaultRoute: allow\n")
    assert lends(file, inventory, inventory.nics[1].vfs[0].name) == [True]


def test_a_mistake_in_the_file_lends_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(f"{HEADER}policies:\n- defaultRoute: yes\n")
    assert lends(file, node(nic("0b")), NIC) == [False]
