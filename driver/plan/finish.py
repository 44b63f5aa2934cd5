"""A decision + what was done for it → what the kubelet is told and what the container runtime reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driver.api.resource_v1 import ClaimReference, DeviceAttribute
from driver.errors import NodeError
from driver.layout import device_attributes
from driver.model.devices import DeviceName, MigInstance, RdmaFunction
from driver.model.parts import MigPartition
from driver.plan.cdi import CdiDevice, CdiMount, CdiSpec, device_name
from driver.plan.decide import DecidedDevice, Decision
from driver.plan.device_nodes import assumed_instance, mig_device_nodes
from driver.plan.distances import distances_of
from driver.plan.driver_files import DriverFiles, driver_cdi_device
from driver.plan.effects import Effect
from driver.plan.environment import Told, device_environment, request_environment
from driver.plan.gpu_use import GpuUse
from driver.plan.host_paths import host_folder
from driver.plan.isolation.interface import ClaimFile, Isolation
from driver.plan.metadata import device_facts, metadata_file, metadata_mount
from driver.plan.nic_environment import nic_environment
from driver.plan.nic_use import NicUse

__all__ = ["PreparePlan", "PreparedDevice", "finish"]


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
        use: How the claim uses the GPU; None for what is no GPU, or is only watched over.
        isolation: Whether the claim is kept to what it was given; None where ``use`` is.
        mig_uuid: The MIG device's UUID.
        nic_use: How the claim uses the NIC; None for what is no NIC, or is only watched over.
        distances: Of a GPU, how far each NIC of the claim is; of a NIC, how far each GPU: the other's name in the pool
            and the distance, such as ``PIX``.
    """

    request_names: tuple[str, ...]
    pool: str
    device: str
    cdi_device_ids: tuple[str, ...]
    share_id: str | None = None
    admin_access: bool = False
    use: GpuUse | None = None
    isolation: Isolation | None = None
    mig_uuid: str | None = None
    nic_use: NicUse | None = None
    distances: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """What preparing a claim takes.

    Attributes:
        claim: Which claim.
        devices: In the allocation's order; empty where the claim has no device of this driver.
        spec: The CDI spec; None without devices.
        notes: What was assumed; one sentence each, for a person.
        files: The files that the spec's mounts name: each request's metadata, and what isolation takes; to be there
            before the spec is.
        effects: What has to be done on the node before a container starts.
    """

    claim: ClaimReference
    devices: tuple[PreparedDevice, ...]
    spec: CdiSpec | None
    notes: tuple[str, ...] = ()
    files: tuple[ClaimFile, ...] = ()
    effects: tuple[Effect, ...] = ()

    @property
    def uses(self) -> tuple[GpuUse, ...]:
        """How the claim uses GPUs; watching over one by admin access is no use of it (KEP-5018)."""
        return tuple(device.use for device in self.devices if device.use and not device.admin_access)

    @property
    def nic_uses(self) -> tuple[NicUse, ...]:
        """How the claim uses RDMA NICs; as above."""
        return tuple(device.nic_use for device in self.devices if device.nic_use and not device.admin_access)

    @property
    def device_paths(self) -> tuple[str, ...]:
        """The device nodes that must be on the host, each once: without one of them the container does not start."""
        devices = self.spec.devices if self.spec else ()
        return tuple(dict.fromkeys(path for device in devices for path in device.host_device_nodes))


