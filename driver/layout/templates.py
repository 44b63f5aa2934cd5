"""What autoscalers are told of a node that does not exist yet, made of the ResourceSlices that it will have.

Neither autoscaler reads such a document from a user (docs/operator/autoscaling.md says who can use it). The forms are
those that their code takes from a cloud provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from driver.api.resource_v1 import ResourceSlice

__all__ = ["cluster_autoscaler_template", "karpenter_template"]

# Karpenter v1.15.0, pkg/cloudprovider/dynamicresources.go, Device.
_KARPENTER_DEVICE: Final = ("name", "attributes", "capacity", "allowMultipleAllocations", "consumesCounters")
_INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_HOSTNAME: Final = "kubernetes.io/hostname"


def karpenter_template(slices: Sequence[ResourceSlice], instance_type: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the DynamicResources of Karpenter's InstanceType, with JSON's spelling of the Go fields.

    All values are known, so that there are no ``attributeBindings``. A pool is named after the instance type: the
    allocator keeps what it finds by driver, pool and device, for all instance types together.

    Args:
        slices: What a node publishes.
        instance_type: Its name.

    Returns:
        The template, and the fields of devices that it has no place for, each with how many devices have it.
    """
    wires = [resource_slice.to_wire()["spec"] for resource_slice in slices]
    devices = [device for spec in wires for device in spec.get("devices", ())]
    lost = {field for device in devices for field in device} - {*_KARPENTER_DEVICE}
    counts = tuple(f"{field} of {sum(field in device for device in devices)} devices" for field in sorted(lost))
    templates = [_karpenter_slice(spec, instance_type) for spec in wires]
    return {"instanceType": instance_type, "dynamicResources": {"resourceSliceTemplates": templates}}, counts


def _karpenter_slice(spec: Mapping[str, Any], instance_type: str) -> dict[str, Any]:
    template: dict[str, Any] = {"driver": spec["driver"], "pool": {"name": instance_type}}
    if "sharedCounters" in spec:
        template["sharedCounters"] = spec["sharedCounters"]
    if "devices" in spec:
        template["devices"] = [
            {field: device[field] for field in _KARPENTER_DEVICE if field in device} for device in spec["devices"]
        ]
    return template


def cluster_autoscaler_template(slices: Iterable[ResourceSlice], instance_type: str, node: str) -> list[dict[str, Any]]:
    """Return a template Node and its ResourceSlices, of which a cloud provider makes what ``TemplateNodeInfo`` returns.

    The Node says what is known of it: its name, to which the slices belong, and its instance type. CPU, memory, taints
    and other labels are the provider's to add.

    Args:
        slices: What a node publishes.
        instance_type: The instance type's name.
        node: The node's name.
    """
    labels = {_INSTANCE_TYPE: instance_type, _HOSTNAME: node}
    template = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    return [template, *(resource_slice.to_wire() for resource_slice in slices)]
