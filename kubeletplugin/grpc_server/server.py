"""The plugin's gRPC server on its two unix sockets, from the first bind to the last answer.

Order (FACTS, k8s.io/kubernetes v1.36.3 pkg/kubelet/pluginmanager): the DRA socket is served before the registration
socket can be seen, since the kubelet dials it at once; the registration socket goes first at the end, since its removal
is what unregisters the driver. Names carry the instance, so that two instances serve at once during a rolling update.
"""

from __future__ import annotations

import logging
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import grpc

from driver import DRIVER_NAME
from driver.adapters.files.durable_files import os_errors_as_node_errors
from driver.api.validation import names
from driver.api.validation.errors import shown
from driver.errors import InputError, NodeError
from kubeletplugin.grpc_server.dra import DraPlugin, DraPluginBeta
from kubeletplugin.grpc_server.health import MAX_STREAMS, HealthFeed, ResourceHealth, add_to_server
from kubeletplugin.grpc_server.registration import SUPPORTED_VERSIONS, Registration
from kubeletplugin.grpc_server.sockets import PluginSocket, any_is_served, remove_stale
from kubeletplugin.operation import log_line
from kubeletplugin.protocol import dra_v1_pb2_grpc, dra_v1beta1_pb2_grpc
from kubeletplugin.protocol import plugin_registration_v1_pb2_grpc as registration_grpc
from kubeletplugin.service import ClaimService, HealthSource, RegistrationListener, StreamListener
from kubeletplugin.state.file_lock import FileLock

__all__ = ["SUPPORTED_VERSIONS", "PluginServer"]

_DRA_NAME: Final = re.compile(r"dra-.+\.sock")
_REGISTRATION_NAME: Final = re.compile(re.escape(DRIVER_NAME) + r"-.+-reg\.sock")
_LOCK_NAME: Final = "sockets.lock"

_PREPARES: Final = 8
"""Prepare calls answered at once. The claims' state has one lock, so more threads would only wait."""

_CALLS: Final = 4
"""Other calls answered at once, besides the streams. They have threads of their own: all of the prepare calls may wait
for an API server that does not answer, and what unprepares needs none."""

