"""Extended resources: devices that pods ask for by number, as ``nvidia.com/gpu: 1``, and that nodes count.

A device plugin gives them, or the node has none and kube-scheduler makes a ResourceClaim of them (feature gate
DRAExtendedResource). Sources: IsExtendedResourceName in k8s.io/kubernetes v1.37.2, pkg/apis/core/v1/helper/helpers.go;
IsDRAExtendedResourceName in pkg/scheduler/util/utils.go; ResourceDeviceClassPrefix in k8s.io/api, resource/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["CLAIM_ANNOTATION", "CLASS_PREFIX", "MAX_POD_RESOURCES", "extended_amounts", "is_extended"]

CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass: an extended resource that every class has."""

CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""``true`` on the claim that kube-scheduler makes for a pod's extended resources (k8s.io/api v0.37.2,
ExtendedResourceClaimAnnotation). A pod has one at most, with a random name."""

MAX_POD_RESOURCES: Final = 256
"""How many names of resources are looked at: of one container, and extended ones of a pod's containers together."""


def is_extended(name: str) -> bool:
    """Whether a resource of that name is an extended one."""
    if name.startswith(CLASS_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def extended_amounts(resources: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the extended ones of a list of resources (``requests``, ``allocatable``), as it has them."""
    return {name: amount for name, amount in (resources or {}).items() if is_extended(name)}
