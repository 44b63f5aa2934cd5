"""Summarizes a cluster's nodes from the objects on its API server."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from driver.api.rootport_v1alpha1 import Device
from driver.model.managed_nodes import TAINT
from driver.objects.faults import PREPARE_CONDITIONS
from driver.status.overview import DeviceOverview, NodeOverview, ReadyState, Usage, device_overview, is_available, total

__all__ = [
    "NodeReadiness",
    "NodeTotals",
    "is_healthy",
    "name_order",
    "node_overviews",
    "node_readiness",
    "node_totals",
    "readiness",
]

_SILENT: Final = "NodeSilent"
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReadiness:
    """Whether a node's plugin reports that it is ready, whether it can prepare claims at all, and who allocates."""

    state: ReadyState
    reason: str = ""
    cannot_prepare: bool = False
    managed: bool = False


def node_readiness(inventory: Mapping[str, Any]) -> NodeReadiness:
    """Return what a stored NodeInventory says of its node: the plugin's condition, or the controller's silence."""
    conditions = [item for item in (inventory.get("status") or {}).get("conditions") or () if item]
    published: Mapping[str, Any] = next((item for item in conditions if item.get("type") == "Published"), {})
    is_silent = published.get("status") == "False" and published.get("reason") == _SILENT
    return readiness(
        conditions, is_silent=is_silent, unreported=NodeReadiness(state="NotReady", reason="PluginStarting")
    )


def readiness(conditions: Iterable[Mapping[str, Any]], *, is_silent: bool, unreported: NodeReadiness) -> NodeReadiness:
    """Return whether a node's plugin is ready, whether it can prepare claims, and whether the node is managed.

    Args:
        conditions: The conditions of its NodeInventory.
        is_silent: Whether the plugin's heartbeats have ended.
        unreported: What to return if the plugin has not reported whether it is ready.
    """
    by_type = {item.get("type"): item for item in conditions}
    # The controller says so of what it has published: controller/slices/reconciler.py.
    managed = f"{TAINT}:NoSchedule" in str(by_type.get("Published", {}).get("message") or "")
    if is_silent:
        return NodeReadiness(state="Silent", reason=_SILENT, managed=managed)
    cannot = any(by_type.get(name, {}).get("status") == "False" for name in PREPARE_CONDITIONS)
    ready = by_type.get("Ready")
    if ready is None:
        return replace(unreported, cannot_prepare=cannot, managed=managed)
    is_ready = ready.get("status") == "True"
    return NodeReadiness(
        state="Ready" if is_ready else "NotReady",
        reason="" if is_ready else str(ready.get("reason") or "NotReady"),
        cannot_prepare=cannot,
        managed=managed,
    )


def node_overviews(devices: Iterable[Device], readiness: Mapping[str, NodeReadiness]) -> tuple[NodeOverview, ...]:
    """Return the nodes, by name.

    Args:
        devices: The Device objects of any nodes.
        readiness: The readiness of nodes by name; a node that has only devices has lost its NodeInventory.
    """
    of_node: defaultdict[str, list[Device]] = defaultdict(list)
    for device in devices:
        of_node[device.spec.node_name].append(device)
    nodes = []
    for name in sorted({*of_node, *readiness}, key=name_order):
        shown = tuple(sorted(map(device_overview, of_node[name]), key=_device_order))
        ready = readiness.get(name) or NodeReadiness(state="Silent", reason="NoInventory")
        if ready.state == "Ready" and any(device.reason == _SILENT for device in shown):
            ready = NodeReadiness(state="Silent", reason=_SILENT, managed=ready.managed)
        nodes.append(
            NodeOverview(
                name=name,
                state=ready.state,
                reason=ready.reason,
                cannot_prepare=ready.cannot_prepare,
                managed=ready.managed,
                devices=shown,
            )
        )
    return tuple(nodes)


def name_order(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that orders names as people do: gpu-2 before gpu-10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def is_healthy(node: NodeOverview) -> bool:
    """Whether the node can prepare claims and none of its devices is unhealthy."""
    return node.state == "Ready" and all(device.state != "Unhealthy" for device in node.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTotals:
    """How much of one or several nodes is free.

    Devices that are unhealthy, in no ResourceSlice, or on a node that is silent, are not free.

    Attributes:
        gpus: GPUs; free are those of which no claim has a part.
        memory: The GPUs' memory, in bytes.
        largest: The most memory that one more share or partition can get from one GPU, in bytes.
        nics: RDMA NICs; free are those of which no claim has a part.
        vfs: Virtual functions of NICs.
        fpgas: FPGAs.
        unhealthy: The unhealthy devices, each with its node's name.
    """

    gpus: Usage
    memory: Usage
    largest: int
    nics: Usage
    vfs: Usage
    fpgas: Usage
    unhealthy: tuple[tuple[str, DeviceOverview], ...]


def node_totals(*nodes: NodeOverview) -> NodeTotals:
    """Return the totals of these nodes together."""
    gpus = [(node, device) for node in nodes for device in node.devices if device.type == "gpu"]
    nics = [(node, device) for node in nodes for device in node.devices if device.type == "rdma"]
    return NodeTotals(
        gpus=_counted(gpus),
        memory=total(_usable(node, device, device.memory) for node, device in gpus),
        largest=max((_largest(node, device) for node, device in gpus), default=0),
        nics=_counted(nics),
        vfs=total(_usable(node, device, device.vfs) for node, device in nics),
        fpgas=_counted([(node, device) for node in nodes for device in node.devices if device.type == "fpga"]),
        unhealthy=tuple(
            (node.name, device) for node in nodes for device in node.devices
            if device.state == "Unhealthy" and device.type != "rdma-vf"
        ),
    )  # fmt: skip


def _counted(devices: list[tuple[NodeOverview, DeviceOverview]]) -> Usage:
    free = sum(is_available(node, device) and not device.mode for node, device in devices)
    return Usage(used=len(devices) - free, total=len(devices))


def _usable(node: NodeOverview, device: DeviceOverview, amount: Usage | None) -> Usage | None:
    if amount is None or is_available(node, device):
        return amount
    return Usage(used=amount.total, total=amount.total)


def _largest(node: NodeOverview, device: DeviceOverview) -> int:
    return (device.free_memory or 0) if is_available(node, device) else 0


def _device_order(device: DeviceOverview) -> tuple[int, tuple[tuple[int, int | str], ...]]:
    types = ("gpu", "rdma", "rdma-vf", "fpga")
    return types.index(device.type) if device.type in types else len(types), name_order(device.name)
