"""The entries in ``status.devices`` of a claim for the devices that were prepared for it: pure.

A GPU's entry says whether the limits of the share hold: as a condition for people, as data for programs. Where a
ladder of `rootport pairs` found no NIC near it, another condition says that, and how far it is. A NIC's entry names
the virtual function that was chosen, whether the limit of its bandwidth holds, where its DeviceClass wants one, and
the name and addresses of its interface in the pod. Both give the distances between the claim's GPUs and NICs. A device
with binding conditions (KEP-5007) has these: kube-scheduler waits for them with admin access as well. FPGAs, and other
devices with admin access, get no entry: the allocation says everything about them.

Source of the form: AllocatedDeviceStatus in k8s.io/api v0.36.3, resource/v1/types.go. Entries are told apart by driver,
pool, device and shareID.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.prepared_device import (
    ALIGNED,
    ISOLATED,
    PREPARATION_FAILED,
    PREPARED,
    DeviceMode,
    PreparedDeviceData,
    PreparedIsolation,
    device_key,
)
from driver.api.strict import write
from driver.api.times import time_text
from driver.model.alignment import group_on_last_rung
from driver.model.devices import DeviceType
from driver.model.distance import LEGEND, Level
from driver.plan import GpuUse, Isolation, PreparedDevice
from driver.plan.uses import NicUse

if TYPE_CHECKING:
    from kubeletplugin.network.netdev.records import InPod

__all__ = ["device_mode", "device_statuses", "failure_statuses", "is_published"]

_REASONS: Final = {"device": "Exclusive", "MIG": "MIG", "MPS": "MPS", "HAMi-core": "HAMiCore", "SR-IOV": "SRIOV"}
_ADVISORY: Final = "Advisory"
_OTHER: Final = "Enforced"
_LAST_RUNG: Final = "LastRung"
_MAX_IPS: Final = 16
_MAX_MESSAGE: Final = 32768  # as of every metav1.Condition
_OWN_CONDITIONS: Final = frozenset({ALIGNED, ISOLATED, PREPARED, PREPARATION_FAILED})
_NO_NETWORK: Final[Mapping[str, InPod]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A result of the claim's allocation: the request, and the names of its binding (failure) conditions."""

    request: str
    conditions: tuple[str, ...]
    failure_conditions: tuple[str, ...]


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
    former = {device_key(entry): _own_conditions(entry) for entry in _own_entries(claim)}
    given = tuple(devices)
    far = _far_nics(given, allocated)
    moment = time_text(now)
    made: dict[tuple[str, str, str], JsonObject] = {}
    for device in given:
        key = (device.pool, str(device.device), device.share_id or "")
        if key not in allocated:
            continue
        binding = [_prepared()] if PREPARED in allocated[key].conditions else []
        if device.isolation is not None and device.use is not None:
            conditions = [_isolation(device.isolation), *binding]
            if key in far:
                conditions.append(_alignment(device, far[key]))
            entry = _gpu_entry(device, device.use, device.isolation)
        elif device.nic_use is not None:
            use = device.nic_use
            entry = _nic_entry(device, use, network.get(use.vf or use.nic))
            conditions = [*([_isolation(device.isolation)] if device.isolation is not None else []), *binding]
        elif binding:
            entry, conditions = _named(device), binding
        else:
            continue
        if conditions:
            entry["conditions"] = _timed(conditions, former.get(key, {}), moment)
        # One that several requests may watch over (admin access) has one entry: that of its user, if the claim has it.
        if "data" not in made.get(key, {}):
            made[key] = entry
    return list(made.values())


def failure_statuses(claim: JsonObject, *, reason: str, message: str, now: datetime) -> list[JsonObject]:
    """Return the entries that make kube-scheduler take a claim's devices back: of those with a condition for that.

    Args:
        claim: The claim as it is stored.
        reason: Why they cannot be prepared, in one CamelCase word.
        message: Why, for a person.
        now: The time.
    """
    condition = {"type": PREPARATION_FAILED, "status": "True", "reason": reason, "message": message[:_MAX_MESSAGE]}
    failed = condition | {"lastTransitionTime": time_text(now)}
    return [
        {"driver": DRIVER_NAME, "pool": pool, "device": device, **({"shareID": share} if share else {})}
        | {"conditions": [failed]}
        for (pool, device, share), given in _allocated(claim).items()
        if PREPARATION_FAILED in given.failure_conditions
    ]


def is_published(entries: Iterable[JsonObject], claim: JsonObject) -> bool:
    """Whether the stored claim has exactly these entries of this driver."""

    def contents(of: Iterable[JsonObject]) -> dict[tuple[str, str, str], object]:
        return {device_key(entry): (_own_conditions(entry), entry.get("data"), _own_network(entry)) for entry in of}

    # An entry without both is not the plugin's: a person may have written it.
    stored = (entry for entry in _own_entries(claim) if _own_conditions(entry) or "data" in entry)
    return contents(entries) == contents(stored)


