"""Nodes and allocated claims for the tests of the prepare plan, as small as they can be said."""

from __future__ import annotations

from collections.abc import Mapping

from driver.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ObjectMeta,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimStatus,
)
from driver.config import API_VERSION
from driver.model.devices import Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath

NODE_NAME = "node-a"
UID = "0b5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de"
POOL = NODE_NAME


def gpu(index: int, **fields: object) -> Gpu:
    defaults: dict[str, object] = {"minor": index, "uuid": f"GPU-{index:08x}"}
    return Gpu(address=PciAddress(f"0000:{index + 0x10:02x}:00.0"), pcie=PciePath(), index=index, **(defaults | fields))


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
) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid, annotations=dict(annotations or {})),
        status=ResourceClaimStatus(
            allocation=AllocationResult(devices=DeviceAllocationResult(results=results, config=configs))
        ),
    )
