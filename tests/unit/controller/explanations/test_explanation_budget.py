"""A claim that takes very long to explain keeps nobody waiting: other questions, the watches' news, nor the end."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from controller.cluster.packed import pack
from controller.explanations.budgeted import ON_DEMAND, ROUTINE, BudgetedExplainer
from controller.explanations.shared_state import BusyError, SharedClusterState
from driver.explain.explanation import ObjectRef
from driver.explain.known.cluster import Kind
from driver.explain.reasons import Reason
from tests.support.claim_search import Recipe, wire
from tests.support.explain_cluster import classes, node_objects, pending_claim, pending_pod

pytestmark = pytest.mark.slow

NODES = 60
DEAR = Recipe(requests=32, alternatives=8, selector=1, constraints=32, reach=3, distinct=2)


@pytest.fixture(scope="module")
def objects() -> list[tuple[str, str, bytes]]:
    found: list[tuple[str, dict[str, Any]]] = list(classes())
    for number in range(NODES):
        found += node_objects(number, mixed=True)
    for index in range(8):
        found.append(_claim(wire(replace(DEAR, selector=index), f"dear-{index}")))
        found.append(_pod(pending_pod(f"dear-{index}")))
    found += [_claim(pending_claim("plain")), _pod(pending_pod("plain"))]
    packed = []
    for kind, item in found:
        metadata = item["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        packed.append((Kind(kind).value, key, pack(json.loads(json.dumps(item)))))
    return packed


@pytest.fixture
def cluster(objects: list[tuple[str, str, bytes]]) -> SharedClusterState:
    cluster = SharedClusterState()
    for kind, key, data in objects:
        cluster.put(kind, key, data)
    while cluster.apply_changes(100):
        pass
    return cluster


def test_other_threads_run_between_the_pieces(cluster: SharedClusterState) -> None:
    explainer = BudgetedExplainer(cluster, threading.Event())
    is_over = threading.Event()
    waits: list[float] = []

    def ask() -> None:
        while not is_over.is_set():
            began = time.monotonic()
            with cluster.use():
                waits.append(time.monotonic() - began)
            time.sleep(0.05)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        began = time.monotonic()
        for index in range(3):
            assert explainer.explain(subject(f"dear-{index}"), ROUTINE).is_cut
        took = time.monotonic() - began
    finally:
        is_over.set()
        asking.join()
    # As long as one piece at most, of the nine to twelve that there are; the last of each is the longest.
    assert len(waits) > 6
    assert max(waits) < max(3.0, took / 3)


def test_the_end_comes_at_once_whatever_is_explained(cluster: SharedClusterState) -> None:
    stop = threading.Event()
    explainer = BudgetedExplainer(cluster, stop)
    explained = threading.Thread(target=lambda: [explainer.explain(subject(f"dear-{n}"), ROUTINE) for n in range(8)])
    explained.start()
    time.sleep(0.5)
    stop.set()
    began = time.monotonic()
    explained.join(20)
    assert not explained.is_alive()
    assert time.monotonic() - began < 5  # eight of them take some fifteen seconds of the CPU


def test_http_requests_do_not_wait_for_long(cluster: SharedClusterState) -> None:
    explainer = BudgetedExplainer(cluster, threading.Event())
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with cluster.use():
            held.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        with pytest.raises(BusyError, match="try again"):
            explainer.explain(subject("plain"), replace(ON_DEMAND, wait_s=0.1))
    finally:
        done.set()
        holder.join()
    assert explainer.explain(subject("plain"), ON_DEMAND).reason is not Reason.SEARCH_LIMIT


def test_asked_again_it_goes_on_where_it_was(cluster: SharedClusterState) -> None:
    explainer = BudgetedExplainer(cluster, threading.Event())
    # Several times: on a busy machine one attempt may end by the clock on the wall before the first node.
    unknown = [explainer.explain(subject("dear-2"), ON_DEMAND).nodes_unknown for _ in range(6)]
    assert unknown == sorted(unknown, reverse=True)
    assert len({NODES, *unknown}) > 2


def test_taking_over_many_changes_ends_after_a_moment(objects: list[tuple[str, str, bytes]]) -> None:
    now = iter(range(10**9))
    cluster = SharedClusterState(clock=lambda: next(now) * 0.1)
    for kind, key, data in objects:
        cluster.put(kind, key, data)
    waiting = cluster.queued
    with cluster.use():
        assert waiting - 10 < cluster.queued < waiting


def subject(name: str) -> ObjectRef:
    return ObjectRef(kind="ResourceClaim", namespace="ml", name=name)


def _claim(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "ResourceClaim", item


def _pod(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "Pod", item
