"""The closed form of fragmentation is the paper's definition."""

from __future__ import annotations

import pytest
from hypothesis import given

from driver.placement.fragmentation import Fragmentation
from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape, PodShape
from tests.support.placement_shapes import mixes, nodes


def by_definition(mix: Mix, node: NodeShape) -> float:
    """As in section 3.2 of the paper, pod by pod and GPU by GPU."""
    lost = 0.0
    for pod, weight in mix.weights.items():
        for free in node.gpus:
            if not pod.gpus or not node.fits(pod) or free < pod.gpu_milli:
                lost += free * weight / mix.total
    return lost


@given(mixes, nodes)
def test_it_is_the_paper_s_definition(mix, node):
    assert Fragmentation(mix).of(node) == pytest.approx(by_definition(mix, node), abs=1e-6)


def test_the_example_of_two_gpus_that_no_pod_fills():
    mix = Mix.of([PodShape(0, 0, 1, 1000)] * 3 + [PodShape(0, 0, 1, 190)])
    node = NodeShape(10, 10, 10, "", (190, 810))
    assert Fragmentation(mix).of(node) == 750


def test_without_typical_pods_nothing_is_fragmented():
    assert Fragmentation(Mix({})).of(NodeShape(10, 10, 10, "", (190, 810))) == 0
