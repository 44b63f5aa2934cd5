"""Binding conditions of published devices: kube-scheduler binds a pod once its devices are prepared.

Source: KEP-5007, and Device in k8s.io/api v0.37.2, resource/v1/types.go. ``bindsToNode`` is not set: it is for devices
that more than one node can reach, and each of Rootport's slices is of one node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from driver.api import resource_v1
from driver.api.prepared_device import PREPARATION_FAILED, PREPARED
from driver.layout.attributes import TYPE

__all__ = ["with_binding_conditions"]


def with_binding_conditions(
    devices: Iterable[resource_v1.Device], types: Collection[str]
) -> Iterator[resource_v1.Device]:
    """Yield published devices; those of some types wait for the node's plugin.

    Args:
        devices: In the order of the slices.
        types: Values of the attribute ``type``.
    """
    conditions = {"binding_conditions": (PREPARED,), "binding_failure_conditions": (PREPARATION_FAILED,)}
    for device in devices:
        type_ = device.attributes.get(TYPE)
        waits = type_ is not None and type_.string_value in types
        yield device.model_copy(update=conditions) if waits else device
