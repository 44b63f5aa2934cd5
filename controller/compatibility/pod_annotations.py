"""Writes Koordinator's annotation device-allocated on pods that have devices of this driver."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from controller.cluster.inventories import StoredInventory, Unreadable
from controller.cluster.pod_index import PodDevices
from controller.compatibility.refusals import Refusals
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import PODS, JsonObject
from driver.status.device_allocated import DEVICE_ALLOCATED, device_allocated

__all__ = ["PodAnnotations"]

_LOG: Final = logging.getLogger(__name__)
# The scheduler binds a pod once all of its claims are allocated and reserved; before that there may be more to come.
_UNBOUND_S: Final = 2.0
_LONGEST_UNBOUND_S: Final = 60.0
_UNKNOWN_S: Final = 300.0  # what the node has is not known now
# Koordinator's programs are koord-scheduler, koord-manager, koordlet; its documentation's scheduler has that name too.
_KOORDINATOR: Final = "koord"
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class PodAnnotations:
    """Writes the annotation once a pod is bound and its claims are allocated. Not thread-safe.

    A pod is read, and written only if the annotation is not as it should be: the value of its author, who may have
    written any, is replaced. What a Koordinator scheduler wrote, or will write, is left alone.

    Args:
        api: The API server.
        pod: Returns the devices of the pod with this UID; None if it has none, or is gone.
        inventory: Returns a node's NodeInventory; None if there is none.
        domain: The domain of the resources' names.
        pause: Called before a pod is read: waits as long as the pace demands. Returns True if the controller stops.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        pod: Callable[[str], PodDevices | None],
        inventory: Callable[[str], StoredInventory | None],
        domain: str,
        pause: Callable[[], bool],
    ) -> None:
        self._api = api
        self._pod = pod
        self._inventory = inventory
        self._domain = domain
        self._pause = pause
        self._settled: dict[str, int] = {}  # a hash of the allocations that need no write any more, by the pod's UID
        self._unbound: Counter[str] = Counter()
        self._refusals = Refusals("pods are not annotated")

    def reconcile(self, uid: str) -> float | None:
        """Write the pod's annotation if it needs one and does not have it, for :func:`~controller.work_loop.work`.

        Raises:
            ApiServerError: The API server is away or too busy.
        """
        pod = self._pod(uid)
        if pod is None or pod.pod.is_group:
            self._settled.pop(uid, None)
            del self._unbound[uid]
            return None
        decisive = _decisive(pod)
        if self._settled.get(uid) == decisive or self._pause():
            return None
        wanted = self._wanted(pod)
        if not wanted:
            return _UNKNOWN_S
        try:
            again_s = self._write(pod, wanted)
        except (ForbiddenError, InvalidError) as error:
            return self._refusals.again_s(error, namespace=pod.allocations[0].namespace, pod=pod.pod.name)
        if again_s is None:
            self._settled[uid] = decisive
            del self._unbound[uid]
        return again_s

    def _wanted(self, pod: PodDevices) -> str:
        nodes = {item.pool for item in pod.allocations}
        if len(nodes) > 1:
            return ""  # a pod is on one node: these allocations are not those of a running pod
        stored = self._inventory(nodes.pop())
        inventory = None if stored is None else stored.inventory()
        if inventory is None or isinstance(inventory, Unreadable):
            return ""  # the node's condition says why
        return device_allocated(inventory, pod.allocations, domain=self._domain)

    def _write(self, pod: PodDevices, wanted: str) -> float | None:
        name, namespace = pod.pod.name, pod.allocations[0].namespace
        try:
            stored = self._api.get(PODS, name, namespace=namespace)
            metadata, spec = stored["metadata"], stored.get("spec") or {}
            is_over = (stored.get("status") or {}).get("phase") in _ENDED
            if metadata.get("uid") != pod.pod.uid or is_over or _is_koordinators(stored):
                return None
            if not spec.get("nodeName"):
                self._unbound[pod.pod.uid] += 1
                return min(_UNBOUND_S * self._unbound[pod.pod.uid], _LONGEST_UNBOUND_S)
            if (metadata.get("annotations") or {}).get(DEVICE_ALLOCATED) == wanted:
                return None
            body: JsonObject = {"metadata": {"uid": pod.pod.uid, "annotations": {DEVICE_ALLOCATED: wanted}}}
            self._api.merge_patch(PODS, name, body, namespace=namespace)
        except (NotFoundError, ConflictError):
            return None  # it is gone, or another pod has its name
        self._refusals.end()
        _LOG.debug("pod annotated", extra={"namespace": namespace, "pod": name})
        return None


def _decisive(pod: PodDevices) -> int:
    """Return a hash of what decides about the annotation: to make that takes milliseconds, and most changes are not."""
    return hash(
        tuple(
            (
                item.claim,
                item.pool,
                item.device,
                item.share_id,
                item.core,
                item.memory_bytes,
                item.memory_ratio,
                item.bandwidth,
                item.vf,
            )
            for item in pod.allocations
        )
    )


def _is_koordinators(pod: JsonObject) -> bool:
    """Whether a Koordinator scheduler places the pod, or wrote the annotation."""
    if str((pod.get("spec") or {}).get("schedulerName", "")).startswith(_KOORDINATOR):
        return True
    return any(manager.startswith(_KOORDINATOR) for manager in _writers(pod["metadata"]))


def _writers(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the field managers of the annotation (k8s.io/apimachinery, meta/v1, ManagedFieldsEntry, FieldsV1)."""
    for entry in metadata.get("managedFields") or ():
        annotations = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations") or {}
        if f"f:{DEVICE_ALLOCATED}" in annotations:
            yield str(entry.get("manager", ""))