def _prepared() -> JsonObject:
    return {
        "type": PREPARED,
        "status": "True",
        "reason": "Prepared",
        "message": "the node has prepared the device: the pod may be bound",
    }


def _isolation(isolation: Isolation) -> JsonObject:
    return {
        "type": ISOLATED,
        "status": "True" if isolation.enforced else "False",
        "reason": _REASONS.get(isolation.by, _OTHER) if isolation.enforced else _ADVISORY,
        "message": isolation.message[:_MAX_MESSAGE],
    }


def _prepared_isolation(isolation: Isolation) -> PreparedIsolation:
    state: Literal["enforced", "advisory"] = "enforced" if isolation.enforced else "advisory"
    return PreparedIsolation(state=state, by=isolation.by, version=isolation.version)


def _far_nics(
    devices: Iterable[PreparedDevice], allocated: Mapping[tuple[str, str, str], _Given]
) -> dict[tuple[str, str, str], set[str]]:
    """Return the names of its group's NICs for each device that a ladder's last rung gave."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    own: dict[tuple[str, str, str], str] = {}
    for device in devices:
        key = (device.pool, str(device.device), device.share_id or "")
        group = group_on_last_rung(allocated[key].request if key in allocated else "")
        if group is None:
            continue
        own[key] = group
        if device.nic_use is not None:
            groups[group].add(str(device.device))
    return {key: groups[group] for key, group in own.items() if group in groups}


def _alignment(device: PreparedDevice, nics: Collection[str]) -> JsonObject:
    """Return the condition of a GPU whose NICs came from anywhere on the node; how far they are, it says."""
    levels = [(Level[text], name) for name, text in device.distances if name in nics and text in Level.__members__]
    level, nic = min(levels, default=(Level.SYS, min(nics)))
    # A node that reports no NUMA nodes is taken to have a single one: that they are apart is not known then.
    status = "False" if level is Level.SYS else "Unknown"
    return {
        "type": ALIGNED,
        "status": status,
        "reason": _LAST_RUNG,
        "message": f"NIC {nic} is at {level.name} ({LEGEND[level.name]}): nothing nearer was left on the node when the"
        " claim was allocated",
    }


def _timed(conditions: Iterable[JsonObject], former: Mapping[str, JsonObject], moment: str) -> list[JsonObject]:
    """Return the conditions with the time when their status changed last."""
    timed = []
    for condition in conditions:
        before = former.get(condition["type"], {})
        same = before.get("status") == condition["status"] and "lastTransitionTime" in before
        timed.append(condition | {"lastTransitionTime": before["lastTransitionTime"] if same else moment})
    return timed


def _gpu_entry(device: PreparedDevice, use: GpuUse, isolation: Isolation) -> JsonObject:
    data = PreparedDeviceData.of_gpu(
        gpu=use.gpu,
        mode=device_mode(use),
        core=use.core,
        memory_bytes=use.memory_bytes,
        isolation=_prepared_isolation(isolation),
        mig_uuid=device.mig_uuid,
        distances=dict(device.distances),
    )
    return _named(device) | {"data": write(data)}


def _nic_entry(device: PreparedDevice, use: NicUse, network: InPod | None) -> JsonObject:
    data = PreparedDeviceData.of_nic(
        nic=use.nic or None,
        vf=use.vf,
        bandwidth=use.bandwidth,
        bandwidth_ratio=use.bandwidth_ratio,
        isolation=_prepared_isolation(device.isolation) if device.isolation else None,
        distances=dict(device.distances),
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


def _allocated(claim: JsonObject) -> dict[tuple[str, str, str], _Given]:
    """Return how each device was allocated."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    own = (result for result in results if result.get("driver") == DRIVER_NAME)
    return {
        device_key(result): _Given(
            request=str(result.get("request", "")),
            conditions=tuple(result.get("bindingConditions") or ()),
            failure_conditions=tuple(result.get("bindingFailureConditions") or ()),
        )
        for result in own
    }


def _own_entries(claim: JsonObject) -> list[JsonObject]:
    entries = (claim.get("status") or {}).get("devices") or ()
    return [entry for entry in entries if entry.get("driver") == DRIVER_NAME]


def _own_conditions(entry: JsonObject) -> dict[str, dict[str, Any]]:
    """Return the plugin's conditions by their type."""
    return {item["type"]: item for item in entry.get("conditions") or () if item.get("type") in _OWN_CONDITIONS}


def _own_network(entry: JsonObject) -> object:
    """Return an entry's network data if it is the plugin's, which writes it for NICs alone."""
    data = entry.get("data")
    return entry.get("networkData") if isinstance(data, dict) and ("nic" in data or "vf" in data) else None
