"""A run places what fits, drops the rest, and tells both over arrived demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from driver.placement.engine import Candidate, Engine
from driver.placement.mix import Mix
from driver.placement.policies import POLICIES
from driver.placement.replay.run import Run, replay
from driver.placement.replay.sequence import Arrivals, arrivals
from driver.placement.replay.trace import TraceNode, TracePod
from driver.placement.shapes import NodeShape, PodShape

WHOLE = PodShape(1000, 2**30, 1, 1000)
THIRDS = PodShape(1000, 2**30, 1, 600)


def arriving(gpus: int, *shapes: PodShape) -> Arrivals:
    node = TraceNode("node", NodeShape(64_000, 2**38, 1001, "T4", (1000,) * gpus))
    return Arrivals((node,), tuple(TracePod(f"pod-{n}", shape) for n, shape in enumerate(shapes)), 1000 * gpus)


def first_fit(arriving: Arrivals, *typical: PodShape) -> Run:
    mix = Mix.of(typical)
    return replay(arriving, Engine(POLICIES["first-fit"], mix), mix)


def test_what_does_not_fit_is_dropped() -> None:
    run = first_fit(arriving(2, WHOLE, THIRDS, THIRDS), WHOLE)
    assert (run.placed, run.dropped) == (2, 1)
    assert run.allocation[50] == 50.0
    assert run.allocation[80] == 80.0
    assert run.allocation[110] == 80.0


def test_a_figure_is_the_mean_over_the_pods_that_arrive_at_that_demand() -> None:
    # 0.4, 0.8, 1.2 and 1.6 % of 100 GPUs, of which two are 1 when rounded.
    small = PodShape(1000, 2**30, 1, 400)
    run = first_fit(arriving(100, small, small, small, small), small)
    assert run.allocation[0] == pytest.approx(0.4)
    assert run.allocation[1] == pytest.approx(1.0)
    assert run.allocation[2] == pytest.approx(1.6)


def test_where_no_pod_arrives_the_neighbours_count_and_then_what_was_before() -> None:
    run = first_fit(arriving(10, WHOLE, WHOLE), WHOLE)
    assert run.allocation[10] == 10.0
    assert run.allocation[11] == 10.0  # the neighbour's
    assert run.allocation[15] == 10.0  # what was before
    assert run.allocation[19] == run.allocation[20] == run.allocation[130] == 20.0
    assert run.allocation[0] == 0.0


def test_fragmentation_is_what_is_free_and_of_no_use() -> None:
    run = first_fit(arriving(2, THIRDS, WHOLE), WHOLE, WHOLE, THIRDS)
    # 400 of the first GPU are of no use to any typical pod, then the whole second GPU is in use.
    assert run.fragmentation[30] == pytest.approx(20.0)
    assert run.fragmentation[80] == pytest.approx(20.0)


def test_pods_without_gpus_take_cpu() -> None:
    cpu_alone = PodShape(64_000, 2**30, 0, 0)
    run = first_fit(arriving(2, cpu_alone, WHOLE), WHOLE)
    assert (run.placed, run.dropped) == (1, 1)
    assert run.allocation[50] == 0.0


def test_each_pod_is_a_step() -> None:
    steps: list[None] = []
    engine = Engine(POLICIES["first-fit"], Mix({}))
    replay(arriving(2, WHOLE, WHOLE, WHOLE), engine, Mix({}), lambda: steps.append(None))
    assert len(steps) == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_gives_more_than_there_is(policy: str) -> None:
    nodes = tuple(TraceNode(f"n{n}", NodeShape(16_000, 2**36, 1001, "T4", (1000,) * 4)) for n in range(8))
    pods = tuple(
        TracePod(f"p{n}", PodShape(500 * (n % 9), 2**30, (0, 1, 1, 1, 2)[n % 5], (0, 250, 1000, 460, 1000)[n % 5]))
        for n in range(100)
    )
    mix = Mix.of(pod.shape for pod in pods)
    run = replay(arrivals(nodes, pods, 7), Engine(POLICIES[policy], mix), mix)
    assert 70 < run.allocation[130] <= 100
    assert all(0 <= lost <= 100.001 - used for used, lost in zip(run.allocation, run.fragmentation, strict=True))


@pytest.mark.parametrize("gpus", [(), (0, 0), (0, 1), (1, 2)], ids=str)
def test_an_engine_that_gives_a_gpu_without_room_is_found_out(gpus: tuple[int, ...]) -> None:
    class Wrong(Engine):
        def ranked(self, pod: PodShape) -> Iterator[Candidate]:
            for candidate in super().ranked(pod):
                yield replace(candidate, gpus=gpus if pod == WHOLE else candidate.gpus)

    with pytest.raises(ValueError, match="pod-1 does not fit"):
        replay(arriving(3, THIRDS, WHOLE), Wrong(POLICIES["first-fit"], Mix({})), Mix({}))
