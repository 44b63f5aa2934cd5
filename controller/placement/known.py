"""What placement knows of the cluster: a state of its own, so that no explanation under way makes a pod wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from controller.cluster.packed import decompress
from controller.explanations.shared_state import SharedClusterState
from controller.placement.pods import WaitingPod, has_claims, is_nominated, is_to_nominate, on_node, read_waiting
from controller.placement.records import ClaimRecords, read_claim_record
from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.allocator.features import Features
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState

__all__ = ["Changes", "KnownCluster"]


class Changes:
    """What has changed since it was last asked.

    Attributes:
        pods: The keys of pods that have changed, or are gone.
        claims: The keys of claims that have changed, or are gone.
        bound: By key, pods that have a node, as the API has them; None for those that are gone.
        frees: Whether something may fit now that did not.
    """

    def __init__(self) -> None:
        self.pods: set[str] = set()
        self.claims: set[str] = set()
        self.bound: dict[str, Mapping[str, Any] | None] = {}
        self.frees = False


class KnownCluster:
    """Takes in the informers' events. Its reader is one thread; events come from several.

    Args:
        skipped: Counts objects that cannot be read.
        features: The feature gates of the cluster; None for Kubernetes' defaults.

    Attributes:
        records: The claims.
        waiting: The pods that wait, by key.
        woken: Set when something has changed.
    """

    def __init__(self, skipped: SkippedObjects, features: Features | None = None) -> None:
        self.records = ClaimRecords()
        self.waiting: dict[str, WaitingPod] = {}
        self.woken = threading.Event()
        self._skipped = skipped
        self._cluster = SharedClusterState(skipped=skipped, features=features)
        self._lock = threading.Lock()  # of those below
        self._changes = Changes()
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._bound: set[str] = set()  # and those that are nominated
        self._to_nominate: dict[str, Mapping[str, Any]] = {}

    @property
    def queued(self) -> int:
        """How many changes of objects are not applied yet."""
        return self._cluster.queued

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Take in an object that is new or has changed."""
        match Kind(kind):
            case Kind.CLAIM:
                try:
                    self._put_claim(key, data)
                except Exception as error:  # noqa: BLE001 - the other objects, and explanations, must not suffer
                    self._skipped.skip(RESOURCE_CLAIMS, "Failed", f"{key} placement", error)
                    self.records.remove(key)  # so nothing is written there; what it holds counts
            case Kind.POD:
                try:
                    self._put_pod(key, data)
                except Exception as error:  # noqa: BLE001 - as above
                    self._skipped.skip(PODS, "Failed", f"{key} placement", error)
                    self.remove(kind, key)
                return
            case _:
                with self._lock:
                    self._changes.frees = True
        self._cluster.put(kind, key, data)
        self.woken.set()

    def remove(self, kind: str, key: str) -> None:
        """Drop an object that is gone."""
        self._cluster.remove(kind, key)
        match Kind(kind):
            case Kind.CLAIM:
                self.records.remove(key)
                with self._lock:
                    self._metadata.pop(key, None)
                    self._changes.claims.add(key)
                    self._changes.frees = True
            case Kind.POD:
                self._drop_pod(key)
            case _:
                with self._lock:
                    self._changes.frees = True
        self.woken.set()

    def observe_claim(self, metadata: Mapping[str, Any]) -> None:
        """Take in a claim's metadata; its :meth:`put` follows."""
        with self._lock:
            self._metadata[f"{metadata['namespace']}/{metadata['name']}"] = metadata

    def take_changes(self) -> Changes:
        """Return what has changed since the last call."""
        with self._lock:
            taken, self._changes = self._changes, Changes()
        return taken

    def apply(self, most: int) -> bool:
        """Apply at most so many changes of objects to the state; return whether more are queued."""
        return self._cluster.apply_changes(most)

    @contextmanager
    def use(self) -> Iterator[ClusterState]:
        """Lend the state."""
        with self._cluster.use() as state:
            yield state

    def nominated(self, key: str, node: str) -> Mapping[str, Any] | None:
        """Take note that a pod that waits for that gets a node; return it as if it had it, None if it is gone."""
        with self._lock:
            wire = self._to_nominate.get(key)
            if wire is not None:
                self._bound.add(key)
        return None if wire is None else on_node(wire, node)

    def _put_claim(self, key: str, data: bytes) -> None:
        with self._lock:
            metadata = self._metadata.pop(key, None)
        if metadata is not None:
            before = self.records.get(key)
            record = read_claim_record(metadata, decompress(data))
            self.records.observe(record)
            with self._lock:
                self._changes.frees |= before is not None and before.is_allocated and not record.is_allocated
        with self._lock:
            self._changes.claims.add(key)

    def _put_pod(self, key: str, data: bytes) -> None:
        wire = decompress(data)
        pod = read_waiting(wire)
        with self._lock:
            if pod is None:
                self.waiting.pop(key, None)
            else:
                self.waiting[key] = pod
            self._changes.pods.add(key)
            if wire["spec"].get("nodeName"):
                self._bound.add(key)
                self._changes.bound[key] = wire
                self._changes.frees |= wire["status"].get("phase") in {"Succeeded", "Failed"}
            elif is_nominated(wire):
                self._bound.add(key)
                self._changes.bound[key] = on_node(wire, wire["status"]["nominatedNodeName"])
            if is_to_nominate(wire):
                self._to_nominate[key] = wire
            elif self._to_nominate.pop(key, None) is not None:
                self._cluster.remove(Kind.POD.value, key)
        if has_claims(wire) or is_to_nominate(wire):
            self._cluster.put(Kind.POD.value, key, data)
        self.woken.set()

    def _drop_pod(self, key: str) -> None:
        with self._lock:
            self.waiting.pop(key, None)
            self._to_nominate.pop(key, None)
            self._changes.pods.add(key)
            if key in self._bound:
                self._bound.discard(key)
                self._changes.bound[key] = None
                self._changes.frees = True
