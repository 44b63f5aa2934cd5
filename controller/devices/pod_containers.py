"""Which containers of a pod use what a claim was given: asked for once a pod, and kept no longer than needed."""

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
from driver.objects import ClaimAllocation, PodConsumer

__all__ = ["PodContainers", "container_uses"]

_LOG: Final = logging.getLogger(__name__)
_MOST: Final = 64  # as a Device's status holds
_MOST_TIMES: Final = 10

_Uses: TypeAlias = tuple[tuple[str, str, str], ...]


class PodContainers:
    """Asks for pods. For one thread.

    What a Device object says already is not asked for again: so a new leader asks for next to nothing, and what is
    kept here are the pods that no object tells of yet, or that name no container.

    Args:
        api: The API server.
    """

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._asked: defaultdict[str, dict[str, _Uses]] = defaultdict(dict)
        self._too_early: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._is_forbidden = False

    def names(self, node: str, item: ClaimAllocation, pod: PodConsumer, told: ContainersByPod) -> tuple[str, ...]:
        """The names of the containers, init containers included; none where the pod is gone or may not be read.

        Args:
            node: The label's value of the node: what is known is kept by it.
            item: What the claim was given.
            pod: A pod that the claim is reserved for.
            told: What the node's Device objects say.

        Raises:
            ApiServerError: The API server does not answer.
        """
        key = (pod.uid, item.uid, item.request)
        if key in told:
            return told[key]
        asked = self._asked[node]
        found = asked.get(pod.uid)
        if found is None:
            found, is_final = self._ask(item.namespace, pod)
            early = self._too_early[node]
            early[pod.uid] += 1
            if is_final or early[pod.uid] >= _MOST_TIMES:
                asked[pod.uid] = found
                del early[pod.uid]
        wanted = item.request.partition("/")[0]
        uses = (name for claim, request, name in found if claim == item.claim and request in ("", wanted))
        return tuple(dict.fromkeys(uses))[:_MOST]

    def are_final(self, node: str) -> bool:
        """Whether no pod of a node was asked too early, so that it has to be asked again soon."""
        return not self._too_early.get(node)

    def retain(self, node: str, pods: Collection[str]) -> None:
        """Of a node only the pods with these UIDs are still of interest."""
        asked, early = self._asked.pop(node, {}), self._too_early.pop(node, Counter())
        if kept := {uid: uses for uid, uses in asked.items() if uid in pods}:
            self._asked[node] = kept
        if still := Counter({uid: times for uid, times in early.items() if uid in pods}):
            self._too_early[node] = still

    def _ask(self, namespace: str, pod: PodConsumer) -> tuple[_Uses, bool]:
        """The uses, and whether that is all there will be of them."""
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
            return (), True  # another one of that name
        uses = tuple(container_uses(wire))
        # kube-scheduler writes an extended resource's claim into the pod's status after it has reserved the claim, and
        # before it binds the pod (k8s.io/kubernetes v1.36.3, dynamicresources.go, bindClaim).
        return uses, bool(uses or (wire.get("spec") or {}).get("nodeName"))


def container_uses(pod: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Which container uses which claim: the claim's name, the request or nothing for all of them, and the container.

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
