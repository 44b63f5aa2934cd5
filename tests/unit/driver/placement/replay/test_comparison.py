"""Runs beside published ones: by workload, by seed, and as curves."""

from __future__ import annotations

import pytest

from driver.placement.replay.comparison import Result, compared, mean_line, of_interest, published_order
from driver.placement.replay.curves import curves_of
from driver.placement.replay.run import DEMANDS, Run
from driver.placement.replay.trace import Published


def result(workload: str, policy: str, seed: int, value: float) -> Result:
    return Result(workload, policy, seed, Run((value,) * len(DEMANDS), (100 - value,) * len(DEMANDS), 1, 0))


def published(workload: str, policy: str, seed: int, value: float | None) -> Published:
    return Published(workload, policy, seed, (value,) * len(DEMANDS))


RESULTS = [
    result(workload, policy, seed, value + more + seed)
    for workload, value in (("small", 80.0), ("large", 90.0))
    for seed in (1, 2)
    for policy, more in (("pack", 0), ("spread", -20))
]
PUBLISHED = (
    *(published("small", "FGD", seed, 81.0) for seed in (1, 2, 3)),
    *(published("small", "Random", seed, 70.0) for seed in (1, 2)),
    published("large", "FGD", 1, 95.0),
    published("other", "FGD", 1, 10.0),
)


def test_published_runs_of_other_seeds_and_workloads_do_not_count() -> None:
    found = of_interest(PUBLISHED, RESULTS)
    assert {(each.workload, each.seed) for each in found} == {("small", 1), ("small", 2), ("large", 1)}


def test_a_line_is_the_mean_of_the_seeds() -> None:
    small, large = compared(RESULTS, of_interest(PUBLISHED, RESULTS), 100)
    assert (small.workload, small.seed, small.ours) == ("small", None, {"pack": 81.5, "spread": 61.5})
    assert small.published == {"FGD": 81.0, "Random": 70.0}
    assert small.difference("pack", "FGD") == 0.5
    assert large.published == {"FGD": 95.0, "Random": None}
    assert large.difference("pack", "Random") is None


def test_each_seed_can_have_a_line() -> None:
    lines = compared(RESULTS, PUBLISHED, 130, by_seed=True)
    assert [(line.workload, line.seed) for line in lines] == [("small", 1), ("small", 2), ("large", 1), ("large", 2)]
    assert lines[1].ours["pack"] == 82.0
    assert lines[3].published["FGD"] is None


def test_the_mean_of_all_is_told_where_all_have_a_figure() -> None:
    mean = mean_line(compared(RESULTS, of_interest(PUBLISHED, RESULTS), 100))
    assert mean.ours == {"pack": 86.5, "spread": 66.5}
    assert mean.published == {"FGD": 88.0, "Random": None}


def test_the_best_published_policy_is_the_last() -> None:
    assert published_order(of_interest(PUBLISHED, RESULTS), 100) == ("Random", "FGD")
    assert published_order((), 100) == ()
    assert published_order((published("a", "none", 1, None), published("a", "x", 1, 5.0)), 0) == ("none", "x")


def test_curves_are_means_of_seeds_with_the_published_ones_first() -> None:
    small, large = curves_of(RESULTS, PUBLISHED, ("Random", "FGD"))
    assert [curve.policy for curve in small.allocation] == ["Random", "FGD", "pack", "spread"]
    assert [curve.is_published for curve in small.allocation] == [True, True, False, False]
    assert [curve.policy for curve in large.allocation] == ["FGD", "pack", "spread"]
    assert [curve.policy for curve in large.fragmentation] == ["pack", "spread"]
    assert small.allocation[2].values[130] == pytest.approx(81.5)
    assert small.fragmentation[0].values[0] == pytest.approx(18.5)
