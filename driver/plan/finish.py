"""A decision and what was done for it become the answer to the kubelet and the CDI spec for the container runtime."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError
from driver.model.devices import DeviceName, MigInstance, RdmaFunction
from driver.model.parts import MigPartition
from driver.plan.allocated import AllocatedDevice
from driver.plan.cdi import CdiDevice, CdiMount, CdiSpec, cdi_device_name
from driver.plan.decide import Decision
from driver.plan.decided import DecidedDevice
from driver.plan.device_nodes import assumed_instance, mig_device_nodes
from driver.plan.driver_files import DriverFiles, driver_cdi_device
from driver.plan.effects import Effect
from driver.plan.environment import DeviceFacts, device_environment, request_environment
from driver.plan.host import host_folder
from driver.plan.isolation.provider import ClaimFile, Isolation
from driver.plan.metadata import distances_of, request_metadata
from driver.plan.nic_amounts import NicAmount
from driver.plan.nic_environment import nic_environment
from driver.plan.nics import vf_isolation
from driver.plan.uses import GpuUse, HeldDevice, NicUse

__all__ = ["PreparePlan", "PreparedDevice", "finish"]

_ALL_LIMITED: Final[Mapping[DeviceName, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """One device of the answer to NodePrepareResources (k8s.io/kubelet v0.36.3, dra v1 ``Device``).

    Attributes:
        request_names: The requests it was given to, without subrequests, which the kubelet does not know here.
        pool: Its pool: the node.
        device: Its name in the pool.
        cdi_device_ids: What the runtime injects into the containers that name one of the requests, or none. The
            device's own id is the first: the kubelet names the device by it in the pod's status.
        share_id: Which share of the device, where it is given more than once.
        admin_access: Whether the device is only watched over: that is no use of it, and nobody is kept from it.
        use: How the claim uses the GPU; None for what is no GPU, or is only watched over.
        isolation: Whether the claim is kept to what it was given; None for what is no GPU, but a VF that its
            DeviceClass has limited to its bandwidth, and for what is only watched over.
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

    def held_by(self, claim: ClaimReference) -> HeldDevice:
        """Return what the claim holds by it."""
        return HeldDevice(
            claim=claim,
            requests=self.request_names,
            pool=self.pool,
            device=self.device,
            share_id=self.share_id,
            admin_access=self.admin_access,
            gpu_use=None if self.admin_access else self.use,
            nic_use=None if self.admin_access else self.nic_use,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparePlan:
    """What preparing a claim takes.

    Attributes:
        claim: The claim.
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
    def held_devices(self) -> tuple[HeldDevice, ...]:
        """What the claim holds of the node's devices."""
        return tuple(device.held_by(self.claim) for device in self.devices)

    @property
    def device_paths(self) -> tuple[str, ...]:
        """The device nodes that must be on the host, each once: without one of them the container does not start."""
        devices = self.spec.devices if self.spec else ()
        return tuple(dict.fromkeys(path for device in devices for path in device.host_device_nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _MadeDevice:
    """A device once the decision's effects are done.

    Attributes:
        decided: What was decided for it.
        mig: The MIG device of a partition; None for other devices, and where a partition is watched over that is not
            there.
        mig_is_assumed: Whether nobody made that MIG device.
    """

    decided: DecidedDevice
    mig: MigInstance | None
    mig_is_assumed: bool

    @property
    def allocated(self) -> AllocatedDevice:
        return self.decided.allocated

    @property
    def request(self) -> str:
        return self.decided.allocated.base_request

    @property
    def isolation_env(self) -> tuple[str, ...]:
        return self.decided.isolation.env if self.decided.isolation else ()

    @property
    def isolation_mounts(self) -> tuple[CdiMount, ...]:
        return self.decided.isolation.mounts if self.decided.isolation else ()


def finish(
    decision: Decision,
    *,
    mig_devices: Mapping[DeviceName, MigInstance],
    not_limited: Mapping[DeviceName, str] = _ALL_LIMITED,
    driver_files: DriverFiles | None = None,
    device_root: str = "",
    metadata_root: str | None = None,
) -> PreparePlan:
    """Return the answer to the kubelet, the CDI spec and the files. The same arguments give the same plan.

    Args:
        decision: From :func:`driver.plan.decide`.
        mig_devices: What the effects have made, by the partition's name in the pool (:attr:`Decision.mig_effects`).
        not_limited: Why VFs could not be limited to their bandwidth, by the function's name in the pool.
        driver_files: NVIDIA's driver files on the node; None gives containers the device nodes alone.
        device_root: An administrator's folder that stands before ``/dev`` on the host, where the device nodes are not
            in the host's own.
        metadata_root: The host's folder for device metadata files; None gives containers none.

    Raises:
        InputError: One of the folders is no absolute path.
        NodeError: A MIG device is not there.
    """
    root = host_folder(device_root, "device_root")
    claim = decision.claim
    made = [_made(device, mig_devices, assume=decision.assume_minors) for device in decision.devices]
    by_request = defaultdict[str, list[_MadeDevice]](list)
    for device in made:
        by_request[device.request].append(device)
    environments = {
        request: request_environment(
            decision.metadata, request, [_facts(device) for device in devices], f"claim {claim}, request {request}"
        )
        for request, devices in by_request.items()
    }
    nic_environments = nic_environment([(device.request, _named_nic(device)) for device in made], f"claim {claim}")
    distances = distances_of(decision)
    metadata = {} if metadata_root is None else request_metadata(decision, metadata_root, distances)
    driver_device = None
    if driver_files is not None and decision.has_nvidia_gpu:
        driver_device = driver_cdi_device(claim.uid, driver_files)
    cdi_devices: list[CdiDevice] = []
    prepared: list[PreparedDevice] = []
    mounted: set[tuple[str, CdiMount]] = set()
    for place, device in enumerate(made):
        item, request = device.allocated, device.request
        # The kubelet hands over all devices of a request or none, so the first of them carries what belongs to the
        # request.
        env = environments[request] if device is by_request[request][0] else ()
        of_request = (metadata[request].mount,) if metadata and device is by_request[request][0] else ()
        mounts = tuple(mount for mount in dict.fromkeys(device.isolation_mounts) if (request, mount) not in mounted)
        mounted.update((request, mount) for mount in mounts)
        cdi_device = CdiDevice(
            name=cdi_device_name(claim.uid, request, item.device.name, item.share_id),
            device_nodes=device.decided.nodes + (mig_device_nodes(device.mig) if device.mig else ()),
            device_root=(driver_files.device_root if driver_files and item.is_nvidia_gpu else "") or root,
            env=device_environment(item.gpu) + device.isolation_env + env + nic_environments.get(place, ()),
            mounts=of_request + mounts,
        )
        cdi_devices.append(cdi_device)
        # As above: with the request's first GPU of NVIDIA's.
        carries_driver = device is next((other for other in by_request[request] if other.allocated.is_nvidia_gpu), None)
        ids = (cdi_device.id, driver_device.id) if driver_device and carries_driver else (cdi_device.id,)
        prepared.append(_prepared(device, decision.inventory.node, ids, distances, not_limited))
    if driver_device is not None:
        cdi_devices.append(driver_device)
    isolation_files = (file for device in decision.devices if device.isolation for file in device.isolation.files)
    return PreparePlan(
        claim=claim,
        devices=tuple(prepared),
        spec=CdiSpec(claim=claim, devices=tuple(cdi_devices)) if cdi_devices else None,
        notes=decision.notes + _assumption(made),
        files=tuple(dict.fromkeys((*(item.file for item in metadata.values()), *isolation_files))),
        effects=decision.effects,
    )


def _prepared(
    device: _MadeDevice,
    pool: str,
    cdi_device_ids: tuple[str, ...],
    distances: Mapping[str, tuple[tuple[str, str], ...]],
    not_limited: Mapping[DeviceName, str],
) -> PreparedDevice:
    item, decided = device.allocated, device.decided
    function = decided.function.name if decided.function else None
    of_vf = vf_isolation(decided, not_limited.get(function) if function else None)
    return PreparedDevice(
        request_names=(device.request,),
        pool=pool,
        device=item.device.name,
        cdi_device_ids=cdi_device_ids,
        share_id=item.share_id,
        admin_access=item.admin_access,
        use=decided.gpu_use,
        isolation=decided.isolation.isolation if decided.isolation else of_vf,
        mig_uuid=device.mig.uuid if device.mig else None,
        nic_use=decided.nic_use,
        distances=() if item.admin_access else distances.get(item.device.name, ()),
    )


def _made(device: DecidedDevice, mig_devices: Mapping[DeviceName, MigInstance], *, assume: bool) -> _MadeDevice:
    """Return the device with its MIG device; an administrator's own one is in the inventory already."""
    item = device.allocated
    partition = item.device
    if not isinstance(partition, MigPartition):
        return _MadeDevice(decided=device, mig=None, mig_is_assumed=False)
    found = partition.instance or mig_devices.get(partition.name)
    if found is not None or item.admin_access:
        return _MadeDevice(decided=device, mig=found, mig_is_assumed=False)
    if assume:
        return _MadeDevice(decided=device, mig=assumed_instance(partition), mig_is_assumed=True)
    raise NodeError(
        f"{item.subject}: the MIG device of this partition is not there",
        hint="the kubelet retries; check on the node that nvidia-smi mig -lgi lists it",
    )


def _assumption(devices: Sequence[_MadeDevice]) -> tuple[str, ...]:
    assumed = dict.fromkeys(device.allocated.device.name for device in devices if device.mig_is_assumed)
    if not assumed:
        return ()
    return (f"the UUIDs and capability nodes of {', '.join(assumed)} are assumed: nobody made these MIG devices",)


def _facts(device: _MadeDevice) -> DeviceFacts:
    decided, part, gpu = device.decided, device.allocated.device, device.allocated.gpu
    if gpu is None:
        function = decided.function
        return DeviceFacts(
            address=function.address if function else part.address,
            rdma_device=function.rdma_device if function else None,
            interface=decided.nic.name_in_pod if decided.nic else None,
            bandwidth=_bandwidth(decided.nic_use),
        )
    use = decided.gpu_use
    profile = part.profile.name if isinstance(part, MigPartition) else None
    return DeviceFacts(
        address=gpu.address,
        is_gpu=True,
        uuid=gpu.uuid if profile is None else device.mig.uuid if device.mig else None,
        core=use.core if use else None,
        memory_bytes=use.memory_bytes if use else None,
        profile=profile,
    )


def _bandwidth(use: NicUse | None) -> int | None:
    """Return the bits per second that the claim has of a NIC, or has reserved for a VF; None where nobody knows."""
    if use is None:
        return None
    own = NicAmount(bandwidth=use.bandwidth, ratio=use.bandwidth_ratio).bits_per_second(use.nic_bandwidth)
    is_all = use.vf is None and not use.is_part
    return use.nic_bandwidth if is_all else own


def _named_nic(device: _MadeDevice) -> RdmaFunction | None:
    nic = device.decided.nic
    return nic.function if nic is not None and nic.in_environment else None
