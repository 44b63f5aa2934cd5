"""Typical pods are counted, and what came long ago counts less."""

from __future__ import annotations

import pytest

from driver.placement.mix import Mix, RecentPods
from driver.placement.shapes import PodShape

WHOLE = PodShape(1, 1, 1, 1000)
SHARE = PodShape(1, 1, 1, 250)


def test_a_mix_counts_pods():
    assert Mix.of([WHOLE, SHARE, WHOLE]).weights == {WHOLE: 2, SHARE: 1}


def test_after_the_half_life_a_pod_counts_half():
    recent = RecentPods(half_life=10)
    for number in range(21):
        recent.add(PodShape(number, 0, 1, 1000))
    weights = {pod.cpu_milli: weight for pod, weight in recent.mix().weights.items()}
    assert weights[10] == pytest.approx(weights[20] / 2, abs=1)
    assert weights[0] == pytest.approx(weights[20] / 4, abs=1)


def test_the_rarest_kinds_are_forgotten_first():
    recent = RecentPods(half_life=10_000, limit=5)
    for number in range(50):
        recent.add(WHOLE)
        recent.add(PodShape(number, 0, 1, 1000))
    weights = recent.mix().weights
    assert len(weights) == 5
    assert WHOLE in weights


def test_a_kind_that_no_longer_comes_ends():
    recent = RecentPods(half_life=10)
    recent.add(WHOLE)
    for _ in range(200):
        recent.add(SHARE)
    assert set(recent.mix().weights) == {SHARE}
