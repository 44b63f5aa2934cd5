"""What the controller does about one node: a table of cases, without any I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.cluster.liveness import Liveness

__all__ = ["Action", "NodeView", "decide"]


class Action(Enum):
    """What to do about a node.

    Attributes:
        PUBLISH: Make its slices what its inventory says.
        KEEP: Change nothing.
        AWAIT_NODE: Change nothing, and look again once the Node had time to appear.
        WITHDRAW_SILENT: Delete its slices, because its plugin is silent: nothing could be prepared there.
        WITHDRAW_UNTOLD: Delete its slices and devices, because no inventory stands behind them.
        FORGET: Delete all that is known of it, because its Node is gone.
    """

    PUBLISH = "publish"
    KEEP = "keep"
    AWAIT_NODE = "await node"
    WITHDRAW_SILENT = "withdraw: silent"
    WITHDRAW_UNTOLD = "withdraw: no inventory"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the controller knows of a node.

    Attributes:
        has_node: Its Node exists.
        node_was_seen: This process has seen a Node of that name.
        missed_for_s: How long this process has found no Node of that name, in seconds.
        has_inventory: Its NodeInventory exists.
        liveness: By its heartbeats.
        has_beaten: This process has itself seen a heartbeat.
        was_withdrawn: Its inventory says that its slices were withdrawn because it was silent.
    """

    has_node: bool
    node_was_seen: bool
    missed_for_s: float
    has_inventory: bool
    liveness: Liveness
    has_beaten: bool
    was_withdrawn: bool


def decide(view: NodeView, *, node_grace_s: float) -> Action:
    """What to do about the node.

    Args:
        view: What is known.
        node_grace_s: How long a NodeInventory may wait for its Node: a plugin may come up before kubelet registers.
    """
    if not view.has_node:
        is_gone = view.node_was_seen or view.missed_for_s >= node_grace_s
        return Action.FORGET if is_gone else Action.AWAIT_NODE
    if not view.has_inventory:
        return Action.WITHDRAW_UNTOLD
    if view.liveness is Liveness.SILENT:
        return Action.WITHDRAW_SILENT
    if view.liveness is Liveness.QUIET:
        # kubelet deletes the slices 30 s after it lost its plugin: to create them again now would be a tug of war.
        return Action.KEEP
    if view.was_withdrawn and not view.has_beaten:
        # Only first seen by this process: a dead node's slices must not come back whenever a controller starts.
        return Action.KEEP
    return Action.PUBLISH
