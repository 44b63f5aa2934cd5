"""What is read of a node's slices: its GPUs, how much of each is free, its NICs."""

from __future__ import annotations

import pytest

from driver.explain.known.cluster import Kind
from driver.modes.rule import Layout
from driver.placement.devices.free import free_gpus
from driver.placement.devices.layout import Layouts, NodeLayout
from tests.support.placement_world import PlacementWorld, gpus, mig, share


def _layout(world: PlacementWorld, node: str = "n0000") -> NodeLayout:
    return Layouts().of(world.state.index.view(world.state.nodes[node].node))


def _free(world: PlacementWorld) -> tuple[int, ...]:
    view = world.state.index.view(world.state.nodes["n0000"].node)
    return free_gpus(_layout(world), view, world.state.ledger)


@pytest.mark.parametrize("layout", [Layout.ONE, Layout.FULL])
def test_a_gpu_is_one_whatever_it_is_published_as(layout: Layout) -> None:
    found = _layout(PlacementWorld(1, layout=layout))
    assert len(found.gpus) == 8
    assert len(found.nics) == 8
    assert found.model == "NVIDIA H100 80GB HBM3"
    if layout is Layout.FULL:
        (gpu, *_) = found.gpus
        assert len(gpu.whole) == 2  # by bytes and by percent
        # Seven of the eight memory slices are counted (driver.layout.counters), so a partition is so many sevenths.
        assert {part for _, part in gpu.partitions} == {142, 285, 428, 571, 1000}


def test_nodes_of_one_kind_have_one_layout() -> None:
    world = PlacementWorld(2)
    layouts = Layouts()
    views = [world.state.index.view(node.node) for node in world.state.nodes.values()]
    assert layouts.of(views[0]) is layouts.of(views[1])


def test_what_is_free_of_gpus_in_each_mode() -> None:
    world = PlacementWorld(1, layout=Layout.FULL)
    assert _free(world) == (1000,) * 8
    for name, request in (("whole", gpus()), ("share", share(30)), ("part", mig("1g.10gb"))):
        world.pod(name, [request])
        assert world.run(name)
    assert sorted(_free(world)) == [0, 700, 858, *(1000,) * 5]


def test_a_gpu_that_no_claim_may_have_is_not_free() -> None:
    world = PlacementWorld(1)
    rule = {
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"driver": "rootport.dev", "pool": "n0000", "device": "gpu-0001-00-00-0"},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        },
    }
    world.state.put(Kind.TAINT_RULE, rule)
    assert _free(world) == (0, *(1000,) * 7)
