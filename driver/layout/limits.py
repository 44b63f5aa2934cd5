"""The API server's limits on a ResourceSlice, which decide how devices and counters are put into slices.

Source: k8s.io/api v0.36.3, resource/v1/types.go.
"""

from __future__ import annotations

from typing import Final

__all__ = ["COUNTERS_PER_SET", "COUNTER_SETS_PER_SLICE", "DEVICES_PER_SLICE", "DEVICES_PER_SLICE_WITH_COUNTERS"]

DEVICES_PER_SLICE: Final = 128
"""Of slices whose devices have neither taints nor counters (ResourceSliceMaxDevices)."""

DEVICES_PER_SLICE_WITH_COUNTERS: Final = 64
"""Of slices with a device that has taints or consumes counters
(ResourceSliceMaxDevicesWithTaintsOrConsumesCounters)."""

COUNTER_SETS_PER_SLICE: Final = 8
"""The most counter sets in a slice (ResourceSliceMaxCounterSets)."""

COUNTERS_PER_SET: Final = 32
"""Of a counter set, and of what a device consumes of one (ResourceSliceMaxCountersPerCounterSet and
...PerDeviceCounterConsumption)."""
