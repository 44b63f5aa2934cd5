"""Which optional parts of allocation are on, as kube-scheduler would have them.

Source: k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/types.go (Features) and structured/allocator.go:
upstream has three allocators (stable, incubating, experimental) and takes the most stable one that serves all features
that are on. :class:`Channel` has what differs between them for the same features.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["ALL_FEATURES", "Channel", "Features"]


class Channel(Enum):
    """Upstream's allocator for a set of features."""

    STABLE = "stable"
    """Takes slices as they come instead of by name, and knows no distinctAttribute."""
    INCUBATING = "incubating"
    """Kubernetes 1.36 and 1.37 with their default feature gates."""
    EXPERIMENTAL = "experimental"
    """As incubating; compares attributes as sets of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Feature switches of the allocator; the defaults are those of Kubernetes 1.36 and 1.37.

    Attributes:
        admin_access: Requests with ``adminAccess`` (gate DRAAdminAccess).
        consumable_capacity: Devices that several claims share (DRAConsumableCapacity).
        device_binding_and_status: Devices with binding conditions (DRADeviceBindingConditions).
        device_taints: Taints keep claims away (DRADeviceTaints).
        fractional_capacity_range: Ranges of capacities are counted in thousandths (DRAFractionalCapacityRange; new in
            1.37, on by default only with ``--min-compatibility-version=1.37``).
        list_type_attributes: Attributes may be lists (DRAListTypeAttributes, alpha).
        node_allocatable_resources: Devices may take of their node's CPU and memory (DRANodeAllocatableResources,
            alpha). Which devices are chosen does not depend on it, but which nodes have room.
        partitionable_devices: Shared counters, and node selection per device (DRAPartitionableDevices).
        prioritized_list: Requests with ``firstAvailable`` (DRAPrioritizedList).
    """

    admin_access: bool = True
    consumable_capacity: bool = True
    device_binding_and_status: bool = True
    device_taints: bool = True
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    node_allocatable_resources: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True

    @property
    def channel(self) -> Channel:
        """Which of upstream's allocators serves these features."""
        if self.list_type_attributes:
            return Channel.EXPERIMENTAL
        if self.consumable_capacity or self.device_binding_and_status or self.fractional_capacity_range:
            return Channel.INCUBATING
        return Channel.STABLE


ALL_FEATURES: Final = Features(fractional_capacity_range=True, list_type_attributes=True)
"""Everything on, alpha features too."""
