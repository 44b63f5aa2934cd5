"""What ``status.devices`` of a claim has to say of the devices that were prepared for it: pure.

An entry says whether a GPU's limits hold for the claim: as a condition for people, as data for programs. That of a NIC
says which virtual function was given, and under which name and addresses the pod sees its interface. Both say how far
GPUs and NICs of the claim are from each other. FPGAs get no entry: there is nothing to say that the allocation does not
say.

Source of the form: AllocatedDeviceStatus in k8s.io/api v0.36.3, resource/v1/types.go. Entries are told apart by driver,
pool, device and shareID.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.prepared_device import ISOLATED, PreparedDeviceData, PreparedIsolation, device_key
from driver.api.rootport_v1alpha1 import DeviceMode
from driver.api.times import time_text
from driver.model.devices import DeviceType
from driver.plan import GpuUse, Isolation, PreparedDevice
from driver.plan.uses import NicUse
from kubeletplugin.network.network_data import NetworkData

__all__ = ["device_statuses", "is_told"]

_REASONS: Final = {"device": "Exclusive", "MIG": "MIG", "MPS": "MPS", "HAMi-core": "HAMiCore"}
_ADVISORY: Final = "Advisory"
_OTHER: Final = "Enforced"
_MAX_IPS: Final = 16
_MAX_MESSAGE: Final = 32768  # as of every metav1.Condition


_NO_NETWORK: Final[Mapping[str, NetworkData]] = MappingProxyType({})


def device_statuses(
    devices: Iterable[PreparedDevice],
    claim: JsonObject,
    *,
    now: datetime,
    network: Mapping[str, NetworkData] = _NO_NETWORK,
) -> list[JsonObject]:
    """The entries that this driver's part of ``status.devices`` has to consist of, in the order of the devices.

    What the claim is no longer allocated is left out: the API server refuses an entry for it.

    Args:
        devices: What was prepared.
        claim: The claim as it is stored. Where its conditions say the same, they keep their time.
        now: The time of what changes.
        network: What the pod sees of the interfaces that were moved into it, by the function's name in the pool.
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


def is_told(entries: Iterable[JsonObject], claim: JsonObject) -> bool:
    """Whether the stored claim says this already, and nothing else about this driver's devices."""

    def said(of: Iterable[JsonObject]) -> dict[tuple[str, str, str], object]:
        return {device_key(entry): (_isolated(entry), entry.get("data"), _own_network(entry)) for entry in of}

    # An entry without both is somebody else's word, such as a person's.
    stored = (entry for entry in _own_entries(claim) if _isolated(entry) or "data" in entry)
    return said(entries) == said(stored)


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
        mode=_mode(use),
        core=use.core,
        memory_bytes=use.memory_bytes,
        isolation=PreparedIsolation(
            state="enforced" if isolation.enforced else "advisory", by=isolation.by, version=isolation.version
        ),
        mig_uuid=device.mig_uuid,
        distances=dict(device.distances),
    )
    return _named(device) | {"conditions": [condition], "data": data.to_wire()}


def _nic_entry(device: PreparedDevice, use: NicUse, network: NetworkData | None) -> JsonObject:
    data = PreparedDeviceData.of_nic(
        nic=use.nic or None, vf=use.vf, bandwidth=use.bandwidth, distances=dict(device.distances)
    )
    entry = _named(device) | {"data": data.to_wire()}
    if network is not None:
        entry["networkData"] = _wire(network)
    return entry


def _named(device: PreparedDevice) -> JsonObject:
    share = {"shareID": device.share_id} if device.share_id else {}
    return {"driver": DRIVER_NAME, "pool": device.pool, "device": str(device.device), **share}


def _wire(network: NetworkData) -> JsonObject:
    """NetworkDeviceData of the API; its limits, which Linux's are below but for the number of addresses, are kept."""
    found = {
        "interfaceName": network.interface_name,
        "hardwareAddress": network.hardware_address,
        "ips": list(network.ips[:_MAX_IPS]),
    }
    return {name: value for name, value in found.items() if value}


def _mode(use: GpuUse) -> DeviceMode:
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
    """The network data where it is the plugin's: of a NIC. Somebody else may say it of another device."""
    data = entry.get("data")
    return entry.get("networkData") if isinstance(data, dict) and ("nic" in data or "vf" in data) else None
