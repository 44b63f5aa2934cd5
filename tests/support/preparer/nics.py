"""Claims that were given RDMA NICs, for the tests of the plugin's state."""

from __future__ import annotations

from driver.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from tests.support.plan.builders import claim, config, given, parameters
from tests.support.preparer.machine import uid

__all__ = ["NIC", "PF", "POOL", "nic_claim", "reserved", "vf_name"]

NIC = "rdma-0000-40-00-0"
"""A NIC without virtual functions."""
PF = "rdma-0000-41-00-0"
"""One with three."""
POOL = "rdma-vfs-0000-41-00-0"


def vf_name(index: int) -> str:
    return f"rdma-vf-0000-41-00-{index + 1}"


def nic_claim(number: int, *devices: str, pod: str | None = None, **settings: object) -> ResourceClaim:
    """Claim ``number``, which was given devices, those of the pool each as a share; for one pod, its own by default.

    The settings are those of its DeviceClass.
    """
    shares = [{"shareID": uid(1000 + 10 * number + index), "consumedCapacity": {"vfs": "1"}} for index in range(32)]
    results = [
        given(f"nic{index}", device, **(shares[index] if device == POOL else {}))
        for index, device in enumerate(devices)
    ]
    configs = (config(parameters("RdmaConfig", **settings), source="FromClass"),) if settings else ()
    made = claim(*results, configs=configs, uid=uid(number), name=f"claim-{number}")
    return reserved(made, pod or f"pod-{number}")


def reserved(made: ResourceClaim, *pods: str) -> ResourceClaim:
    """The claim, for other pods: by their UIDs."""
    consumers = tuple(ResourceClaimConsumerReference(resource="pods", name=pod, uid=pod) for pod in pods)
    return made.model_copy(update={"status": made.status.model_copy(update={"reserved_for": consumers})})
