"""What ``status.devices`` of a claim has to say of the devices that were prepared for it: pure.

An entry says whether a GPU's limits hold for the claim: as a condition for people, as data for programs. Devices
without limits (NICs, FPGAs) get no entry: there is nothing to say that the allocation does not say.

Source of the form: AllocatedDeviceStatus in k8s.io/api v0.36.3, resource/v1/types.go. Entries are told apart by driver,
pool, device and shareID.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.prepared_device import ISOLATED, PreparedDeviceData, PreparedIsolation, device_key
from driver.api.rootport_v1alpha1 import DeviceMode
from driver.model.devices import DeviceType
from driver.plan import GpuUse, Isolation, PreparedDevice

__all__ = ["device_statuses", "is_told"]

_REASONS: Final = {"device": "Exclusive", "MIG": "MIG", "MPS": "MPS", "HAMi-core": "HAMiCore"}
_ADVISORY: Final = "Advisory"
_OTHER: Final = "Enforced"
_MAX_MESSAGE: Final = 32768  # as of every metav1.Condition


def device_statuses(devices: Iterable[PreparedDevice], claim: JsonObject, *, now: datetime) -> list[JsonObject]:
    """The entries that this driver's part of ``status.devices`` has to consist of, in the order of the devices.

    What the claim is no longer allocated is left out: the API server refuses an entry for it.

    Args:
        devices: What was prepared.
        claim: The claim as it is stored. Where its conditions say the same, they keep their time.
        now: The time of what changes.
    """
    allocated = _allocated(claim)
    former = {device_key(entry): _isolated(entry) for entry in _own_entries(claim)}
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made: dict[tuple[str, str, str], JsonObject] = {}
    for device in devices:
        key = (device.pool, str(device.device), device.share_id or "")
        if key in allocated and device.isolation is not None and device.use is not None:
            # One that several requests may watch over (admin access) has one entry.
            made.setdefault(key, _entry(device, device.use, device.isolation, former.get(key), moment))
    return list(made.values())


def is_told(entries: Iterable[JsonObject], claim: JsonObject) -> bool:
    """Whether the stored claim says this already, and nothing else about this driver's devices."""

    def said(of: Iterable[JsonObject]) -> dict[tuple[str, str, str], object]:
        return {device_key(entry): (_isolated(entry), entry.get("data")) for entry in of}

    # An entry without both is somebody else's word, such as a person's.
    stored = (entry for entry in _own_entries(claim) if _isolated(entry) or "data" in entry)
    return said(entries) == said(stored)


def _entry(
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
    data = PreparedDeviceData.of(
        gpu=use.gpu,
        mode=_mode(use),
        core=use.core,
        memory_bytes=use.memory_bytes,
        isolation=PreparedIsolation(
            state="enforced" if isolation.enforced else "advisory", by=isolation.by, version=isolation.version
        ),
        mig_uuid=device.mig_uuid,
    )
    share = {"shareID": device.share_id} if device.share_id else {}
    return {
        "driver": DRIVER_NAME,
        "pool": device.pool,
        "device": str(device.device),
        **share,
        "conditions": [condition],
        "data": data.to_wire(),
    }


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
