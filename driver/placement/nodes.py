"""The nodes of a cluster as they are ranked: what is left of each, followed from change to change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.allocator.candidates import Scene
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.view import NodeView
from driver.explain.known.cluster import NodeState
from driver.explain.known.needs_reading import read_needs
from driver.explain.known.reading import read_safely, text
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import is_labelled
from driver.placement.devices.free import free_gpus
from driver.placement.devices.layout import Layouts, NodeLayout
from driver.placement.engine import Engine
from driver.placement.node_rules.usage import PlacedPod, Usage
from driver.placement.shapes import NodeShape

__all__ = ["KnownNode", "Nodes"]

_ENDLESS: Final = 2**53
"""Of what a node does not say how much it has."""
_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True, eq=False)
class KnownNode:
    """A node that is ranked.

    Attributes:
        state: The node.
        version: Of what claims hold of it and what is published of it.
        view: What is published of it.
        layout: Its GPUs and NICs.
        shape: What is left of it.
    """

    state: NodeState
    version: int
    view: NodeView
    layout: NodeLayout
    shape: NodeShape


class Nodes:
    """Follows the nodes of a cluster state.

    Args:
        state: The cluster.
        engine: Is told of each node that changes.
        managed_only: Whether only nodes count that are labelled as managed, and whose devices have the taint for it.
        features: The feature gates.

    Attributes:
        known: The nodes that are ranked, by name.
        usage: What pods take of all nodes.
        layouts_changed: Grows when there is a layout that no node had before.
    """

    def __init__(self, state: ClusterState, engine: Engine, *, managed_only: bool, features: Features) -> None:
        self.known: dict[str, KnownNode] = {}
        self.usage = Usage()
        self.layouts_changed = 0
        self._state = state
        self._engine = engine
        self._managed_only = managed_only
        self._features = features
        self._layouts = Layouts()
        self._seen: set[NodeLayout] = set()
        self._changed = state.changed_nodes()
        self._expected: dict[str, set[str]] = {}  # by node, pods that have claims there and are not bound
        self._bound: set[str] = set()
        for key in state.pod_keys():
            pod = state.pod(key)
            if pod is not None and pod.node and not pod.ended:
                self._bound.add(key)
                self.usage.put(key, PlacedPod(pod.node, pod.namespace, pod.needs, is_leaving=pod.deleting))

    @property
    def left_out(self) -> int:
        """How many nodes are not ranked, since they are not managed."""
        return len(self._state.nodes) - len(self.known)

    def put_pod(self, key: str, wire: Mapping[str, Any] | None) -> None:
        """Take over a pod that has a node; None forgets it.

        Raises:
            UnreadableError: It is not what the API server would store.
        """
        node = text(((wire or {}).get("spec") or {}).get("nodeName"))
        if wire is None or not node or ((wire.get("status") or {}).get("phase")) in _ENDED:
            if key in self._bound:
                self._bound.discard(key)
                self.usage.put(key, None)
            return
        needs = read_safely(read_needs, wire)
        self._bound.add(key)
        metadata = wire["metadata"]
        is_leaving = bool(metadata.get("deletionTimestamp"))
        self.usage.put(key, PlacedPod(node, text(metadata.get("namespace")), needs, is_leaving=is_leaving))

    def follow(self) -> None:
        """Take over what has changed in the state and in the use of nodes."""
        changed = self._changed
        if changed.may_be_any:
            self._look_at({*self.known, *self._state.nodes})
        elif changed.names:
            self._look_at(changed.names)
        changed.names.clear()
        changed.may_be_any = False
        if self.usage.changed:
            for name in self.usage.changed:
                known = self.known.get(name)
                if known is not None:
                    self._reshape(name, known)
            self.usage.changed.clear()

    def _look_at(self, names: Iterable[str]) -> None:
        state = self._state
        for name in names:
            node = state.nodes.get(name)
            if node is None or not self._is_ours(name, node):
                self._drop(name)
                continue
            known = self.known.get(name)
            version = state.version(name)
            if known is None or known.state is not node or known.version != version:
                self._expect(name)
                self._take(name, node, version)

    def _is_ours(self, name: str, node: NodeState) -> bool:
        """Whether a node counts: as long as its devices have no taint, kube-scheduler gives them."""
        if not self._managed_only:
            return True
        return is_labelled(node.node.metadata.labels) and self._state.is_tainted(name)

    def scene(self, node: KnownNode) -> Scene:
        """Return the node as the allocator sees it now."""
        return Scene(node.view, self._state.ledger, self._features, self._state.selections)

    def samples(self) -> list[KnownNode]:
        """Return a node of each layout."""
        return list({node.layout: node for node in self.known.values()}.values())

    def _take(self, name: str, node: NodeState, version: int) -> None:
        try:
            view = self._state.index.view(node.node)
        except AllocationError:
            # A slice's node selector is invalid: as upstream, nothing can be allocated there.
            self._drop(name)
            return
        known = self.known.get(name)
        layout = known.layout if known is not None and known.view is view else self._layouts.of(view)
        if layout not in self._seen:
            self._seen.add(layout)
            self.layouts_changed += 1
        shape = self._shape(name, node, view, layout)
        if known is None:
            self.known[name] = KnownNode(node, version, view, layout, shape)
        else:
            known.state, known.version, known.view, known.layout, known.shape = node, version, view, layout, shape
        self._engine.put(name, shape)

    def _reshape(self, name: str, known: KnownNode) -> None:
        known.shape = self._shape(name, known.state, known.view, known.layout)
        self._engine.put(name, known.shape)

    def _drop(self, name: str) -> None:
        if self.known.pop(name, None) is not None:
            self._engine.put(name, None)

    def _expect(self, name: str) -> None:
        """Count the pods whose claims are allocated on a node, and that no node has yet: kube-scheduler binds them."""
        expected: dict[str, PlacedPod] = {}
        for claim in self._state.held_on(name):
            for pod in self._state.pods_of(claim.key):
                if pod.is_waiting:
                    expected[pod.key] = PlacedPod(name, pod.namespace, pod.needs)
        former: Collection[str] = self._expected.get(name, ())
        for key in former:
            placed = self.usage.get(key)
            if key not in expected and key not in self._bound and placed is not None and placed.node == name:
                self.usage.put(key, None)
        for key, pod_there in expected.items():
            if key not in self._bound:
                self.usage.put(key, pod_there)
        if expected:
            self._expected[name] = set(expected)
        elif former:
            del self._expected[name]

    def _shape(self, name: str, node: NodeState, view: NodeView, layout: NodeLayout) -> NodeShape:
        use, there = self.usage.of(name), node.allocatable
        return NodeShape(
            cpu_milli=_ENDLESS if there is None else there.get("cpu", 0) - use.amounts.get("cpu", 0),
            memory=_ENDLESS if there is None else there.get("memory", 0) - use.amounts.get("memory", 0),
            pods=_ENDLESS if there is None else there.get("pods", 0) - use.pods,
            model=layout.model,
            gpus=free_gpus(layout, view, self._state.ledger),
        )
