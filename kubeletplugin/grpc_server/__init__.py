"""The kubelet-facing edge, and the only part of the plugin that knows gRPC.

It registers the driver with the kubelet, answers its calls to prepare and unprepare claims from a
:class:`~kubeletplugin.service.ClaimService`, and streams the devices' health.
"""

from kubeletplugin.grpc_server.server import SUPPORTED_VERSIONS, PluginServer

__all__ = ["SUPPORTED_VERSIONS", "PluginServer"]
