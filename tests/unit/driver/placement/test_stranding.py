"""Stranding tells GPUs that stay free for want of CPU or memory."""

from __future__ import annotations

import pytest
from hypothesis import given

from driver.placement.mix import Mix
from driver.placement.shapes import NodeShape, PodShape
from driver.placement.stranding import Stranding
from tests.support.placement_shapes import mixes, nodes


def by_definition(mix: Mix, node: NodeShape) -> float:
    """The node is filled with pods of one kind; the mean over the kinds, by their GPUs."""
    free = sum(node.gpus)
    lost = {"cpu_milli": 0.0, "memory": 0.0}
    total = 0
    for pod, weight in mix.weights.items():
        gpus = pod.gpus * pod.gpu_milli
        if gpus and (not pod.models or node.model in pod.models):
            total += weight * gpus
            for resource in lost:
                wanted = getattr(pod, resource)
                pods = getattr(node, resource) / wanted if wanted else free
                lost[resource] += weight * gpus * max(0.0, free - pods * gpus)
    return max(lost.values()) / total if total else 0.0


@given(mixes, nodes)
def test_it_is_its_definition(mix, node):
    assert Stranding(mix).of(node) == pytest.approx(by_definition(mix, node), rel=1e-6, abs=1e-6)


def test_eight_free_gpus_with_the_cpu_of_two_pods():
    mix = Mix.of([PodShape(12_000, 1, 1, 1000)])
    assert Stranding(mix).of(NodeShape(24_000, 1000, 110, "", (1000,) * 8)) == 6000


def test_the_scarcer_of_cpu_and_memory_counts():
    mix = Mix.of([PodShape(1, 8, 1, 1000)])
    assert Stranding(mix).of(NodeShape(2, 8, 110, "", (1000,) * 4)) == 3000


def test_pods_for_other_models_do_not_count():
    mix = Mix.of([PodShape(100, 0, 1, 1000, frozenset({"T4"})), PodShape(1, 0, 1, 1000)])
    assert Stranding(mix).of(NodeShape(4, 0, 110, "G2", (1000,) * 4)) == 0
