"""The entries in ``status.devices`` of a claim for the devices that were prepared for it: pure.

A GPU's entry says whether the limits of the share hold: as a condition for people, as data for programs. A NIC's entry
names the virtual function that was chosen, and the name and addresses of its interface in the pod. Both give the
distances between the claim's GPUs and NICs. FPGAs get no entry: the allocation says everything about them.

Source of the form: AllocatedDeviceStatus in k8s.io/api v0.36.3, resource/v1/types.go. Entries are told apart by driver,
pool, device and shareID.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.prepared_device import ISOLATED, DeviceMode, PreparedDeviceData, PreparedIsolation, device_key
from driver.api.strict import write
from driver.api.times import time_text
from driver.model.devices import DeviceType
from driver.plan import GpuUse, Isolation, PreparedDevice
from driver.plan.uses import NicUse

if TYPE_CHECKING:
    from kubeletplugin.network.netdev.records import InPod

__all__ = ["device_mode", "device_statuses", "is_published"]

_REASONS: Final = {"device": "Exclusive", "MIG": "MIG", "MPS": "MPS", "HAMi-core": "HAMiCore"}
_ADVISORY: Final = "Advisory"
_OTHER: Final = "Enforced"
_MAX_IPS: Final = 16
_MAX_MESSAGE: Final = 32768  # as of every metav1.Condition
_NO_NETWORK: Final[Mapping[str, InPod]] = MappingProxyType({})


def device_statuses(
    devices: Iterable[PreparedDevice],
    claim: JsonObject,
    *,
    now: datetime,
    network: Mapping[str, InPod] = _NO_NETWORK,
) -> list[JsonObject]:
    """Return this driver's entries in ``status.devices``, in the order of the devices.

    A device that is no longer allocated to the claim is left out: the API server refuses an entry for it.

    Args:
        devices: What was prepared.
        claim: The claim as it is stored. Conditions whose status does not change keep their time.
        now: The time of the conditions that change.
        network: The interfaces that were moved into the pod, by the function's name in the pool.
    """
    allocated = _allocated(claim)
    former = {device_key(entry): _isolated(entry) for entry in _own_entries(claim)}
    moment = time_text(now)
    made: dict[tuple[str, str, str], JsonObject] = {}
    for device in devices:
        key = (device.pool, str(device.device), device.share_id or "")
        if key not in allocated:
            continue
        # One that several requests may watch over (admin access) has one entry.
        if device.isolation is not None and device.use is not None:
            made.setdefault(key, _gpu_entry(device, device.use, device.isolation, former.get(key), moment))
        elif device.nic_use is not None:
            use = device.nic_use
            made.setdefault(key, _nic_entry(device, use, network.get(use.vf or use.nic)))
    return list(made.values())


def is_published(entries: Iterable[JsonObject], claim: JsonObject) -> bool:
    """Whether the stored claim has exactly these entries of this driver."""

    def contents(of: Iterable[JsonObject]) -> dict[tuple[str, str, str], object]:
        return {device_key(entry): (_isolated(entry), entry.get("data"), _own_network(entry)) for entry in of}

    # An entry without both is not the plugin's: a person may have written it.
    stored = (entry for entry in _own_entries(claim) if _isolated(entry) or "data" in entry)
    return contents(entries) == contents(stored)


def _gpu_entry(
    device: PreparedDevice, use: GpuUse, isolation: Isolation, former: JsonObject | None, moment: str
) -> JsonObject:
    status = "True" if isolation.enforced else "False"
    same = former is not None and former.get("status") == status and "lastTransitionTime" in former
    condition: JsonObject = {
        "type": ISOLATED,
        "status": status,
        "reason": _REASONS.get(isolation.by, _OTHER) if isolation.enforced else _ADVISORY,
        "message": isolation.message[:_MAX_MESSAGE],
        "lastTransitionTime": former["lastTransitionTime"] if same and former is not None else moment,
    }
    data = PreparedDeviceData.of_gpu(
        gpu=use.gpu,
        mode=device_mode(use),
        core=use.core,
        memory_bytes=use.memory_bytes,
        isolation=PreparedIsolation(
            state="enforced" if isolation.enforced else "advisory", by=isolation.by, version=isolation.version
        ),
        mig_uuid=device.mig_uuid,
        distances=dict(device.distances),
    )
    return _named(device) | {"conditions": [condition], "data": write(data)}


def _nic_entry(device: PreparedDevice, use: NicUse, network: InPod | None) -> JsonObject:
    data = PreparedDeviceData.of_nic(
        nic=use.nic or None, vf=use.vf, bandwidth=use.bandwidth, distances=dict(device.distances)
    )
    entry = _named(device) | {"data": write(data)}
    if network is not None:
        entry["networkData"] = _wire(network)
    return entry


def _named(device: PreparedDevice) -> JsonObject:
    share = {"shareID": device.share_id} if device.share_id else {}
    return {"driver": DRIVER_NAME, "pool": device.pool, "device": str(device.device), **share}


def _wire(network: InPod) -> JsonObject:
    """Return the interface as the API's NetworkDeviceData, within its limit for addresses; Linux has lower others."""
    found = {
        "interfaceName": network.name,
        "hardwareAddress": network.mac,
        "ips": list(network.addresses[:_MAX_IPS]),
    }
    return {name: value for name, value in found.items() if value}


def device_mode(use: GpuUse) -> DeviceMode:
    """Return the mode in which a claim uses a GPU, as status and metrics call it."""
    match use.mode:
        case DeviceType.MIG:
            return "mig"
        case DeviceType.GPU_RATIO:
            return "ratio"
        case _:
            return "whole" if use.whole else "shared"


def _allocated(claim: JsonObject) -> set[tuple[str, str, str]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return {device_key(result) for result in results if result.get("driver") == DRIVER_NAME}


def _own_entries(claim: JsonObject) -> list[JsonObject]:
    entries = (claim.get("status") or {}).get("devices") or ()
    return [entry for entry in entries if entry.get("driver") == DRIVER_NAME]


def _isolated(entry: JsonObject) -> dict[str, Any] | None:
    return next((item for item in entry.get("conditions") or () if item.get("type") == ISOLATED), None)


def _own_network(entry: JsonObject) -> object:
    """Return an entry's network data if it is the plugin's, which writes it for NICs alone."""
    data = entry.get("data")
    return entry.get("networkData") if isinstance(data, dict) and ("nic" in data or "vf" in data) else None
