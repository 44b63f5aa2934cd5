"""The health of the node's devices, as the kubelet shows it in the status of the pods that hold them.

A device is healthy while discovery finds it with all that a container needs, and the health monitor knows of no fault
that keeps it from being given. A device that was there before, or that a prepared claim holds, and is no longer found
is unhealthy. A part of a GPU and a virtual function of a NIC are as well as the whole device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from driver.model.devices import DeviceName, DeviceType, RdmaVf, device_name
from driver.model.health import Fault, NodeHealth
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, named_devices, whole_device
from kubeletplugin.service import DeviceHealth

__all__ = ["DevicesHealth"]

_MISSING = "the device is no longer found on the node: see the NodeInventory's conditions, and dmesg on the node"
_NO_NODE = "the device has no device node that a container could be given: is its kernel driver still bound?"
_NOT_SEEN = "the device could not be looked at: see the condition Discovered of the NodeInventory"


class DevicesHealth:
    """The plugin's :class:`kubeletplugin.service.HealthSource`. Safe to use from any thread.

    Args:
        node: The node's name, which is the pool's name as well.
        held: Returns the names of the devices that prepared claims hold.
    """

    def __init__(self, node: str, *, held: Callable[[], Iterable[str]] = tuple) -> None:
        self._node = node
        self._held = held
        self._changed = threading.Condition()
        self._version = 0
        self._inventory: Inventory | None = None
        self._certain = True
        self._usable_once: set[str] = set()
        self._faults: Mapping[DeviceName, Fault] = {}

    def update(self, inventory: Inventory | None, *, certain: bool) -> None:
        """Update the devices after a discovery.

        Args:
            inventory: The latest; None where there is none yet.
            certain: Whether the latest discovery saw everything; if not, the health of devices is unknown.
        """
        with self._changed:
            if (inventory, certain) == (self._inventory, self._certain):
                return
            self._inventory, self._certain = inventory, certain
            if inventory is not None:
                self._usable_once.update(device.name for device in inventory.devices() if device.device_nodes_known)
            self._version += 1
            self._changed.notify_all()

    def update_health(self, health: NodeHealth) -> None:
        """Update the faults of the devices."""
        with self._changed:
            faults = health.taints()
            if faults == self._faults:
                return
            self._faults = faults
            self._version += 1
            self._changed.notify_all()

    def current(self) -> Sequence[DeviceHealth]:
        """Return the health of every device, sorted by name."""
        held = tuple(self._held())
        with self._changed:
            inventory, certain, names = self._inventory, self._certain, self._usable_once | set(held)
            faults = self._faults
        if inventory is None:
            return [DeviceHealth(pool=self._node, device=n, healthy=None, message=_NOT_SEEN) for n in sorted(names)]
        found = named_devices(inventory, names)
        return [self._health(name, found.get(name), faults, certain=certain) for name in sorted(names)]

    def version(self) -> int:
        """Return a number that grows with every change."""
        with self._changed:
            return self._version

    def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the version is another one, at most ``timeout_s`` seconds; returns the version then."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, timeout_s)
            return self._version

    def _health(
        self, name: str, device: AllocatableDevice | None, faults: Mapping[DeviceName, Fault], *, certain: bool
    ) -> DeviceHealth:
        fault = faults.get(_whole(device)) if device is not None else None
        if fault is not None:
            # Known even while a look at the hardware fails, which a broken device may be the reason of.
            message = f"{fault.reason}: {fault.message}"
            return DeviceHealth(pool=self._node, device=name, healthy=False, message=message)
        if not certain:
            return DeviceHealth(pool=self._node, device=name, healthy=None, message=_NOT_SEEN)
        if device is not None and device.device_nodes_known:
            return DeviceHealth(pool=self._node, device=name, healthy=True)
        message = _MISSING if device is None else _NO_NODE
        return DeviceHealth(pool=self._node, device=name, healthy=False, message=message)


def _whole(device: AllocatableDevice) -> DeviceName:
    if isinstance(device, RdmaVf):
        return device_name(DeviceType.RDMA, device.parent)
    return whole_device(device).name
