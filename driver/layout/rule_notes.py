"""Tells what of the DevicePolicies is not published, since something else has the word or the room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from driver.api.device_policies import DeviceFacts, DevicePolicies, DevicePolicy, DeviceVersion
from driver.api.resource_v1 import ResourceSlice
from driver.layout.device_rules import facts_of, resolved
from driver.layout.limits import ATTRIBUTES_AND_CAPACITIES as _MOST
from driver.layout.published import published_value
from driver.model.devices import DeviceName, DeviceType
from driver.model.inventory import Inventory
from driver.model.parts import gpu_parts, vf_pool

__all__ = ["attribute_notes"]


def attribute_notes(inventory: Inventory, slices: Sequence[ResourceSlice], policies: DevicePolicies) -> tuple[str, ...]:
    """Return what of the policies' attributes is not published, one sentence each, for a person.

    Args:
        inventory: The node.
        slices: What is published of it.
        policies: The policies.
    """
    if not policies.policies:
        return ()
    devices = {device.name: device for item in slices for device in item.spec.devices}
    losers: dict[str, list[str]] = {}
    for facts, names in _published_facts(inventory):
        found = resolved(facts, policies)
        for name in names:
            device = devices.get(name)
            for attribute, value in found.attributes if device is not None else ():
                has = device.attributes.get(attribute) if device is not None else None
                if has is None:
                    why = f"no room for {attribute}: Kubernetes allows {_MOST} attributes and capacities a device"
                elif has != published_value(value):
                    why = f"{attribute} is what extraAttributes say, not what the DevicePolicies say"
                else:
                    continue
                losers.setdefault(why, []).append(name)
            if device is not None:
                for why in _beaten(facts, policies):
                    losers.setdefault(why, []).append(name)
    return tuple(f"{why} ({', '.join(sorted(names))})" for why, names in losers.items())


def _published_facts(inventory: Inventory) -> Iterator[tuple[DeviceFacts, tuple[DeviceName, ...]]]:
    """Yield what policies are matched against, with the names of the devices that are published by it."""
    for gpu in inventory.gpus:
        names: dict[DeviceType, list[DeviceName]] = {DeviceType.GPU: [gpu.name]}
        for part in gpu_parts(gpu):
            names.setdefault(part.type, []).append(part.name)
        for kind, named in names.items():
            yield facts_of(gpu, inventory.node, kind), tuple(named)
    for nic in inventory.nics:
        yield facts_of(nic, inventory.node, nic.type), (nic.name,)
        pool = vf_pool(nic)
        for vf in nic.vfs:
            yield facts_of(vf, inventory.node, vf.type, nic), (vf.name,)
        if pool is not None:
            yield facts_of(pool.vfs[0], inventory.node, pool.type, nic), (pool.name,)
    for fpga in inventory.fpgas:
        yield facts_of(fpga, inventory.node, fpga.type), (fpga.name,)


def _beaten(facts: DeviceFacts, policies: DevicePolicies) -> Iterator[str]:
    """Yield what a policy says of a device and one before it says otherwise."""
    first: dict[str, tuple[int, object]] = {}
    for place, policy in policies.of(facts):
        for what, value in _words(policy):
            before, wins = first.setdefault(what, (place, value))
            if (type(wins), wins) != (type(value), value):
                yield f"{what}: {_shown(wins)} of policies[{before}] wins over {_shown(value)} of policies[{place}]"


def _words(policy: DevicePolicy) -> Iterator[tuple[str, object]]:
    yield from policy.attributes.items()
    if policy.offer is not None:
        yield "offer", policy.offer
    if policy.default_route is not None:
        yield "defaultRoute", policy.default_route


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.version if isinstance(value, DeviceVersion) else str(value)
