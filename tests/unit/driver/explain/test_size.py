"""How much memory a cluster takes, and that the cluster of `make bench` is what it says."""

from __future__ import annotations

import gc
import json
import tracemalloc

from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.support.explain_cluster import classes, node_objects

NODES = 20


def a_cluster(nodes: int) -> ClusterState:
    state = ClusterState()
    for kind, wire in classes():
        state.put(kind, wire)
    for number in range(nodes):
        add_node(state, number)
    return state


def add_node(state: ClusterState, number: int) -> None:
    for kind, wire in node_objects(number):
        state.put(kind, json.loads(json.dumps(wire)))


def test_the_benchs_nodes_have_eight_gpus_and_eight_nics_of_which_sixty_percent_are_in_use() -> None:
    state = a_cluster(NODES)
    held = total = 0
    for node in state.nodes.values():
        devices = [device for device in state.index.view(node.node).devices if "ratio" not in device.id.device]
        total += len(devices)
        held += sum(1 for device in devices if state.holders(device.id))

    assert state.notes == []
    assert total == NODES * 16
    assert 0.55 <= held / total <= 0.65
    assert len(state.pending()) == 0
    assert all(state.ledger.is_whole(item.device) or item.share_id for item in state.claim("batch/gpu-00000-0").holds)  # type: ignore[union-attr]


def test_a_node_and_its_claims_take_less_than_2500_bytes_for_each_published_device() -> None:
    # 24 are published: each GPU twice, whole and by percent. Views, which the index makes when it is asked for one, are
    # not in it; nor is what all nodes share.
    state = a_cluster(NODES)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(NODES, 2 * NODES):
            add_node(state, number)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken / NODES / 24 < 2500


def test_an_empty_state_knows_nothing_and_says_nothing() -> None:
    state = ClusterState()

    assert (state.notes, state.pending(), dict(state.nodes)) == ([], (), {})
    assert state.claim("a/b") is None
    state.remove(Kind.SLICE, "s")
    assert state.generation == 0
