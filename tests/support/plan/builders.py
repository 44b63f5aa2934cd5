"""Nodes and allocated claims for the tests of the prepare plan, as small as they can be said."""

from __future__ import annotations

from collections.abc import Mapping

from driver.api import API_VERSION
from driver.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ObjectMeta,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from driver.model.devices import Fpga, Gpu, MigInstance, MigPlacement, MigProfile, MigSupport, RdmaNic, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath

NODE_NAME = "node-a"
UID = "0b5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de"
POOL = NODE_NAME
CLAIM_OF = f"claim ml/train (uid {UID})"
GIB = 2**30
SHARE_IDS = tuple(f"6c3b0f0e-0000-4000-8000-{number:012d}" for number in range(8))


def mig_profile(name: str, number: int, compute_slices: int, gib: int, size: int, *starts: int) -> MigProfile:
    return MigProfile(
        name=name,
        profile_id=number,
        compute_slices=compute_slices,
        memory_bytes=gib * GIB,
        max_instances=len(starts),
        placements=tuple(MigPlacement(start=start, size=size) for start in starts),
    )


MIG_PROFILES = (
    mig_profile("1g.10gb", 19, 1, 10, 1, *range(7)),
    mig_profile("1g.10gb+me", 20, 1, 10, 1, *range(7)),
    mig_profile("1g.20gb", 15, 1, 20, 2, 0, 2, 4, 6),
    mig_profile("2g.20gb", 14, 2, 20, 2, 0, 2, 4),
    mig_profile("3g.40gb", 9, 3, 40, 4, 0, 4),
    mig_profile("4g.40gb", 5, 4, 40, 4, 0),
    mig_profile("7g.80gb", 0, 7, 80, 8, 0),
)
"""An H100's of 80 GB."""


def gpu(index: int, **fields: object) -> Gpu:
    defaults: dict[str, object] = {"minor": index, "uuid": f"GPU-{index:08x}"}
    return Gpu(address=PciAddress(f"0000:{index + 0x10:02x}:00.0"), pcie=PciePath(), index=index, **(defaults | fields))


def h100(index: int, *instances: MigInstance, **fields: object) -> Gpu:
    """A GPU with memory and MIG, with the partitions that an administrator made."""
    defaults: dict[str, object] = {
        "memory_bytes": 80 * GIB,
        "cuda_compute_capability": "9.0",
        "driver_version": "580.95.05",
        "mig": MigSupport(enabled=bool(instances), profiles=MIG_PROFILES, instances=instances),
    }
    return gpu(index, **(defaults | fields))


def mig_instance(profile: MigProfile, start: int, number: int = 0) -> MigInstance:
    placement = next(placement for placement in profile.placements if placement.start == start)
    return MigInstance(
        profile_id=profile.profile_id,
        placement=placement,
        gpu_instance=7 + number,
        compute_instance=0,
        uuid=f"MIG-{number:08x}",
        gpu_instance_minor=66 + 9 * number,
        compute_instance_minor=67 + 9 * number,
    )


def nic(index: int, **fields: object) -> RdmaNic:
    defaults: dict[str, object] = {
        "rdma_device": f"mlx5_{index}",
        "verbs_minor": index,
        "umad_minors": (index,),
        "issm_minors": (index,),
        "vendor": "nvidia",
    }
    return RdmaNic(
        address=PciAddress(f"0000:{index + 0x40:02x}:00.0"), pcie=PciePath(), index=index, **(defaults | fields)
    )


def vf(parent: int, index: int, **fields: object) -> RdmaVf:
    defaults: dict[str, object] = {
        "rdma_device": f"mlx5_{10 * (parent + 1) + index}",
        "verbs_minor": 10 * (parent + 1) + index,
    }
    return RdmaVf(
        address=PciAddress(f"0000:{parent + 0x40:02x}:00.{index + 1}"),
        pcie=PciePath(),
        index=index,
        parent=PciAddress(f"0000:{parent + 0x40:02x}:00.0"),
        **(defaults | fields),
    )


def fpga(index: int, **fields: object) -> Fpga:
    defaults: dict[str, object] = {"device_paths": (f"/dev/dfl-port.{index}", f"/dev/dri/renderD{128 + index}")}
    return Fpga(
        address=PciAddress(f"0000:{index + 0x80:02x}:00.0"), pcie=PciePath(), index=index, **(defaults | fields)
    )


def node(*devices: Gpu | RdmaNic | Fpga, source: InventorySource = InventorySource.SYSFS) -> Inventory:
    return Inventory(
        node=NODE_NAME,
        source=source,
        gpus=tuple(device for device in devices if isinstance(device, Gpu)),
        nics=tuple(device for device in devices if isinstance(device, RdmaNic)),
        fpgas=tuple(device for device in devices if isinstance(device, Fpga)),
    )


def given(request: str, device: str, **fields: object) -> DeviceRequestAllocationResult:
    """An allocation result, of this driver and this node where ``fields`` do not say otherwise."""
    return DeviceRequestAllocationResult.model_validate(
        {"request": request, "driver": "rootport.dev", "pool": POOL, "device": device, **fields}
    )


def share(request: str, device: str, number: int = 0, **consumed: object) -> DeviceRequestAllocationResult:
    """A share of a device, as kube-scheduler allocates it."""
    return given(request, device, shareID=SHARE_IDS[number], consumedCapacity=consumed)


def config(
    parameters: object, *requests: str, source: str = "FromClaim", driver: str = "rootport.dev"
) -> DeviceAllocationConfiguration:
    opaque = OpaqueDeviceConfiguration(driver=driver, parameters=parameters)
    return DeviceAllocationConfiguration(source=source, requests=requests, opaque=opaque)


def parameters(kind: str, **fields: object) -> dict[str, object]:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


def claim(
    *results: DeviceRequestAllocationResult,
    configs: tuple[DeviceAllocationConfiguration, ...] = (),
    name: str = "train",
    namespace: str = "ml",
    uid: str = UID,
    annotations: Mapping[str, str] | None = None,
    requests: tuple[dict[str, object], ...] = (),
    pods: tuple[str, ...] = (),
) -> ResourceClaim:
    asked = tuple(DeviceRequest.model_validate(request) for request in requests)
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=dict(annotations or {})),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=asked)),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results, config=configs)),
            reserved_for=tuple(
                ResourceClaimConsumerReference(resource="pods", name=f"pod-{uid}", uid=uid) for uid in pods
            ),
        ),
    )
