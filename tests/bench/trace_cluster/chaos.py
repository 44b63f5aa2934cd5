"""What goes wrong in a cluster while pods are placed, all at a size at which it hits many of them at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from driver.adapters.kubernetes.errors import AlreadyExistsError, NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS, JsonObject
from driver.placement.replay.trace import TracePod
from tests.bench.trace_cluster.cluster import TraceCluster
from tests.bench.trace_cluster.objects import NAMESPACE, Way, claim, pod

__all__ = ["Chaos"]

_T = TypeVar("_T")
_PATIENCE_S: Final = 60.0
_TAINT: Final = {"key": "example.com/broken", "effect": "NoSchedule"}


@dataclass(slots=True)
class Chaos:
    """Creates pods in crowds, and disturbs each crowd in another way.

    Args:
        cluster: Started.
        way: Who chooses.
        crowd: How many pods are created at once.
        seed: Of what is chosen by chance.

    Attributes:
        told: What happened, in sentences.
    """

    cluster: TraceCluster
    way: Way
    crowd: int = 100
    seed: int = 42
    told: list[str] = field(default_factory=list)
    _wanted: set[str] = field(default_factory=set)

    def through(self, sequence: Sequence[TracePod], *, within_s: float = 300) -> Iterator[str]:
        """Create all pods, and yield what happens; at the end every pod that is not deleted is bound, or it is told."""
        acts = [self._kill, self._pause, self._break_nodes, self._delete, self._nothing]
        for number in range(0, len(sequence), self.crowd):
            crowd = sequence[number : number + self.crowd]
            self._create(crowd)
            act = acts[number // self.crowd % len(acts)]
            yield f"{number + len(crowd)} pods: {act(crowd)}"
            yield f"  {self._until_bound(within_s)}"

    def unbound(self) -> list[str]:
        """The pods that should be bound, and are not."""
        pods = _lasting(lambda: self.cluster.api.list(PODS, namespace=NAMESPACE)).items
        bound = {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}
        return sorted(self._wanted - bound)

    def _create(self, crowd: Sequence[TracePod]) -> None:
        api = self.cluster.api
        for item in crowd:
            if (wanted := claim(item, self.way)) is not None:
                _made(lambda wanted=wanted: api.create(RESOURCE_CLAIMS, wanted, namespace=NAMESPACE))  # type: ignore[misc]
            _made(lambda item=item: api.create(PODS, pod(item, self.way), namespace=NAMESPACE))  # type: ignore[misc]
            self._wanted.add(item.name)

    def _kill(self, _: Sequence[TracePod]) -> str:
        controller = self.cluster.processes.get("controller")
        if controller is None:
            return "nothing happens: there is no controller"
        controller.kill()
        began = time.monotonic()
        self.cluster.start_controller()
        return f"the leading controller is killed, and another is started in {time.monotonic() - began:.1f} s"

    def _pause(self, _: Sequence[TracePod]) -> str:
        plane = self.cluster.plane
        plane.stop_api_server()
        time.sleep(5)
        plane.start_api_server()
        self.cluster.processes["kube-apiserver"] = plane.api_server
        return "the API server is killed, and is back after 5 s"

    def _break_nodes(self, crowd: Sequence[TracePod]) -> str:
        """Cordon half, and taint half, of the nodes for which claims are allocated and not yet reserved."""
        names = {item.name for item in crowd}
        chosen: set[str] = set()
        end = time.monotonic() + 10
        while time.monotonic() < end and len(chosen) < 10:
            for each in self.cluster.api.list(RESOURCE_CLAIMS, namespace=NAMESPACE).items:
                if each["metadata"]["name"] in names and not (each.get("status") or {}).get("reservedFor"):
                    chosen |= _pools(each)
        others = Random(self.seed).sample([node.name for node in self.cluster.nodes], 10)
        for number, name in enumerate(sorted(chosen)[:10] + others):
            spec: JsonObject = {"unschedulable": True} if number % 2 else {"taints": [_TAINT]}
            self.cluster.api.merge_patch(NODES, name, {"spec": spec})
        return f"{min(len(chosen), 10)} nodes between allocation and binding and 10 others are cordoned or tainted"

    def _delete(self, crowd: Sequence[TracePod]) -> str:
        for item in crowd:
            self._wanted.discard(item.name)
            _gone(lambda item=item: self.cluster.api.delete(PODS, item.name, namespace=NAMESPACE))  # type: ignore[misc]
            if claim(item, self.way) is not None:
                _gone(lambda item=item: self.cluster.api.delete(RESOURCE_CLAIMS, item.name, namespace=NAMESPACE))  # type: ignore[misc]
        return f"all {len(crowd)} pods are deleted at once, with their claims"

    def _nothing(self, _: Sequence[TracePod]) -> str:
        for item in self.cluster.api.list(NODES).items:
            taints = [each for each in item["spec"].get("taints", ()) if each["key"] == _TAINT["key"]]
            if taints or item["spec"].get("unschedulable"):
                self.cluster.api.merge_patch(
                    NODES, item["metadata"]["name"], {"spec": {"taints": None, "unschedulable": None}}
                )
        return "all nodes are usable again"

    def _until_bound(self, within_s: float) -> str:
        began = time.monotonic()
        while left := self.unbound():
            controller = self.cluster.processes.get("controller")
            if controller is not None and not controller.alive():
                self.cluster.start_controller()  # as its Deployment does where it has lost the lease
            if time.monotonic() - began > within_s:
                self.told.append(f"not bound after {within_s:.0f} s: {', '.join(left)}")
                self._wanted -= set(left)
                return self.told[-1]
            time.sleep(1)
        return f"all bound after {time.monotonic() - began:.0f} s more"


def _pools(wire: JsonObject) -> set[str]:
    allocation = (wire.get("status") or {}).get("allocation") or {}
    return {result["pool"] for result in allocation.get("devices", {}).get("results", ())}


def _lasting(call: Callable[[], _T]) -> _T:
    """Call until the API server answers."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return call()
        except UnavailableError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _made(create: Callable[[], Any]) -> None:
    try:
        _lasting(create)
    except AlreadyExistsError:  # the answer to an earlier call was lost
        return


def _gone(delete: Callable[[], Any]) -> None:
    try:
        _lasting(delete)
    except NotFoundError:
        return
