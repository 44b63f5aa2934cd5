"""Puts taints on a node's devices for what is wrong with them, and keeps those of others.

Source of the rules: KEP-5055 (device taints and tolerations); limits of k8s.io/api v0.36.3, resource/v1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from driver.api import resource_v1
from driver.api.device_policies import DevicePolicies
from driver.api.resource_v1 import DeviceTaint
from driver.api.validation.names import label_value
from driver.layout.attributes import SHARING_STRATEGY
from driver.layout.chunks import Chunk, chunks
from driver.layout.device_rules import device_rule
from driver.layout.names import DEFAULT_ROUTE
from driver.model.devices import Device, DeviceName, DeviceType, Gpu, RdmaNic, RdmaVf
from driver.model.health import (
    CANNOT_PREPARE_TAINT,
    FAULTS_OF_PARTS,
    LINK_DOWN_FAULT,
    STRATEGY_TAINT,
    UNHEALTHY_TAINT,
    Fault,
    NodeHealth,
)
from driver.model.inventory import Inventory
from driver.model.managed_nodes import TAINT
from driver.model.parts import RdmaVfPool, gpu_parts
from driver.model.rivals import RIVAL_TAINT, Rival

__all__ = [
    "MODE_CHANGE_TAINT",
    "closed_taints",
    "default_route_taints",
    "health_taints",
    "managed_devices",
    "node_taints",
    "rival_taints",
    "strategy_taints",
    "with_taints",
]

MODE_CHANGE_TAINT: Final = "rootport.dev/mode-change"
"""The key of the taint of a device that nothing new is given, because its GPU is to be given in another way."""

_MOST: Final = 16  # ResourceSlice validation: DeviceTaintsMaxLength
_ODD_REASON: Final = "unknown"


def health_taints(inventory: Inventory, health: NodeHealth) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each device that must not be given, by its name in the slices.

    A device has one at most: for the worst of its faults. Its parts and virtual functions have it as well; a fault of
    :data:`driver.model.health.FAULTS_OF_PARTS` taints what cannot be had. The time is left to the API server and then
    kept: tolerations count from when the cluster learned of it, by its own clock.
    """
    faults = defaultdict[str, list[Fault]](list)
    for fault in health.faults:
        faults[fault.device].append(fault)
    if not faults:
        return {}
    taints: dict[str, tuple[DeviceTaint, ...]] = {}
    for device in inventory.devices():
        found = [fault for fault in faults.get(device.name, ()) if not _has_own_taint(device, fault)]
        for name, type_ in _published(device) if found else ():
            concerning = tuple(fault for fault in found if type_ in FAULTS_OF_PARTS.get(fault.reason, {type_}))
            worst = NodeHealth(faults=concerning).taints().get(device.name)
            if worst is not None:
                taints[name] = (_taint(worst),)
    return taints


def closed_taints(closed: Collection[DeviceName]) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each device that leaves the slices once nothing can be under way to it, by its name.

    What has the device keeps it: NoSchedule. The time is left to the API server, as for the taints of health.
    """
    return dict.fromkeys(closed, (DeviceTaint(key=MODE_CHANGE_TAINT, effect="NoSchedule"),))


def rival_taints(inventory: Inventory, rivals: Sequence[Rival]) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each device that another system gives out as well, by its name in the slices.

    NoSchedule: what has the device keeps it. A device has one such taint; of several rivals the first one's kind is its
    value. A pool of virtual functions has it as soon as one of them is concerned: the scheduler cannot choose another.
    """
    if not rivals:
        return {}
    nics = {nic.address: nic for nic in inventory.nics}
    kinds: dict[DeviceName, str] = {}
    for rival in rivals:
        for name in rival.devices:
            kinds.setdefault(name, rival.kind)
    taints: dict[str, tuple[DeviceTaint, ...]] = {}
    for device in inventory.devices():
        kind = kinds.get(device.name)
        if kind is None:
            continue
        names = [name for name, _ in _published(device)]
        if isinstance(device, RdmaVf) and (nic := nics.get(device.parent)):
            names.append(RdmaVfPool(nic=nic, vfs=nic.vfs).name)
        taint = DeviceTaint(key=RIVAL_TAINT, value=_value(kind), effect="NoSchedule")
        taints = dict.fromkeys(names, (taint,)) | taints
    return taints


