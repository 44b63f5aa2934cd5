"""Which fault is behind the taint that Rootport has put on an unhealthy device, by what the node's plugin tells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from driver.model.health import Fault

__all__ = ["fault_behind"]

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f](?![0-9a-z])")


def fault_behind(faults: Sequence[Fault], device: str, reason: str) -> Fault | None:
    """The fault of this reason that the device has itself, or has from the device that it is a part of.

    A part has its device's PCI address in its name. A VF has one of its own, and NICs alone have VFs: where the fault
    is that of several NICs, nobody can tell by the name which one the VF is of.

    Args:
        faults: Of the node's devices.
        device: The device's name in the slices.
        reason: The taint's value.
    """
    found = [fault for fault in faults if fault.reason == reason]
    for fault in found:
        if _address(fault.device) == _address(device):
            return fault
    nics = [fault for fault in found if fault.device.startswith("rdma-")]
    return nics[0] if device.startswith("rdma-vf-") and len(nics) == 1 else None


def _address(name: str) -> str:
    found = _ADDRESS.search(name)
    return name if found is None else found.group()
