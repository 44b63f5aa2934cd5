"""From when to when a managed node's devices are the controller's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controller.placement.managed_nodes import ManagedNodes
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from tests.unit.controller.placement.placed_world import (
    node,
)


class Managed:
    """A state with one managed node."""

    def __init__(self, since: datetime | None) -> None:
        self.generation, self.since, self.versions = 0, since, 0
        state = ClusterState()
        state.put(Kind.NODE, node("n1"))
        self.nodes = state.nodes

    def change(self, since: datetime | None) -> None:
        self.generation, self.versions, self.since = self.generation + 1, self.versions + 1, since

    def version(self, _node: str) -> int:
        return self.versions

    def managed_since(self, _node: str) -> datetime | None:
        return self.since


def test_a_nodes_taint_stays_while_an_allocation_there_is_in_doubt() -> None:
    clock, in_doubt = [0.0], [True]
    nodes = ManagedNodes(lambda _node: False, may_be_written=lambda _node: in_doubt[0], clock=lambda: clock[0])
    assert nodes.is_tainted("n1")
    clock[0] = 60
    assert nodes.is_tainted("n1")
    in_doubt[0] = False
    assert nodes.is_tainted("n1"), "until kube-scheduler has seen what came"
    clock[0] = 64
    assert not nodes.is_tainted("n1")


def test_a_node_settles_by_the_clock_of_this_process_and_again_when_its_taint_is_new() -> None:
    clock, wall = [0.0], datetime(2026, 1, 1, tzinfo=UTC)
    nodes = ManagedNodes(lambda _node: True, settle_s=30, clock=lambda: clock[0], now=lambda: wall + ahead)
    ahead = timedelta(seconds=60)  # the API server's clock is behind
    state: Any = Managed(since=None)
    assert nodes.unsettled(state) == {"n1"}
    state.change(wall)
    assert nodes.unsettled(state) == {"n1"}
    clock[0] = 29
    assert nodes.unsettled(state) == {"n1"}
    clock[0] = 31
    assert nodes.unsettled(state) == frozenset()
    state.change(wall + timedelta(seconds=40))
    assert nodes.unsettled(state) == {"n1"}
    ahead = timedelta(minutes=10)
    clock[0] = 33
    assert nodes.unsettled(state) == frozenset(), "a taint that old is seen by every scheduler"


def test_a_label_that_goes_and_comes_between_two_looks_leaves_no_node_settled() -> None:
    clock, labelled, wall = [0.0], [True], datetime(2026, 1, 1, tzinfo=UTC)
    nodes = ManagedNodes(lambda _node: labelled[0], settle_s=30, clock=lambda: clock[0], now=lambda: wall)
    state: Any = Managed(since=wall - timedelta(hours=1))
    assert nodes.unsettled(state) == frozenset()
    clock[0], labelled[0] = 0.1, False
    assert not nodes.is_tainted("n1")  # the taint goes
    clock[0], labelled[0] = 0.2, True
    assert nodes.is_tainted("n1")  # and comes; the slices that are known are older than both
    assert nodes.unsettled(state) == {"n1"}
    with nodes.writing("n1") as may_write:
        assert not may_write, "what was decided before is not written"
    clock[0] = 30.2
    assert nodes.unsettled(state) == frozenset()
    with nodes.writing("n1") as may_write:
        assert may_write
