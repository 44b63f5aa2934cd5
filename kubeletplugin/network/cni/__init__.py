"""The plugin's side of pod networks: the CNI plugin ``rootport-cni`` that asks it to move interfaces, and its server.

``shim/`` is that CNI plugin, in C, since it runs on the host; ``network_config`` puts it there.
The rules are those of the CNI specification 1.1.0 (containernetworking/cni, SPEC.md).
"""

from kubeletplugin.network.cni.network_config import NetworkConfig
from kubeletplugin.network.cni.server import CniServer, Lender

__all__ = ["CniServer", "Lender", "NetworkConfig"]
