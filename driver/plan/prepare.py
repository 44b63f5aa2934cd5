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
from driver.model.devices import Device, Gpu
from driver.model.inventory import Inventory, InventorySource
from driver.plan.cdi import CdiDevice, CdiMount, CdiSpec, device_name, spec_file_name
from driver.plan.device_nodes import device_nodes, with_assumed_minors
from driver.plan.driver_files import DriverFiles, driver_cdi_device
from driver.plan.environment import device_environment, request_environment
from driver.plan.host_paths import host_folder
from driver.plan.metadata import MetadataFile, metadata_file, metadata_mount, published_attributes

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
        cdi_device_ids: What the runtime injects into the containers that name one of the requests, or none. The
            device's own id is the first: the kubelet names the device by it in the pod's status.
        share_id: Which share of the device, where it is given more than once.
        admin_access: Whether the device is only watched over: that is no use of it, and nobody is kept from it.
    """

    request_names: tuple[str, ...]
    pool: str
    device: str
    cdi_device_ids: tuple[str, ...]
    share_id: str | None = None
    admin_access: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """What preparing a claim takes.

    Attributes:
        claim: Which claim.
        devices: In the allocation's order; empty where the claim has no device of this driver.
        spec: The CDI spec; None without devices.
        notes: What was assumed; one sentence each, for a person.
        metadata_files: The files that the spec's mounts name, one a request; to be there before the spec is.
    """

    claim: ClaimReference
    devices: tuple[PreparedDevice, ...]
    spec: CdiSpec | None
    notes: tuple[str, ...] = ()
    metadata_files: tuple[MetadataFile, ...] = ()

    @property
    def device_paths(self) -> tuple[str, ...]:
        """The device nodes that must be on the host, each once: without one of them the container does not start."""
        devices = self.spec.devices if self.spec else ()
        return tuple(dict.fromkeys(path for device in devices for path in device.host_device_nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A device that the allocation gave to a request.

    Attributes:
        request: As the result writes it: ``request`` or ``request/subrequest``.
        admin_access: As the result says.
        subject: Names claim, request and device in errors.
    """

    request: str
    device: Device
    admin_access: bool
    subject: str

    @property
    def base_request(self) -> str:
        return self.request.partition("/")[0]

    @property
    def is_nvidia_gpu(self) -> bool:
        return isinstance(self.device, Gpu) and self.device.vendor == "nvidia"


def prepare_plan(
    claim: ResourceClaim,
    inventory: Inventory,
    *,
    assume_minors: bool = False,
    driver_files: DriverFiles | None = None,
    device_root: str = "",
    metadata_root: str | None = None,
) -> PreparePlan:
    """Decide how to prepare a claim on a node. The same arguments give the same plan.

    Args:
        claim: The claim, allocated.
        inventory: What the node has.
        assume_minors: Number device nodes by index where the inventory does not tell; for simulation only. The plan
            says so in its notes.
        driver_files: NVIDIA's driver files on the node; None gives containers the device nodes alone.
        device_root: An administrator's folder that stands before ``/dev`` on the host, where the device nodes are not
            in the host's own.
        metadata_root: The host's folder for device metadata files; None gives containers none.

    Raises:
        InputError: The claim is not allocated, not to this node, gives a device twice, or has wrong parameters; or one
            of the folders is no absolute path.
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
    root = host_folder(device_root, "device_root")
    # The kubelet hands over all devices of a request or none, so one of them can carry what belongs to the request:
    # each of these is taken by the first device that it fits.
    environments = _request_environments(claim.metadata, given, reference)
    metadata_files, metadata_mounts = _metadata(claim.metadata, given, inventory, metadata_root)
    cdi_devices = tuple(
        CdiDevice(
            name=device_name(reference.uid, item.base_request, item.device.name),
            device_nodes=device_nodes(item.device, config, item.subject),
            device_root=(driver_files.device_root if driver_files and item.is_nvidia_gpu else "") or root,
            env=device_environment(item.device) + environments.pop(item.base_request, ()),
            mounts=metadata_mounts.pop(item.base_request, ()),
        )
        for item, config in zip(given, configs, strict=True)
    )
    driver_devices: tuple[CdiDevice, ...] = ()
    if driver_files is not None and any(item.is_nvidia_gpu for item in given):
        driver_devices = (driver_cdi_device(reference.uid, driver_files),)
    driver_ids = {item.base_request: tuple(device.id for device in driver_devices) for item in given}
    prepared = tuple(
        PreparedDevice(
            request_names=(item.base_request,),
            pool=inventory.node,
            device=item.device.name,
            cdi_device_ids=(cdi_device.id, *(driver_ids.pop(item.base_request, ()) if item.is_nvidia_gpu else ())),
            admin_access=item.admin_access,
        )
        for item, cdi_device in zip(given, cdi_devices, strict=True)
    )
    spec = CdiSpec(claim=reference, devices=cdi_devices + driver_devices) if cdi_devices else None
    return PreparePlan(claim=reference, devices=prepared, spec=spec, notes=notes, metadata_files=metadata_files)


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
    return _Given(
        request=result.request,
        device=device,
        admin_access=result.admin_access is True,
        subject=f"claim {claim}, request {base}, device {device.name}",
    )


def _refuse_double_use(given: Iterable[tuple[DeviceRequestAllocationResult, _Given]]) -> None:
    """A device is given once; beside that, another request may have it by admin access, which is no use (KEP-5018)."""
    used: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    for result, item in given:
        if (item.base_request, result.device) in seen:
            raise InputError(f"{item.subject} is allocated twice to one request", hint=_DOUBLE_USE)
        seen.add((item.base_request, result.device))
        if not item.admin_access and (other := used.setdefault(result.device, item.base_request)) != item.base_request:
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


def _metadata(
    metadata: ObjectMeta, given: Sequence[_Given], inventory: Inventory, metadata_root: str | None
) -> tuple[tuple[MetadataFile, ...], dict[str, tuple[CdiMount, ...]]]:
    """The metadata file of each request, and its mount by the request's name; nothing without a root."""
    if metadata_root is None:
        return (), {}
    root = host_folder(metadata_root, "metadata_root")
    attributes = published_attributes(inventory) if given else {}
    by_request = defaultdict[str, list[_Given]](list)
    for item in given:
        by_request[item.base_request].append(item)
    files = tuple(
        metadata_file(metadata, items[0].request, inventory.node, [item.device.name for item in items], attributes)
        for items in by_request.values()
    )
    return files, {request: (metadata_mount(metadata, request, root),) for request in by_request}


def _joined(errors: Sequence[FieldError]) -> str:
    more = len(errors) - _ERRORS_SHOWN
    return "; ".join(map(str, errors[:_ERRORS_SHOWN])) + (f"; and {more} more" if more > 0 else "")
