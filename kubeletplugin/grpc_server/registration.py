"""Registers the plugin with the kubelet: service ``pluginregistration.Registration``.

Source: k8s.io/kubelet v0.37.2, pkg/apis/pluginregistration/v1, and pkg/kubelet/pluginmanager in
k8s.io/kubernetes v1.37.2.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from typing import Final

from driver import DRIVER_NAME
from kubeletplugin.operation import Operation, log_line
from kubeletplugin.protocol import plugin_registration_v1_pb2 as protocol
from kubeletplugin.service import RegistrationListener

__all__ = ["SUPPORTED_VERSIONS", "Registration"]

SUPPORTED_VERSIONS: Final = (
    "v1.DRAPlugin",
    "v1beta1.DRAPlugin",
    "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth",
)
"""The gRPC services as the kubelet names them. It uses the first of each that it knows, so the newest comes first."""

_LOG: Final = logging.getLogger(__name__)


class Registration:
    """Gives the kubelet the address of the DRA service, and receives its answer.

    Args:
        endpoint: The socket of the DRA service, absolute.
        listener: Receives the kubelet's answer.
    """

    def __init__(self, *, endpoint: Path, listener: RegistrationListener) -> None:
        self._endpoint = endpoint
        self._listener = listener

    def GetInfo(  # noqa: N802 - the protocol's name
        self, request: protocol.InfoRequest
    ) -> Generator[protocol.PluginInfo]:
        """Return the driver's name, the DRA socket and the supported services."""
        del request
        with Operation("GetInfo").running():
            yield protocol.PluginInfo(
                type="DRAPlugin",
                name=DRIVER_NAME,
                endpoint=str(self._endpoint),
                supported_versions=SUPPORTED_VERSIONS,
            )

    def NotifyRegistrationStatus(  # noqa: N802 - the protocol's name
        self, request: protocol.RegistrationStatus
    ) -> Generator[protocol.RegistrationStatusResponse]:
        """Pass the kubelet's answer on. An error would undo the registration, so a listener's is only logged."""
        with Operation("NotifyRegistrationStatus").running() as operation:
            operation.note(registered=request.plugin_registered)
            if not request.plugin_registered:
                fields = {"op": operation.id, "error": request.error}
                hint = "the kubelet tries again by itself; its error says what it did not accept"
                _LOG.error("%s", log_line(event="registration-refused", **fields, hint=hint))
            try:
                self._listener.registered(request.plugin_registered, request.error)
            except Exception:  # noqa: BLE001 - see above
                _LOG.exception("%s", log_line(event="registration-listener-raised", op=operation.id))
            yield protocol.RegistrationStatusResponse()
