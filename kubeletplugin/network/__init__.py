"""Network interfaces of pods: those that are moved into them for claims, and the settings of virtual functions.

``cni`` answers the CNI plugin that the container runtime calls, ``netdev`` moves interfaces and RDMA devices, and
``node_network`` connects both with the rest of the plugin.
"""

__all__: list[str] = []
