"""Reads ``--feature-gates``: which optional parts of allocation a cluster has, as kube-scheduler's flag names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from driver.allocator.features import Features
from driver.errors import InputError
from driver.spelling import close_matches

__all__ = ["features_of"]

_FIELDS: Final = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions": "device_binding_and_status",
    "DRADeviceTaints": "device_taints",
    "DRAFractionalCapacityRange": "fractional_capacity_range",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRANodeAllocatableResources": "node_allocatable_resources",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}
"""Gate (k8s.io/kubernetes/pkg/features) → field of :class:`Features`."""

_MODELLED_AS: Final[dict[str, bool | None]] = {
    "DRADerivedAttributes": False,
    "DRADeviceCompatibilityGroups": False,
    "DRADeviceTaintRules": None,
    "DRAExtendedResource": True,
    "DRAOptionalNodeOperations": False,
    "DRAPartitionableDevicesType": False,
    "DRAResourceClaimDeviceStatus": True,
    "DRAResourceClaimGranularStatusAuthorization": None,
    "DRAResourcePoolStatus": None,
    "DRASchedulerFilterTimeout": None,
    "DRAWorkloadResourceClaims": None,
    "DynamicResourceAllocation": True,
    "GenericWorkload": None,
    "ResourceHealthStatus": None,
    "ResourceHealthStatusMessage": None,
}
"""The other gates of dynamic resource allocation up to Kubernetes 1.37, with the value that Rootport reckons with: the
default of 1.37; None where the gate does not decide what fits."""

_VALUES: Final = {"true": True, "false": False}


def features_of(gates: str) -> Features:
    """Return Kubernetes' defaults, changed as ``GATE=true|false,...`` says.

    Raises:
        InputError: A gate is not known, a value is none, or what a gate changes is not known here.
    """
    changes: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in gates.split(","))):
        gate, _, value = pair.partition("=")
        if gate not in _FIELDS and gate not in _MODELLED_AS:
            near = close_matches(gate, (*_FIELDS, *_MODELLED_AS))
            hint = f"did you mean {near[0]}?" if near else f"those that decide here: {', '.join(_FIELDS)}"
            raise InputError(f"--feature-gates: {gate!r} is no gate that Rootport knows", hint=hint)
        if value.lower() not in _VALUES:
            raise InputError(f"--feature-gates: {pair!r}", hint=f"write {gate}=true or {gate}=false")
        is_on = _VALUES[value.lower()]
        if gate in _FIELDS:
            changes[_FIELDS[gate]] = is_on
        elif _MODELLED_AS[gate] not in (None, is_on):
            raise InputError(
                f"--feature-gates: Rootport does not know how the scheduler decides with {pair}",
                hint="leave the gate out; the answer is then that of a scheduler with its default",
            )
    return replace(Features(), **changes)