_OPTIONS: Final = (
    # MAX_CLAIMS claims with names as long as Kubernetes allows are 0.4 MiB.
    ("grpc.max_receive_message_length", 1024 * 1024),
    ("grpc.max_send_message_length", 4 * 1024 * 1024),
)
_MAX_WAITING: Final = 512
_STOP_MARGIN_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class PluginServer:
    """Serves the DRA and health services on ``dra-<instance>.sock``, and registers them with the kubelet.

    Args:
        claims: Prepares and unprepares.
        health: The source of the health that is streamed.
        listener: Receives the kubelet's answer to the registration.
        streams: Learns of the streams of health.
        plugin_dir: The folder of the DRA socket: absolute, the same path for the kubelet; made where missing.
        registry_dir: The kubelet's folder for registration sockets.
        instance: Names this instance among those of this node: the pod's UID; a DNS label.

    Raises:
        InputError: The instance's name or a folder cannot be used for a socket.
    """

    def __init__(
        self,
        *,
        claims: ClaimService,
        health: HealthSource,
        listener: RegistrationListener,
        streams: StreamListener | None = None,
        plugin_dir: Path,
        registry_dir: Path,
        instance: str,
    ) -> None:
        for problem in names.label("instance", instance):
            raise InputError(
                f"the instance's name {shown(instance)} cannot be used: {problem}", hint="use the pod's UID"
            )
        self._dra = PluginSocket(path=plugin_dir / f"dra-{instance}.sock")
        self._registration = PluginSocket(path=registry_dir / f"{DRIVER_NAME}-{instance}-reg.sock")
        self._lock = FileLock(plugin_dir / _LOCK_NAME, holder=instance)
        self._shown: dict[PluginSocket, os.stat_result] = {}
        self._feed = HealthFeed(health)
        self._pool = ThreadPoolExecutor(_CALLS + MAX_STREAMS, thread_name_prefix="kubelet-call")
        self._prepare_pool = ThreadPoolExecutor(_PREPARES, thread_name_prefix="kubelet-prepare")
        self._server = grpc.server(self._pool, options=_OPTIONS, maximum_concurrent_rpcs=_MAX_WAITING)
        plugin = DraPlugin(claims)
        beta = DraPluginBeta(plugin)
        for servicer in (plugin, beta):
            _prepare_in(servicer, self._prepare_pool)
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(plugin, self._server)
        dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(beta, self._server)
        add_to_server(ResourceHealth(self._feed, streams), self._server)
        registration = Registration(endpoint=self.endpoint, listener=listener)
        registration_grpc.add_RegistrationServicer_to_server(registration, self._server)

    @property
    def endpoint(self) -> Path:
        """The DRA service's socket."""
        return self._dra.path

    @property
    def registration_socket(self) -> Path:
        """The socket that the kubelet finds by itself."""
        return self._registration.path

    def start(self) -> None:
        """Serve, then show the sockets to the kubelet; sockets of killed instances are removed. To be called once.

        Raises:
            NodeError: A folder or socket cannot be used; nothing is served then.
        """
        try:
            # Between bind and listen a socket looks like a dead one: only one instance starts at a time.
            with self._lock.held():
                self._start()
        except BaseException:
            self.stop(0)
            raise
        paths = {"dra": self.endpoint, "registration": self.registration_socket}
        _LOG.info("%s", log_line(event="serving", driver=DRIVER_NAME, **paths))

    def stop(self, grace_s: float) -> None:
        """Unregister, end the health streams, finish the running calls, and leave no socket; may be called again.

        Args:
            grace_s: Seconds that running calls may still take; what runs longer is cancelled for the kubelet.
        """
        self._remove(self._registration)
        stopped = self._server.stop(grace_s)
        self._feed.close()
        stopped.wait(grace_s + _STOP_MARGIN_S)
        self._remove(self._dra)
        for pool in (self._pool, self._prepare_pool):
            pool.shutdown(wait=False, cancel_futures=True)
        _LOG.info("%s", log_line(event="stopped", driver=DRIVER_NAME))

    def another_serves(self) -> bool:
        """Whether another instance serves the kubelet; to be asked once this one has stopped.

        Raises:
            NodeError: The folder of the sockets cannot be read.
        """
        return any_is_served(self.registration_socket.parent, _REGISTRATION_NAME)

    def _start(self) -> None:
        for plugin_socket, name in ((self._dra, _DRA_NAME), (self._registration, _REGISTRATION_NAME)):
            folder = plugin_socket.path.parent
            remove_stale(folder, name)
            plugin_socket.prepare()
        for plugin_socket in (self._dra, self._registration):
            self._bind(plugin_socket)
        self._feed.start()
        self._server.start()
        for plugin_socket in (self._dra, self._registration):
            with os_errors_as_node_errors(f"the socket {plugin_socket.path} cannot be made"):
                self._shown[plugin_socket] = plugin_socket.show()

    def _bind(self, plugin_socket: PluginSocket) -> None:
        try:
            self._server.add_insecure_port(f"unix:{quote(str(plugin_socket.hidden))}")
        except RuntimeError as error:
            raise NodeError(
                f"the socket {plugin_socket.path} cannot be made: {error}",
                hint="the folder must exist, be writable and stand on a file system that has sockets",
            ) from error

    def _remove(self, plugin_socket: PluginSocket) -> None:
        if (shown_as := self._shown.pop(plugin_socket, None)) is None:
            return
        try:
            plugin_socket.remove(shown_as)
        except OSError as error:
            _LOG.warning("%s", log_line(event="socket-not-removed", path=plugin_socket.path, error=error))


def _prepare_in(servicer: DraPlugin | DraPluginBeta, pool: ThreadPoolExecutor) -> None:
    """Have a service's prepare calls answered by the threads of a pool of their own.

    grpc (1.85, ``grpc._server``) takes the pool from this attribute of the method; a version that does not would answer
    them with the server's own threads.
    """
    method = partial(servicer.NodePrepareResources)
    vars(method)["experimental_thread_pool"] = pool
    vars(servicer)["NodePrepareResources"] = method
