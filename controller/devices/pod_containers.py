"""Finds the containers of a pod that use a claim: each pod is read once, and kept no longer than needed."""

from __future__ import annotations

import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from controller.cluster.stored_devices import ContainersByPod
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import PODS, JsonObject
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer

__all__ = ["PodContainers", "container_uses"]

_LOG: Final = logging.getLogger(__name__)
_MOST: Final = 64  # as a Device's status holds
_MOST_TIMES: Final = 10

_Uses: TypeAlias = tuple[tuple[str, str, str], ...]


class PodContainers:
    """Reads pods. Not thread-safe.

    If a Device object shows a pod's containers, the pod is not read again: so a new leader reads next to nothing, and
    only the pods that no object shows yet, or that use the claim in no container, are kept here.

    Args:
        api: The API server.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._read: defaultdict[str, dict[str, _Uses]] = defaultdict(dict)
        self._too_early: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._is_forbidden = False

    def names(self, node: str, item: ClaimAllocation, pod: Consumer, shown: ContainersByPod) -> tuple[str, ...]:
        """Return the names of the containers, init containers included; none if the pod is gone or may not be read.

        Args:
            node: The value of the node's label.
            item: The claim's allocation.
            pod: A pod that the claim is reserved for.
            shown: The containers that the node's Device objects show.

        Raises:
            ApiServerError: The API server does not answer.
        """
        key = (pod.uid, item.uid, item.request)
        if key in shown:
            return shown[key]
        read = self._read[node]
        found = read.get(pod.uid)
        if found is None:
            found, is_final = self._read_pod(item.namespace, pod)
            early = self._too_early[node]
            early[pod.uid] += 1
            if is_final or early[pod.uid] >= _MOST_TIMES:
                read[pod.uid] = found
                del early[pod.uid]
        wanted = item.request.partition("/")[0]
        uses = (name for claim, request, name in found if claim == item.claim and request in ("", wanted))
        return tuple(dict.fromkeys(uses))[:_MOST]

    def are_final(self, node: str) -> bool:
        """Return whether no pod of a node was read too early, so that it has to be read again soon."""
        return not self._too_early.get(node)

    def retain(self, node: str, pods: Collection[str]) -> None:
        """Forget all pods of a node but those with these UIDs."""
        read, early = self._read.pop(node, {}), self._too_early.pop(node, Counter())
        if kept := {uid: uses for uid, uses in read.items() if uid in pods}:
            self._read[node] = kept
        if still := Counter({uid: times for uid, times in early.items() if uid in pods}):
            self._too_early[node] = still

    def _read_pod(self, namespace: str, pod: Consumer) -> tuple[_Uses, bool]:
        """Return the uses, and whether there will be no more of them."""
        try:
            wire = self._api.get(PODS, pod.name, namespace=namespace)
        except NotFoundError:
            return (), True
        except ForbiddenError as error:
            if not self._is_forbidden:
                self._is_forbidden = True
                _LOG.warning("Device objects name no containers: pods may not be read", extra={"error": str(error)})
            return (), True
        if wire["metadata"].get("uid") != pod.uid:
            return (), True  # another pod of that name
        uses = tuple(container_uses(wire))
        # kube-scheduler writes an extended resource's claim into the pod's status after it has reserved the claim, and
        # before it binds the pod (k8s.io/kubernetes v1.36.3, dynamicresources.go, bindClaim).
        return uses, bool(uses or (wire.get("spec") or {}).get("nodeName"))


def container_uses(pod: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each claim, the request (empty for all of them), and the container that uses it.

    Source: k8s.io/api v0.36.3, core/v1/types.go, ResourceClaim, PodResourceClaimStatus, PodExtendedResourceClaimStatus.

    Args:
        pod: As the API server stores it.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    made = {item["name"]: item.get("resourceClaimName") for item in status.get("resourceClaimStatuses") or ()}
    claims = {
        item["name"]: item.get("resourceClaimName") or made.get(item["name"])
        for item in spec.get("resourceClaims") or ()
    }
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for use in (container.get("resources") or {}).get("claims") or ():
            if claim := claims.get(use["name"]):
                yield claim, sys.intern(use.get("request") or ""), sys.intern(container["name"])
    extended = status.get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or ():
        yield extended["resourceClaimName"], mapping["requestName"], sys.intern(mapping["containerName"])
