"""Which devices a claim gets: the answers of Kubernetes' own structured allocator, v1.37.2.

``pools`` says what a node sees, ``demands`` what claims ask for, ``candidates`` which devices each demand may take,
``search`` which it gets, ``results`` how that is written down; see docs/design/allocator.md.
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
