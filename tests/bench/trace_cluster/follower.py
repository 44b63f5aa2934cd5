"""Follows the pods of a namespace: which are bound, and which fit nowhere."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import PODS, JsonObject
from tests.bench.trace_cluster.objects import NAMESPACE, Way

__all__ = ["Follower", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pod.

    Attributes:
        pod: Its name.
        node: Where it is bound; empty where it fits nowhere.
        message: Why it does not fit.
        at: When that was seen (monotonic).
    """

    pod: str
    node: str
    message: str
    at: float


class Follower:
    """Watches in a thread of its own, and tells each pod's outcome once; one that was told to fit nowhere may follow.

    Args:
        api: Of the administrator.
        way: Who chooses. What kube-scheduler says of a managed pod with claims is not the last word on it.

    Attributes:
        outcomes: In the order in which they were seen.
    """

    def __init__(self, api: KubernetesApi, way: Way) -> None:
        self.outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._api = api
        self._way = way
        self._told: set[str] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                listing = self._api.list(PODS, namespace=NAMESPACE)
                for item in listing.items:
                    self._look(item)
                self._follow(listing.resource_version)
            except ApiServerError:  # the chaos of a test, or the end
                time.sleep(0.5)

    def _follow(self, version: str) -> None:
        with self._api.watch(PODS, resource_version=version, namespace=NAMESPACE, duration_s=3600) as stream:
            for event in stream:
                if event.type in {"ADDED", "MODIFIED"}:
                    self._look(event.object)

    def _look(self, pod: JsonObject) -> None:
        name = pod["metadata"]["name"]
        node = pod["spec"].get("nodeName", "")
        is_placed = self._way is Way.MANAGED and pod["spec"].get("resourceClaims")
        message = "" if node or is_placed else _unschedulable(pod)
        if (node or message) and name not in self._told:
            self._told.add(name)
            self.outcomes.put(Outcome(name, node, message, time.monotonic()))


def _unschedulable(pod: JsonObject) -> str:
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["status"] == "False" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message") or condition["reason"])
    return ""
