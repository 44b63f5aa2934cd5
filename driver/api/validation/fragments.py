"""The parts that claims, allocations and slices have in common.

Sources: k8s.io/kubernetes v1.36.3, pkg/apis/resource/validation/validation.go; for node selectors
pkg/apis/core/validation/validation.go (ValidateNodeSelector); the limits in k8s.io/api v0.36.3, resource/v1/types.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from driver.api.resource_v1 import (
    MAX_REQUESTS,
    DeviceClaim,
    DeviceToleration,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueDeviceConfiguration,
)
from driver.api.validation import names
from driver.api.validation.errors import FieldError, each, shown

__all__ = [
    "RequestNames",
    "binding_conditions",
    "node_selector",
    "opaque",
    "request_names",
    "request_reference",
    "request_references",
    "toleration",
]

_PARAMETERS_LENGTH: Final = 10 * 1024
_CONDITIONS: Final = 4
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")

RequestNames: TypeAlias = Mapping[str, frozenset[str]]
"""A claim's requests, each with the names of its alternatives (empty for ``exactly``)."""


def request_names(claim: DeviceClaim) -> RequestNames:
    """Return the names that constraints, configuration and results may refer to."""
    return {request.name: frozenset(sub.name for sub in request.first_available) for request in claim.requests}


def request_reference(path: str, reference: str, known: RequestNames) -> Iterator[FieldError]:
    """Check a reference to a request, or to one of its alternatives as ``request/alternative``."""
    request, slash, alternative = reference.partition("/")
    if request not in known or (slash and alternative not in known[request]):
        yield FieldError(path, f"{shown(reference)} is neither a request of this claim nor request/alternative")


def request_references(path: str, references: Sequence[str], known: RequestNames) -> Iterator[FieldError]:
    """Check a list of such references, each only once."""

    def check(item_path: str, reference: str) -> Iterator[FieldError]:
        return request_reference(item_path, reference, known)

    yield from each(path, references, check, limit=MAX_REQUESTS, key=str)


def opaque(path: str, config: OpaqueDeviceConfiguration | None) -> Iterator[FieldError]:
    """Check a driver's parameters: for whom, and a JSON object of at most 10 KiB."""
    if config is None:
        yield FieldError(f"{path}.opaque", "is required")
        return
    yield from names.driver_name(f"{path}.opaque.driver", config.driver)
    yield from _parameters(f"{path}.opaque.parameters", config.parameters)


def _parameters(path: str, parameters: object) -> Iterator[FieldError]:
    if parameters is None:
        yield FieldError(path, "is required")
        return
    if not isinstance(parameters, dict):
        yield FieldError(path, "must be a JSON object")
        return
    try:
        text = json.dumps(parameters, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        yield FieldError(path, f"is not JSON: {error}")
    except RecursionError:
        yield FieldError(path, "is nested too deeply")
    else:
        length = names.byte_length(text)
        if length > _PARAMETERS_LENGTH:
            yield FieldError(path, f"has {length} bytes as JSON, at most {_PARAMETERS_LENGTH} are allowed")


def toleration(path: str, value: DeviceToleration) -> Iterator[FieldError]:
    """Check a toleration, after defaulting."""
    if value.key:
        yield from names.label_key(f"{path}.key", value.key)
    if value.operator == "Exists":
        if value.value:
            yield FieldError(f"{path}.value", "must be empty with operator Exists")
    elif value.operator == "Equal":
        yield from names.label_value(f"{path}.value", value.value)
    else:
        yield FieldError(f"{path}.operator", f"{shown(value.operator)} is not supported: expected Equal or Exists")
    if value.effect:
        yield from _effect(path, value.effect)


def _effect(path: str, effect: str) -> Iterator[FieldError]:
    if effect not in _EFFECTS:
        yield FieldError(f"{path}.effect", f"{shown(effect)} is not supported: expected {', '.join(_EFFECTS)}")


def binding_conditions(path: str, binding: Sequence[str], failure: Sequence[str]) -> Iterator[FieldError]:
    """Check a device's binding conditions and binding failure conditions: both or neither, and no name twice."""
    for field, conditions in (("bindingConditions", binding), ("bindingFailureConditions", failure)):
        yield from each(f"{path}.{field}", conditions, names.label_key, limit=_CONDITIONS, key=str)
    for index, condition in enumerate(failure[:_CONDITIONS]):
        if condition in binding:
            message = f"{shown(condition)} is a binding condition as well"
            yield FieldError(f"{path}.bindingFailureConditions[{index}]", message)
    if failure and not binding:
        yield FieldError(f"{path}.bindingConditions", "is required where bindingFailureConditions is set")
    if binding and not failure:
        yield FieldError(f"{path}.bindingFailureConditions", "is required where bindingConditions is set")


def node_selector(path: str, selector: NodeSelector) -> Iterator[FieldError]:
    """Check a node selector (core/v1)."""
    if not selector.node_selector_terms:
        yield FieldError(f"{path}.nodeSelectorTerms", "must have at least one term")
    yield from each(f"{path}.nodeSelectorTerms", selector.node_selector_terms, _term)


def _term(path: str, term: NodeSelectorTerm) -> Iterator[FieldError]:
    yield from each(f"{path}.matchExpressions", term.match_expressions, _expression)
    yield from each(f"{path}.matchFields", term.match_fields, _field)


def _expression(path: str, requirement: NodeSelectorRequirement) -> Iterator[FieldError]:
    operator, values = requirement.operator, requirement.values
    if operator in {"In", "NotIn"}:
        if not values:
            yield FieldError(f"{path}.values", f"is required with operator {operator}")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            yield FieldError(f"{path}.values", f"must be empty with operator {operator}")
    elif operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield FieldError(f"{path}.values", f"must have exactly one value with operator {operator}")
    else:
        expected = "expected In, NotIn, Exists, DoesNotExist, Gt or Lt"
        yield FieldError(f"{path}.operator", f"{shown(operator)} is not supported: {expected}")
    yield from names.label_key(f"{path}.key", requirement.key)
    yield from each(f"{path}.values", values, names.label_value)


def _field(path: str, requirement: NodeSelectorRequirement) -> Iterator[FieldError]:
    if requirement.operator not in {"In", "NotIn"}:
        yield FieldError(f"{path}.operator", f"{shown(requirement.operator)} is not supported: expected In or NotIn")
    elif len(requirement.values) != 1:
        yield FieldError(f"{path}.values", "must have exactly one value")
    if requirement.key == "metadata.name":
        yield from each(f"{path}.values", requirement.values, names.subdomain)
    else:
        yield FieldError(f"{path}.key", f"{shown(requirement.key)} is not supported: expected metadata.name")
