"""Watches a real node for devices that two systems give out at one time: what the kubelet and the claims say."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from kubeletplugin.protocol import pod_resources_v1_pb2, pod_resources_v1_pb2_grpc
from tests.support.cluster.node import RealCluster

__all__ = ["TwiceWatch", "given_twice"]

_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
_OPTIONS: Final = (("grpc.default_authority", "localhost"),)


def given_twice(claims: Iterable[Mapping[str, Any]], held: Mapping[str, str], names: Mapping[str, str]) -> list[str]:
    """Each device that a claim and a device plugin's pod have, as a sentence; empty where all is well.

    Args:
        claims: All ResourceClaims.
        held: The ids that pods hold by device plugins, with the pod.
        names: The whole device's name in the slices, by the plugin's id.
    """
    allocated = {
        result["device"]: f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
        for claim in claims
        for result in ((claim.get("status", {}).get("allocation") or {}).get("devices") or {}).get("results", [])
        if result["driver"] == "rootport.dev"
    }
    # A part of a GPU has its address in its name.
    address = {id_: name.removeprefix("gpu-") for id_, name in names.items()}
    return [
        f"{device}: claim {claim} and pod {pod}"
        for id_, pod in held.items()
        for device, claim in allocated.items()
        if id_ in address and address[id_] in device
    ]


class TwiceWatch:
    """Looks all the time, in a thread of its own, from its entering to its leaving.

    Attributes:
        found: What was given twice.
        looks: How often it has looked.
        seen: The ids that pods were seen to hold, and the claims that were seen allocated.

    Args:
        cluster: Where.
        names: As for :func:`given_twice`.
    """

    def __init__(self, cluster: RealCluster, names: Mapping[str, str]) -> None:
        self.found: list[str] = []
        self.looks = 0
        self.seen: set[str] = set()
        self._cluster = cluster
        self._names = names
        self._socket: Path = cluster.machine.path(_SOCKET)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(30)
        if error is None and self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with grpc.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
                stub = pod_resources_v1_pb2_grpc.PodResourcesListerStub(channel)
                while not self._stop.wait(0.1):
                    self._look(stub)
        except BaseException as error:  # noqa: BLE001 - told where the test ends
            self._failure = error

    def _look(self, stub: Any) -> None:
        before = self._cluster.list(RESOURCE_CLAIMS)
        answer = stub.List(pod_resources_v1_pb2.ListPodResourcesRequest(), timeout=10)
        held = {
            id_: f"{pod.namespace}/{pod.name}"
            for pod in answer.pod_resources
            for container in pod.containers
            for item in container.devices
            for id_ in item.device_ids
        }
        self.looks += 1
        self.seen |= set(held) | {
            claim["metadata"]["name"] for claim in before if claim.get("status", {}).get("allocation")
        }
        if not given_twice(before, held, self._names):
            return
        # A claim that was given back since, before the pod got the device, is none.
        listed = self._cluster.list(RESOURCE_CLAIMS)
        after = {claim["metadata"]["uid"] for claim in listed if claim.get("status", {}).get("allocation")}
        still = [claim for claim in before if claim["metadata"]["uid"] in after]
        self.found += given_twice(still, held, self._names)
