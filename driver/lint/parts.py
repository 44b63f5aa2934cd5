"""Takes a claim apart: requests and alternatives, each with its field path and what is known of its class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from driver.api.resource_v1 import DeviceClass, DeviceConstraint, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from driver.lint.kinds import kinds_by_name, kinds_of
from driver.model.devices import DeviceType

__all__ = ["Part", "applies", "constraint_attribute", "parts_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A request, or one alternative of a request with ``firstAvailable``.

    Attributes:
        path: Its field.
        request: The request's name.
        name: ``request`` or ``request/alternative``.
        spec: What is asked for.
        kinds: Which kinds of Rootport's devices its class selects; none where there is no such class, or it is of
            another driver. Where no classes are known, the class's name decides.
    """

    path: str
    request: str
    name: str
    spec: ExactDeviceRequest | DeviceSubRequest
    kinds: frozenset[DeviceType]

    @property
    def count(self) -> int | None:
        """The number of devices; None for all that there are."""
        if self.spec.allocation_mode == "All":
            return None
        return self.spec.count or 1  # the API's default, where it has not been filled in


def parts_of(claim: ResourceClaim, classes: Mapping[str, DeviceClass] | None) -> Iterator[Part]:
    """Return the claim's requests and alternatives, in order.

    Raises:
        SpentError: The budget in force is spent.
    """
    known: dict[str, frozenset[DeviceType]] = {}

    def part(path: str, request: str, name: str, spec: ExactDeviceRequest | DeviceSubRequest) -> Part:
        of_class = spec.device_class_name
        if of_class not in known:
            known[of_class] = _kinds(of_class, classes)
        return Part(path=path, request=request, name=name, spec=spec, kinds=known[of_class])

    for index, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{index}]"
        if request.exactly is not None:
            yield part(f"{path}.exactly", request.name, request.name, request.exactly)
        for place, spec in enumerate(request.first_available):
            name = f"{request.name}/{spec.name}"
            yield part(f"{path}.firstAvailable[{place}]", request.name, name, spec)


def applies(constraint: DeviceConstraint, part: Part) -> bool:
    """Whether a constraint is about the devices of a request or alternative."""
    return not constraint.requests or part.request in constraint.requests or part.name in constraint.requests


def constraint_attribute(constraint: DeviceConstraint) -> str:
    """Return the full name of a constraint's attribute; empty for an unknown kind of constraint."""
    return constraint.match_attribute or constraint.distinct_attribute or ""


def _kinds(name: str, classes: Mapping[str, DeviceClass] | None) -> frozenset[DeviceType]:
    if classes is None:
        return kinds_by_name(name)
    device_class = classes.get(name)
    return frozenset() if device_class is None else kinds_of(device_class)
