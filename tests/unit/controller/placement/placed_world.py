"""The placement loop in one thread, before an API server of a few lines that can lose answers, or be late."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.cluster.packed import pack
from controller.cluster.transforms import claim_event, claim_metadata
from controller.placement.claim_reconciler import ClaimReconciler
from controller.placement.context import PlacementContext
from controller.placement.counts import PlacementCounter
from controller.placement.events import PlacementEvents
from controller.placement.gate_opener import GateOpener
from controller.placement.known import KnownCluster
from controller.placement.loop import PlacementLoop
from controller.placement.managed_nodes import ManagedNodes
from controller.placement.pod_reconciler import PodReconciler
from controller.placement.pods import transform_pod
from controller.placement.writer import ClaimWriter
from driver.adapters.kubernetes.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.model.managed_nodes import GATE, LABEL, MANAGED, TAINT
from tests.support.explain_cluster import classes
from tests.support.waiting import eventually

__all__ = ["FakeServer", "Leader", "claim", "is_ungated", "node", "pod", "slice_of", "wants"]

Json = dict[str, Any]
ATTRIBUTES = {"type": {"string": "gpu"}, "sharingStrategy": {"string": "timeSlicing"}}


class FakeServer:
    """Claims and pods with resource versions and preconditions, as the API server keeps them.

    Attributes:
        mistakes: How many of the next writes of allocations end with an error that nobody expects.
        allocated: How many allocations were written.
        lost: How many of the next writes of allocations are carried out without an answer.
        events: Those that were created.
        refused: The objects of which no write is taken, by key; with a subresource after it, none of that.
        late: Writes that have had no answer, and come later: call them.
        holds_back: Whether the next writes of allocations come later.
        unseen: Whether no leader sees changes for now.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.leaders: list[Leader] = []
        self.lost = 0
        self.mistakes = 0
        self.allocated = 0
        self.events: list[Json] = []
        self.refused: set[str] = set()
        self.late: list[Callable[[], object]] = []
        self.holds_back = False
        self.unseen = False
        self._version = 10
        self._ever: dict[tuple[str, str], None] = {}

    def put(self, kind: str, wire: Json) -> None:
        """Store an object."""
        self._version += 1
        wire["metadata"]["resourceVersion"] = str(self._version)
        metadata = wire["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        self.objects[kind, key] = wire
        self._ever[kind, key] = None
        self._tell(kind, key)

    def delete(self, kind: str, key: str) -> None:
        """Delete an object."""
        del self.objects[kind, key]
        self._tell(kind, key)

    def show(self) -> None:
        """Let the leaders see all again, and what is gone."""
        self.unseen = False
        for kind, key in self._ever:
            self._tell(kind, key)

    def get(self, resource: Any, name: str, *, namespace: str) -> Json:
        found = self.objects.get((resource.kind, f"{namespace}/{name}"))
        if found is None:
            raise NotFoundError("gone", status=404)
        return copy.deepcopy(found)

    def create(self, _resource: Any, body: Json) -> None:
        """Take an Event."""
        self.events.append(body)

    def merge_patch(
        self, resource: Any, name: str, body: Json, *, namespace: str, subresource: str | None = None
    ) -> Json:
        def write() -> Json:
            return self._write(resource.kind, f"{namespace}/{name}", body, subresource)

        key = f"{namespace}/{name}"
        if key in self.refused or (subresource and f"{key} {subresource}" in self.refused):
            raise InvalidError("a webhook says no", status=422)
        if subresource and body["status"].get("allocation"):
            if self.holds_back:
                self.late.append(write)
                raise UnavailableError("no answer")
            self.allocated += 1
            if self.mistakes:
                self.mistakes -= 1
                write()
                raise RuntimeError("a mistake of ours")
            if self.lost:
                self.lost -= 1
                write()
                raise UnavailableError("no answer")
        return write()

    def _write(self, kind: str, key: str, body: Json, subresource: str | None) -> Json:
        stored = self.objects.get((kind, key))
        if stored is None:
            raise NotFoundError("gone", status=404)
        wanted = body["metadata"]
        if any(name in wanted and wanted[name] != stored["metadata"][name] for name in ("uid", "resourceVersion")):
            raise ConflictError("changed", status=409)
        changed = copy.deepcopy(stored)
        if subresource and kind == "Pod":
            changed["status"] |= body["status"]
        elif subresource:
            allocation = body["status"]["allocation"]
            assert not (allocation and changed.get("status", {}).get("allocation")), "the API server refuses that"
            changed["status"] = {"allocation": allocation} if allocation else {}
        elif kind == "Pod":
            changed["spec"].pop("schedulingGates", None)
        else:
            for field in ("annotations", "finalizers"):
                if field in wanted:
                    value = wanted[field]
                    changed["metadata"][field] = (
                        {k: v for k, v in value.items() if v is not None} if field == "annotations" else value or []
                    )
        self.put(kind, changed)
        return copy.deepcopy(changed)

    def _tell(self, kind: str, key: str) -> None:
        if not self.unseen:
            for leader in self.leaders:
                leader.see(kind, key, copy.deepcopy(self.objects.get((kind, key))))

    def holders(self) -> list[str]:
        """The devices that claims have."""
        return [
            f"{item['pool']}/{item['device']}"
            for (kind, _), wire in self.objects.items()
            if kind == "ResourceClaim"
            for item in (wire.get("status", {}).get("allocation") or {"devices": {"results": ()}})["devices"]["results"]
        ]


class _NoPauses(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


class Leader:
    """A controller's placement, whose writes are carried out in this thread, between two passes."""

    def __init__(self, server: FakeServer, identity: str, *, pauses: bool = True) -> None:
        self.server = server
        self.leads = True
        self.known = KnownCluster(SkippedObjects())
        self.counts = PlacementCounter()
        self.now = time.monotonic()
        for kind, wire in classes():
            self.known.put(kind.value, wire["metadata"]["name"], pack(wire))
        stop = threading.Event() if pauses else _NoPauses()
        nodes = ManagedNodes(self._is_labelled)
        api: Any = server
        self.events = PlacementEvents(api, instance="test")
        self.context = PlacementContext(
            self.known, policy="pack", counts=self.counts, events=self.events, clock=lambda: self.now
        )
        writer = ClaimWriter(api, self.known.records, nodes, identity=identity, may_write=lambda: self.leads)
        self.claims = ClaimReconciler(self.context, writer, identity=identity)
        gates = GateOpener(self.context, writer)
        pods = PodReconciler(
            self.context,
            self.claims,
            gates,
            writer,
            has_other_devices=lambda: False,
            stop=stop,
        )
        self.loop = PlacementLoop(
            self.context, pods=pods, gates=gates, claims=self.claims, writer=writer, nodes=nodes, stop=stop
        )
        server.leaders.append(self)
        for (name, key), wire in list(server.objects.items()):
            self.see(name, key, copy.deepcopy(wire))

    def take_over(self) -> None:
        """What a leader does first."""
        self.known.apply(10_000)
        self.loop._fence_predecessors()

    def run(self, seconds: float = 5.0) -> None:
        """Let so many seconds go by."""
        for _ in range(round(seconds / 0.5)):
            self.loop._pass()
            end = time.monotonic() + 10
            while self.context.jobs.running and time.monotonic() < end:
                self.context.jobs.finish()
                time.sleep(0.001)
            self.now += 0.5

    def see(self, kind: str, key: str, wire: Json | None) -> None:
        """What the watch shows."""
        kept = transform_pod(wire) if wire is not None and kind == "Pod" else wire
        if kept is None:
            self.known.remove(kind, key)
            return
        if kind == "ResourceClaim":
            self.known.observe_claim(claim_metadata(kept))
            kept = claim_event(kept)
        self.known.put(kind, key, pack(kept))

    def warnings(self, count: int) -> list[Json]:
        """Write the Events that are due, and return the warnings, which are so many."""
        stop = threading.Event()
        thread = threading.Thread(target=self.events.run, args=(stop,))
        thread.start()
        try:
            return eventually("told", lambda: found if len(found := self._warnings()) >= count else None)  # type: ignore[no-any-return]
        finally:
            stop.set()
            thread.join()

    def _warnings(self) -> list[Json]:
        return [event for event in self.server.events if event["type"] == "Warning"]

    def close(self) -> None:
        self.context.jobs.close()

    def _is_labelled(self, name: str) -> bool:
        wire = self.server.objects.get(("Node", name))
        return wire is not None and wire["metadata"]["labels"].get(LABEL) == MANAGED


def node(name: str) -> Json:
    """A managed node."""
    labels = {LABEL: MANAGED, "kubernetes.io/hostname": name}
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": amounts}}


def slice_of(name: str, *, gpus: int) -> Json:
    """Its devices."""
    since = (datetime.now(UTC) - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    taint = {"key": TAINT, "effect": "NoSchedule", "timeAdded": since}
    devices = [{"name": f"gpu-{number}", "attributes": ATTRIBUTES, "taints": [taint]} for number in range(gpus)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "rootport.dev", "nodeName": name, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"slice-{name}"}, "spec": spec}


def claim(name: str) -> Json:
    """A claim for a GPU."""
    exactly = {"deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": 1}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def pod(name: str, *claims: str) -> Json:
    """A pod at the gate."""
    named = [{"name": item, "resourceClaimName": item} for item in claims]
    spec = {"resourceClaims": named, "schedulingGates": [{"name": GATE}], "containers": [{"name": "main"}]}
    return {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": spec, "status": {"phase": "Pending"}}


def wants(server: FakeServer, name: str, *claims: str) -> None:
    """Let a pod come with claims for a GPU each."""
    for item in claims:
        server.put("ResourceClaim", claim(item))
    server.put("Pod", pod(name, *claims))


def is_ungated(server: FakeServer, name: str) -> bool:
    """Return whether a pod has no gate any more."""
    return "schedulingGates" not in server.objects["Pod", f"team/{name}"]["spec"]
