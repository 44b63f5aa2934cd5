"""The node's half of Rootport: a DaemonSet's process that answers the kubelet and publishes what the node has.

It discovers the node's devices and publishes them as a NodeInventory, registers with the kubelet, and prepares claims:
it writes the CDI specs by which the container runtime gives devices to containers, and does to the node what sharing
takes (MIG devices, time slices, MPS daemons, virtual functions). Whatever happens to the API server or the hardware,
prepared claims can be unprepared.

``main`` is the command and ``process`` connects the parts. A claim goes from ``grpc_server`` to ``claims``, which plans
it with :mod:`driver.plan`, does its ``effects`` and keeps it in ``state``. A device goes from ``node`` to ``publish``.
"""
