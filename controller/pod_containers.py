"""Which containers of a pod use what a claim was given: asked for once a pod, and kept no longer than needed."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final, TypeAlias

from controller.device_changes import ContainersByPod
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import PODS, JsonObject
from driver.objects import ClaimAllocation, PodConsumer

__all__ = ["PodContainers", "container_uses"]

_LOG: Final = logging.getLogger(__name__)
_MOST: Final = 64  # as a Device's status holds

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
        if pod.uid not in asked:
            asked[pod.uid] = self._ask(item.namespace, pod)
        wanted = item.request.partition("/")[0]
        uses = (name for claim, request, name in asked[pod.uid] if claim == item.claim and request in ("", wanted))
        return tuple(dict.fromkeys(uses))[:_MOST]

    def retain(self, node: str, pods: Collection[str]) -> None:
        """Of a node only the pods with these UIDs are still of interest."""
        asked = self._asked.pop(node, {})
        if kept := {uid: uses for uid, uses in asked.items() if uid in pods}:
            self._asked[node] = kept

    def _ask(self, namespace: str, pod: PodConsumer) -> _Uses:
        try:
            wire = self._api.get(PODS, pod.name, namespace=namespace)
        except NotFoundError:
            return ()
        except ForbiddenError as error:
            if not self._is_forbidden:
                self._is_forbidden = True
                _LOG.warning("Device objects name no containers: pods may not be read", extra={"error": str(error)})
            return ()
        # A pod of that name may be another one by now.
        return tuple(container_uses(wire)) if wire["metadata"].get("uid") == pod.uid else ()


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
