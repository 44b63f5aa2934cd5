"""Decides which of a node's devices another system gives out, and how certain that is.

Kubernetes counts extended resources and DRA devices apart, so two systems for one GPU give it out twice, unnoticed. An
extended resource that a DeviceClass has (``extendedResourceName``, KEP-5004) is no rival: no Node counts it, and the
kubelet has no device plugin for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from driver import DRIVER_NAME
from driver.api.bounds import MAX_NOTE_LENGTH, MAX_RIVAL_DEVICES, MAX_RIVALS
from driver.api.strict import rule
from driver.model.devices import Device, DeviceName, RdmaVf
from driver.model.inventory import Inventory
from driver.model.parts import RdmaVfPool, named_devices, whole_device
from driver.model.rivals import DEVICE_PLUGIN, DRA_DRIVER, Rival
from driver.rivals.removal import removal
from driver.rivals.resources import GENERIC_HINT, is_some, resource_rule
from driver.wording import listed

__all__ = ["KubeletDevices", "PublishedSlice", "bounded", "held_twice", "is_tolerated", "rivals_of"]

_SHOWN: Final = 5
# The name of what does not fit into a NodeInventory's status; no extended resource or DRA driver is called so.
_OTHERS: Final = "others"

# Attributes by which drivers name a PCI function or a GPU, without their domain and in lower case: the standard
# pciBusID (k8s.io/dynamic-resource-allocation/deviceattribute), and what drivers wrote before there was one.
_ADDRESS_ATTRIBUTES: Final = frozenset({"pcibusid", "pciaddress", "pciaddr", "busid", "uuid"})

_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
# NVIDIA's device plugin numbers the replicas of a GPU (GPU-…::3), HAMi's the shares (GPU-…-3).
_REPLICA: Final = re.compile(r"(?:::|-)[0-9]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attribute:
    WIRE: ClassVar[bool] = True

    string_value: str | None = rule(default=None, name="string")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    WIRE: ClassVar[bool] = True

    attributes: Mapping[str, _Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    WIRE: ClassVar[bool] = True

    driver: str
    devices: tuple[_Device, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSlice:
    """What of a ResourceSlice says which devices a driver publishes."""

    WIRE: ClassVar[bool] = True

    spec: _Spec


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDevices:
    """What the kubelet knows of device plugins, by the name of the extended resource, and of DRA drivers.

    Attributes:
        offered: The ids of the devices that a plugin offers: what they look like is the plugin's choice.
        held: The ids of the devices that pods hold, by ``namespace/pod``, also after the plugin has gone.
        drivers: The DRA drivers of whose claims containers have devices, also after the driver has gone.
        away: Those of ``offered`` that are known from before alone (:mod:`driver.rivals.memory`).
    """

    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    drivers: frozenset[str] = frozenset()
    away: frozenset[str] = frozenset()


def rivals_of(
    inventory: Inventory,
    *,
    capacity: Mapping[str, str],
    slices: Iterable[PublishedSlice],
    kubelet: KubeletDevices | None,
    tolerated: Collection[str] = (),
) -> tuple[Rival, ...]:
    """Return who else gives out this node's devices now, by kind and name: all of them.

    Args:
        inventory: What this node has and Rootport publishes.
        capacity: ``status.capacity`` of the Node. Of a plugin that has gone the kubelet keeps it for 5 minutes, in case
            the plugin comes back (endpointStopGracePeriod of pkg/kubelet/cm/devicemanager), and writes 0 then; a
            kubelet that restarts writes 0 until the plugin has registered again.
        slices: All ResourceSlices of the node, Rootport's too.
        kubelet: What the kubelet knows of device plugins; None where it has not answered.
        tolerated: As in :func:`is_tolerated`.
    """
    found = [*_device_plugins(inventory, capacity, kubelet), *_drivers(inventory, slices)]
    return tuple(item for item in found if not is_tolerated(item, tolerated))


def is_tolerated(rival: Rival, names: Collection[str]) -> bool:
    """Whether a rival is none of Rootport's devices, or an administrator accepts it.

    Args:
        rival: The rival.
        names: Names of extended resources and DRA drivers; ``*`` stands for any text.
    """
    return any(fnmatchcase(rival.name, name) for name in names)


def bounded(rivals: Sequence[Rival], inventory: Inventory) -> tuple[Rival, ...]:
    """Return as many rivals, with as many devices, as a NodeInventory's status may have: no device is left out.

    Of too many rivals the last one stands for all the others. Of too many virtual functions there are their NICs.

    Args:
        rivals: All of them.
        inventory: What this node has.
    """
    found = list(rivals)
    if len(found) > MAX_RIVALS:
        named = [item for item in found if item.name != _OTHERS]
        rest = [*named[MAX_RIVALS - 1 :], *(item for item in found if item.name == _OTHERS)]
        devices = tuple(sorted({name for item in rest for name in item.devices}))
        message = f"{len(rest)} more rivals give out devices: {listed([item.name for item in rest], shown=_SHOWN)}"
        others = Rival(name=_OTHERS, kind=DEVICE_PLUGIN, devices=devices, message=message)
        found = [*named[: MAX_RIVALS - 1], others]
    nics = {nic.address: nic.name for nic in inventory.nics}
    parents = {vf.name: nics[vf.parent] for nic in inventory.nics for vf in nic.vfs if vf.parent in nics}
    return tuple(replace(item, devices=_few(item.devices, parents), message=_cut(item.message)) for item in found)


def held_twice(inventory: Inventory, rivals: Iterable[Rival], held: Collection[str]) -> tuple[str, ...]:
    """Return those devices that claims have and a rival may give out as well, sorted.

    Args:
        inventory: What this node has.
        rivals: Of :func:`rivals_of`.
        held: The names of the devices that claims have, as allocation results call them.
    """
    concerned = {name for rival in rivals for name in rival.devices}
    if not concerned or not held:
        return ()
    nics = {nic.address: nic.name for nic in inventory.nics}
    twice = set()
    for name, device in named_devices(inventory, held).items():
        names = {name, whole_device(device).name}
        if isinstance(device, RdmaVf):
            names.add(nics.get(device.parent, device.name))
        if isinstance(device, RdmaVfPool):
            names.update(vf.name for vf in device.vfs)
        if names & concerned:
            twice.add(name)
    return tuple(sorted(twice))


def _device_plugins(
    inventory: Inventory, capacity: Mapping[str, str], kubelet: KubeletDevices | None
) -> Iterator[Rival]:
    known = kubelet or KubeletDevices()
    counted = {name for name, amount in capacity.items() if is_some(amount)}
    offered = counted | {name for name, ids in known.offered.items() if ids}
    by_id = _by_id(inventory)
    for resource in sorted(offered | set(known.held)):
        held = known.held.get(resource, {})
        ids = known.offered.get(resource, frozenset()).union(*held.values())
        devices, are_understood = _devices_of(ids, by_id)
        about = resource_rule(resource)
        hint = (GENERIC_HINT if about is None else about.hint).format(node=inventory.node)
        doubt = ""
        if about is not None and not are_understood:
            # Which of them is not known: all that the name may stand for.
            cards: tuple[Device, ...] = (*inventory.gpus, *inventory.nics, *inventory.fpgas)
            devices = [card for card in cards if about.concerns(card)]
            if not about.is_certain:
                doubt = "; whether these are devices that Rootport publishes is not known: if not, list the name in "
                doubt += "the plugin's --tolerate-rivals"
        if not devices:
            continue
        if resource in counted and kubelet is not None and not ids:
            message = f"the Node has {resource}: {capacity[resource]}, of which the kubelet lists no device{doubt}: "
            message += f"{hint}. If the Node still has it five minutes later, no kubelet will take it away: "
            message += removal(inventory.node, [resource])
        elif resource in counted or (resource in offered and resource not in known.away):
            amount = capacity[resource] if resource in counted else len(known.offered[resource])
            message = f"the Node has {resource}: {amount} from a device plugin{doubt}: {hint}"
        elif resource in offered:
            message = f"a device plugin offered {resource} a moment ago, and may come back within five minutes{doubt}"
        else:
            pods = listed(sorted(held), shown=_SHOWN)
            message = f"a device plugin that has gone gave {resource} to pods that still run: end {pods}"
        names = tuple(sorted(device.name for device in devices))
        yield Rival(name=resource, kind=DEVICE_PLUGIN, devices=names, message=message)


def _drivers(inventory: Inventory, slices: Iterable[PublishedSlice]) -> Iterator[Rival]:
    ours = _by_id(inventory)
    shared: dict[str, dict[DeviceName, Device]] = {}
    for resource_slice in slices:
        driver = resource_slice.spec.driver
        if driver == DRIVER_NAME:
            continue
        for device in resource_slice.spec.devices:
            for attribute, value in device.attributes.items():
                known = attribute.rpartition("/")[2].lower() in _ADDRESS_ATTRIBUTES
                if known and value.string_value is not None:
                    same = ours.get(value.string_value.lower())
                    if same is not None:
                        shared.setdefault(driver, {})[same.name] = same
    for driver, devices in sorted(shared.items()):
        addresses = listed(sorted(device.address for device in devices.values()), shown=_SHOWN)
        message = f"DRA driver {driver} publishes {addresses} as well: keep one of the two drivers off this node"
        yield Rival(name=driver, kind=DRA_DRIVER, devices=tuple(sorted(devices)), message=message)


def _by_id(inventory: Inventory) -> dict[str, Device]:
    """Return the devices by their PCI addresses and UUIDs, in lower case; a GPU also by those of its MIG devices."""
    found: dict[str, Device] = {device.address.lower(): device for device in inventory.devices()}
    for gpu in inventory.gpus:
        instances = gpu.mig.instances if gpu.mig is not None else ()
        uuids = [gpu.uuid, *(instance.uuid for instance in instances)]
        found |= {uuid.lower(): gpu for uuid in uuids if uuid}
    return found


def _devices_of(ids: Collection[str], by_id: Mapping[str, Device]) -> tuple[list[Device], bool]:
    """Return the devices that a plugin's ids name, and whether it is known of each id what it names."""
    found: dict[DeviceName, Device] = {}
    are_understood = bool(ids)
    for id_ in ids:
        plain = id_.lower()
        device = by_id.get(plain) or by_id.get(_REPLICA.sub("", plain))
        if device is not None:
            found[device.name] = device
        elif not _PCI_ADDRESS.fullmatch(plain):  # the address of a function that is none of Rootport's is understood
            are_understood = False
    return list(found.values()), are_understood


def _few(names: Sequence[DeviceName], parents: Mapping[DeviceName, DeviceName]) -> tuple[DeviceName, ...]:
    """Return the names; of too many, those of the NICs for their virtual functions."""
    if len(names) <= MAX_RIVAL_DEVICES:
        return tuple(names)
    return tuple(sorted({parents.get(name, name) for name in names}))[:MAX_RIVAL_DEVICES]


def _cut(message: str) -> str:
    text = message if message.isprintable() else "".join(char if char.isprintable() else "?" for char in message)
    return text if len(text) <= MAX_NOTE_LENGTH else f"{text[: MAX_NOTE_LENGTH - 1]}…"