def node_taints(parts: Sequence[Chunk], health: NodeHealth) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each published device while the node's plugin can prepare none, by its name.

    Args:
        parts: The slices' contents.
        health: What the plugin reports.
    """
    if not health.cannot_prepare:
        return {}
    taint = DeviceTaint(key=CANNOT_PREPARE_TAINT, value=_value(health.cannot_prepare), effect="NoSchedule")
    return {device.name: (taint,) for part in parts for device in part.devices}


def default_route_taints(inventory: Inventory, policies: DevicePolicies) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each NIC or VF that has the node's default route, by its name in the slices.

    A VF of such a NIC has none: its interface is another one, and the NIC's stays where it is.
    """
    taint = DeviceTaint(key=DEFAULT_ROUTE, effect="NoSchedule")
    functions: list[RdmaNic | RdmaVf] = [*inventory.nics, *(vf for nic in inventory.nics for vf in nic.vfs)]
    return {
        function.name: (taint,)
        for function in functions
        if function.default_route and not device_rule(function, inventory, policies).lends_default_route
    }


def managed_devices(devices: Iterable[resource_v1.Device]) -> Iterator[resource_v1.Device]:
    """Yield the published devices of a managed node: with the taint that keeps kube-scheduler from allocating them.

    NoSchedule: what has a device keeps it, whoever allocated it.
    """
    taint = DeviceTaint(key=TAINT, effect="NoSchedule")
    for device in devices:
        yield device.model_copy(update={"taints": (*device.taints, taint)})


def strategy_taints(parts: Sequence[Chunk], health: NodeHealth) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the taint of each GPU in the slices whose strategy for shares the node is not known to serve, by its name.

    Time slices take nothing of a node.

    Args:
        parts: The slices' contents.
        health: What the plugin reports.
    """
    served = health.strategies
    if served is None:
        return {}
    of = ((device.name, device.attributes.get(SHARING_STRATEGY)) for part in parts for device in part.devices)
    return {
        name: (DeviceTaint(key=STRATEGY_TAINT, value=value.string_value, effect="NoSchedule"),)
        for name, value in of
        if value is not None and value.string_value not in {"timeSlicing", *served}
    }


def with_taints(parts: Sequence[Chunk], *taints: Mapping[str, Sequence[DeviceTaint]]) -> tuple[Chunk, ...]:
    """Return the slices' contents with more taints on their devices; the very same where there are none.

    With a taint in it a slice holds fewer devices, so these may move on to other slices; their order stays.

    Args:
        parts: The contents.
        taints: By device name, the important ones first: what is beyond the API server's limit is left out. Those of
            devices that are not there are passed over.
    """
    if not any(taints):
        return tuple(parts)
    devices = [device for part in parts for device in part.devices]
    for place, device in enumerate(devices):
        more = [taint for by_name in taints for taint in by_name.get(device.name, ())]
        if more:
            devices[place] = device.model_copy(update={"taints": (*device.taints, *more)[:_MOST]})
    return chunks(devices, [counters for part in parts for counters in part.counter_sets])


def _has_own_taint(device: Device, fault: Fault) -> bool:
    # Made of the inventory: driver.layout.names.LINK_DOWN.
    return isinstance(device, RdmaNic) and fault.reason == LINK_DOWN_FAULT


def _published(device: Device) -> Iterator[tuple[DeviceName, DeviceType]]:
    """Yield all names under which a whole device may be published, and what has each."""
    yield device.name, device.type
    if isinstance(device, Gpu):
        yield from ((part.name, part.type) for part in gpu_parts(device))
    elif isinstance(device, RdmaNic):
        yield RdmaVfPool(nic=device, vfs=device.vfs).name, DeviceType.RDMA_VF
        yield from ((vf.name, vf.type) for vf in device.vfs)


def _taint(fault: Fault) -> DeviceTaint:
    return DeviceTaint(key=UNHEALTHY_TAINT, value=_value(fault.reason), effect=fault.effect.value)


def _value(reason: str) -> str:
    # A reason that no taint can carry comes from a broken source: the taint counts, its value is for people.
    return _ODD_REASON if any(label_value("", reason)) else reason
