"""The counters of one GPU: what makes its modes, and its MIG partitions, exclude each other in the scheduler.

A GPU with MIG partitions has a counter for each memory slice. The whole GPU and its percent device consume all of them,
a partition those that it covers; so two devices of which one would need what the other has are never given at once.

Memory slices are not all that a partition needs: there are compute slices, engines, and a largest number of instances a
profile. A counter is made for such a thing only where partitions on disjoint memory slices, within the counters made
before, could want more of it than there is. Whether they could is decided exactly: it is the heaviest set of disjoint
intervals (weighted interval scheduling), found by dynamic programming over the slices. (An H100 needs one: only one
partition can have the optical flow accelerator of ``1g.10gb+me``.)

A node that makes up its profiles could have that take hours, so there is a number of steps for each kind of GPU. What
is not decided by then gets a counter: one too many does no harm. An H100 needs 600 steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from driver.model.devices import MigProfile
from driver.model.parts import MigPartition

__all__ = ["ONE_GPU", "GpuCounters", "mig_counters", "slice_count", "whole_counters"]

_MOST_STEPS: Final = 10_000
_KINDS_OF_GPUS: Final = 64

ONE_GPU: Final = "gpu"
"""The counter of a GPU without MIG partitions: it is there once, for one mode."""

# By the names of nvidia-smi's columns (mig -lgip). Scarce ones first: their counters often make others needless.
_RESOURCES: Final[Mapping[str, Callable[[MigProfile], int]]] = {
    "ofa": lambda profile: profile.ofa_engines,
    "jpeg": lambda profile: profile.jpeg_engines,
    "enc": lambda profile: profile.encoders,
    "dec": lambda profile: profile.decoders,
    "ce": lambda profile: profile.copy_engines,
    "compute": lambda profile: profile.compute_slices,
    "sm": lambda profile: profile.multiprocessors,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCounters:
    """The counters of one GPU.

    Attributes:
        totals: Counter → how much there is.
        of_all: What the whole GPU and its percent device consume.
        of_profile: NVML's number of a profile → what its partitions consume beside memory slices.
    """

    totals: Mapping[str, int]
    of_all: Mapping[str, int]
    of_profile: Mapping[int, Mapping[str, int]]

    def of_partition(self, partition: MigPartition) -> dict[str, int]:
        """Return what a partition consumes."""
        place = partition.placement
        slices = {_memory_slice(number): 1 for number in range(place.start, place.start + place.size)}
        return slices | dict(self.of_profile[partition.profile.profile_id])


@dataclass(frozen=True, slots=True)
class _Scarce:
    """A thing of which there may be too little: how much there is, and how much an instance of each profile takes."""

    name: str
    total: int
    weights: Mapping[int, int]


class _Steps:
    """How many steps are left."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, number: int) -> bool:
        """Use some up; False where so many are not left, and then never again True."""
        self._left -= number
        return self._left >= 0


def whole_counters() -> GpuCounters:
    """Return the counters of a GPU that is given in several modes, none of them MIG."""
    return GpuCounters(totals={ONE_GPU: 1}, of_all={ONE_GPU: 1}, of_profile={})


def mig_counters(partitions: Iterable[MigPartition]) -> GpuCounters:
    """Return the counters of a GPU with these partitions: all placements of all its profiles, at least one."""
    return _counters(tuple({partition.profile: partition.label for partition in partitions}.items()))


def slice_count(profiles: Iterable[MigProfile]) -> int:
    """Return how many memory slices a GPU with these profiles has: the end of the placement that reaches farthest."""
    return max(place.start + place.size for profile in profiles for place in profile.placements)


@lru_cache(maxsize=_KINDS_OF_GPUS)
def _counters(labels: tuple[tuple[MigProfile, str], ...]) -> GpuCounters:
    profiles = tuple(profile for profile, _ in labels)
    slices = {_memory_slice(number): 1 for number in range(slice_count(profiles))}
    needed: list[_Scarce] = []
    steps = _Steps(_MOST_STEPS)
    for scarce in _scarce_things(labels):
        if _can_run_out(scarce, profiles, needed, steps):
            needed.append(scarce)
    of_profile = {
        profile.profile_id: {
            scarce.name: scarce.weights[profile.profile_id] for scarce in needed if scarce.weights[profile.profile_id]
        }
        for profile in profiles
    }
    totals = slices | {scarce.name: scarce.total for scarce in needed}
    return GpuCounters(totals=totals, of_all=slices, of_profile=of_profile)


def _scarce_things(labels: Sequence[tuple[MigProfile, str]]) -> Iterator[_Scarce]:
    """Yield everything that may run out, with a total that NVML vouches for."""
    profiles = [profile for profile, _ in labels]
    for name, amount in _RESOURCES.items():
        # NVML does not report how much a GPU has. It has what as many instances of a profile as fit would have.
        total = max(amount(profile) * profile.max_instances for profile in profiles)
        yield _Scarce(name, total, {profile.profile_id: amount(profile) for profile in profiles})
    for one, label in labels:
        weights = {profile.profile_id: int(profile is one) for profile in profiles}
        yield _Scarce(f"max-{label}", one.max_instances, weights)


def _can_run_out(scarce: _Scarce, profiles: Sequence[MigProfile], counted: Sequence[_Scarce], steps: _Steps) -> bool:
    """Whether partitions on disjoint memory slices that keep to ``counted`` can want more than there is.

    Weighted interval scheduling: for each end, and for each use of what is counted, the most that partitions before
    that end take together. True as well where there are not enough steps to find out.
    """
    totals = tuple(known.total for known in counted)
    ending: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for profile in profiles:
        number = profile.profile_id
        uses = tuple(known.weights[number] for known in counted)
        for place in profile.placements:
            ending.setdefault(place.start + place.size, []).append((place.start, scarce.weights[number], uses))
    best: list[dict[tuple[int, ...], int]] = [{tuple(0 for _ in counted): 0}]
    for end in range(1, slice_count(profiles) + 1):
        here = dict(best[end - 1])
        for start, weight, uses in ending.get(end, ()):
            if not steps.take(len(best[start]) * (1 + len(counted))):
                return True
            for before, most in best[start].items():
                used = tuple(map(operator.add, before, uses))
                if all(map(operator.le, used, totals)):
                    here[used] = max(here.get(used, 0), most + weight)
        best.append(here)
    return max(best[-1].values()) > scarce.total


def _memory_slice(number: int) -> str:
    # Short, because an H100 node has hundreds of them (docs/design/layout.md, "Size").
    return f"m{number}"
