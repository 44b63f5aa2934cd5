"""Whether a node has room for a pod: its resources, its number of pods, its ports.

Source: fitsRequest in k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/noderesources/fit.go, and
plugins/nodeports. What is not requested is not looked at, so that a node may be overcommitted in it.
"""

from __future__ import annotations

from driver.explain.known.cluster import NodeState
from driver.explain.known.needs import PodNeeds
from driver.placement.node_rules.usage import NodeUse

__all__ = ["no_room"]


def no_room(node: NodeState, use: NodeUse, needs: PodNeeds) -> str:
    """Return what the node has too little of, for people; empty where it has room.

    A node that does not say what it has is taken for endless.
    """
    there = node.allocatable
    if there is not None:
        if use.pods >= there.get("pods", 0):
            return "no room for another pod"
        for name, amount in needs.requests.items():
            if amount > there.get(name, 0) - use.amounts.get(name, 0):
                return f"not enough {'CPU' if name == 'cpu' else name}"
    if needs.ports and any(port.conflicts(taken) for port in needs.ports for taken in use.ports):
        return "a port in use that the pod wants"
    return ""
