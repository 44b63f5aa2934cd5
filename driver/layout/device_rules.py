"""What the DevicePolicies say of each device of a node, and what of it is published.

All policies that match a device hold; of several that say something the first one in the file wins. A part of a device
(a VF, a MIG partition, a GPU's percent device) is matched by the whole one's values as well, and by its own type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from driver.api.device_policies import AttributeValue, DeviceFacts, DevicePolicies, DeviceVersion
from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.api.resource_v1 import Device
from driver.layout.limits import ATTRIBUTES_AND_CAPACITIES
from driver.layout.published import published
from driver.layout.values import Value
from driver.model.devices import DeviceName, DeviceType, Fpga, Gpu, RdmaFunction, RdmaNic, RdmaVf, device_name
from driver.model.inventory import Inventory
from driver.model.parts import RdmaVfPool

__all__ = [
    "OFF",
    "Attributes",
    "DeviceRule",
    "NodeRules",
    "device_attributes",
    "device_rule",
    "facts_of",
    "gpu_policy",
    "node_rules",
    "partitions_of",
    "resolved",
    "with_attributes",
]

Attributes: TypeAlias = tuple[tuple[str, Value], ...]
"""Attributes by their full names, in the order of the file."""

OFF: Final = "the DevicePolicies keep it off the offer"

_GPU_TYPES: Final = (DeviceType.GPU, DeviceType.GPU_RATIO, DeviceType.MIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRule:
    """What holds for one device.

    Attributes:
        attributes: What it publishes beyond the rest.
        is_offered: Whether it is published at all.
        lends_default_route: Whether it can be allocated, and its interface moved, while it has the default route.
    """

    attributes: Attributes = ()
    is_offered: bool = True
    lends_default_route: bool = False


_NONE: Final = DeviceRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """What the policies come to for the devices of a node: equal for nodes that differ in name alone.

    Attributes:
        attributes: The attributes of each device that has some, by its name in the slices. Of partitions, which have
            all that their GPU's have, by the name with which theirs begin (:func:`partitions_of`).
        off: The NICs, VFs and FPGAs that are not offered. What of GPUs is not, :func:`gpu_policy` says.
        vfs_differ: The NICs whose VFs cannot be pooled, because a claim must not care which one it is given.
    """

    attributes: tuple[tuple[DeviceName, Attributes], ...] = ()
    off: frozenset[DeviceName] = frozenset()
    vfs_differ: frozenset[DeviceName] = frozenset()


def node_rules(inventory: Inventory, policies: DevicePolicies) -> NodeRules:
    """Return what the policies come to for the devices of a node."""
    found: dict[DeviceName, DeviceRule] = {}
    differ = {nic.name for nic in inventory.nics if any(vf.default_route for vf in nic.vfs)}
    if policies.policies:
        for gpu in inventory.gpus:
            rules = _gpu_rules(gpu, inventory.node, policies)
            found |= {device_name(kind, gpu.address): rule for kind, rule in rules.items()}
        for nic in inventory.nics:
            of_vfs = [resolved(facts_of(vf, inventory.node, vf.type, nic), policies) for vf in nic.vfs]
            found[nic.name] = resolved(facts_of(nic, inventory.node, nic.type), policies)
            found |= {vf.name: rule for vf, rule in zip(nic.vfs, of_vfs, strict=True)}
            if of_vfs:
                found[RdmaVfPool(nic=nic, vfs=nic.vfs).name] = of_vfs[0]
            if len(set(of_vfs)) > 1:
                differ.add(nic.name)
        for fpga in inventory.fpgas:
            found[fpga.name] = resolved(facts_of(fpga, inventory.node, fpga.type), policies)
    return NodeRules(
        attributes=tuple((name, rule.attributes) for name, rule in found.items() if rule.attributes),
        off=frozenset(name for name, rule in found.items() if not rule.is_offered),
        vfs_differ=frozenset(differ),
    )


def device_attributes(
    inventory: Inventory, policies: DevicePolicies
) -> dict[DeviceName, list[dict[str, str | int | bool]]]:
    """Return the policies' attributes of whole devices and VFs, by name, as Device objects have them."""
    found: dict[str, Attributes] = {str(name): given for name, given in node_rules(inventory, policies).attributes}
    names = [device.name for device in inventory.devices() if device.name in found]
    return {
        name: [{"name": attribute, **value.to_wire()} for attribute, value in found[name][:ATTRIBUTES_AND_CAPACITIES]]
        for name in names
    }


