"""A kubelet's PodResources API on a real unix socket."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from kubeletplugin.protocol import pod_resources_v1_pb2 as pb2
from kubeletplugin.protocol import pod_resources_v1_pb2_grpc as pb2_grpc

__all__ = ["KubeletPods"]


class KubeletPods(pb2_grpc.PodResourcesListerServicer):
    """Answers with what a test sets, at first with nothing; hangs where it is told to.

    Args:
        socket: Where it listens.
    """

    def __init__(self, socket: Path) -> None:
        self.answer = pb2.ListPodResourcesResponse()
        self.allocatable = pb2.AllocatableResourcesResponse()
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self._socket = socket
        self._server: grpc.Server | None = None

    def List(self, request: object, context: object) -> pb2.ListPodResourcesResponse:  # noqa: N802 - gRPC's name
        self.calls += 1
        self.go_on.wait(10)
        return self.answer

    def GetAllocatableResources(  # noqa: N802 - gRPC's name
        self, request: object, context: object
    ) -> pb2.AllocatableResourcesResponse:
        return self.allocatable

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        pb2_grpc.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()

    def stop(self) -> None:
        self.go_on.set()
        if self._server is not None:
            self._server.stop(0).wait(5)
            self._server = None
