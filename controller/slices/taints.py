"""Reads the taints in stored slices: which are foreign, since when they are there, and whether two are equal.

Source of the rules: k8s.io/dynamic-resource-allocation v0.36.3, resourceslice/resourceslicecontroller.go
(devicesSemantic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.resource_v1 import Device, DeviceTaint, ResourceSliceSpec

__all__ = ["TaintTimes", "foreign_taints", "is_same_taint", "taint_times", "timed"]

_Key: TypeAlias = tuple[str, str, str]

TaintTimes: TypeAlias = Mapping[tuple[str, _Key], str | None]
"""The times when taints were added, by device name, and key, value and effect."""

_OWN: Final = f"{DRIVER_NAME}/"
# The wire has whole seconds (metav1.Time); upstream's devicesSemantic allows as much.
_SLACK: Final = timedelta(seconds=1)


def foreign_taints(stored: Sequence[JsonObject]) -> dict[str, tuple[DeviceTaint, ...]]:
    """Return the foreign taints on the devices of stored slices, with their times, by device name.

    Foreign are those with keys outside of this driver's domain: an administrator has put them there, and they stay. Of
    several generations the newest that has the device counts.

    Args:
        stored: All slices of this driver in a pool, as the API server has them.
    """
    found: dict[str, tuple[DeviceTaint, ...]] = {}
    for wire in sorted(stored, key=lambda wire: int(wire["spec"]["pool"].get("generation", 0))):
        for device in wire["spec"].get("devices") or ():
            taints = device.get("taints") or ()
            found[device["name"]] = tuple(
                DeviceTaint.model_validate(taint, extra="ignore")
                for taint in taints
                if not taint["key"].startswith(_OWN)
            )
    return {name: taints for name, taints in found.items() if taints}


def is_same_taint(wanted: DeviceTaint, stored: DeviceTaint) -> bool:
    """Return whether a stored taint is the wanted one; its time counts only if a time is wanted."""
    if _key(wanted) != _key(stored):
        return False
    if wanted.time_added is None or stored.time_added is None:
        return True
    return abs(datetime.fromisoformat(wanted.time_added) - datetime.fromisoformat(stored.time_added)) <= _SLACK


def taint_times(stored: Sequence[ResourceSliceSpec]) -> TaintTimes:
    """Return when each taint was added; of a device that is there twice, the last one counts."""
    return {
        (device.name, _key(taint)): taint.time_added
        for spec in stored
        for device in spec.devices
        for taint in device.taints
    }


def timed(devices: tuple[Device, ...], times: TaintTimes) -> tuple[Device, ...]:
    """Return the devices with the times of the taints that they had before: the API server would set new ones."""
    if not times or not any(device.taints for device in devices):
        return devices

    def kept(device: Device, taint: DeviceTaint) -> DeviceTaint:
        return taint.model_copy(update={"time_added": taint.time_added or times.get((device.name, _key(taint)))})

    return tuple(
        device.model_copy(update={"taints": tuple(kept(device, taint) for taint in device.taints)})
        for device in devices
    )


def _key(taint: DeviceTaint) -> _Key:
    return (taint.key, taint.value, taint.effect)
