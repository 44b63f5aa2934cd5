"""A leader dies in the middle of a placement, or is held up there: nothing is lost, and no device is given twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, JsonObject
from driver.model.managed_nodes import ANNOTATION
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.simulated_nodes import Controller
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

DYING = "tests.support.dying_controller"
TAKE_OVER_S = 90


@pytest.mark.parametrize("step", ["announced", "allocated"])
def test_the_next_leader_finishes_what_the_one_before_began(
    cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    cluster.add_node("m1", gpus=4)
    monkeypatch.setenv("ROOTPORT_TEST_DIES", step)
    first = cluster.controller(module=DYING)
    monkeypatch.delenv("ROOTPORT_TEST_DIES")
    cluster.template("one")
    cluster.pod("p1", "one", "one")  # dies at the first of two claims
    eventually("it dies", lambda: first.process.poll() is not None)
    cluster.controller(settled=False)
    assert cluster.wait_bound("p1", timeout_s=TAKE_OVER_S) == {"p1": "m1"}


def test_what_a_dead_leader_has_announced_for_a_pod_that_is_gone_is_cleared(
    cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add_node("m1")
    monkeypatch.setenv("ROOTPORT_TEST_DIES", "announced")
    first = cluster.controller(module=DYING)
    monkeypatch.delenv("ROOTPORT_TEST_DIES")
    cluster.claim("shared")
    cluster.pod("p1", claims=("shared",))
    eventually("it dies", lambda: first.process.poll() is not None)
    cluster.delete_pod("p1")
    cluster.controller(settled=False)

    def is_clear() -> bool:
        metadata = cluster.api.get(RESOURCE_CLAIMS, "shared", namespace=SPACE)["metadata"]
        return not metadata.get("finalizers") and ANNOTATION not in metadata.get("annotations", {})

    eventually("nothing is left", is_clear, timeout_s=TAKE_OVER_S)


def test_a_leader_that_was_held_up_before_its_write_gives_no_device_twice(
    cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _about_to_stop(cluster, monkeypatch)
    eventually("it is announced", lambda: ANNOTATION in _late(cluster)["metadata"].get("annotations", {}))
    eventually("it has stopped", lambda: _state(first.process.pid) == "T")
    second = cluster.controller(settled=False)
    eventually("the second one leads", lambda: second.logged("placement begins"), timeout_s=TAKE_OVER_S)
    # The one GPU goes to whoever is placed first; the claim was rewritten before.
    bound = {"p1"}
    eventually("it is bound", lambda: bound <= set(cluster.bound()), timeout_s=TAKE_OVER_S)
    allocated = _late(cluster)["status"]["allocation"]
    os.kill(first.process.pid, signal.SIGCONT)
    eventually("the first one ends", lambda: first.process.poll() is not None)
    assert _late(cluster)["status"]["allocation"] == allocated
    assert first.process.returncode == 1


def test_a_late_write_is_refused_after_the_next_leader_has_given_the_device_away(
    cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _about_to_stop(cluster, monkeypatch)
    eventually("it has stopped", lambda: _state(first.process.pid) == "T")
    # Its pod goes, so that the device is another one's before the write comes.
    cluster.delete_pod("p1")
    second = cluster.controller(settled=False)
    eventually("the second one leads", lambda: second.logged("placement begins"), timeout_s=TAKE_OVER_S)
    cluster.template("one")
    cluster.pod("p2", "one")
    cluster.wait_bound("p2", timeout_s=TAKE_OVER_S)
    os.kill(first.process.pid, signal.SIGCONT)
    eventually("the first one ends", lambda: first.process.poll() is not None)
    assert "allocation" not in _late(cluster).get("status", {})


def _about_to_stop(cluster: PlacedCluster, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A leader that stops between what it announces for the claim ``late`` of p1 and the allocation."""
    cluster.add_node("m1", gpus=1)
    monkeypatch.setenv("ROOTPORT_TEST_STOPS", "1")
    leader = cluster.controller(module=DYING)
    monkeypatch.delenv("ROOTPORT_TEST_STOPS")
    cluster.claim("late")
    cluster.pod("p1", claims=("late",))
    return leader


def _late(cluster: PlacedCluster) -> JsonObject:
    return cluster.api.get(RESOURCE_CLAIMS, "late", namespace=SPACE)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