def partitions_of(gpu: Gpu) -> DeviceName:
    """Return the beginning of the names of a GPU's partitions."""
    return device_name(DeviceType.MIG, gpu.address)


def device_rule(device: Gpu | RdmaNic | RdmaVf | Fpga, inventory: Inventory, policies: DevicePolicies) -> DeviceRule:
    """Return what holds for a device of a node's inventory: of a GPU, for the GPU itself."""
    if not policies.policies:
        return _NONE
    nic = None
    if isinstance(device, RdmaVf):
        nic = next((nic for nic in inventory.nics if nic.address == device.parent), None)
    return resolved(facts_of(device, inventory.node, device.type, nic), policies)


def _gpu_rules(gpu: Gpu, node: str, policies: DevicePolicies) -> Mapping[DeviceType, DeviceRule]:
    """Return what holds for a GPU, its percent device and its partitions, by their type."""
    if not policies.policies:
        return dict.fromkeys(_GPU_TYPES, _NONE)
    return {kind: resolved(facts_of(gpu, node, kind), policies) for kind in _GPU_TYPES}


def gpu_policy(gpu: Gpu, node: str, policies: GpuPolicies, device_policies: DevicePolicies) -> GpuPolicy:
    """Return the rules for a GPU: those of the GpuPolicies, without the modes that the DevicePolicies keep off."""
    policy = policies.of(model=gpu.model, node=node, address=gpu.address)
    if not device_policies.policies:
        return policy
    rules = _gpu_rules(gpu, node, device_policies)
    modes = tuple(mode for mode in policy.modes if rules[DeviceType(mode)].is_offered)
    return policy if modes == policy.modes else policy.model_copy(update={"modes": modes})


def with_attributes(device: Device, attributes: Attributes) -> Device:
    """Return a device with more attributes: as many as there is room for, and none in place of another."""
    if not attributes:
        return device
    room = ATTRIBUTES_AND_CAPACITIES - len(device.attributes) - len(device.capacity)
    more = [(name, value) for name, value in attributes if name not in device.attributes][: max(room, 0)]
    return device.model_copy(update={"attributes": {**device.attributes, **published(dict(more))}})


def resolved(facts: DeviceFacts, policies: DevicePolicies) -> DeviceRule:
    """Return what all policies together say of a device."""
    attributes: dict[str, Value] = {}
    offer: bool | None = None
    route: str | None = None
    for _, policy in policies.of(facts):
        for name, value in policy.attributes.items():
            attributes.setdefault(name, _value(value))
        offer = policy.offer if offer is None else offer
        route = route or policy.default_route
    if not attributes and offer is not False and route != "allow":
        return _NONE
    return DeviceRule(
        attributes=tuple(attributes.items()), is_offered=offer is not False, lends_default_route=route == "allow"
    )


def facts_of(
    device: Gpu | RdmaNic | RdmaVf | Fpga, node: str, kind: DeviceType, nic: RdmaNic | None = None
) -> DeviceFacts:
    """Return what policies are matched against.

    Args:
        device: The device, or the GPU that it is a part of.
        node: The node's name.
        kind: The type with which it is published.
        nic: Of a VF, its NIC.
    """
    functions: list[RdmaFunction] = [device] if isinstance(device, RdmaNic | RdmaVf) else []
    if nic is not None:
        functions.append(nic)
    parts: list[Gpu | Fpga | RdmaFunction] = [*functions] or [device]
    return DeviceFacts(
        type=kind.value,
        node=node,
        models=tuple(part.model for part in parts),
        pci_addresses=tuple(part.address for part in parts),
        if_names=tuple(name for function in functions for name in function.if_names),
        rdma_devices=tuple(function.rdma_device for function in functions) or (None,),
        pcie_switches=tuple(part.pcie.switch for part in parts),
    )


def _value(value: AttributeValue) -> Value:
    if isinstance(value, bool):  # before int, of which bool is a kind
        return Value("bool", value)
    if isinstance(value, int):
        return Value("int", value)
    return Value("version", value.version) if isinstance(value, DeviceVersion) else Value("string", value)
