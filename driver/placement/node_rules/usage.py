"""What pods take of the nodes that they are on, or are about to be on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.explain.known.needs import HostPort, PodNeeds, PodTerm

__all__ = ["Group", "NodeUse", "PlacedPod", "Usage"]


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that has a node.

    Attributes:
        node: Its node.
        namespace: Its namespace.
        needs: What it takes there.
        is_leaving: Whether it is being deleted.
    """

    node: str
    namespace: str
    needs: PodNeeds
    is_leaving: bool = False


@dataclass(slots=True)
class NodeUse:
    """What the pods of a node take of it.

    Attributes:
        pods: How many there are.
        amounts: How much of each resource they request together.
        ports: The node's ports that they take, each as often as it is taken.
    """

    pods: int = 0
    amounts: Counter[str] = field(default_factory=Counter)
    ports: Counter[HostPort] = field(default_factory=Counter)


@dataclass(slots=True)
class Group:
    """Pods of one namespace with equal labels.

    Attributes:
        namespace: Their namespace.
        labels: Their labels.
        nodes: How many of them are on each node.
        leaving: How many of these are being deleted.
    """

    namespace: str
    labels: Mapping[str, str]
    nodes: Counter[str] = field(default_factory=Counter)
    leaving: Counter[str] = field(default_factory=Counter)


_NOTHING: Final = NodeUse()


class Usage:
    """Counts what placed pods take.

    Attributes:
        changed: The nodes on which something has changed; whoever looks at them empties it.
        groups: All pods, by what selectors see of them.
        apart: By the terms of pods that want others far from them: on which nodes these are, and how many.
    """

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.groups: dict[object, Group] = {}
        self.apart: dict[PodTerm, Counter[str]] = {}
        self._pods: dict[str, PlacedPod] = {}
        self._nodes: dict[str, NodeUse] = {}

    def of(self, node: str) -> NodeUse:
        """Return what is taken of a node; not to be changed."""
        return self._nodes.get(node, _NOTHING)

    def get(self, key: str) -> PlacedPod | None:
        """Return the pod ``namespace/name``."""
        return self._pods.get(key)

    def put(self, key: str, pod: PlacedPod | None) -> None:
        """Take over a pod ``namespace/name`` in place of what is known of it; None forgets it."""
        former = self._pods.get(key)
        if former == pod:
            return
        if former is not None:
            self._count(former, -1)
            del self._pods[key]
        if pod is not None:
            self._count(pod, 1)
            self._pods[key] = pod

    def _count(self, pod: PlacedPod, sign: int) -> None:
        node, needs = pod.node, pod.needs
        self.changed.add(node)
        use = self._nodes.get(node)
        if use is None:
            use = self._nodes[node] = NodeUse()
        use.pods += sign
        for name, amount in needs.requests.items():
            _add(use.amounts, name, sign * amount)
        for port in needs.ports:
            _add(use.ports, port, sign)
        if not use.pods:
            del self._nodes[node]
        identity = (pod.namespace, tuple(needs.labels.items()))
        group = self.groups.get(identity)
        if group is None:
            group = self.groups[identity] = Group(pod.namespace, needs.labels)
        _add(group.nodes, node, sign)
        if pod.is_leaving:
            _add(group.leaving, node, sign)
        if not group.nodes:
            del self.groups[identity]
        for term in needs.apart:
            there = self.apart.setdefault(term, Counter())
            _add(there, node, sign)
            if not there:
                del self.apart[term]


def _add(counter: Counter, key: object, amount: int) -> None:  # type: ignore[type-arg]
    counter[key] += amount
    if not counter[key]:
        del counter[key]
