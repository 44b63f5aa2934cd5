"""What a claim holds of a device, a GPU or an RDMA NIC, for :mod:`driver.plan.sharing` to compare with other claims."""

from __future__ import annotations

from dataclasses import dataclass

from driver.api.claim_reference import ClaimReference
from driver.model.devices import DeviceName, DeviceType, MigPlacement

__all__ = ["GpuUse", "HeldDevice", "NicUse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """One claim's use of one GPU by one allocation result.

    Attributes:
        gpu: The whole GPU's name in the pool, whatever part of it was allocated.
        mode: GPU (whole, or a share by bytes), GPU_RATIO (a share by percent of memory) or MIG.
        whole: Whether the claim has the GPU alone: nobody else can be given a share of it.
        sharing: The sharing strategy with the settings that all users of one GPU must agree on, such as
            ``timeSlicing interval=Default``; empty for MIG.
        core: Percent of the GPU's core that is reserved, 0 to 100; None for MIG.
        memory_bytes: Memory in bytes, whichever way it was asked for; None where the GPU's is not known.
        placement: Of a MIG partition, its place.
        gpu_memory_bytes: All of the GPU's memory in bytes; None where it is not known.
    """

    gpu: DeviceName
    mode: DeviceType
    whole: bool
    sharing: str
    core: int | None
    memory_bytes: int | None
    placement: MigPlacement | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NicUse:
    """One claim's use of one NIC by one allocation result.

    Attributes:
        nic: The PF's name in the pool, whatever part of it was allocated.
        vf: The VF's name in the pool, whether the claim named it or was given any one; None where the PF itself is
            given.
        bandwidth: Of the PF, in bits per second, that the claim's share has, or that its VF has reserved; None where
            that is said in percent, where the PF is given whole, and for a VF that has none of its own.
        nic_bandwidth: All of the PF's, in bits per second; None where it is not known.
        bandwidth_ratio: The same as ``bandwidth`` in percent of the PF's; None where that is not None, and as there.
    """

    nic: DeviceName
    vf: DeviceName | None = None
    bandwidth: int | None = None
    nic_bandwidth: int | None = None
    bandwidth_ratio: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether others can have a part of the same function: it is a share of the PF's bandwidth."""
        return self.vf is None and (self.bandwidth is not None or self.bandwidth_ratio is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDevice:
    """What a claim has by one allocation result, as far as that decides who else may have it.

    Attributes:
        claim: The claim.
        requests: The requests that the device was given to, without subrequests.
        pool: The device's pool.
        device: Its name in the pool.
        share_id: Which share of the device; None where it is given once.
        admin_access: Whether the claim only watches over it.
        gpu_use: How the claim uses the GPU; None for what is no GPU, or is only watched over.
        nic_use: How the claim uses the NIC; None for what is no NIC, or is only watched over.
    """

    claim: ClaimReference
    requests: tuple[str, ...]
    pool: str
    device: str
    share_id: str | None
    admin_access: bool
    gpu_use: GpuUse | None
    nic_use: NicUse | None

    @property
    def request(self) -> str:
        """The requests, for a message."""
        return ", ".join(self.requests)

    @property
    def subject(self) -> str:
        """Claim, request and device, for a message."""
        return f"claim {self.claim}, request {self.request}, device {self.device}"
