"""The store of what is shown: what makes a version, and what who waits is told."""

from __future__ import annotations

import json
import threading

import pytest

from controller.overview import store
from controller.overview.store import Changes, Overview
from tests.support.shown_nodes import gpu, put, status


@pytest.fixture
def overview() -> Overview:
    return Overview(first_version=100)


def names(changes: Changes) -> list[str]:
    return [json.loads(node)["name"] for node in changes.nodes]


def test_what_changes_nothing_makes_no_version(overview: Overview) -> None:
    put(overview, "a")
    put(overview, "a")
    overview.remove("b")
    overview.put("a", devices=None, statuses={"a.gpu-0": status()}, state="Ready", reason="")
    assert overview.version == 101


@pytest.mark.parametrize("what", ["state", "reason", "cannot prepare", "device", "status", "detail"])
def test_every_difference_makes_one(overview: Overview, what: str) -> None:
    put(overview, "a")
    match what:
        case "state":
            put(overview, "a", state="Silent")
        case "reason":
            put(overview, "a", reason="NoHeartbeat")
        case "cannot prepare":
            told = {"a.gpu-0": status()}
            overview.put("a", devices=None, statuses=told, state="Ready", reason="", cannot_prepare=True)
        case "device":
            put(overview, "a", gpu("a"), gpu("a", 1))
        case "status":
            put(overview, "a", statuses={"a.gpu-0": status("Unhealthy")})
        case "detail":  # nothing that the overview shows, but the node's own page does
            put(overview, "a", gpu("a", uuid="GPU-1"))
    assert overview.version == 102


def test_a_node_is_shown_with_its_devices_and_their_statuses(overview: Overview) -> None:
    put(overview, "b", state="NotReady", reason="NvmlMissing")
    put(overview, "a")
    held = status(allocated={"core": 50, "memory": "40Gi"}, capacity={"core": 100, "memory": "80Gi"}, mode="shared")
    overview.put("a", devices=None, statuses={"a.gpu-0": held}, state="Ready", reason="")
    assert [node.name for node in overview.nodes()] == ["a", "b"]
    (shown,) = overview.nodes()[0].devices
    assert shown.core is not None
    assert (shown.core.used, shown.mode, shown.model) == (50, "shared", "NVIDIA H100 80GB HBM3")
    (device,) = overview.devices("a")
    assert device["metadata"] == {"name": "a.gpu-0"}
    assert (device["spec"]["minor"], device["status"]["allocated"]["memory"]) == (0, "40960Mi")
    version, wires = overview.wires()
    assert (version, [json.loads(wire)["name"] for wire in wires]) == (overview.version, ["a", "b"])
    assert json.loads(wires[1])["reason"] == "NvmlMissing"


def test_without_its_devices_a_node_is_not_shown(overview: Overview) -> None:
    overview.put("a", devices=None, statuses={}, state="Ready", reason="")
    assert (overview.nodes(), overview.devices("a"), overview.version) == ((), (), 100)


def test_a_node_goes_by_its_label_as_well_as_by_its_name(overview: Overview) -> None:
    long = "n" * 70
    put(overview, long)
    label = store.node_label(long)
    assert label != long
    overview.remove(label)
    assert overview.wait(100, 0) == Changes(version=102, gone=(long,))


def test_a_reader_that_falls_behind_gets_the_last_state_of_each_node_once(overview: Overview) -> None:
    for name in ("a", "b", "c"):
        put(overview, name)
    seen = overview.version
    for index in range(50):
        put(overview, "b", reason=str(index))
    put(overview, "a", state="Silent")
    overview.remove("c")
    changes = overview.wait(seen, 0)
    assert (names(changes), changes.gone, changes.claims) == (["b", "a"], ("c",), False)
    assert json.loads(changes.nodes[0])["reason"] == "49"
    put(overview, "c")
    assert overview.wait(seen, 0).gone == ()


def test_changes_of_claims_are_reported(overview: Overview) -> None:
    overview.claims_changed()
    assert overview.wait(100, 0) == Changes(version=101, claims=True)
    assert overview.wait(101, 0) == Changes(version=101)


def test_a_change_wakes_waiting_readers(overview: Overview) -> None:
    found: list[Changes] = []
    thread = threading.Thread(target=lambda: found.append(overview.wait(100, 20)))
    thread.start()
    put(overview, "a")
    thread.join()
    assert names(found[0]) == ["a"]


@pytest.mark.parametrize("since", [99, 101, 2**53])
def test_a_version_of_another_controller_means_to_read_everything(overview: Overview, since: int) -> None:
    assert overview.wait(since, 0) == Changes(version=100, is_reset=True)


def test_so_does_one_that_is_older_than_the_gone_nodes_that_are_remembered(
    overview: Overview, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_MOST_GONE", 2)
    for name in ("a", "b", "c"):
        put(overview, name)
        overview.remove(name)
    assert overview.wait(101, 0).is_reset
    assert overview.wait(102, 0).gone == ("b", "c")
