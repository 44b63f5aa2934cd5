"""The stream of the devices' health: service ``DRAResourceHealth``, v1 and v1alpha1.

Source: k8s.io/kubelet v0.37.2, pkg/apis/dra-health, and k8s.io/kubernetes v1.37.2, pkg/kubelet/cm/dra. Every message is
the complete list. The kubelet takes a device's health as unknown where it heard nothing for the timeout, so the list is
sent again while nothing changes. It opens a stream for every registered instance of the driver: kubelets since 1.37 the
newest version that the instance lists when it registers, older ones v1alpha1.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import grpc

from kubeletplugin.operation import Operation, log_line
from kubeletplugin.protocol import dra_health_v1_pb2 as protocol
from kubeletplugin.protocol import dra_health_v1_pb2_grpc as protocol_grpc
from kubeletplugin.service import DeviceHealth, HealthSource, StreamListener

__all__ = ["ALPHA_SERVICE", "MAX_STREAMS", "SERVICE", "HealthFeed", "ResourceHealth", "add_to_server"]

SERVICE: Final = "v1.DRAResourceHealth"
ALPHA_SERVICE: Final = "v1alpha1.DRAResourceHealth"

MAX_STREAMS: Final = 4
"""Streams at once. Each holds a thread; a node has one kubelet, and its old stream may linger for a moment."""

_RESEND_S: Final = 10.0
_TIMEOUT_S: Final = 30
_POLL_S: Final = 0.5
_MAX_MESSAGE: Final = 1024  # ResourceHealthMessageMaxLength in k8s.io/api v0.36.3, core/v1; the kubelet cuts bytes

_STATUS: Final = {
    None: protocol.HealthStatus.UNKNOWN,
    True: protocol.HealthStatus.HEALTHY,
    False: protocol.HealthStatus.UNHEALTHY,
}
_LOG: Final = logging.getLogger(__name__)


class HealthFeed:
    """Waits for the source on behalf of all streams, so that closing or losing a stream wakes it at once.

    Args:
        source: Whose health it is.
        resend_s: After how many seconds without a change a stream sends the list again.
    """

    def __init__(self, source: HealthSource, *, resend_s: float = _RESEND_S) -> None:
        self._source = source
        self._resend_s = resend_s
        self._changed = threading.Condition()
        self._version = source.version()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="health-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch the source."""
        self._watcher.start()

    def close(self) -> None:
        """End all streams now. The watching thread follows by itself at its next poll; nothing waits for it."""
        self._closed.set()
        self.wake()

    def wake(self) -> None:
        """Let every stream look whether it should end."""
        with self._changed:
            self._changed.notify_all()

    def responses(self, gone: threading.Event) -> Iterator[protocol.NodeWatchResourcesResponse]:
        """Yield the complete list: now, at every change and at intervals, until closed or ``gone`` (then wake)."""
        sent: int | None = None
        while True:
            with self._changed:
                self._changed.wait_for(partial(self._due, sent, gone), timeout=self._resend_s)
                if self._over(gone):
                    return
                # Read before the list is: a change in between is sent once more rather than missed.
                sent = self._version
            try:
                response = _response(self._source)
            except Exception:  # noqa: BLE001 - the kubelet's own timeout then says "unknown", which is the truth
                _LOG.exception("event=health-source-raised")
                continue
            yield response

    def _due(self, sent: int | None, gone: threading.Event) -> bool:
        return self._version != sent or self._over(gone)

    def _over(self, gone: threading.Event) -> bool:
        return gone.is_set() or self._closed.is_set()

    def _watch(self) -> None:
        version = self._version
        while not self._closed.is_set():
            try:
                version = self._source.wait(version, _POLL_S)
            except Exception:  # noqa: BLE001 - streams must outlive a fault of the source
                _LOG.exception("event=health-source-raised")
                self._closed.wait(_POLL_S)
                continue
            with self._changed:
                if version != self._version:
                    self._version = version
                    self._changed.notify_all()


class ResourceHealth(protocol_grpc.DRAResourceHealthServicer):
    """Streams the feed to whoever asks.

    Args:
        feed: What to stream.
        listener: Learns of the streams.
    """

    def __init__(self, feed: HealthFeed, listener: StreamListener | None = None) -> None:
        self._feed = feed
        self._listener = listener
        self._streams = threading.BoundedSemaphore(MAX_STREAMS)

    def NodeWatchResources(  # noqa: N802 - the protocol's name
        self, request: protocol.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[protocol.NodeWatchResourcesResponse]:
        """Stream the complete list at every change and at intervals; the stream ends when the plugin stops."""
        yield from self.stream(SERVICE, request, context)

    def stream(
        self, service: str, request: protocol.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[protocol.NodeWatchResourcesResponse]:
        """As :meth:`NodeWatchResources`, of this service."""
        del request
        if not self._streams.acquire(blocking=False):
            message = f"{MAX_STREAMS} health streams are open already: close one"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        gone = threading.Event()

        def end() -> None:
            gone.set()
            self._feed.wake()

        # An operation's block may not be left in another thread than it was entered, which a stream could be.
        operation = Operation("NodeWatchResources")
        messages = 0
        _LOG.info("%s", log_line(event="health-stream-opened", call=operation.name, op=operation.id, service=service))
        if self._listener is not None:
            self._listener.opened(service)
        try:
            if not context.add_callback(end):
                return
            for response in self._feed.responses(gone):
                messages += 1
                yield response
        finally:
            self._streams.release()
            if self._listener is not None:
                self._listener.closed(service)
            fields = {"call": operation.name, "op": operation.id, "messages": messages}
            _LOG.info("%s", log_line(event="health-stream-closed", **fields))


def add_to_server(health: ResourceHealth, server: grpc.Server) -> None:
    """Serve both versions: on the wire they differ in the service's name alone."""
    protocol_grpc.add_DRAResourceHealthServicer_to_server(health, server)
    alpha = grpc.unary_stream_rpc_method_handler(
        partial(health.stream, ALPHA_SERVICE),
        request_deserializer=protocol.NodeWatchResourcesRequest.FromString,
        response_serializer=protocol.NodeWatchResourcesResponse.SerializeToString,
    )
    handlers = grpc.method_handlers_generic_handler(ALPHA_SERVICE, {"NodeWatchResources": alpha})
    server.add_generic_rpc_handlers((handlers,))


def _response(source: HealthSource) -> protocol.NodeWatchResourcesResponse:
    now = int(time.time())
    return protocol.NodeWatchResourcesResponse(devices=[_device(health, now) for health in source.current()])


def _device(health: DeviceHealth, now: int) -> protocol.DeviceHealth:
    return protocol.DeviceHealth(
        device=protocol.DeviceIdentifier(pool_name=health.pool, device_name=health.device),
        health=_STATUS[health.healthy],
        last_updated_time=now,
        health_check_timeout_seconds=_TIMEOUT_S,
        message=health.message.encode(errors="backslashreplace")[:_MAX_MESSAGE].decode(errors="ignore"),
    )
