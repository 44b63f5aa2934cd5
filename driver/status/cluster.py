"""The nodes of a cluster out of the objects that the API server has of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.api.rootport_v1alpha1 import Device
from driver.objects.health import PREPARE_CONDITIONS
from driver.status.overview import Amount, DeviceOverview, NodeOverview, NodeState, can_be_given, device_overview, total

__all__ = ["NodeFigures", "NodeWord", "is_well", "name_order", "node_figures", "node_overviews", "node_word"]

_SILENT: Final = "NodeSilent"
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWord:
    """How a node's plugin is, as :class:`~driver.status.overview.NodeOverview` has it."""

    state: NodeState
    reason: str = ""
    cannot_prepare: bool = False


def node_word(inventory: Mapping[str, Any]) -> NodeWord:
    """What a stored NodeInventory says of its node: the plugin's word, and the controller's that it hears nothing."""
    conditions = {item.get("type"): item for item in (inventory.get("status") or {}).get("conditions") or () if item}
    published, ready = conditions.get("Published") or {}, conditions.get("Ready")
    if published.get("status") == "False" and published.get("reason") == _SILENT:
        return NodeWord(state="Silent", reason=_SILENT)
    cannot = any((conditions.get(name) or {}).get("status") == "False" for name in PREPARE_CONDITIONS)
    if ready is None:
        return NodeWord(state="NotReady", reason="PluginStarting", cannot_prepare=cannot)
    if ready.get("status") == "True":
        return NodeWord(state="Ready", cannot_prepare=cannot)
    return NodeWord(state="NotReady", reason=str(ready.get("reason") or "NotReady"), cannot_prepare=cannot)


def node_overviews(devices: Iterable[Device], words: Mapping[str, NodeWord]) -> tuple[NodeOverview, ...]:
    """The nodes, by name.

    Args:
        devices: Device objects of any nodes.
        words: What is known of the nodes themselves; one that has devices only lost its NodeInventory.
    """
    of_node: defaultdict[str, list[Device]] = defaultdict(list)
    for device in devices:
        of_node[device.spec.node_name].append(device)
    nodes = []
    for name in sorted({*of_node, *words}, key=name_order):
        shown = tuple(sorted(map(device_overview, of_node[name]), key=_device_order))
        word = words.get(name) or NodeWord(state="Silent", reason="NoInventory")
        if word.state == "Ready" and any(device.reason == _SILENT for device in shown):
            word = NodeWord(state="Silent", reason=_SILENT)
        nodes.append(
            NodeOverview(
                name=name, state=word.state, reason=word.reason, cannot_prepare=word.cannot_prepare, devices=shown
            )
        )
    return tuple(nodes)


def name_order(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts names as people do: gpu-2 before gpu-10."""
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in _DIGITS.split(name) if part)


def is_well(node: NodeOverview) -> bool:
    """Whether nothing is wrong with a node or a device of it."""
    return node.state == "Ready" and all(device.state != "Unhealthy" for device in node.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """How much of a node, or of several, is free.

    What is unhealthy, in no ResourceSlice, or on a node of which nothing is heard or that can prepare no claim, is not
    free.

    Attributes:
        gpus: GPUs; free are those that nobody has a part of.
        memory: Bytes of the GPUs.
        largest: Bytes of memory that one more share or partition can get of one GPU.
        nics: RDMA NICs; free are those that nobody has a part of.
        vfs: Virtual functions of NICs.
        fpgas: FPGAs.
        unhealthy: The devices that are.
    """

    gpus: Amount
    memory: Amount
    largest: int
    nics: Amount
    vfs: Amount
    fpgas: Amount
    unhealthy: tuple[tuple[str, DeviceOverview], ...]


def node_figures(*nodes: NodeOverview) -> NodeFigures:
    """Of these nodes together."""
    gpus = [(node, device) for node in nodes for device in node.devices if device.type == "gpu"]
    nics = [(node, device) for node in nodes for device in node.devices if device.type == "rdma"]
    return NodeFigures(
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


def _counted(devices: list[tuple[NodeOverview, DeviceOverview]]) -> Amount:
    free = sum(can_be_given(node, device) and not device.mode for node, device in devices)
    return Amount(used=len(devices) - free, total=len(devices))


def _usable(node: NodeOverview, device: DeviceOverview, amount: Amount | None) -> Amount | None:
    if amount is None or can_be_given(node, device):
        return amount
    return Amount(used=amount.total, total=amount.total)


def _largest(node: NodeOverview, device: DeviceOverview) -> int:
    return (device.free_memory or 0) if can_be_given(node, device) else 0


def _device_order(device: DeviceOverview) -> tuple[int, tuple[tuple[int, int | str], ...]]:
    types = ("gpu", "rdma", "rdma-vf", "fpga")
    return types.index(device.type) if device.type in types else len(types), name_order(device.name)
