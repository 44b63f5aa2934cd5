"""The parts of compatibility as the publisher starts them: a queue and a thread each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from controller.cluster.inventories import StoredInventory
from controller.cluster.pod_index import PodDevices
from controller.compatibility.node_labels import NodeLabels
from controller.compatibility.pod_annotations import PodAnnotations
from controller.work_loop import work
from controller.work_queue import WorkQueue
from driver.adapters.kubernetes.api import KubernetesApi

__all__ = ["Compatibility", "LabelsOption"]

LabelsOption: TypeAlias = Literal["off", "on", "remove"]

_PER_S: Final = 50.0
# The scheduler reserves a pod's claims one after the other, and binds it then.
_PODS_SETTLE_S: Final = 2.0
_NODES_SETTLE_S: Final = 0.3
_MAX_DELAY_S: Final = 300.0


class Compatibility:
    """Writes what other systems' tools read, as long as this controller leads.

    Args:
        api: The API server.
        annotations: The domain of the resources' names in pods' annotations; empty to write none.
        labels: Whether to label Nodes, or to remove the labels.
    """

    def __init__(self, api: KubernetesApi, *, annotations: str, labels: LabelsOption) -> None:
        self._api = api
        self._annotations = annotations
        self._labels = labels
        self._pods = WorkQueue(max_delay_s=_MAX_DELAY_S)
        self._nodes = WorkQueue(max_delay_s=_MAX_DELAY_S)

    def pod_changed(self, uid: str) -> None:
        """Take note that the devices of the pod with this UID have changed."""
        if self._annotations:
            self._pods.add(uid, after_s=_PODS_SETTLE_S)

    def node_changed(self, node: str) -> None:
        """Take note that a node's inventory has changed."""
        if self._labels != "off":
            self._nodes.add(node, after_s=_NODES_SETTLE_S)

    def start(
        self,
        stop: threading.Event,
        *,
        is_synced: Callable[[], bool],
        pod: Callable[[str], PodDevices | None],
        inventory: Callable[[str], StoredInventory | None],
        yield_to_slices: Callable[[], None],
    ) -> list[threading.Thread]:
        """Start the threads.

        Args:
            stop: Ends them, once the queues are closed.
            is_synced: Whether inventories and claims have been read once.
            pod: Returns the devices of the pod with this UID; None if it has none, or is gone.
            inventory: Returns a node's NodeInventory; None if there is none.
            yield_to_slices: Waits while slices are due.
        """

        def pause() -> bool:
            yield_to_slices()
            return stop.wait(1.0 / _PER_S)

        threads = []
        if self._annotations:
            annotations = PodAnnotations(self._api, pod=pod, inventory=inventory, domain=self._annotations, pause=pause)
            threads.append(_worker("pod-annotations", self._pods, "pod_uid", annotations.reconcile, stop, is_synced))
        if self._labels != "off":
            labels = NodeLabels(
                self._api,
                inventory=inventory,
                remove=self._labels == "remove",
                enqueue=self.node_changed,
                pause=pause,
            )
            threads.append(threading.Thread(target=labels.watch, args=(stop,), name="watch-node-labels", daemon=True))
            threads.append(
                _worker(
                    "node-labels",
                    self._nodes,
                    "node",
                    labels.reconcile,
                    stop,
                    lambda: is_synced() and labels.is_synced,
                )
            )
        for thread in threads:
            thread.start()
        return threads

    def close(self) -> None:
        """End the work once the writes under way are done."""
        self._pods.close()
        self._nodes.close()


def _worker(
    name: str,
    queue: WorkQueue,
    what: str,
    reconcile: Callable[[str], float | None],
    stop: threading.Event,
    may_start: Callable[[], bool],
) -> threading.Thread:
    def run() -> None:
        work(queue, what, reconcile, stop=stop, may_start=may_start)

    return threading.Thread(target=run, name=name, daemon=True)
