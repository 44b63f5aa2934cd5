"""Decides which devices a claim gets, as Kubernetes' own structured allocator does, v1.37.2.

``pools`` has what a node sees, ``demands`` what claims ask for, ``selection`` and ``eligibility`` which devices serve a
demand, ``candidates`` gathers them, ``search`` chooses, and ``results`` writes down the choice; see
docs/design/allocator.md.
"""

from driver.allocator.allocator import Allocator, Fit
from driver.allocator.errors import (
    AllAtOnceError,
    AllocationError,
    InvalidPoolError,
    NodeAllocationError,
    SearchLimitError,
)
from driver.allocator.features import ALL_FEATURES, Channel, Features
from driver.allocator.identity import DeviceId, PoolId

__all__ = [
    "ALL_FEATURES",
    "AllAtOnceError",
    "AllocationError",
    "Allocator",
    "Channel",
    "DeviceId",
    "Features",
    "Fit",
    "InvalidPoolError",
    "NodeAllocationError",
    "PoolId",
    "SearchLimitError",
]
