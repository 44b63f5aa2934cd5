"""Decides what the controller does about one node: a table of cases, without any I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from controller.cluster.liveness import Liveness, is_silent

__all__ = ["Action", "NodeFacts", "decide"]


class Action(Enum):
    """What to do about a node.

    Attributes:
        PUBLISH: Make its slices what its inventory says.
        KEEP: Change nothing.
        AWAIT_NODE: Change nothing, and reconcile again once the Node had time to appear.
        WITHDRAW_SILENT: Delete its slices, because its plugin is silent: no claim could be prepared there.
        WITHDRAW_UNREPORTED: Delete its slices, because it has no inventory.
        FORGET: Delete everything that belongs to it, because its Node is gone.
    """

    PUBLISH = "publish"
    KEEP = "keep"
    AWAIT_NODE = "await node"
    WITHDRAW_SILENT = "withdraw: silent"
    WITHDRAW_UNREPORTED = "withdraw: no inventory"
    FORGET = "forget"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the controller knows of a node.

    Attributes:
        has_node: Whether its Node exists.
        node_was_seen: Whether this process has seen a Node of that name.
        missed_for_s: How long this process has found no Node of that name, in seconds.
        has_inventory: Whether its NodeInventory exists.
        liveness: How long it has been silent, by its heartbeats.
        has_beaten: Whether this process has itself seen a heartbeat.
        was_withdrawn: Whether its inventory says that its slices were withdrawn because it was silent.
    """

    has_node: bool
    node_was_seen: bool
    missed_for_s: float
    has_inventory: bool
    liveness: Liveness
    has_beaten: bool
    was_withdrawn: bool


def decide(node: NodeFacts, *, node_grace_s: float) -> Action:
    """Decide what to do about the node.

    Args:
        node: What is known of it.
        node_grace_s: How long a NodeInventory may wait for its Node: a plugin may come up before kubelet registers.
    """
    if not node.has_node:
        is_gone = node.node_was_seen or node.missed_for_s >= node_grace_s
        return Action.FORGET if is_gone else Action.AWAIT_NODE
    if not node.has_inventory:
        return Action.WITHDRAW_UNREPORTED
    if is_silent(node.liveness, was_withdrawn=node.was_withdrawn, has_beaten=node.has_beaten):
        return Action.WITHDRAW_SILENT if node.liveness is Liveness.SILENT else Action.KEEP
    if node.liveness is Liveness.QUIET:
        # kubelet deletes the slices 30 s after it lost its plugin: to create them again now would be a tug of war.
        return Action.KEEP
    return Action.PUBLISH
