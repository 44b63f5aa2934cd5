"""The curves of runs, as data for a drawing: means of all seeds over arrived demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.placement.replay.comparison import Result, mean_curve
from driver.placement.replay.trace import Published

__all__ = ["Curve", "Curves", "curves_of"]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a drawing.

    Attributes:
        policy: Its name.
        is_published: Whether others published it.
        values: Percent of all GPUs, by arrived demand (0, 1, ... percent of all GPUs); None where nothing is known.
    """

    policy: str
    is_published: bool
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of one workload.

    Attributes:
        workload: Its name.
        allocation: Allocated GPUs, published curves first.
        fragmentation: Free GPUs that typical pods cannot use; only of runs of ours.
    """

    workload: str
    allocation: tuple[Curve, ...]
    fragmentation: tuple[Curve, ...]


def curves_of(results: Sequence[Result], published: Sequence[Published], order: Sequence[str]) -> tuple[Curves, ...]:
    """Return the curves of each workload.

    Args:
        results: With every policy for the same workloads and seeds.
        published: Those of the same workloads and seeds.
        order: The published policies that are drawn.
    """
    drawn: list[Curves] = []
    for workload in dict.fromkeys(result.workload for result in results):
        ours = [result for result in results if result.workload == workload]
        theirs = [each for each in published if each.workload == workload]
        policies = list(dict.fromkeys(result.policy for result in ours))
        allocation = [
            Curve(policy, is_published=True, values=mean_curve(found))
            for policy in order
            if (found := [each.allocation for each in theirs if each.policy == policy])
        ]
        fragmentation: list[Curve] = []
        for policy in policies:
            runs = [result.run for result in ours if result.policy == policy]
            allocation.append(Curve(policy, is_published=False, values=mean_curve([run.allocation for run in runs])))
            of_free = mean_curve([run.fragmentation for run in runs])
            fragmentation.append(Curve(policy, is_published=False, values=of_free))
        drawn.append(Curves(workload, tuple(allocation), tuple(fragmentation)))
    return tuple(drawn)
