"""NICs with virtual functions, and claims for them, for the tests of the prepare plan."""

from __future__ import annotations

from driver.api.resource_v1 import DeviceRequestAllocationResult
from driver.model.devices import LinkLayer, RdmaPort, RdmaVf
from driver.plan import NicHost
from tests.support.plan.builders import SHARE_IDS, given, share, vf

POOL = "rdma-vfs-0000-40-00-0"
NIC = "rdma-0000-40-00-0"
VFS = tuple(f"rdma-vf-0000-40-00-{number}" for number in range(1, 5))
POD = "3d9d1c9e-6f8e-4a55-a9d1-0c9f2f0f7a11"
WITH_CNI = NicHost(has_cni_plugin=True)


def port(state: str | None = "active", speed: int | None = 400, layer: LinkLayer = LinkLayer.ETHERNET) -> RdmaPort:
    return RdmaPort(state=state, speed_gbps=speed, link_layer=layer)


def ethernet_vf(index: int, **fields: object) -> RdmaVf:
    return vf(0, index, **({"ports": (port(),), "if_names": (f"enp64s0v{index}",)} | fields))


def any_vf(
    request: str = "nic", number: int = 0, device: str = POOL, **fields: object
) -> DeviceRequestAllocationResult:
    """One of a pool's VFs, as kube-scheduler allocates it."""
    return given(request, device, shareID=SHARE_IDS[number], consumedCapacity={"vfs": "1"}, **fields)


def of_bandwidth(amount: str, request: str = "nic", number: int = 0) -> DeviceRequestAllocationResult:
    return share(request, NIC, number, bandwidth=amount)
