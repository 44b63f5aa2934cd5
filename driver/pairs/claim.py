"""Writes the claim for a :class:`PairsRequest`.

Each group is a request for NICs and one for GPUs. With one scope, a matchAttribute constraint holds the two together.
The ladder is a prioritized list (KEP-4816) of the NIC's request, a rung for each scope. Why it is written as it is,
from how kube-scheduler searches (k8s.io/dynamic-resource-allocation v0.36.3, structured/internal/incubating):

- The NICs' request stands before the GPUs': the search goes through all GPUs for every NIC of a rung before it takes
  the next rung. The other way round, a GPU without a NIC beside it would take a worse rung while another GPU has one.
- A constraint refuses every device that lacks its attribute, also where the device is the only one under it. A GPU
  without a PCIe switch would fail the switch rung's constraint whichever rung its NIC is on. So the GPU's request is a
  list as well: ``switch``, the GPUs that have a switch, under that constraint, and ``other``, the rest.
- The others must not be taken with a NIC of the switch rung. The API has no constraint that says "not these two"; to
  demand one ``type`` of a NIC and a GPU says just that. (The selectors are there so that no pair is tried twice.)
- A constraint also holds several GPUs together, whichever rung their NIC is on. So a group of several GPUs has the
  rungs of its NIC, each with a constraint of its own, and those that must not be mixed are kept apart as above.
- The root rung's devices have one NUMA node as well. On real machines a root has a single one; clouds hang the devices
  of two sockets on one virtual root, and there the nearer NIC is the one of the GPU's own socket.

Four constraints a group, or five with several GPUs. Every GPU has its PCIe root; one without a NUMA node fits no
rung. A ladder that ends with any devices has a fourth rung without a constraint. The GPUs then have all rungs too, for
a constraint on a rung must not reach those that are on another one: seven constraints a group.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from driver.pairs.request import PairsRequest, Scope

__all__ = ["SCOPE_ATTRIBUTES", "claim_spec"]

_OWN: Final = f'device.attributes["{DRIVER_NAME}"]'
SCOPE_ATTRIBUTES: Final = {
    Scope.SWITCH: f"{DRIVER_NAME}/{attributes.PCIE_SWITCH}",
    Scope.ROOT: attributes.STANDARD_PCIE_ROOT,
    Scope.NUMA: f"{DRIVER_NAME}/{attributes.NUMA_NODE}",
}
"""What the devices of a group have in common, by the scope."""
_SWITCH: Final = Scope.SWITCH.value
_OTHER: Final = "other"
_ANY: Final = "any"
_HAS_SWITCH: Final = f'"{attributes.PCIE_SWITCH}" in {_OWN}'


def claim_spec(pairs: PairsRequest) -> ResourceClaimSpec:
    """Return the spec of a ResourceClaim, valid for the API server (resource.k8s.io/v1) without more."""
    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    for number in range(pairs.groups):
        requests.extend((_nics(pairs, number), _gpus(pairs, number)))
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
    rungs = (_sub_request(rung, device_class, selectors, pairs.nics_each, capacity) for rung in _rungs(pairs))
    return DeviceRequest(name=name, first_available=tuple(rungs))


def _gpus(pairs: PairsRequest, number: int) -> DeviceRequest:
    device_class = f"gpu.{DRIVER_NAME}"
    capacity = _capacity(pairs.gpu_capacity())
    name = f"gpu-{number}"
    if pairs.scope is not Scope.LADDER:
        return _exactly(name, device_class, (), pairs.gpus_each, capacity)
    selectors: dict[str, tuple[DeviceSelector, ...]] = (
        {_SWITCH: (_selector(_HAS_SWITCH),), _OTHER: (_selector(f"!({_HAS_SWITCH})"),)}
        if pairs.gpus_each == 1 and not pairs.or_any
        else dict.fromkeys(_rungs(pairs), ())
    )
    parts = tuple(
        _sub_request(part, device_class, selector, pairs.gpus_each, capacity) for part, selector in selectors.items()
    )
    return DeviceRequest(name=name, first_available=parts)


def _constraints(pairs: PairsRequest, number: int) -> Iterator[DeviceConstraint]:
    nic, gpu = f"nic-{number}", f"gpu-{number}"
    if pairs.scope is not Scope.LADDER:
        yield _same(SCOPE_ATTRIBUTES[pairs.scope], gpu, nic)
        return
    if pairs.or_any:
        yield from _or_any(nic, gpu)
        return
    switch, root, numa = (f"{nic}/{rung}" for rung in SCOPE_ATTRIBUTES)
    yield _same(SCOPE_ATTRIBUTES[Scope.SWITCH], f"{gpu}/{_SWITCH}", switch)
    if pairs.gpus_each == 1:
        yield _never(f"{gpu}/{_OTHER}", switch)
        yield _same(SCOPE_ATTRIBUTES[Scope.ROOT], gpu, root)
    else:
        yield _never(f"{gpu}/{Scope.ROOT}", f"{gpu}/{Scope.NUMA}", switch)
        yield _same(SCOPE_ATTRIBUTES[Scope.ROOT], f"{gpu}/{Scope.ROOT}", root)
        yield _never(f"{gpu}/{_SWITCH}", f"{gpu}/{Scope.NUMA}", root)
    yield _same(SCOPE_ATTRIBUTES[Scope.NUMA], gpu, root, numa)


def _or_any(nic: str, gpu: str) -> Iterator[DeviceConstraint]:
    rungs = (*(rung.value for rung in SCOPE_ATTRIBUTES), _ANY)
    for rung in rungs:
        yield _never(*(f"{gpu}/{other}" for other in rungs if other != rung), f"{nic}/{rung}")
    for scope, attribute in SCOPE_ATTRIBUTES.items():
        near = (scope,) if scope is not Scope.NUMA else (Scope.ROOT, Scope.NUMA)
        yield _same(attribute, *(f"{request}/{rung}" for request in (gpu, nic) for rung in near))


def _rungs(pairs: PairsRequest) -> tuple[str, ...]:
    return (*(rung.value for rung in SCOPE_ATTRIBUTES), *((_ANY,) if pairs.or_any else ()))


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


def _sub_request(
    name: str,
    device_class: str,
    selectors: tuple[DeviceSelector, ...],
    count: int,
    capacity: CapacityRequirements | None,
) -> DeviceSubRequest:
    return DeviceSubRequest(
        name=name,
        device_class_name=device_class,
        selectors=selectors,
        allocation_mode="ExactCount" if count > 1 else "",
        count=count if count > 1 else 0,
        capacity=capacity,
    )
