"""From taken devices to AllocationResults.

Source: the end of Allocate, and createNodeSelector, in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from driver.allocator.demands import Demand
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.node_selection import only_on
from driver.allocator.state import Taken
from driver.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceClaim,
)

__all__ = ["allocation_result"]


def allocation_result(
    claim: ResourceClaim,
    chosen: Sequence[Demand],
    taken: Sequence[Taken],
    *,
    node: str,
    classes: Mapping[str, DeviceClass],
    features: Features,
    new_share_id: Callable[[], str],
) -> AllocationResult:
    """Return what the scheduler would write into the claim's status.

    Args:
        claim: The claim.
        chosen: The alternative that serves each of its requests.
        taken: The claim's devices, in the order in which they were taken.
        node: The node's name.
        classes: All DeviceClasses by name.
        features: What is on.
        new_share_id: Makes a UID for each share of a device.

    Raises:
        AllocationError: A slice's node selector has several terms, which the API does not allow.
    """
    # All values are read from valid objects, and of_valid spares most of the time that an allocation takes.
    devices = DeviceAllocationResult.of_valid(
        {
            "results": tuple([_device_result(item, features, new_share_id) for item in taken]),
            "config": tuple(_configuration(claim, chosen, classes)),
        }
    )
    return AllocationResult.of_valid(
        {"devices": devices, "node_selector": _node_selector(taken, node), "allocation_timestamp": None}
    )


def _device_result(taken: Taken, features: Features, new_share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    device = taken.candidate.device
    binding = features.device_binding_and_status
    driver, pool, name = device.id
    return DeviceRequestAllocationResult.of_valid(
        {
            "request": taken.demand.name,
            "driver": driver,
            "pool": pool,
            "device": name,
            "admin_access": True if taken.demand.admin else None,
            "tolerations": taken.demand.tolerations,
            "binding_conditions": device.device.binding_conditions if binding else (),
            "binding_failure_conditions": device.device.binding_failure_conditions if binding else (),
            "share_id": new_share_id() if device.shareable else None,
            "consumed_capacity": dict(taken.candidate.consumed),
        }
    )


def _configuration(
    claim: ResourceClaim, chosen: Sequence[Demand], classes: Mapping[str, DeviceClass]
) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the classes' entries first, once for each class, with the requests it serves; then the claim's.

    What is for all requests names none, as upstream since 1.37; before, the entries of a class named them all.
    """
    requests_of: dict[str, list[str]] = {}
    for demand in chosen:
        requests_of.setdefault(demand.device_class, []).append(demand.name)
    for device_class, names in requests_of.items():
        requests = () if len(names) == len(chosen) else tuple(names)
        for of_class in classes[device_class].spec.config:
            yield DeviceAllocationConfiguration(source="FromClass", requests=requests, opaque=of_class.opaque)
    for of_claim in claim.spec.devices.config:
        served = sum(demand.request in of_claim.requests or demand.name in of_claim.requests for demand in chosen)
        if served or not of_claim.requests:
            requests = () if served == len(chosen) else of_claim.requests
            yield DeviceAllocationConfiguration(source="FromClaim", requests=requests, opaque=of_claim.opaque)


def _node_selector(taken: Sequence[Taken], node: str) -> NodeSelector | None:
    """Return the nodes from which all devices can be used: one, or what their slices select together; None for all."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for item in taken:
        device, spec = item.candidate.device.device, item.candidate.device.slice
        where = device if spec.per_device_node_selection else spec
        if where.node_name is not None or device.binds_to_node:
            return only_on(node)
        terms = where.node_selector.node_selector_terms if where.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(
                f"device {item.candidate.device.id}: its node selector has {len(terms)} terms, only one is allowed"
            )
        for term in terms:
            _merge(fields, term.match_fields)
            _merge(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    merged = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(merged,))


def _merge(into: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(_same(requirement, known) for known in into):
            into.append(requirement)


def _same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))
