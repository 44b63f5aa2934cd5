"""What containers have, as the kubelet reports it: the PodResources API (KEP-606, KEP-2043, KEP-3695).

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
from typing import Final, cast

import grpc

from driver import DRIVER_NAME
from driver.rivals.decide import KubeletDevices
from kubeletplugin.protocol import pod_resources_v1_pb2, pod_resources_v1_pb2_grpc

__all__ = ["ClaimKey", "PodContainer", "PodResources"]

_LOG: Final = logging.getLogger(__name__)

_TIMEOUT_S: Final = 2.0
_KEPT_S: Final = 10.0
_BELIEVED_S: Final = 60.0  # a kubelet that is updated is away for some seconds: labels that come and go are no help
_OPTIONS: Final = (
    # As Kubernetes' own clients have it: k8s.io/kubernetes v1.36.3, pkg/kubelet/apis/podresources.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # The kubelet's gRPC in Go refuses an authority that is a path.
    ("grpc.default_authority", "localhost"),
)

_MAX_RESOURCES: Final = 256
_MAX_IDS: Final = 8192
"""How many ids of a resource are read: more of them are taken for ids that say nothing."""
_TOO_MANY: Final = frozenset({"(too many)"})

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

    def plugin_devices(self) -> KubeletDevices | None:
        """Return the devices of plugins, and who holds them or those of DRA drivers; None if the kubelet is silent."""
        try:
            with self._channel() as channel:
                stub = pod_resources_v1_pb2_grpc.PodResourcesListerStub(channel)
                request = pod_resources_v1_pb2.AllocatableResourcesRequest()
                offered = stub.GetAllocatableResources(request, timeout=_TIMEOUT_S)
                held = stub.List(pod_resources_v1_pb2.ListPodResourcesRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            reason = cast("grpc.Call", error).details()  # as below
            _LOG.debug("the kubelet does not tell its device plugins' devices", extra={"error": reason})
            return None
        pods = held.pod_resources
        return KubeletDevices(offered=_ids(offered.devices), held=_held(pods), drivers=_drivers(pods))

    def _channel(self) -> grpc.Channel:
        return grpc.insecure_channel(f"unix:{self._socket}", options=_OPTIONS)

    def _ask(self, now: float) -> None:
        try:
            with self._channel() as channel:
                stub = pod_resources_v1_pb2_grpc.PodResourcesListerStub(channel)
                answer = stub.List(pod_resources_v1_pb2.ListPodResourcesRequest(), timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            if self._answered is None or now - self._answered >= _BELIEVED_S:
                self._containers = {}
            if not self._told:
                self._told = True
                # What a client's call raises is the call itself; the types do not say so.
                reason = cast("grpc.Call", error).details()
                _LOG.warning(
                    "the kubelet does not tell which containers have which claims; metrics name the claims alone",
                    extra={"socket": str(self._socket), "error": reason},
                )
            return
        self._answered = now
        self._containers = _by_claim(answer.pod_resources)
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


def _ids(devices: Iterable[pod_resources_v1_pb2.ContainerDevices]) -> dict[str, frozenset[str]]:
    """Return the ids by resource: the kubelet tells them in several parts, one for each NUMA node."""
    found: dict[str, set[str]] = {}
    for item in devices:
        if item.resource_name in found or len(found) < _MAX_RESOURCES:
            found.setdefault(item.resource_name, set()).update(item.device_ids)
    return {name: frozenset(ids) if len(ids) <= _MAX_IDS else _TOO_MANY for name, ids in found.items()}


def _held(pods: Iterable[pod_resources_v1_pb2.PodResources]) -> dict[str, dict[str, frozenset[str]]]:
    held: dict[str, dict[str, frozenset[str]]] = {}
    for pod in pods:
        for name, ids in _ids(item for container in pod.containers for item in container.devices).items():
            if name in held or len(held) < _MAX_RESOURCES:
                held.setdefault(name, {})[f"{pod.namespace}/{pod.name}"] = ids
    return held


def _drivers(pods: Iterable[pod_resources_v1_pb2.PodResources]) -> frozenset[str]:
    """Return the other DRA drivers of whose claims containers have devices."""
    found: set[str] = set()
    for pod in pods:
        for container in pod.containers:
            for claim in container.dynamic_resources:
                found.update(resource.driver_name for resource in claim.claim_resources)
        if len(found) > _MAX_RESOURCES:
            break
    return frozenset(found - {DRIVER_NAME})
