"""Writes about the modes of GPUs that are not published now, and about the changes under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.allocator.demands import Demand
from driver.allocator.pools import PooledDevice
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.explain.texts import device_names
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.modes.hypothesis import is_for_gpus
from driver.wording import short

__all__ = ["modes_text"]

_LONGEST: Final = 240
_CONCERNED: Final = frozenset(
    {
        Reason.CLASS_SELECTS_TOO_FEW,
        Reason.SELECTOR_SELECTS_TOO_FEW,
        Reason.DEVICE_TAINTED,
        Reason.DEVICES_IN_USE,
        Reason.CAPACITY_IN_USE,
    }
)


def modes_text(
    state: ClusterState, node: str, reason: Reason | None, demand: Demand, devices: Sequence[PooledDevice]
) -> str:
    """Write what to append to a node's reason where its GPUs could be published in other modes; empty for nothing.

    Args:
        state: The cluster.
        node: The node.
        reason: What keeps it from serving the demand.
        demand: The demand.
        devices: All devices of the node.
    """
    why = state.modes_remark(node)
    if not why or reason not in _CONCERNED or not is_for_gpus(demand):
        return ""
    changing = [device for device in devices if any(taint.key == MODE_CHANGE_TAINT for taint in device.device.taints)]
    text = (
        f"; not every mode of its GPUs is published at a time ({short(why, _LONGEST)}): the controller changes a GPU"
        " that is free where pending claims need that"
    )
    return f"{text}; under way there: {device_names(changing)}" if changing else text
