"""The next safe step from what is published of a GPU to what should be (docs/design/modes.md).

A device that has been published may be allocated at any moment, and the scheduler may have chosen it already and write
that later. So a device leaves in three steps: it is closed by a taint; it stays closed for longer than any scheduler
needs to notice; and a fresh list of all claims, read after that, shows that none has it. A device of which a claim
turns up afterwards comes back, closed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState

__all__ = ["CLOSED_S", "GpuStep", "step"]

CLOSED_S: Final = 30.0
"""How long a device stays closed before claims are read to find out whether it is free, in seconds.

kube-scheduler sees a changed slice within a second, and writes an allocation within seconds of its choice; its own
limit for finding devices on a node is 10 s (DRASchedulerFilterTimeout)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStep:
    """What to publish of a GPU next.

    Attributes:
        published: All devices that are published.
        closed: Those of them with the taint.
        leaving: Those of the closed ones that may leave once they are known to be free.
    """

    published: frozenset[DeviceName]
    closed: frozenset[DeviceName]
    leaving: frozenset[DeviceName]


def step(
    gpu: GpuState, wanted: frozenset[DeviceName], *, free: Collection[DeviceName] = (), with_counters: bool
) -> GpuStep:
    """Return the next step of a GPU.

    Args:
        gpu: What there is.
        wanted: What should be published.
        free: The devices that were closed long enough before claims were read, and that no claim had.
        with_counters: Whether devices that exclude each other may be published at once, since counters keep them apart.
            Otherwise a device is opened only while all that is published, open or closed, fits with it.
    """
    every, in_use = frozenset(gpu.modes.possible), gpu.in_use
    published = (gpu.opened | gpu.closed) & every
    left = {name for name in published & gpu.closed if name in free} - wanted - in_use
    stays = (published - left) | (in_use & every)
    opened: frozenset[DeviceName] | set[DeviceName]
    if not in_use <= every:
        # A claim has it as what it cannot be any more: an administrator has partitioned it, say. Who knows what fits.
        opened = set()
    elif with_counters:
        opened = wanted & every
    else:
        opened = _opened(gpu, wanted & every, stays)
    result = stays | opened
    closed = frozenset(result - opened)
    return GpuStep(published=frozenset(result), closed=closed, leaving=closed - wanted - in_use)


def _opened(gpu: GpuState, wanted: frozenset[DeviceName], stays: frozenset[DeviceName]) -> set[DeviceName]:
    """Return which devices are open while no counters keep them apart.

    What is open already may stay so beside a closed device that excludes it, because that cannot be chosen any more;
    and were it chosen already, it would have been so before.
    """
    fit = gpu.modes.fit
    opened: set[DeviceName] = set()
    for name in sorted(wanted & gpu.opened):
        if fit({*opened, *gpu.in_use, name}):
            opened.add(name)
    for name in sorted(wanted - gpu.opened):
        if fit({*opened, *stays, name}):
            opened.add(name)
    return opened
