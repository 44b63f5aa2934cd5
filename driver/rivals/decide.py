"""Decides which of a node's devices another system gives out, and how certain that is.

Kubernetes counts extended resources and DRA devices apart, so two systems for one GPU give it out twice, unnoticed. An
extended resource that a DeviceClass has (``extendedResourceName``, KEP-5004) is no rival: no Node counts it, and the
kubelet has no device plugin for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import ClassVar, Final

from driver import DRIVER_NAME
from driver.api.bounds import MAX_NOTE_LENGTH, MAX_RIVAL_DEVICES, MAX_RIVALS
from driver.api.quantity import Quantity
from driver.api.strict import rule
from driver.model.devices import Device, DeviceName, RdmaVf
from driver.model.inventory import Inventory
from driver.model.parts import RdmaVfPool, named_devices, whole_device
from driver.model.rivals import DEVICE_PLUGIN, DRA_DRIVER, Rival
from driver.rivals.resources import resource_rule
from driver.wording import listed

__all__ = ["KubeletDevices", "PublishedSlice", "held_twice", "rivals_of"]

_SHOWN: Final = 5

# Attributes by which drivers name a PCI function or a GPU, without their domain and in lower case: the standard
# pciBusID (k8s.io/dynamic-resource-allocation/deviceattribute), and what drivers wrote before there was one.
_ADDRESS_ATTRIBUTES: Final = frozenset({"pcibusid", "pciaddress", "busid", "uuid"})

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
    """What the kubelet knows of device plugins, by the name of the extended resource.

    Attributes:
        offered: The ids of the devices that a plugin offers: what they look like is the plugin's choice.
        held: The ids of the devices that pods hold, by ``namespace/pod``, also after the plugin has gone.
    """

    offered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)

    def remembering(self, former: KubeletDevices, capacity: Mapping[str, str]) -> KubeletDevices:
        """Return this, with the devices that a plugin offered which is away: the kubelet names healthy ones alone.

        Args:
            former: What was known before.
            capacity: ``status.capacity`` of the Node, by which a plugin that is away may come back.
        """
        away = {
            name: ids
            for name, ids in former.offered.items()
            if not self.offered.get(name) and _is_some(capacity.get(name, "0"))
        }
        return replace(self, offered={**self.offered, **away}) if away else self


def rivals_of(
    inventory: Inventory,
    *,
    capacity: Mapping[str, str],
    slices: Iterable[PublishedSlice],
    kubelet: KubeletDevices,
    tolerated: Collection[str] = (),
) -> tuple[Rival, ...]:
    """Return who else gives out this node's devices, by kind and name; of too many the first.

    Args:
        inventory: What this node has and Rootport publishes.
        capacity: ``status.capacity`` of the Node. Of a plugin that has gone the kubelet keeps it for 5 minutes, in case
            the plugin comes back (endpointStopGracePeriod of pkg/kubelet/cm/devicemanager), and writes 0 then.
        slices: All ResourceSlices of the node, Rootport's too.
        kubelet: What the kubelet knows of device plugins; nothing where it was not asked.
        tolerated: The names of extended resources and DRA drivers that are none of Rootport's devices, or whose being
            there an administrator accepts. ``*`` stands for any text.
    """
    found = [*_device_plugins(inventory, capacity, kubelet), *_drivers(inventory, slices)]
    return tuple(item for item in found if not any(fnmatchcase(item.name, name) for name in tolerated))[:MAX_RIVALS]


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


def _device_plugins(inventory: Inventory, capacity: Mapping[str, str], kubelet: KubeletDevices) -> Iterator[Rival]:
    offered = {name for name, amount in capacity.items() if _is_some(amount)}
    offered |= {name for name, ids in kubelet.offered.items() if ids}
    by_id = _by_id(inventory)
    for resource in sorted(offered | set(kubelet.held)):
        held = kubelet.held.get(resource, {})
        ids = kubelet.offered.get(resource, frozenset()).union(*held.values())
        devices, are_understood = _devices_of(ids, by_id)
        about = resource_rule(resource)
        hint = "take this node out of that plugin's DaemonSet" if about is None else about.hint
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
        if resource in offered:
            amount = capacity.get(resource) or len(kubelet.offered.get(resource, ()))
            message = f"the Node has {resource}: {amount} from a device plugin{doubt}: "
            message += hint.format(node=inventory.node)
        else:
            pods = listed(sorted(held), shown=_SHOWN)
            message = f"a device plugin that has gone gave {resource} to pods that still run: end {pods}"
        yield Rival(name=resource, kind=DEVICE_PLUGIN, devices=_names(devices, inventory), message=_cut(message))


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
        yield Rival(name=driver, kind=DRA_DRIVER, devices=_names(devices.values(), inventory), message=_cut(message))


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


def _names(devices: Iterable[Device], inventory: Inventory) -> tuple[DeviceName, ...]:
    """Return their names, in order; of too many virtual functions those of their NICs instead."""
    chosen = list(devices)
    if len(chosen) > MAX_RIVAL_DEVICES:
        nics = {nic.address: nic for nic in inventory.nics}
        chosen = [nics[device.parent] if isinstance(device, RdmaVf) else device for device in chosen]
    return tuple(sorted({device.name for device in chosen}))[:MAX_RIVAL_DEVICES]


def _cut(message: str) -> str:
    text = message if message.isprintable() else "".join(char if char.isprintable() else "?" for char in message)
    return text if len(text) <= MAX_NOTE_LENGTH else f"{text[: MAX_NOTE_LENGTH - 1]}…"


def _is_some(quantity: str) -> bool:
    try:
        return Quantity(quantity).ceil() > 0
    except ValueError:
        return True  # not for us to judge; better one warning too many
