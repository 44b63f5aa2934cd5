"""What claims ask for, checked and in the form in which the allocator works with it.

Source of the checks: Allocate and validateDeviceRequest in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go. They hold for every node, so they are done once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from driver.allocator.errors import AllocationError
from driver.allocator.features import Channel, Features
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

__all__ = ["ClaimDemand", "Constraint", "Demand", "RequestDemand", "read_claim"]

_KINDS: Final = 256


@dataclass(frozen=True, slots=True)
class Demand:
    """One request, or one alternative of a request with ``firstAvailable``.

    Attributes:
        request: The request's name.
        alternative: The alternative's name; empty for a request without alternatives.
        device_class: The class that it names.
        class_selectors: CEL expressions of the class.
        selectors: CEL expressions of the request.
        count: How many devices; None for all that there are.
        admin: Access to devices whether or not they are in use.
        tolerations: Taints that it puts up with.
        capacity: What it wants of a device's capacities, by name.
        fractional_ranges: Whether ranges of capacities are counted in thousandths (DRAFractionalCapacityRange).
        name: The name in results: ``request`` or ``request/alternative``.
        wants: Equal for demands that the same devices serve, however many.
        kind: Equal for demands that the same devices serve equally well, whatever their names.
    """

    request: str
    alternative: str
    device_class: str
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    count: int | None
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: tuple[tuple[str, Quantity], ...]
    fractional_ranges: bool
    name: str = field(init=False, repr=False, compare=False)
    wants: Hashable = field(init=False, repr=False, compare=False)
    kind: Hashable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Computed here, once a claim: they are asked for on every node.
        capacity = tuple([(name, str(amount)) for name, amount in self.capacity])
        wants = (self.class_selectors, self.selectors, self.tolerations, capacity)
        name = f"{self.request}/{self.alternative}" if self.alternative else self.request
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "wants", wants)
        object.__setattr__(self, "kind", (wants, self.count, self.admin))


@dataclass(frozen=True, slots=True)
class RequestDemand:
    """A request: its alternatives, best first, of which one is to be served."""

    name: str
    alternatives: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the devices of some requests must have in common, or apart.

    Attributes:
        attribute: The attribute's full name, with its domain.
        distinct: All values differ; otherwise they are the same.
        requests: Names of requests and alternatives that it is for; empty for all.
    """

    attribute: str
    distinct: bool
    requests: frozenset[str]

    def applies_to(self, demand: Demand) -> bool:
        """Whether devices for ``demand`` are held to it. Naming a request means all of its alternatives."""
        return not self.requests or demand.request in self.requests or demand.name in self.requests


@dataclass(frozen=True, slots=True)
class ClaimDemand:
    """A claim. Equal demands can be served by the same devices.

    Attributes:
        requests: In the claim's order.
        constraints: In the claim's order.
    """

    requests: tuple[RequestDemand, ...]
    constraints: tuple[Constraint, ...]


def read_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass], features: Features) -> ClaimDemand:
    """Return what ``claim`` asks for.

    Args:
        claim: With the API's defaults.
        classes: All DeviceClasses by name.
        features: What is on.

    Raises:
        AllocationError: The claim cannot be served anywhere: it names a class that is not there, uses a feature that
            is off, or something that this version of the API does not know.
    """
    devices = claim.spec.devices
    try:
        return ClaimDemand(
            tuple([_request(request, classes, features) for request in devices.requests]),
            tuple([_constraint(index, constraint, features) for index, constraint in enumerate(devices.constraints)]),
        )
    except AllocationError as error:
        raise AllocationError(f"{claim_name(claim)}, {error.message}", hint=error.hint) from None


def claim_name(claim: ResourceClaim) -> str:
    """Return how messages name a claim: ``claim namespace/name``."""
    metadata = claim.metadata
    return f"claim {metadata.namespace}/{metadata.name}" if metadata.namespace else f"claim {metadata.name}"


