"""Compares runs with what others published about the same workloads and seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from driver.placement.replay.run import DEMANDS, Run
from driver.placement.replay.trace import Published

__all__ = ["Line", "Result", "compared", "mean_curve", "mean_line", "of_interest", "published_order"]


@dataclass(frozen=True, slots=True)
class Result:
    """A run, and what was run."""

    workload: str
    policy: str
    seed: int
    run: Run


@dataclass(frozen=True, slots=True)
class Line:
    """Figures of a workload for one demand: percent of all GPUs that are allocated.

    Attributes:
        workload: Its name.
        seed: None for the means of all seeds.
        published: By policy; None where nothing is published.
        ours: By policy.
    """

    workload: str
    seed: int | None
    published: Mapping[str, float | None]
    ours: Mapping[str, float]

    def difference(self, policy: str, published: str) -> float | None:
        """Return by how much a policy of ours allocates more; None where nothing is published."""
        other = self.published.get(published)
        return None if other is None else self.ours[policy] - other


def of_interest(published: Iterable[Published], results: Sequence[Result]) -> tuple[Published, ...]:
    """Return the published runs of the workloads and seeds that were run."""
    run = {(result.workload, result.seed) for result in results}
    return tuple(each for each in published if (each.workload, each.seed) in run)


def published_order(published: Sequence[Published], demand: int) -> tuple[str, ...]:
    """Return the published policies, the one that allocates most, in the mean of all runs, last."""
    policies = dict.fromkeys(each.policy for each in published)
    means = {policy: _mean(_at(published, policy, demand)) for policy in policies}
    return tuple(sorted(policies, key=lambda policy: -1.0 if (mean := means[policy]) is None else mean))


def compared(
    results: Sequence[Result], published: Sequence[Published], demand: int, *, by_seed: bool = False
) -> tuple[Line, ...]:
    """Return a line for each workload, or for each of its seeds.

    Args:
        results: With every policy for the same workloads and seeds.
        published: Those of the same workloads and seeds (:func:`of_interest`).
        demand: At which arrived demand, in percent of all GPUs.
        by_seed: Whether each seed gets a line.
    """
    keys = dict.fromkeys((result.workload, result.seed if by_seed else None) for result in results)
    return tuple(_line(workload, seed, results, published, demand) for workload, seed in keys)


def mean_line(lines: Sequence[Line]) -> Line:
    """Return the mean of lines; a published figure only where each line has it."""
    first = lines[0]
    published = {
        policy: None
        if any((line.published.get(policy)) is None for line in lines)
        else _mean(line.published[policy] for line in lines)
        for policy in dict.fromkeys(policy for line in lines for policy in line.published)
    }
    return Line("mean", None, published, {policy: fmean(line.ours[policy] for line in lines) for policy in first.ours})


def mean_curve(curves: Collection[Sequence[float | None]]) -> tuple[float | None, ...]:
    """Return the mean of curves by demand, of those that have a figure there."""
    return tuple(_mean(curve[demand] for curve in curves) for demand in DEMANDS)


def _line(
    workload: str, seed: int | None, results: Sequence[Result], published: Sequence[Published], demand: int
) -> Line:
    def is_meant(run: Result | Published) -> bool:
        return run.workload == workload and seed in (None, run.seed)

    ours = [result for result in results if is_meant(result)]
    theirs = [each for each in published if is_meant(each)]
    return Line(
        workload,
        seed,
        {policy: _mean(_at(theirs, policy, demand)) for policy in dict.fromkeys(each.policy for each in published)},
        {
            policy: fmean(result.run.allocation[demand] for result in ours if result.policy == policy)
            for policy in dict.fromkeys(result.policy for result in ours)
        },
    )


def _at(published: Iterable[Published], policy: str, demand: int) -> list[float | None]:
    return [each.allocation[demand] for each in published if each.policy == policy]


def _mean(figures: Iterable[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return fmean(known) if known else None
