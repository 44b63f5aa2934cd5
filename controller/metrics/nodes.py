"""Turns the nodes' overviews into the metric families about nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from driver.model.devices import DeviceType
from driver.status.metric_family import Family, family
from driver.status.overview import NodeOverview, is_available, total

__all__ = ["GpuFigures", "gpu_figures", "node_families"]

_NODE: Final = ("node",)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    """A node's GPUs in a few numbers.

    Attributes:
        free: How many are available (:func:`driver.status.overview.is_available`) and have no allocation.
        memory_capacity: The memory of all of them, in bytes.
        memory_allocated: The part of it that is allocated, in bytes.
        memory_largest_free: The most memory that one more share, partition or whole GPU can get, in bytes.
        core_allocated: The part of their compute that is allocated, from 0 to 1.
        fragmentation: The part of the free memory that is not in the largest piece, from 0 to 1.
    """

    free: int
    memory_capacity: int
    memory_allocated: int
    memory_largest_free: int
    core_allocated: float
    fragmentation: float


def gpu_figures(node: NodeOverview) -> GpuFigures | None:
    """Return the figures of a node; None if it has no GPUs."""
    gpus = [device for device in node.devices if device.type == DeviceType.GPU.value]
    if not gpus:
        return None
    memory, core = total(gpu.memory for gpu in gpus), total(gpu.core for gpu in gpus)
    usable = [gpu for gpu in gpus if is_available(node, gpu)]
    largest = max((gpu.free_memory or 0 for gpu in usable), default=0)
    free = total(gpu.memory for gpu in usable).free
    return GpuFigures(
        free=sum(not gpu.mode for gpu in usable),
        memory_capacity=memory.total,
        memory_allocated=memory.used,
        memory_largest_free=largest,
        core_allocated=core.used / core.total if core.total else 0.0,
        fragmentation=max(1.0 - largest / free, 0.0) if free else 0.0,
    )


def node_families(nodes: Iterable[NodeOverview]) -> Iterator[Family]:
    """Yield the families about nodes."""
    known = tuple(nodes)
    counts = [(node.name, Counter((device.type, device.state) for device in node.devices)) for node in known]
    yield family(
        "gauge",
        "rootport_node_devices",
        "Devices of the node by type and state (Healthy, Unhealthy, Unknown).",
        ("node", "type", "state"),
        (((name, *kind), float(count)) for name, found in counts for kind, count in sorted(found.items())),
    )
    figures = [(node.name, found) for node in known if (found := gpu_figures(node)) is not None]
    yield family(
        "gauge",
        "rootport_node_gpus_free",
        "GPUs of which nobody has any part, and which can be given.",
        _NODE,
        (((name,), float(found.free)) for name, found in figures),
    )
    yield family(
        "gauge",
        "rootport_node_gpu_memory_capacity_bytes",
        "Memory of all GPUs of the node.",
        _NODE,
        (((name,), float(found.memory_capacity)) for name, found in figures),
    )
    yield family(
        "gauge",
        "rootport_node_gpu_memory_allocated_bytes",
        "Memory of the node's GPUs that claims have.",
        _NODE,
        (((name,), float(found.memory_allocated)) for name, found in figures),
    )
    yield family(
        "gauge",
        "rootport_node_gpu_memory_largest_free_bytes",
        "The most memory of one GPU that one more claim can get on the node.",
        _NODE,
        (((name,), float(found.memory_largest_free)) for name, found in figures),
    )
    yield family(
        "gauge",
        "rootport_node_gpu_core_allocated_ratio",
        "Part of the compute of the node's GPUs that claims have, from 0 to 1.",
        _NODE,
        (((name,), found.core_allocated) for name, found in figures),
    )
    yield family(
        "gauge",
        "rootport_node_gpu_fragmentation_ratio",
        "1 less the largest free piece of GPU memory as a part of all that is free; 0 where nothing is free.",
        _NODE,
        (((name,), found.fragmentation) for name, found in figures),
    )
    rivals = [(node.name, Counter(device.holders > 0 for device in node.devices if device.has_rival)) for node in known]
    yield family(
        "gauge",
        "rootport_node_rival_devices",
        "Devices of the node that another system gives out as well, by whether claims have them.",
        ("node", "held"),
        (((name, str(held).lower()), float(count)) for name, found in rivals for held, count in sorted(found.items())),
    )
