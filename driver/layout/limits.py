"""The API server's limits on a ResourceSlice, which decide how devices and counters are put into slices.

Source: k8s.io/api v0.37.2, resource/v1/types.go.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTRIBUTES_AND_CAPACITIES",
    "COUNTERS_PER_SET",
    "COUNTER_SETS_PER_SLICE",
    "DEVICES_PER_SLICE",
    "DEVICES_PER_SLICE_WITH_MORE",
]

ATTRIBUTES_AND_CAPACITIES: Final = 32
"""Of a device (ResourceSliceMaxAttributesAndCapacitiesPerDevice)."""

DEVICES_PER_SLICE: Final = 128
"""Of slices whose devices have neither taints nor counters nor lists (ResourceSliceMaxDevices)."""

DEVICES_PER_SLICE_WITH_MORE: Final = 64
"""Of slices with a device that has taints, consumes counters or has a list for an attribute
(ResourceSliceMaxDevicesWithAdvancedFeatures)."""

COUNTER_SETS_PER_SLICE: Final = 8
"""The most counter sets in a slice (ResourceSliceMaxCounterSets)."""

COUNTERS_PER_SET: Final = 32
"""Of a counter set, and of what a device consumes of one (ResourceSliceMaxCountersPerCounterSet and
...PerDeviceCounterConsumption)."""