def _request(request: DeviceRequest, classes: Mapping[str, DeviceClass], features: Features) -> RequestDemand:
    name = request.name
    if request.first_available:
        if not features.prioritized_list:
            raise AllocationError(f"request {name}: has subrequests, but the feature DRAPrioritizedList is off")
        alternatives: Sequence[DeviceSubRequest | ExactDeviceRequest] = request.first_available
    elif request.exactly is not None:
        alternatives = (request.exactly,)
    else:
        raise AllocationError(f"request {name}: has neither exactly nor firstAvailable (unsupported kind of request?)")
    demands = []
    for part in alternatives:
        alternative = part.name if isinstance(part, DeviceSubRequest) else ""
        try:
            demands.append(_demand(name, alternative, part, classes, features))
        except AllocationError as error:
            which = f"{name}/{alternative}" if alternative else name
            raise AllocationError(f"request {which}: {error.message}", hint=error.hint) from None
    return RequestDemand(name, tuple(demands))


def _demand(
    request: str,
    alternative: str,
    part: DeviceSubRequest | ExactDeviceRequest,
    classes: Mapping[str, DeviceClass],
    features: Features,
) -> Demand:
    """Return what a request or one alternative of it asks for; the caller puts its name before an error."""
    wanted = part.capacity
    if wanted is not None and not features.consumable_capacity:
        raise AllocationError("has capacity requests, but the feature DRAConsumableCapacity is off")
    selectors = _expressions(part.selectors)
    admin = part.admin_access if isinstance(part, ExactDeviceRequest) else None
    if admin is not None and not features.admin_access:
        raise AllocationError("admin access is asked for, but the feature DRAAdminAccess is off")
    class_name = part.device_class_name
    if not class_name:
        raise AllocationError("has no device class name (unsupported kind of request?)")
    device_class = classes.get(class_name)
    if device_class is None:
        known = ", ".join(sorted(classes)) or "none"
        raise AllocationError(f"there is no device class {class_name}", hint=f"classes there are: {known}")
    count: int | None = None
    if part.allocation_mode == "ExactCount":
        count = part.count
        if count < 0:
            raise AllocationError(f"count {count} is negative")
    elif part.allocation_mode != "All":
        raise AllocationError(f"unsupported allocation mode {part.allocation_mode!r}")
    class_selectors = _expressions(device_class.spec.selectors, owner=class_name)
    capacity = () if wanted is None else tuple(sorted(wanted.requests.items()))
    make = Demand if part.tolerations or capacity else _plain_demand
    return make(
        request,
        alternative,
        class_name,
        class_selectors,
        selectors,
        count,
        admin is True,
        part.tolerations,
        capacity,
        features.fractional_capacity_range,
    )


_plain_demand: Final = lru_cache(maxsize=_KINDS)(Demand)
"""Makes a demand, or finds an equal one: claims of a template, and most others, ask for the same few things.

Not for demands with sizes, of which equal ones may be written differently, and neither with tolerations, to bound it.
"""


def _expressions(selectors: Sequence[DeviceSelector], *, owner: str = "") -> tuple[str, ...]:
    expressions = []
    for index, selector in enumerate(selectors):
        if selector.cel is None:
            where = f"class {owner}, " if owner else ""
            raise AllocationError(f"{where}selector #{index} has no CEL expression (unsupported kind of selector?)")
        expressions.append(selector.cel.expression)
    return tuple(expressions)


def _constraint(index: int, constraint: DeviceConstraint, features: Features) -> Constraint:
    requests = frozenset(constraint.requests)
    if constraint.match_attribute is not None:
        return Constraint(constraint.match_attribute, distinct=False, requests=requests)
    if constraint.distinct_attribute is not None and features.channel is not Channel.STABLE:
        return Constraint(constraint.distinct_attribute, distinct=True, requests=requests)
    raise AllocationError(f"constraint #{index}: empty constraint (unsupported kind of constraint?)")
