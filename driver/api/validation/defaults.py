"""The defaults that the API server sets.

Source: k8s.io/kubernetes v1.36.3, pkg/apis/resource/v1/defaults.go, and the ``+default`` of the toleration's operator
in k8s.io/api v0.36.3, resource/v1/types.go. (A taint's ``timeAdded`` is defaulted to the time of the write; that
is the publisher's matter.)
"""

from __future__ import annotations

from typing import TypeVar

from driver.api.resource_v1 import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)

__all__ = ["with_defaults"]

_Object = TypeVar("_Object", ResourceClaim, ResourceClaimTemplate, ResourceClaimSpec, DeviceClass)
_Request = TypeVar("_Request", ExactDeviceRequest, DeviceSubRequest)


def with_defaults(obj: _Object) -> _Object:
    """Return the object as the API server would store it: ``allocationMode`` ExactCount, ``count`` 1, operator Equal.

    What is set stays; doing it twice changes nothing. A DeviceClass has no defaults and comes back as it is.
    """
    if isinstance(obj, ResourceClaim):
        return obj.model_copy(update={"spec": _spec(obj.spec)})
    if isinstance(obj, ResourceClaimTemplate):
        return obj.model_copy(update={"spec": obj.spec.model_copy(update={"spec": _spec(obj.spec.spec)})})
    if isinstance(obj, ResourceClaimSpec):
        return _spec(obj)
    return obj


def _spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    requests = tuple(_request(request) for request in spec.devices.requests)
    return spec.model_copy(update={"devices": spec.devices.model_copy(update={"requests": requests})})


def _request(request: DeviceRequest) -> DeviceRequest:
    exactly = request.exactly and _exact_or_sub(request.exactly)
    first_available = tuple(_exact_or_sub(sub) for sub in request.first_available)
    return request.model_copy(update={"exactly": exactly, "first_available": first_available})


def _exact_or_sub(request: _Request) -> _Request:
    mode = request.allocation_mode or "ExactCount"
    count = 1 if mode == "ExactCount" and request.count == 0 else request.count
    tolerations = tuple(_toleration(toleration) for toleration in request.tolerations)
    return request.model_copy(update={"allocation_mode": mode, "count": count, "tolerations": tolerations})


def _toleration(toleration: DeviceToleration) -> DeviceToleration:
    return toleration if toleration.operator else toleration.model_copy(update={"operator": "Equal"})
