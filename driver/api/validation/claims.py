"""Finds what the API server would refuse in a ResourceClaim, a ResourceClaimTemplate or a DeviceClass.

Sources: k8s.io/kubernetes v1.36.3, pkg/apis/resource/validation/validation.go; the limits in k8s.io/api v0.36.3,
resource/v1/types.go. CEL expressions are only measured here; :mod:`driver.cel` compiles them.

Left as upstream leaves it: a claim without requests is valid, the documented limit of 16 tolerations is not enforced,
and a constraint with both attributes is read as ``matchAttribute``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver.api.resource_v1 import (
    MAX_CONSTRAINTS,
    MAX_REQUESTS,
    MAX_RESULTS,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from driver.api.validation import fragments, names
from driver.api.validation.defaults import with_defaults
from driver.api.validation.errors import FieldError, each, shown
from driver.api.validation.fragments import RequestNames

__all__ = ["validate_claim", "validate_claim_template", "validate_device_class"]

_FIRST_AVAILABLE: Final = 8
_CONFIG: Final = 32
_SELECTORS: Final = 32
_EXPRESSION_LENGTH: Final = 10 * 1024


def validate_claim(claim: ResourceClaim) -> tuple[FieldError, ...]:
    """Return all that the API server would refuse in a claim with its defaults, its allocation included.

    Empty for a valid claim. The namespace may be absent: clients fill it in.
    """

    def errors() -> Iterator[FieldError]:
        yield from names.metadata(claim.metadata, namespaced=True)
        yield from _claim_spec("spec", with_defaults(claim.spec))
        if claim.status.allocation is not None:
            known = fragments.request_names(claim.spec.devices)
            yield from _allocation("status.allocation", claim.status.allocation, known)

    return tuple(errors())


def validate_claim_template(template: ResourceClaimTemplate) -> tuple[FieldError, ...]:
    """Return all that the API server would refuse in a claim template with its defaults."""

    def errors() -> Iterator[FieldError]:
        yield from names.metadata(template.metadata, namespaced=True)
        yield from names.template_metadata(template.spec.metadata, path="spec.metadata")
        yield from _claim_spec("spec.spec", with_defaults(template.spec.spec))

    return tuple(errors())


def validate_device_class(device_class: DeviceClass) -> tuple[FieldError, ...]:
    """Return all that the API server would refuse in a device class."""
    spec = device_class.spec

    def errors() -> Iterator[FieldError]:
        yield from names.metadata(device_class.metadata, namespaced=False)
        yield from each("spec.selectors", spec.selectors, _selector, limit=_SELECTORS)
        yield from each("spec.config", spec.config, _class_config, limit=_CONFIG)
        if spec.extended_resource_name is not None:
            yield from names.extended_resource_name("spec.extendedResourceName", spec.extended_resource_name)

    return tuple(errors())


def _claim_spec(path: str, spec: ResourceClaimSpec) -> Iterator[FieldError]:
    path = f"{path}.devices"
    known = fragments.request_names(spec.devices)

    def constraint(item_path: str, item: DeviceConstraint) -> Iterator[FieldError]:
        return _constraint(item_path, item, known)

    def config(item_path: str, item: DeviceClaimConfiguration) -> Iterator[FieldError]:
        yield from fragments.request_references(f"{item_path}.requests", item.requests, known)
        yield from fragments.opaque(item_path, item.opaque)

    yield from each(f"{path}.requests", spec.devices.requests, _request, limit=MAX_REQUESTS, key=_name)
    yield from each(f"{path}.constraints", spec.devices.constraints, constraint, limit=MAX_CONSTRAINTS)
    yield from each(f"{path}.config", spec.devices.config, config, limit=_CONFIG)


def _name(request: DeviceRequest | DeviceSubRequest) -> str:
    return request.name


def _request(path: str, request: DeviceRequest) -> Iterator[FieldError]:
    yield from names.label(f"{path}.name", request.name)
    if request.exactly is not None and request.first_available:
        yield FieldError(path, "exactly one of exactly and firstAvailable is allowed, both are set")
    elif request.exactly is not None:
        yield from _devices(f"{path}.exactly", request.exactly)
    elif request.first_available:
        yield from each(
            f"{path}.firstAvailable", request.first_available, _sub_request, limit=_FIRST_AVAILABLE, key=_name
        )
    else:
        yield FieldError(path, "one of exactly and firstAvailable is required")


def _sub_request(path: str, request: DeviceSubRequest) -> Iterator[FieldError]:
    yield from names.label(f"{path}.name", request.name)
    yield from _devices(path, request)


def _devices(path: str, request: ExactDeviceRequest | DeviceSubRequest) -> Iterator[FieldError]:
    yield from names.subdomain(f"{path}.deviceClassName", request.device_class_name)
    yield from each(f"{path}.selectors", request.selectors, _selector, limit=_SELECTORS)
    if request.allocation_mode == "All":
        if request.count != 0:
            yield FieldError(f"{path}.count", f"must not be set with allocationMode All, but is {request.count}")
    elif request.allocation_mode == "ExactCount":
        if request.count <= 0:
            yield FieldError(f"{path}.count", f"must be greater than zero, not {request.count}")
    else:
        message = f"{shown(request.allocation_mode)} is not supported: expected ExactCount or All"
        yield FieldError(f"{path}.allocationMode", message)
    yield from each(f"{path}.tolerations", request.tolerations, fragments.toleration)


def _selector(path: str, selector: DeviceSelector) -> Iterator[FieldError]:
    if selector.cel is None:
        yield FieldError(f"{path}.cel", "is required")
        return
    length = names.byte_length(selector.cel.expression)
    if length > _EXPRESSION_LENGTH:
        message = f"has {length} bytes, at most {_EXPRESSION_LENGTH} are allowed"
        yield FieldError(f"{path}.cel.expression", message)


def _constraint(path: str, constraint: DeviceConstraint, known: RequestNames) -> Iterator[FieldError]:
    yield from fragments.request_references(f"{path}.requests", constraint.requests, known)
    if constraint.match_attribute is not None:
        yield from names.full_attribute_name(f"{path}.matchAttribute", constraint.match_attribute)
    elif constraint.distinct_attribute is not None:
        yield from names.full_attribute_name(f"{path}.distinctAttribute", constraint.distinct_attribute)
    else:
        yield FieldError(path, "one of matchAttribute and distinctAttribute is required")


def _class_config(path: str, config: DeviceClassConfiguration) -> Iterator[FieldError]:
    return fragments.opaque(path, config.opaque)


def _allocation(path: str, allocation: AllocationResult, known: RequestNames) -> Iterator[FieldError]:
    def result(item_path: str, item: DeviceRequestAllocationResult) -> Iterator[FieldError]:
        yield from fragments.request_reference(f"{item_path}.request", item.request, known)
        yield from names.driver_name(f"{item_path}.driver", item.driver)
        yield from names.pool_name(f"{item_path}.pool", item.pool)
        yield from names.label(f"{item_path}.device", item.device)
        yield from fragments.binding_conditions(item_path, item.binding_conditions, item.binding_failure_conditions)
        if item.share_id is not None:
            yield from names.uid(f"{item_path}.shareID", item.share_id)

    def config(item_path: str, item: DeviceAllocationConfiguration) -> Iterator[FieldError]:
        if item.source not in {"FromClass", "FromClaim"}:
            message = f"{shown(item.source)} is not supported: expected FromClass or FromClaim"
            yield FieldError(f"{item_path}.source", message)
        yield from fragments.request_references(f"{item_path}.requests", item.requests, known)
        yield from fragments.opaque(item_path, item.opaque)

    yield from each(f"{path}.devices.results", allocation.devices.results, result, limit=MAX_RESULTS)
    yield from each(f"{path}.devices.config", allocation.devices.config, config, limit=2 * _CONFIG)
    if allocation.node_selector is not None:
        yield from fragments.node_selector(f"{path}.nodeSelector", allocation.node_selector)