def finish(
    decision: Decision,
    *,
    mig_devices: Mapping[DeviceName, MigInstance],
    driver_files: DriverFiles | None = None,
    device_root: str = "",
    metadata_root: str | None = None,
) -> PreparePlan:
    """Say what the kubelet and the container runtime are told. The same arguments give the same plan.

    Args:
        decision: From :func:`driver.plan.decide`.
        mig_devices: What the effects have made, by the partition's name in the pool (:attr:`Decision.mig_effects`).
        driver_files: NVIDIA's driver files on the node; None gives containers the device nodes alone.
        device_root: An administrator's folder that stands before ``/dev`` on the host, where the device nodes are not
            in the host's own.
        metadata_root: The host's folder for device metadata files; None gives containers none.

    Raises:
        InputError: One of the folders is no absolute path.
        NodeError: A MIG device is not there.
    """
    root = host_folder(device_root, "device_root")
    instances = [_instance(device, mig_devices, assume=decision.assume_minors) for device in decision.devices]
    # The kubelet hands over all devices of a request or none, so one of them can carry what belongs to the request:
    # each of these is taken by the first device that it fits.
    environments = _request_environments(decision, instances)
    nic_environments = nic_environment(
        [(device.given.base_request, _told_nic(device)) for device in decision.devices], f"claim {decision.claim}"
    )
    distances = distances_of(decision)
    metadata_files, metadata_mounts = _metadata(decision, metadata_root, distances)
    mounted: set[tuple[str, CdiMount]] = set()
    cdi_devices: list[CdiDevice] = []
    for place, (device, instance) in enumerate(zip(decision.devices, instances, strict=True)):
        given, request = device.given, device.given.base_request
        mounts = {mount: (request, mount) for mount in (device.plan.mounts if device.plan else ())}
        new_mounts = tuple(mount for mount, key in mounts.items() if key not in mounted)
        mounted.update(mounts.values())
        cdi_devices.append(
            CdiDevice(
                name=device_name(decision.claim.uid, request, given.device.name, given.share_id),
                device_nodes=device.nodes + (mig_device_nodes(instance) if instance else ()),
                device_root=(driver_files.device_root if driver_files and given.is_nvidia_gpu else "") or root,
                env=device_environment(given.gpu)
                + (device.plan.env if device.plan else ())
                + environments.pop(request, ())
                + nic_environments.get(place, ()),
                mounts=metadata_mounts.pop(request, ()) + new_mounts,
            )
        )
    driver_devices: tuple[CdiDevice, ...] = ()
    if driver_files is not None and decision.has_nvidia_gpu:
        driver_devices = (driver_cdi_device(decision.claim.uid, driver_files),)
    prepared = _prepared(decision, cdi_devices, instances, distances, tuple(device.id for device in driver_devices))
    spec = CdiSpec(claim=decision.claim, devices=(*cdi_devices, *driver_devices)) if cdi_devices else None
    isolation_files = (file for device in decision.devices if device.plan for file in device.plan.files)
    return PreparePlan(
        claim=decision.claim,
        devices=prepared,
        spec=spec,
        notes=decision.notes + _assumption(decision, instances, mig_devices),
        files=tuple(dict.fromkeys((*metadata_files, *isolation_files))),
        effects=decision.effects,
    )


def _prepared(
    decision: Decision,
    cdi_devices: Sequence[CdiDevice],
    instances: Sequence[MigInstance | None],
    distances: Mapping[str, tuple[tuple[str, str], ...]],
    driver_ids: tuple[str, ...],
) -> tuple[PreparedDevice, ...]:
    with_driver: set[str] = set()
    prepared: list[PreparedDevice] = []
    for device, cdi_device, instance in zip(decision.devices, cdi_devices, instances, strict=True):
        given = device.given
        ids: tuple[str, ...] = (cdi_device.id,)
        if given.is_nvidia_gpu and given.base_request not in with_driver:
            with_driver.add(given.base_request)
            ids += driver_ids
        prepared.append(
            PreparedDevice(
                request_names=(given.base_request,),
                pool=decision.inventory.node,
                device=given.device.name,
                cdi_device_ids=ids,
                share_id=given.share_id,
                admin_access=given.admin_access,
                use=device.use,
                isolation=device.plan.isolation if device.plan else None,
                mig_uuid=instance.uuid if instance else None,
                nic_use=device.nic_use,
                distances=() if given.admin_access else distances.get(given.device.name, ()),
            )
        )
    return tuple(prepared)


