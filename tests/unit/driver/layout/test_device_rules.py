"""What DevicePolicies make of a node's slices: attributes, what is kept off, and the default route."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import Device
from driver.layout.device_rules import OFF
from driver.layout.left_out import left_out
from driver.layout.names import DEFAULT_ROUTE
from driver.layout.rule_notes import attribute_notes
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from tests.support.machines import fpga, gpu, nic, node, value
from tests.support.mig_machines import dgx_h100
from tests.support.slice_validation import validate_slices

HEADER = {"apiVersion": "rootport.dev/v1alpha1"}
ROLE = "example.com/role"


def rules(*policies: dict[str, Any]) -> DevicePolicies:
    return DevicePolicies.model_validate(HEADER | {"kind": "DevicePolicies", "policies": policies})


def devices(inventory: Inventory, policies: DevicePolicies, **others: Any) -> dict[str, Device]:
    slices = resource_slices(inventory, device_policies=policies, **others)
    validate_slices(slices)
    return {device.name: device for part in slices for device in part.spec.devices}


def roles(found: dict[str, Device]) -> dict[str, Any]:
    return {name: value(device, ROLE) for name, device in found.items() if ROLE in device.attributes}


# Attributes.


def test_attributes_are_on_every_device_that_the_rules_match() -> None:
    inventory = node(gpu("01", memory_bytes=2**36), nic("0b"), nic("0c", vfs=2), fpga("0d"))
    found = devices(
        inventory,
        rules(
            {"pciAddresses": ["0000:0c:*"], "attributes": {ROLE: "storage"}},
            {"types": ["gpu", "gpu-ratio"], "attributes": {ROLE: 7, "example.com/lab": True}},
            {"nodes": ["node-?"], "attributes": {"example.com/card": {"version": "1.2.0"}}},
        ),
    )
    assert roles(found) == {
        "gpu-0000-01-00-0": 7,
        "gpu-ratio-0000-01-00-0": 7,
        "rdma-vfs-0000-0c-00-0": "storage",
    }
    assert found["gpu-0000-01-00-0"].to_wire()["attributes"]["example.com/lab"] == {"bool": True}
    assert all(device.to_wire()["attributes"]["example.com/card"] == {"version": "1.2.0"} for device in found.values())


def test_partitions_have_their_gpus_attributes_and_types_are_told_apart() -> None:
    inventory = dgx_h100()
    address = inventory.gpus[0].address
    found = roles(devices(inventory, rules({"pciAddresses": [address], "attributes": {ROLE: "a"}})))
    assert len(found) == 2 + sum(len(profile.placements) for profile in inventory.gpus[0].mig.profiles)  # type: ignore[union-attr]
    of_mig = roles(devices(inventory, rules({"types": ["mig"], "attributes": {ROLE: "a"}})))
    assert of_mig
    assert all(name.startswith("mig-") for name in of_mig)


def test_the_first_rule_that_says_something_wins_and_the_rest_hold_too() -> None:
    inventory = node(nic("0b", if_names=("eth0",)), nic("0c", if_names=("eth1",)))
    policies = rules(
        {"ifNames": ["eth0"], "attributes": {ROLE: "storage"}, "offer": True},
        {"attributes": {ROLE: "compute", "example.com/rack": 3}, "offer": False},
    )
    found = devices(inventory, policies)
    assert list(found) == ["rdma-0000-0b-00-0"]
    assert roles(found) == {"rdma-0000-0b-00-0": "storage"}
    assert value(found["rdma-0000-0b-00-0"], "example.com/rack") == 3
    assert attribute_notes(inventory, resource_slices(inventory, device_policies=policies), policies) == (
        f"{ROLE}: storage of policies[0] wins over compute of policies[1] (rdma-0000-0b-00-0)",
        "offer: true of policies[0] wins over false of policies[1] (rdma-0000-0b-00-0)",
    )


def test_what_there_is_no_room_for_is_left_out_and_told() -> None:
    inventory = node(gpu("01", memory_bytes=2**36))
    many = [{"attributes": {f"example.com/a{group}{at}": at for at in range(10)}} for group in range(3)]
    policies = rules(*many)
    slices = resource_slices(inventory, device_policies=policies)
    validate_slices(slices)
    whole = slices[0].spec.devices[0]
    assert len(whole.attributes) + len(whole.capacity) == 32
    notes = attribute_notes(inventory, slices, policies)
    assert notes
    assert all(note.startswith("no room for example.com/a") for note in notes)


def test_extra_attributes_come_first() -> None:
    gpus = GpuPolicies.model_validate(
        HEADER
        | {"kind": "GpuPolicies", "policies": [{"extraAttributes": [{"name": "gpu.nvidia.com/type", "from": "type"}]}]}
    )
    policies = rules({"attributes": {"gpu.nvidia.com/type": "mine"}})
    inventory = node(gpu("01"))
    slices = resource_slices(inventory, policies=gpus, device_policies=policies)
    assert value(slices[0].spec.devices[0], "gpu.nvidia.com/type") == "gpu"
    (note,) = attribute_notes(inventory, slices, policies)
    assert note.startswith("gpu.nvidia.com/type is what extraAttributes say")


def test_equal_nodes_share_their_devices_whatever_their_names() -> None:
    policies = rules({"nodes": ["node-*"], "pciAddresses": ["0000:0b:*"], "attributes": {ROLE: "storage"}})
    first, other = (
        resource_slices(node(nic("0b"), nic("0c"), name=name), device_policies=policies)
        for name in ("node-a", "node-b")
    )
    assert first[0].spec.devices is other[0].spec.devices
    apart = resource_slices(node(nic("0b"), nic("0c"), name="other"), device_policies=policies)
    assert roles({device.name: device for device in apart[0].spec.devices}) == {}
    assert first[0].spec.devices[1].attributes == apart[0].spec.devices[1].attributes


# What is kept off.


def test_devices_are_kept_off_with_a_reason() -> None:
    inventory = node(gpu("01"), gpu("02"), nic("0b"), nic("0c", vfs=2), fpga("0d"))
    policies = rules({"pciAddresses": ["0000:01:*", "0000:0b:*", "0000:0c:*", "0000:0d:*"], "offer": False})
    assert list(devices(inventory, policies)) == ["gpu-0000-02-00-0"]
    reasons = left_out(inventory, device_policies=policies)
    assert {name for name, reason in reasons.items() if reason == OFF} == {
        device.name for device in inventory.devices() if device.address[5:7] != "02"
    }


def test_a_gpu_can_be_kept_off_in_one_mode() -> None:
    inventory = node(gpu("01", memory_bytes=2**36))
    policies = rules({"types": ["gpu"], "offer": False})
    assert list(devices(inventory, policies)) == ["gpu-ratio-0000-01-00-0"]
    assert left_out(inventory, device_policies=policies) == {"gpu-0000-01-00-0": OFF}


def test_an_allocated_gpu_that_is_kept_off_stays_charged_and_closed() -> None:
    """What is in use is published whatever the policies have become, with the taint that closes it."""
    inventory = dgx_h100()
    name = inventory.gpus[0].name
    policies = rules({"pciAddresses": [inventory.gpus[0].address], "offer": False})
    assert not any(inventory.gpus[0].address.replace(":", "-") in other for other in devices(inventory, policies))
    only = {**free_node(Layout.FULL, inventory, GpuPolicies.model_validate(HEADER | {"kind": "GpuPolicies"}), policies)}
    found = devices(inventory, policies, only=only | {name: frozenset({name})}, closed=[name])
    assert [taint.key for taint in found[name].taints] == ["rootport.dev/mode-change"]


def test_vfs_that_the_rules_tell_apart_are_published_by_name() -> None:
    inventory = node(nic("0b", vfs=3))
    last = inventory.nics[0].vfs[2]
    found = devices(inventory, rules({"pciAddresses": [last.address], "offer": False}))
    assert list(found) == [vf.name for vf in inventory.nics[0].vfs[:2]]
    found = devices(inventory, rules({"pciAddresses": [last.address], "attributes": {ROLE: "storage"}}))
    assert roles(found) == {last.name: "storage"}


# The default route.


def with_route(inventory: Inventory) -> Inventory:
    first, *others = inventory.nics
    return replace(inventory, nics=(replace(first, default_route=True), *others))


@pytest.mark.parametrize(
    ("policies", "tainted"),
    [
        ((), True),
        (({"types": ["rdma"], "attributes": {ROLE: "x"}},), True),
        (({"types": ["rdma"], "defaultRoute": "allow"},), False),
        (({"nodes": ["node-b"], "defaultRoute": "allow"},), True),
        (({"pciAddresses": ["*:0b:*"], "defaultRoute": "protect"}, {"defaultRoute": "allow"}), True),
    ],
)
def test_the_nic_with_the_default_route_is_kept_for_the_node(policies: tuple[Any, ...], *, tainted: bool) -> None:
    found = devices(with_route(node(nic("0b"), nic("0c"))), rules(*policies))
    taints = [(taint.key, taint.effect) for taint in found["rdma-0000-0b-00-0"].taints]
    assert taints == ([(DEFAULT_ROUTE, "NoSchedule")] if tainted else [])
    assert not found["rdma-0000-0c-00-0"].taints


def test_the_vfs_of_such_a_nic_are_given_as_any() -> None:
    found = devices(with_route(node(nic("0b", vfs=2))), rules())
    assert [device.taints for device in found.values()] == [()]


def test_a_vf_with_the_default_route_is_kept_by_its_name() -> None:
    (pf,) = node(nic("0b", vfs=2)).nics
    inventory = node(replace(pf, vfs=(replace(pf.vfs[0], default_route=True), pf.vfs[1])))
    found = devices(inventory, rules())
    assert [[taint.key for taint in device.taints] for device in found.values()] == [[DEFAULT_ROUTE], []]
