"""Which pods arrive in which order, and how the nodes are called."""

from __future__ import annotations

from collections import Counter

import pytest

from driver.errors import InputError
from driver.placement.replay import sequence
from driver.placement.replay.sequence import arrivals
from driver.placement.replay.trace import TraceNode, TracePod
from driver.placement.shapes import NodeShape, PodShape

NODES = tuple(TraceNode(f"node-{n}", NodeShape(64_000, 2**38, 1001, "T4", (1000,) * 2)) for n in range(10))


def pods(count: int, gpus: int = 1, milli: int = 500) -> tuple[TracePod, ...]:
    return tuple(TracePod(f"pod-{n:03d}", PodShape(1000, 2**30, gpus, milli)) for n in range(count))


def test_a_seed_always_gives_the_same_and_another_one_something_else() -> None:
    assert arrivals(NODES, pods(30), 42) == arrivals(NODES[::-1], pods(30)[::-1], 42)
    assert arrivals(NODES, pods(30), 42).pods != arrivals(NODES, pods(30), 43).pods


def test_pods_are_repeated_until_they_ask_for_130_percent() -> None:
    arriving = arrivals(NODES, pods(30), 42)
    assert sum(pod.gpu_milli for pod in arriving.pods) == 26_000  # of 20 GPUs
    assert Counter(arriving.pods[:30]) == Counter(pods(30))
    assert set(arriving.pods[30:]) <= set(pods(30))


def test_pods_are_taken_out_where_they_ask_for_more() -> None:
    arriving = arrivals(NODES, pods(90), 42)
    assert sum(pod.gpu_milli for pod in arriving.pods) == 26_000
    assert max(Counter(arriving.pods).values()) == 1


def test_pods_that_ask_for_just_as_much_stay_as_they_are() -> None:
    assert Counter(arrivals(NODES, pods(52), 42).pods) == Counter(pods(52))


def test_of_a_copy_with_several_gpus_one_is_counted_against_the_end() -> None:
    # 25,000 are there; one more pod of 2,000 would exceed 26,000, and of its GPUs only one is counted.
    workload = (*pods(46), TracePod("pod-100", PodShape(1000, 2**30, 2, 1000)))
    totals = {sum(pod.gpu_milli for pod in arrivals(NODES, workload, seed).pods) for seed in range(60)}
    assert max(totals) == 27_000


def test_nodes_get_new_names_in_whose_order_they_are_found() -> None:
    names = [node.name for node in arrivals(NODES, pods(30), 42).nodes]
    assert sorted(name[5:] for name in names) == [node.name for node in NODES]
    assert sorted(int(name[:4]) for name in names) == list(range(10))
    assert names != sorted(names)


def test_pods_without_gpus_come_as_well() -> None:
    workload = (*pods(30), *(TracePod(f"cpu-{n}", PodShape(1000, 2**30, 0, 0)) for n in range(5)))
    assert sum(pod.shape.gpus == 0 for pod in arrivals(NODES, workload, 42).pods) >= 5


def test_a_workload_that_would_have_to_be_repeated_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "MOST_PODS", 100)
    with pytest.raises(InputError, match="more than 100 pods"):
        arrivals(NODES, pods(3, milli=1), 42)


def test_a_workload_without_gpus_is_refused() -> None:
    with pytest.raises(InputError, match="asks for no GPU"):
        arrivals(NODES, pods(3, gpus=0, milli=0), 42)