def _instance(
    device: DecidedDevice, mig_devices: Mapping[DeviceName, MigInstance], *, assume: bool
) -> MigInstance | None:
    """The MIG device of a partition; None for other devices, and where a partition is watched over that is not there.

    An administrator's own MIG device is in the inventory already.
    """
    partition = device.given.device
    if not isinstance(partition, MigPartition):
        return None
    found = partition.instance or mig_devices.get(partition.name)
    if found is not None or device.given.admin_access:
        return found
    if assume:
        return assumed_instance(partition)
    raise NodeError(
        f"{device.given.subject}: the MIG device of this partition is not there",
        hint="the kubelet retries; check on the node that nvidia-smi mig -lgi lists it",
    )


def _assumption(
    decision: Decision, instances: Sequence[MigInstance | None], mig_devices: Mapping[DeviceName, MigInstance]
) -> tuple[str, ...]:
    assumed = dict.fromkeys(
        device.given.device.name
        for device, instance in zip(decision.devices, instances, strict=True)
        if isinstance(device.given.device, MigPartition)
        and instance is not None
        and instance is not (device.given.device.instance or mig_devices.get(device.given.device.name))
    )
    if not assumed:
        return ()
    return (f"the UUIDs and capability nodes of {', '.join(assumed)} are assumed: nobody made these MIG devices",)


def _request_environments(decision: Decision, instances: Sequence[MigInstance | None]) -> dict[str, tuple[str, ...]]:
    told = defaultdict[str, list[Told]](list)
    for device, instance in zip(decision.devices, instances, strict=True):
        told[device.given.base_request].append(_told(device, instance))
    return {
        request: request_environment(
            decision.metadata, request, of_request, f"claim {decision.claim}, request {request}"
        )
        for request, of_request in told.items()
    }


def _told(device: DecidedDevice, instance: MigInstance | None) -> Told:
    part, gpu, use = device.given.device, device.given.gpu, device.use
    if gpu is None:
        function = device.function
        return Told(
            address=function.address if function else part.address,
            rdma_device=function.rdma_device if function else None,
            interface=device.nic.name_in_pod if device.nic else None,
            bandwidth=_bandwidth(device.nic.use) if device.nic else None,
        )
    is_partition = isinstance(part, MigPartition)
    return Told(
        address=gpu.address,
        is_gpu=True,
        uuid=(instance.uuid if instance else None) if is_partition else gpu.uuid,
        core=use.core if use else None,
        memory_bytes=use.memory_bytes if use else None,
        profile=part.profile.name if isinstance(part, MigPartition) else None,
    )


def _bandwidth(use: NicUse | None) -> int | None:
    """What the claim has of a NIC; a VF has no bandwidth of its own."""
    return None if use is None or use.vf is not None else use.bandwidth or use.nic_bandwidth


def _told_nic(device: DecidedDevice) -> RdmaFunction | None:
    return device.nic.function if device.nic is not None and device.nic.in_environment else None


def _metadata(
    decision: Decision, metadata_root: str | None, distances: Mapping[str, tuple[tuple[str, str], ...]]
) -> tuple[tuple[ClaimFile, ...], dict[str, tuple[CdiMount, ...]]]:
    """The metadata file of each request, and its mount by the request's name; nothing without a root."""
    if metadata_root is None:
        return (), {}
    root = host_folder(metadata_root, "metadata_root")
    by_request = defaultdict[str, list[DecidedDevice]](list)
    for device in decision.devices:
        by_request[device.given.base_request].append(device)
    names = {device.given.device.name for device in decision.devices}
    names |= {device.function.name for device in decision.devices if device.function is not None}
    attributes = device_attributes(decision.inventory, names) if names else {}
    metadata, node = decision.metadata, decision.inventory.node

    def facts(device: DecidedDevice) -> dict[str, DeviceAttribute]:
        name, function = device.given.device.name, device.function
        return device_facts(
            attributes.get(name, {}),
            attributes.get(function.name, {}) if function is not None and function.name != name else {},
            device.nic.name_in_pod if device.nic else None,
            () if device.given.admin_access else distances.get(name, ()),
        )

    files = tuple(
        metadata_file(
            metadata,
            devices[0].given.request,
            node,
            [(device.given.device.name, facts(device)) for device in devices],
        )
        for devices in by_request.values()
    )
    return files, {request: (metadata_mount(metadata, request, root),) for request in by_request}
