"""Writes the claim for a :class:`PairsRequest`.

Each group is a request for NICs and one for GPUs. With one scope, a matchAttribute constraint holds the two together.
The ladder makes both requests prioritized lists (KEP-4816), with a rung for each scope, and a last one for devices
that have nothing in common. Why it is written as it is, from how kube-scheduler searches
(k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating):

- The alternatives of the first request are the outer loop: all GPUs and all NICs are tried on a rung before the next
  rung is. The GPUs' request stands first because GPUs are what is mostly short: the last group then ends the search
  before any NIC is tried for it.
- A constraint refuses every device that lacks its attribute, also where the device is the only one under it. So both
  requests have every rung, and a rung's constraint names that rung alone: a device without a PCIe switch fails on the
  switch rung and is free on the others.
- A GPU and a NIC on different rungs are kept apart by a constraint on ``type``, which the two never have in common: the
  API has no constraint that says "not these two". It takes four of them to separate four rungs.
- The root rung's devices have one NUMA node as well, where both have any. On real machines a root has a single one;
  clouds hang the devices of two sockets on one virtual root. ``root-no-numa`` is that rung for devices of which no
  NUMA node is known.
- On the last rung, devices whose NUMA nodes are known must differ in them (distinctAttribute): the others were tried
  before. It refuses nothing, and halves the search that finds no room. Of groups of three devices and more it would
  refuse some, so these do not have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    CapacityRequirements,
    CelSelector,
    DeviceClaim,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from driver.layout import attributes
from driver.model.alignment import NO_NUMA
from driver.pairs.request import PairsRequest, Scope

__all__ = ["SCOPE_ATTRIBUTES", "claim_spec"]

_OWN: Final = f'device.attributes["{DRIVER_NAME}"]'
SCOPE_ATTRIBUTES: Final = {
    Scope.SWITCH: f"{DRIVER_NAME}/{attributes.PCIE_SWITCH}",
    Scope.ROOT: attributes.STANDARD_PCIE_ROOT,
    Scope.NUMA: f"{DRIVER_NAME}/{attributes.NUMA_NODE}",
}
"""What the devices of a group have in common, by the scope."""
_NUMA: Final = f'"{attributes.NUMA_NODE}" in {_OWN}'
_NO_NUMA: Final = f"!({_NUMA})"


@dataclass(frozen=True, slots=True)
class _Part:
    """An alternative of both requests of a group.

    Attributes:
        rung: What it belongs to: its parts may be combined, parts of different rungs may not.
        name: Of the alternative.
        selector: Which devices can be on it; empty for all.
    """

    rung: Scope
    name: str
    selector: str = ""

    @property
    def knows_numa(self) -> bool:
        """Whether all its devices have a NUMA node."""
        return self.selector == _NUMA


def _both(rung: Scope) -> tuple[_Part, ...]:
    return (_Part(rung, rung.value, _NUMA), _Part(rung, f"{rung.value}{NO_NUMA}", _NO_NUMA))


def claim_spec(pairs: PairsRequest) -> ResourceClaimSpec:
    """Return the spec of a ResourceClaim, valid for the API server (resource.k8s.io/v1) without more."""
    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    for number in range(pairs.groups):
        group = (_gpus(pairs, number), _nics(pairs, number))
        requests.extend(group if pairs.scope is Scope.LADDER else reversed(group))
        constraints.extend(_constraints(pairs, number))
    if pairs.differ:
        gpus = tuple(f"gpu-{number}" for number in range(pairs.groups))
        constraints.append(DeviceConstraint(requests=gpus, distinct_attribute=f"{DRIVER_NAME}/{attributes.INDEX}"))
    if pairs.one_fabric:
        nics = tuple(f"nic-{number}" for number in range(pairs.groups))
        constraints.append(_same(f"{DRIVER_NAME}/{attributes.LINK_TYPE}", *nics))
    return ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests), constraints=tuple(constraints)))


def _nics(pairs: PairsRequest, number: int) -> DeviceRequest:
    device_class = f"rdma-vf.{DRIVER_NAME}" if pairs.virtual_functions else f"rdma.{DRIVER_NAME}"
    rails = pairs.rails[number * pairs.nics_each : (number + 1) * pairs.nics_each]
    selectors = (_selector(_on_rails(rails)),) if rails else ()
    capacity = _capacity(pairs.nic_capacity())
    name = f"nic-{number}"
    if pairs.scope is not Scope.LADDER:
        return _exactly(name, device_class, selectors, pairs.nics_each, capacity)
    return _list(name, pairs, device_class, selectors, pairs.nics_each, capacity)


def _gpus(pairs: PairsRequest, number: int) -> DeviceRequest:
    device_class = f"gpu.{DRIVER_NAME}"
    capacity = _capacity(pairs.gpu_capacity())
    name = f"gpu-{number}"
    if pairs.scope is not Scope.LADDER:
        return _exactly(name, device_class, (), pairs.gpus_each, capacity)
    return _list(name, pairs, device_class, (), pairs.gpus_each, capacity)


def _constraints(pairs: PairsRequest, number: int) -> Iterator[DeviceConstraint]:
    nic, gpu = f"nic-{number}", f"gpu-{number}"
    if pairs.scope is not Scope.LADDER:
        yield _same(SCOPE_ATTRIBUTES[pairs.scope], gpu, nic)
        return
    parts = _parts(pairs)
    for rung in pairs.rungs:
        own = (f"{gpu}/{part.name}" for part in parts if part.rung is rung)
        yield _never(*own, *(f"{nic}/{part.name}" for part in parts if part.rung is not rung))
    near = {
        Scope.SWITCH: [part for part in parts if part.rung is Scope.SWITCH],
        Scope.ROOT: [part for part in parts if part.rung is Scope.ROOT],
        Scope.NUMA: [part for part in parts if part.knows_numa and part.rung in (Scope.ROOT, Scope.NUMA)],
    }
    for scope, held in near.items():
        if held:
            yield _same(SCOPE_ATTRIBUTES[scope], *(f"{device}/{part.name}" for device in (gpu, nic) for part in held))
    apart = [part for part in parts if part.knows_numa and part.rung is Scope.NODE]
    if apart:
        names = tuple(f"{device}/{part.name}" for device in (gpu, nic) for part in apart)
        yield DeviceConstraint(requests=names, distinct_attribute=SCOPE_ATTRIBUTES[Scope.NUMA])


def _parts(pairs: PairsRequest) -> tuple[_Part, ...]:
    """Return the alternatives of a ladder, nearest first."""
    found: list[_Part] = []
    for rung in pairs.rungs:
        if rung is Scope.ROOT or (rung is Scope.NODE and pairs.is_one_to_one):
            found += _both(rung)
        else:
            # Every device with the attribute can be on it: its constraint refuses the others.
            found.append(_Part(rung, rung.value, _NUMA if rung is Scope.NUMA else ""))
    return tuple(found)


def _never(*requests: str) -> DeviceConstraint:
    """Return a constraint that no device meets, for these GPUs with this NIC: they would have to be of one type."""
    return _same(f"{DRIVER_NAME}/{attributes.TYPE}", *requests)


def _same(attribute: str, *requests: str) -> DeviceConstraint:
    return DeviceConstraint(requests=requests, match_attribute=attribute)


def _on_rails(rails: tuple[int, ...]) -> str:
    rail = f"{_OWN}.{attributes.RAIL}"
    wanted = f"{rail} == {rails[0]}" if len(rails) == 1 else f"{rail} in [{', '.join(map(str, rails))}]"
    return f'"{attributes.RAIL}" in {_OWN} && {wanted}'


def _selector(expression: str) -> DeviceSelector:
    return DeviceSelector(cel=CelSelector(expression=expression))


def _capacity(wanted: dict[str, Quantity]) -> CapacityRequirements | None:
    return CapacityRequirements(requests=wanted) if wanted else None


def _exactly(
    name: str,
    device_class: str,
    selectors: tuple[DeviceSelector, ...],
    count: int,
    capacity: CapacityRequirements | None,
) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=device_class,
        selectors=selectors,
        allocation_mode="ExactCount" if count > 1 else "",
        count=count if count > 1 else 0,
        capacity=capacity,
    )
    return DeviceRequest(name=name, exactly=exactly)


def _list(
    name: str,
    pairs: PairsRequest,
    device_class: str,
    selectors: tuple[DeviceSelector, ...],
    count: int,
    capacity: CapacityRequirements | None,
) -> DeviceRequest:
    """Return a request with an alternative for each part of the ladder."""
    alternatives = tuple(
        DeviceSubRequest(
            name=part.name,
            device_class_name=device_class,
            selectors=(*((_selector(part.selector),) if part.selector else ()), *selectors),
            allocation_mode="ExactCount" if count > 1 else "",
            count=count if count > 1 else 0,
            capacity=capacity,
        )
        for part in _parts(pairs)
    )
    return DeviceRequest(name=name, first_available=alternatives)
