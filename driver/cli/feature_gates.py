"""``--feature-gates``: which optional parts of allocation a cluster has, in the words of kube-scheduler's own flag."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Final

from driver.allocator.features import Features
from driver.errors import InputError

__all__ = ["features_of"]

_FIELDS: Final = {
    "DRAAdminAccess": "admin_access",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions": "device_binding_and_status",
    "DRADeviceTaints": "device_taints",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAPrioritizedList": "prioritized_list",
}
"""Gate (k8s.io/kubernetes/pkg/features) → field of :class:`Features`."""

_VALUES: Final = {"true": True, "false": False}


def features_of(gates: str) -> Features:
    """Kubernetes' defaults, changed as ``GATE=true|false,...`` says.

    Raises:
        InputError: A gate is not known, or a value is none.
    """
    changes: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in gates.split(","))):
        gate, _, value = pair.partition("=")
        if gate not in _FIELDS:
            near = difflib.get_close_matches(gate, _FIELDS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"those that decide here: {', '.join(_FIELDS)}"
            raise InputError(f"--feature-gates: {gate!r} is no gate that explain knows", hint=hint)
        if value.lower() not in _VALUES:
            raise InputError(f"--feature-gates: {pair!r}", hint=f"write {gate}=true or {gate}=false")
        changes[_FIELDS[gate]] = _VALUES[value.lower()]
    return replace(Features(), **changes)
