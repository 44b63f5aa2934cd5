"""Makes the Device objects of a node, which ``kubectl get devices`` shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from pydantic import ValidationError

from driver.api import API_VERSION
from driver.api.resource_v1 import ObjectMeta
from driver.api.rootport_v1alpha1 import MAX_NEAR, Device, DeviceSpec, DeviceStatus, NearDevice
from driver.api.validation.errors import shown
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model import devices as model
from driver.model.distance import matrix
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from driver.objects.device_amounts import memory_left
from driver.objects.invalid import object_errors
from driver.objects.names import MODEL_LABEL, NODE_LABEL, TYPE_LABEL, device_object_name, model_label, node_label

__all__ = ["device_objects"]

_Near: TypeAlias = tuple[NearDevice, ...]
# The kernel's names: Documentation/admin-guide/devices.txt (195 nvidia, 226 dri); nodes of other vendors are not known.
_GPU_NODES: Final[Mapping[str, str]] = {"nvidia": "/dev/nvidia{}", "amd": "/dev/dri/renderD{}"}
_KINDS_OF_NODES: Final = 64
_NO_ATTRIBUTES: Final[Mapping[model.DeviceName, Sequence[Mapping[str, object]]]] = MappingProxyType({})
_NOTHING_LEFT_OUT: Final[Mapping[model.DeviceName, str]] = MappingProxyType({})


def device_objects(
    inventory: Inventory,
    *,
    left_out: Mapping[model.DeviceName, str] = _NOTHING_LEFT_OUT,
    attributes: Mapping[model.DeviceName, Sequence[Mapping[str, object]]] = _NO_ATTRIBUTES,
) -> tuple[Device, ...]:
    """Return one object for each GPU, NIC, VF and FPGA of a node, in the inventory's order.

    The state is Unknown: an inventory says what is there, not how it is.

    Args:
        inventory: The node.
        left_out: Why a device is in no ResourceSlice, by the device's name, for a person.
        attributes: What the administrator's policies say of a device, by its name.

    Raises:
        InputError: The node's name is not one that Kubernetes allows, or a device has what such an object cannot hold;
            all mistakes, with their fields.
    """
    for error in subdomain("node", inventory.node):
        raise InputError(f"the node's name {error.message}", hint="give the node a name that Kubernetes allows")
    near = _nearest(inventory)
    nics = {nic.address: nic for nic in inventory.nics}
    made: list[Device] = []
    errors: list[str] = []
    for device in inventory.devices():
        fields = _spec(device, inventory.node) | {
            "attributes": attributes.get(device.name, ()),
            "left_out": left_out.get(device.name),
        }
        if isinstance(device, model.RdmaVf) and (nic := nics.get(device.parent)):
            # A VF is a part of its NIC's card, so what is near the one is near the other.
            fields |= {"parent": nic.name, "vendor": nic.vendor, "near": near[nic.address]}
        else:
            fields["near"] = near.get(device.address, ())
        try:
            spec = DeviceSpec.model_validate(fields)
        except ValidationError as error:
            subject = f"Device {shown(device.name)} of node {inventory.node}"
            errors += (f"{subject}: spec.{item}" for item in object_errors(error))
        else:
            made.append(_object(spec, device))
    if errors:
        raise InputError.of_all(errors)
    return tuple(made)


def _object(spec: DeviceSpec, device: model.Device) -> Device:
    labels = {
        NODE_LABEL: node_label(spec.node_name),
        TYPE_LABEL: str(device.type),
        MODEL_LABEL: model_label(device.model),
    }
    return Device(
        api_version=API_VERSION,
        kind="Device",
        metadata=ObjectMeta(
            name=device_object_name(spec.node_name, device.name),
            labels={key: value for key, value in labels.items() if value},
        ),
        spec=spec,
        status=DeviceStatus(state="Unknown"),
    )


def _spec(device: model.Device, node: str) -> dict[str, object]:
    path = device.pcie
    common: dict[str, object] = {
        "node_name": node,
        "device_name": device.name,
        "type": device.type.value,
        "index": device.index,
        "model": device.model,
        "pci_bus_id": device.address,
        "pcie_switch": path.switch,
        "pcie_root": path.root,
        "numa_node": path.numa_node,
    }
    match device:
        case model.Gpu():
            return common | {
                "vendor": device.vendor,
                "minor": device.minor,
                "device_paths": _gpu_paths(device),
                "uuid": device.uuid,
                "memory": memory_left(device.memory_bytes),
                "architecture": device.architecture,
            }
        case model.RdmaNic():
            return common | _network(device) | {"vendor": device.vendor}
        case model.RdmaVf():
            return common | _network(device)
        case model.Fpga():
            return common | {"vendor": device.vendor, "device_paths": device.device_paths}


def _gpu_paths(gpu: model.Gpu) -> tuple[str, ...]:
    """Return the GPU's own device node; what all GPUs share, such as /dev/nvidiactl or /dev/kfd, is no device's."""
    form = _GPU_NODES.get(gpu.vendor)
    return (form.format(gpu.minor),) if form and gpu.minor is not None else ()


def _network(device: model.RdmaFunction) -> dict[str, object]:
    layers = {port.link_layer for port in device.ports}
    first = device.ports[0] if device.ports else model.RdmaPort()
    return {
        "minor": device.verbs_minor,
        "device_paths": () if device.verbs_minor is None else (f"/dev/infiniband/uverbs{device.verbs_minor}",),
        "rdma_device": device.rdma_device,
        "if_names": device.if_names,
        "link_type": layers.pop() if len(layers) == 1 else None,
        "link_state": "active" if device.link_is_up else first.state,
        "link_speed_gbps": device.speed_gbps,
        "guid": first.guid,
    }


def _nearest(inventory: Inventory) -> Mapping[PciAddress, _Near]:
    """Return for GPUs and FPGAs the nearest NICs, for NICs the nearest GPUs."""
    return _nearest_of(_places(inventory))


def _places(inventory: Inventory) -> Inventory:
    """Return the devices with nothing but what decides about distances: the same for all nodes of a kind."""
    return Inventory(
        node="",
        source=inventory.source,
        gpus=tuple(model.Gpu(address=gpu.address, pcie=gpu.pcie, index=0, links=gpu.links) for gpu in inventory.gpus),
        nics=tuple(
            # A VF counts if it alone reports a NUMA node.
            model.RdmaNic(address=nic.address, pcie=nic.pcie, index=0, vfs=_with_numa_node(nic))
            for nic in inventory.nics
        ),
        fpgas=tuple(model.Fpga(address=fpga.address, pcie=fpga.pcie, index=0) for fpga in inventory.fpgas),
    )


def _with_numa_node(nic: model.RdmaNic) -> tuple[model.RdmaVf, ...]:
    if nic.pcie.numa_node is not None:
        return ()
    return tuple(vf for vf in nic.vfs if vf.pcie.numa_node is not None)[:1]


@lru_cache(maxsize=_KINDS_OF_NODES)
def _nearest_of(places: Inventory) -> Mapping[PciAddress, _Near]:
    rows = matrix(places).rows
    columns: dict[bool, list[int]] = {True: [], False: []}
    for at, row in enumerate(rows):
        if not isinstance(row.device, model.Fpga):
            columns[isinstance(row.device, model.RdmaNic)].append(at)
    near: dict[PciAddress, _Near] = {}
    for row in rows:
        others = columns[not isinstance(row.device, model.RdmaNic)]
        least = min((row.distances[at] for at in others), default=None)
        nearest = [rows[at].device.name for at in others if row.distances[at] == least]
        near[row.device.address] = tuple(
            NearDevice.model_validate({"name": name, "distance": str(least)}) for name in nearest[:MAX_NEAR]
        )
    return near
