"""How a claim uses an RDMA NIC: what decides who else may use it at the same time."""

from __future__ import annotations

from dataclasses import dataclass

from driver.model.devices import DeviceName

__all__ = ["NicUse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicUse:
    """One claim's use of one NIC by one allocation result.

    Attributes:
        nic: The PF's name in the pool, whatever part of it was allocated.
        vf: The VF's name in the pool, whether the claim named it or was given any one; None where the PF itself is
            given.
        bandwidth: Of the PF, in bits per second, that the claim's share has; None where the PF is given whole, and for
            VFs.
        nic_bandwidth: All of the PF's, in bits per second; None where it is not known.
    """

    nic: DeviceName
    vf: DeviceName | None = None
    bandwidth: int | None = None
    nic_bandwidth: int | None = None
