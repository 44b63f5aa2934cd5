"""The containers of each claim, as the kubelet reports them: the PodResources API (KEP-606, KEP-3695).

No right at the API server is needed for it. It tells all devices of a claim for each container that names the claim,
also where the container names one request of it alone (k8s.io/kubernetes v1.36.3, pkg/kubelet/cm:
containerManagerImpl.GetDynamicResources).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver import DRIVER_NAME
from kubeletplugin.protocol import pod_resources_v1_pb2
from kubeletplugin.rpc import RpcError, call_unary

__all__ = ["ClaimKey", "PodContainer", "PodResources"]

_LOG: Final = logging.getLogger(__name__)

_TIMEOUT_S: Final = 2.0
_KEPT_S: Final = 10.0
_BELIEVED_S: Final = 60.0  # a kubelet that is updated is away for some seconds: labels that come and go are no help
_METHOD: Final = "/v1.PodResourcesLister/List"
_MAX_ANSWER: Final = 16 * 1024 * 1024
"""Bytes, as Kubernetes' own clients have it: k8s.io/kubernetes v1.36.3, pkg/kubelet/apis/podresources."""

ClaimKey = tuple[str, str]
"""A claim's namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodContainer:
    """A container of a pod in the claim's namespace.

    Attributes:
        pod: The pod's name.
        container: The container's.
    """

    pod: str
    container: str


class PodResources:
    """Asks the kubelet, and not too often. Safe to use from any thread.

    Args:
        socket: The kubelet's, usually ``/var/lib/kubelet/pod-resources/kubelet.sock``; it need not be there.
        clock: Monotonic seconds.
    """

    def __init__(self, socket: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = socket
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: float | None = None
        self._answered: float | None = None
        self._containers: Mapping[ClaimKey, tuple[PodContainer, ...]] = {}
        self._told = False

    def containers(self) -> Mapping[ClaimKey, tuple[PodContainer, ...]]:
        """Return the containers of each claim that has devices of this driver, sorted; none if the kubelet is silent.

        An answer holds for 10 s, and for a minute while there is no newer one; the kubelet is waited for for 2 s.
        """
        with self._lock:
            now = self._clock()
            if self._asked is None or now - self._asked >= _KEPT_S:
                self._asked = now
                self._ask(now)
            return self._containers

    def _ask(self, now: float) -> None:
        try:
            request = pod_resources_v1_pb2.ListPodResourcesRequest().SerializeToString()
            found = call_unary(self._socket, _METHOD, request, timeout_s=_TIMEOUT_S, max_bytes=_MAX_ANSWER)
        except RpcError as error:
            if self._answered is None or now - self._answered >= _BELIEVED_S:
                self._containers = {}
            if not self._told:
                self._told = True
                _LOG.warning(
                    "the kubelet does not tell which containers have which claims; metrics name the claims alone",
                    extra={"socket": str(self._socket), "error": error.message},
                )
            return
        self._answered = now
        self._containers = _by_claim(pod_resources_v1_pb2.ListPodResourcesResponse.FromString(found).pod_resources)
        if self._told:
            self._told = False
            _LOG.info("the kubelet tells which containers have which claims")


def _by_claim(pods: Iterable[pod_resources_v1_pb2.PodResources]) -> dict[ClaimKey, tuple[PodContainer, ...]]:
    found: dict[ClaimKey, set[PodContainer]] = {}
    for pod in pods:
        for container in pod.containers:
            for claim in container.dynamic_resources:
                if any(resource.driver_name == DRIVER_NAME for resource in claim.claim_resources):
                    holder = PodContainer(pod=pod.name, container=container.name)
                    found.setdefault((claim.claim_namespace, claim.claim_name), set()).add(holder)
    return {claim: tuple(sorted(holders)) for claim, holders in found.items()}
