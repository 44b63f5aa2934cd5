"""The counters of one GPU: what makes its modes, and its MIG partitions, exclude each other in the scheduler.

A GPU of which MIG partitions are published has a counter for each memory slice. The whole GPU and its percent device
consume all of them, a partition those that it covers; so two devices of which one would need what the other has are
never given at once. A memory slice needs no counter where another one has all partitions that cover it (the eighth of
an H100): whatever the first keeps apart, the second does as well.

Memory slices are not all that a partition needs: there are compute slices, engines, and a largest number of instances a
profile. A counter is made for such a thing only where partitions on disjoint memory slices, within the counters made
before, could want more of it than there is. Whether they could is decided exactly: it is the heaviest set of disjoint
intervals (weighted interval scheduling), found by dynamic programming over the slices. (An H100 needs one: only one
partition can have the optical flow accelerator of ``1g.10gb+me``.)

A node that makes up its profiles could have that take hours, so there is a number of steps for each kind of GPU. What
is not decided by then gets a counter: one too many does no harm. An H100 needs 1,100 steps.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from driver.model.devices import MigPlacement, MigProfile
from driver.model.parts import MigPartition

__all__ = [
    "ONE_GPU",
    "GpuCounters",
    "Scarce",
    "fit_together",
    "mig_counters",
    "scarce_things",
    "slice_count",
    "whole_counters",
]

_MOST_STEPS: Final = 10_000
_KINDS_OF_GPUS: Final = 256

_Labels: TypeAlias = tuple[tuple[MigProfile, str], ...]
"""A GPU's profiles, each with its label."""

_Places: TypeAlias = tuple[tuple[int, MigPlacement], ...]
"""Where partitions are, each with NVML's number of its profile."""

ONE_GPU: Final = "gpu"
"""The counter of a GPU of which no MIG partitions are published: it is there once, for one mode."""

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
        slices = {name: 1 for number in _covered(partition.placement) if (name := _memory_slice(number)) in self.totals}
        return slices | dict(self.of_profile[partition.profile.profile_id])


@dataclass(frozen=True, slots=True)
class Scarce:
    """A thing of which there may be too little.

    Attributes:
        name: The name of its counter.
        total: How much there is.
        weights: NVML's number of a profile → how much an instance takes.
    """

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


def mig_counters(partitions: Iterable[MigPartition], every: Iterable[MigPartition] | None = None) -> GpuCounters:
    """Return the counters of a GPU.

    Args:
        partitions: Those that are published; at least one.
        every: All that it could publish, which tell how much it has of everything; None for ``partitions``.
    """
    published = tuple(partitions)
    places = tuple((partition.profile.profile_id, partition.placement) for partition in published)
    return _counters(_labels(published if every is None else every), places)


def scarce_things(every: Iterable[MigPartition]) -> tuple[Scarce, ...]:
    """Return everything of which partitions may want more than their GPU has.

    Args:
        every: All partitions that the GPU could publish, which tell how much it has.
    """
    return _scarce(_labels(every))


def fit_together(partitions: Iterable[MigPartition], things: Sequence[Scarce]) -> bool:
    """Return whether these partitions can all be in use at once.

    Args:
        partitions: Partitions of one GPU.
        things: What they may want too much of (:func:`scarce_things`).
    """
    chosen = tuple(partitions)
    covered = [number for partition in chosen for number in _covered(partition.placement)]
    if len(set(covered)) < len(covered):
        return False
    numbers = [partition.profile.profile_id for partition in chosen]
    return all(sum(scarce.weights[number] for number in numbers) <= scarce.total for scarce in things)


def slice_count(profiles: Iterable[MigProfile]) -> int:
    """Return how many memory slices a GPU with these profiles has: the end of the placement that reaches farthest."""
    return max(place.start + place.size for profile in profiles for place in profile.placements)


def _labels(partitions: Iterable[MigPartition]) -> _Labels:
    return tuple({partition.profile: partition.label for partition in partitions}.items())


@lru_cache(maxsize=_KINDS_OF_GPUS)
def _counters(labels: _Labels, places: _Places) -> GpuCounters:
    slices = {_memory_slice(number): 1 for number in _slices_that_tell_apart(places)}
    needed: list[Scarce] = []
    steps = _Steps(_MOST_STEPS)
    for scarce in _scarce(labels):
        if _can_run_out(scarce, places, needed, steps):
            needed.append(scarce)
    of_profile = {
        number: {scarce.name: scarce.weights[number] for scarce in needed if scarce.weights[number]}
        for number in dict.fromkeys(number for number, _ in places)
    }
    totals = slices | {scarce.name: scarce.total for scarce in needed}
    return GpuCounters(totals=totals, of_all=slices, of_profile=of_profile)


def _slices_that_tell_apart(places: _Places) -> list[int]:
    """Return the memory slices that need a counter: all but those whose partitions all cover another one as well."""
    covering: dict[int, set[int]] = {}
    for index, (_, place) in enumerate(places):
        for number in _covered(place):
            covering.setdefault(number, set()).add(index)
    kept: list[int] = []
    for number in sorted(covering, key=lambda number: (-len(covering[number]), number)):
        if not any(covering[number] <= covering[other] for other in kept):
            kept.append(number)
    return sorted(kept)


@lru_cache(maxsize=_KINDS_OF_GPUS)
def _scarce(labels: _Labels) -> tuple[Scarce, ...]:
    return tuple(_things(labels))


def _things(labels: _Labels) -> Iterator[Scarce]:
    """Yield everything that may run out, with a total that NVML vouches for."""
    profiles = [profile for profile, _ in labels]
    for name, amount in _RESOURCES.items():
        # NVML does not report how much a GPU has. It has what as many instances of a profile as fit would have.
        total = max((amount(profile) * profile.max_instances for profile in profiles), default=0)
        yield Scarce(name, total, {profile.profile_id: amount(profile) for profile in profiles})
    for one, label in labels:
        weights = {profile.profile_id: int(profile is one) for profile in profiles}
        yield Scarce(f"max-{label}", one.max_instances, weights)


def _can_run_out(scarce: Scarce, places: _Places, counted: Sequence[Scarce], steps: _Steps) -> bool:
    """Whether partitions on disjoint memory slices that keep to ``counted`` can want more than there is.

    Weighted interval scheduling: for each end, and for each use of what is counted, the most that partitions before
    that end take together. True as well where there are not enough steps to find out.
    """
    totals = tuple(known.total for known in counted)
    ending: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}
    for number, place in places:
        uses = tuple(known.weights[number] for known in counted)
        ending.setdefault(place.start + place.size, []).append((place.start, scarce.weights[number], uses))
    best: list[dict[tuple[int, ...], int]] = [{tuple(0 for _ in counted): 0}]
    for end in range(1, max(ending) + 1):
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


def _covered(place: MigPlacement) -> range:
    return range(place.start, place.start + place.size)


def _memory_slice(number: int) -> str:
    # Short, because an H100 node has hundreds of them (docs/design/layout.md, "Size").
    return f"m{number}"
