"""Finds who else on this node allocates the devices that the plugin publishes: device plugins and other DRA drivers.

Kubernetes counts extended resources and DRA devices apart, so two drivers for one GPU allocate it twice, unnoticed.
Pure: facts from the Node and the other drivers' ResourceSlices in, a report out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.strict import rule
from driver.model.devices import Device, Gpu
from driver.model.inventory import Inventory
from driver.wording import listed
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType

__all__ = ["PublishedSlice", "check_rivals"]

_SHOWN: Final = 5

# HAMi's plugin registers nvidia.com/gpu as well. What else it says of a node, in annotations, stays when it has gone.
_NVIDIA_HINT: Final = (
    "keep NVIDIA's device plugin off this node (with the GPU Operator: kubectl label node {node} "
    "nvidia.com/gpu.deploy.device-plugin=false --overwrite; else take the node out of its DaemonSet's node selector), "
    "or, where it is HAMi's, that one (kubectl label node {node} gpu-, where HAMi runs on nodes with the label gpu=on)"
)
_KOORDINATOR_HINT: Final = (
    "keep Koordinator from managing this node's devices (koord-device-daemon, and its Device object)"
)
_GENERIC_HINT: Final = "take this node out of that plugin's DaemonSet"

_GPU_SHARES: Final = re.compile(
    # HAMi, Koordinator, Aliyun's gpushare, Volcano and Tencent's gpu-manager, in this order.
    r"nvidia\.com/gpu(?:mem|mem-percentage|cores)|koordinator\.sh/gpu.*|aliyun\.com/gpu.*|volcano\.sh/(?:vgpu|gpu)-.*"
    r"|tencent\.com/vcuda-.*"
)
_NVIDIA: Final = re.compile(r"nvidia\.com/(?:gpu(?:\.shared)?|mig-.*)")
_AMD: Final = re.compile(r"amd\.com/gpu(?:_.*)?")
_RDMA: Final = re.compile(r"rdma/.*|koordinator\.sh/rdma")
_FPGA: Final = re.compile(
    r"koordinator\.sh/fpga|xilinx\.com/.*|amd\.com/xilinx.*|fpga\.intel\.com/.*|intel\.com/fpga.*"
)

# Attributes by which drivers name a PCI function or a GPU, without their domain and in lower case: the standard
# pciBusID (k8s.io/dynamic-resource-allocation/deviceattribute), and what drivers wrote before there was one.
_ADDRESS_ATTRIBUTES: Final = frozenset({"pcibusid", "pciaddress", "busid", "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attribute:
    WIRE: ClassVar[bool] = True

    string_value: str | None = rule(default=None, name="string")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    WIRE: ClassVar[bool] = True

    attributes: Mapping[str, _Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spec:
    WIRE: ClassVar[bool] = True

    driver: str
    devices: tuple[_Device, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSlice:
    """What of a ResourceSlice says which devices a driver publishes."""

    WIRE: ClassVar[bool] = True

    spec: _Spec


def check_rivals(
    inventory: Inventory, capacity: Mapping[str, str], slices: Iterable[PublishedSlice], node: str
) -> ConditionReport:
    """Check that nobody else allocates this node's devices.

    Args:
        inventory: What this node has and we publish.
        capacity: ``status.capacity`` of the Node. What stands there with 0 was left behind by a plugin that has gone.
        slices: All ResourceSlices of the node, ours too.
        node: The node's name, for the command that helps.
    """
    found = [*_device_plugins(inventory, capacity, node), *_drivers(inventory, slices)]
    if not found:
        message = "no other device plugin or DRA driver gives out this node's devices"
        return ConditionReport(
            type=ConditionType.NO_RIVAL_PLUGIN, status=ConditionStatus.TRUE, reason="NoRival", message=message
        )
    # Not `listed`: each is a sentence that may have an "and" of its own.
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    message = f"devices can be given out twice: {'; '.join(found[:_SHOWN])}{more}"
    return ConditionReport(
        type=ConditionType.NO_RIVAL_PLUGIN, status=ConditionStatus.FALSE, reason="RivalPlugin", message=message
    )


def _device_plugins(inventory: Inventory, capacity: Mapping[str, str], node: str) -> Iterator[str]:
    nvidia = any(gpu.vendor == "nvidia" for gpu in inventory.gpus)
    patterns: tuple[tuple[re.Pattern[str], bool, str], ...] = (
        (_NVIDIA, nvidia, _NVIDIA_HINT.format(node=node)),
        (_AMD, any(gpu.vendor == "amd" for gpu in inventory.gpus), _GENERIC_HINT),
        (_RDMA, bool(inventory.nics), _GENERIC_HINT),
        (_FPGA, bool(inventory.fpgas), _GENERIC_HINT),
        (_GPU_SHARES, bool(inventory.gpus), _GENERIC_HINT),
    )
    for resource in sorted(capacity):
        if not _is_some(capacity[resource]):
            continue
        for pattern, ours, hint in patterns:
            if ours and pattern.fullmatch(resource):
                helps = _KOORDINATOR_HINT if resource.startswith("koordinator.sh/") else hint
                yield f"the Node has {resource}: {capacity[resource]} from a device plugin: {helps}"
                break


def _drivers(inventory: Inventory, slices: Iterable[PublishedSlice]) -> Iterator[str]:
    ours = {name.lower(): device for device in inventory.devices() for name in _names(device)}
    shared: dict[str, dict[str, None]] = {}
    for resource_slice in slices:
        driver = resource_slice.spec.driver
        if driver == DRIVER_NAME:
            continue
        for device in resource_slice.spec.devices:
            for attribute, value in device.attributes.items():
                known = attribute.rpartition("/")[2].lower() in _ADDRESS_ATTRIBUTES
                if known and value.string_value is not None and value.string_value.lower() in ours:
                    shared.setdefault(driver, {})[ours[value.string_value.lower()].address] = None
    for driver in sorted(shared):
        addresses = listed(sorted(shared[driver]), shown=_SHOWN)
        yield (f"DRA driver {driver} publishes {addresses} as well: keep one of the two drivers off this node")


def _names(device: Device) -> Iterator[str]:
    yield device.address
    if isinstance(device, Gpu) and device.uuid:
        yield device.uuid


def _is_some(quantity: str) -> bool:
    try:
        return Quantity(quantity).ceil() > 0
    except ValueError:
        return True  # not for us to judge; better one warning too many
