"""The hardware of a trace's nodes as Rootport's plugin would report it, and what is published of it.

The GPUs of all models have the same memory, so that a share's memory can be in the ratio of its compute on every node,
as in the trace, which knows only one figure for a share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from driver.placement.replay.trace import TraceNode
from tests.support.mig_machines import MIB, dgx_h100

__all__ = ["MIB_PER_PERCENT", "inventory", "slices"]

MIB_PER_PERCENT: Final = 160


def inventory(node: TraceNode) -> Inventory:
    """Return a node's hardware: GPUs of its model without MIG, with all that NVML tells of such a card."""
    gpus = tuple(
        replace(
            gpu,
            model=node.shape.model,
            memory_bytes=100 * MIB_PER_PERCENT * MIB,
            uuid=f"GPU-{node.name}-{gpu.index}",
            mig=None,
            links=(),
        )
        for gpu in dgx_h100().gpus[: len(node.shape.gpus)]
    )
    return replace(dgx_h100(), node=node.name, gpus=gpus)


def slices(node: TraceNode, layout: Layout = Layout.ONE) -> Iterator[dict[str, Any]]:
    """Yield what the controller publishes of a node while no claim uses it; unless told in the cheapest layout."""
    machine = inventory(node)
    for item in resource_slices(machine, only=free_node(layout, machine, DEFAULT_POLICIES)):
        yield item.to_wire()
