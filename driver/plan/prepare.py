"""An allocated claim + the node's inventory → what the kubelet is told and what the container runtime reads.

This is the last line of defence behind the scheduler: what it cannot prepare as the allocation says, it refuses. It
reads nothing but its arguments, and nothing that a claim's author wrote becomes a path or a command.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import (
    ClaimReference,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    ObjectMeta,
    ResourceClaim,
)
from driver.api.validation import names
from driver.api.validation.errors import FieldError, shown
from driver.config import DeviceConfig, UnsupportedFieldError, config_for, read_entries
from driver.errors import InputError, NodeError, UnsupportedError
from driver.model.devices import Device
from driver.model.inventory import Inventory, InventorySource
from driver.plan.cdi import CdiDevice, CdiSpec, device_name, spec_file_name
from driver.plan.device_nodes import device_nodes, with_assumed_minors
from driver.plan.environment import device_environment, request_environment

__all__ = ["PreparePlan", "PreparedDevice", "prepare_plan"]

_ERRORS_SHOWN: Final = 20
_DOUBLE_USE: Final = "Kubernetes gives a device once unless it is shareable: delete the claim and create it anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One device of the answer to NodePrepareResources (k8s.io/kubelet v0.36.3, dra v1 ``Device``).

    Attributes:
        request_names: The requests it was given to: base names, since the kubelet knows no subrequests here.
        pool: Its pool: the node.
        device: Its name in the pool.
        cdi_device_ids: What the runtime injects into the containers that name one of the requests, or none.
    """

    request_names: tuple[str, ...]
    pool: str
    device: str
    cdi_device_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """What preparing a claim takes.

    Attributes:
        claim: Which claim.
        devices: In the allocation's order; empty where the claim has no device of this driver.
        spec: The CDI spec; None without devices.
        notes: What was assumed; one sentence each, for a person.
    """

    claim: ClaimReference
    devices: tuple[PreparedDevice, ...]
    spec: CdiSpec | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A device that the allocation gave to a request.

    Attributes:
        request: As the result writes it: ``request`` or ``request/subrequest``.
        subject: Names claim, request and device in errors.
    """

    request: str
    device: Device
    subject: str

    @property
    def base_request(self) -> str:
        return self.request.partition("/")[0]


def prepare_plan(claim: ResourceClaim, inventory: Inventory, *, assume_minors: bool = False) -> PreparePlan:
    """Decide how to prepare a claim on a node. The same arguments give the same plan.

    Args:
        claim: The claim, allocated.
        inventory: What the node has.
        assume_minors: Number device nodes by index where the inventory does not tell; for simulation only. The plan
            says so in its notes.

    Raises:
        InputError: The claim is not allocated, not to this node, gives a device twice, or has wrong parameters.
        UnsupportedError: The claim asks for something that comes with a later version.
        NodeError: A device is not there, or its device nodes are not known.
    """
    reference = _reference(claim)
    if claim.status.allocation is None:
        raise InputError(
            f"claim {reference} is not allocated", hint="prepare it after the scheduler has set status.allocation"
        )
    allocation = claim.status.allocation.devices
    ours = [result for result in allocation.results if result.driver == DRIVER_NAME]
    devices: dict[str, Device] = {device.name: device for device in inventory.devices()}
    given = [_given(result, devices, inventory.node, reference) for result in ours]
    _refuse_double_use(zip(ours, given, strict=True))
    configs = _configs(given, allocation.config, reference)
    notes: tuple[str, ...] = ()
    if assume_minors:
        completed = [replace(item, device=with_assumed_minors(item.device)) for item in given]
        notes = _assumption(given, completed, inventory.source)
        given = completed
    environments = _request_environments(claim.metadata, given, reference)
    cdi_devices = tuple(
        CdiDevice(
            name=device_name(reference.uid, item.base_request, item.device.name),
            device_nodes=device_nodes(item.device, config, item.subject),
            # The kubelet hands over all devices of a request or none, so one of them can carry the request's lists.
            env=device_environment(item.device) + environments.pop(item.base_request, ()),
        )
        for item, config in zip(given, configs, strict=True)
    )
    prepared = tuple(
        PreparedDevice(
            request_names=(item.base_request,),
            pool=inventory.node,
            device=item.device.name,
            cdi_device_ids=(cdi_device.id,),
        )
        for item, cdi_device in zip(given, cdi_devices, strict=True)
    )
    spec = CdiSpec(claim=reference, devices=cdi_devices) if cdi_devices else None
    return PreparePlan(claim=reference, devices=prepared, spec=spec, notes=notes)


def _reference(claim: ResourceClaim) -> ClaimReference:
    meta = claim.metadata
    spec_file_name(meta.uid)
    errors = [*names.subdomain("metadata.name", meta.name)]
    if meta.namespace:
        errors += names.label("metadata.namespace", meta.namespace)
    if errors:
        raise InputError(f"the claim with UID {meta.uid} cannot come from Kubernetes: {_joined(errors)}")
    return claim.reference


def _given(
    result: DeviceRequestAllocationResult, devices: Mapping[str, Device], node: str, claim: ClaimReference
) -> _Given:
    base, slash, sub = result.request.partition("/")
    if errors := [*names.label("request", base), *(names.label("subrequest", sub) if slash else ())]:
        raise InputError(f"claim {claim}: an allocation result cannot come from Kubernetes: {_joined(errors)}")
    subject = f"claim {claim}, request {result.request}, device {shown(result.device)}"
    if result.pool != node:
        raise InputError(
            f"{subject} of pool {shown(result.pool)} is not on node {node}",
            hint="each node is the pool of its own devices: prepare the claim on the node it was allocated to",
        )
    if result.share_id is not None or result.consumed_capacity:
        raise UnsupportedError(
            f"{subject}: a share of a device comes with GPU sharing; not in this version",
            hint="request the whole device",
        )
    device = devices.get(result.device)
    if device is None:
        raise NodeError(
            f"{subject} is not among the {len(devices)} devices of node {node}",
            hint="it may have left the node since it was allocated: check the node's hardware and driver, or delete "
            "the pod so that its claim is allocated anew",
        )
    return _Given(request=result.request, device=device, subject=f"claim {claim}, request {base}, device {device.name}")


def _refuse_double_use(given: Iterable[tuple[DeviceRequestAllocationResult, _Given]]) -> None:
    """A device is given once; beside that, another request may have it by admin access, which is no use (KEP-5018)."""
    used: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for result, item in given:
        if (item.base_request, result.device) in seen:
            raise InputError(f"{item.subject} is allocated twice to one request", hint=_DOUBLE_USE)
        seen.add((item.base_request, result.device))
        if (
            not result.admin_access
            and (other := used.setdefault(result.device, item.base_request)) != item.base_request
        ):
            raise InputError(f"{item.subject} is allocated to request {other} as well", hint=_DOUBLE_USE)


def _configs(
    given: Sequence[_Given], configuration: Sequence[DeviceAllocationConfiguration], claim: ClaimReference
) -> list[DeviceConfig]:
    """The config of each device; every mistake in the claim's configuration is told at once."""
    entries, errors = read_entries(configuration, "status.allocation.devices.config")
    found = [config_for(entries, item.request, item.device) for item in given]
    # Once for a request, not for each of its devices.
    misfits = {
        (item.path, at.request): item for item, at in zip(found, given, strict=True) if isinstance(item, FieldError)
    }
    all_errors = [*errors, *misfits.values()]
    if all_errors:
        later = all(isinstance(error, UnsupportedFieldError) for error in all_errors)
        kind = UnsupportedError if later else InputError
        raise kind(
            f"claim {claim}: {_joined(all_errors)}", hint="correct the parameters in the claim or its DeviceClass"
        )
    return [item for item in found if not isinstance(item, FieldError)]


def _assumption(given: Sequence[_Given], completed: Sequence[_Given], source: InventorySource) -> tuple[str, ...]:
    pairs = zip(given, completed, strict=True)
    assumed = dict.fromkeys(after.device.name for before, after in pairs if after.device is not before.device)
    if not assumed:
        return ()
    return (f"device nodes of {', '.join(assumed)} are numbered by index: the inventory ({source}) names none",)


def _request_environments(
    metadata: ObjectMeta, given: Iterable[_Given], claim: ClaimReference
) -> dict[str, tuple[str, ...]]:
    devices = defaultdict[str, list[Device]](list)
    for item in given:
        devices[item.base_request].append(item.device)
    return {
        request: request_environment(metadata, request, of_request, f"claim {claim}, request {request}")
        for request, of_request in devices.items()
    }


def _joined(errors: Sequence[FieldError]) -> str:
    more = len(errors) - _ERRORS_SHOWN
    return "; ".join(map(str, errors[:_ERRORS_SHOWN])) + (f"; and {more} more" if more > 0 else "")
