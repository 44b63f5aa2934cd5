from __future__ import annotations

import logging
import threading
import time

import pytest

from controller.demand.turns import DemandPace
from driver.explain.known.cluster import Kind
from driver.model.managed_nodes import GATE
from driver.modes.rule import Layout
from tests.support.demand_world import World, gpu_request, mig_request, names, ratio_request
from tests.support.followed_world import FollowedWorld
from tests.support.waiting import eventually


def test_a_pod_has_a_wish_after_some_seconds_and_keeps_it_until_it_is_placed():
    cluster = FollowedWorld()
    cluster.world.wait("p", mig_request("1g.10gb"))
    cluster.look()
    assert cluster.gpu_wishes() == {}
    cluster.look(after_s=5)
    first = cluster.gpu_wishes()
    assert list(first) == [1]
    for _ in range(3):
        cluster.look()
        assert cluster.gpu_wishes() == first
    cluster.place("p")
    cluster.look()
    assert cluster.gpu_wishes() == {}
    assert cluster.enqueued == ["n1", "n1"]


def test_what_is_published_for_a_pod_stays_though_another_wants_the_gpu_otherwise():
    cluster = FollowedWorld(gpus=1)
    cluster.world.wait("old", mig_request("1g.10gb"))
    cluster.look()
    cluster.world.wait("new", gpu_request())
    cluster.look(after_s=6)
    wished = cluster.gpu_wishes()
    cluster.carry_out()
    for _ in range(5):
        cluster.look(after_s=10)
        assert cluster.gpu_wishes() == wished


def test_after_a_minute_in_which_the_pod_was_not_placed_another_has_its_turn():
    cluster = FollowedWorld(gpus=1)
    cluster.world.wait("old", mig_request("1g.10gb"))
    cluster.look()
    cluster.look(after_s=6)
    cluster.carry_out()
    cluster.look()
    cluster.world.wait("new", gpu_request())
    cluster.look(after_s=30)
    cluster.look(after_s=29)
    assert cluster.gpu_wishes()[0] > names(cluster.world.gpu("n1", 0), "1g-10gb-0")
    cluster.look(after_s=3)
    assert cluster.gpu_wishes() == {0: names(cluster.world.gpu("n1", 0), "gpu")}


def test_a_change_that_does_not_come_about_is_given_up():
    cluster = FollowedWorld(gpus=1)
    cluster.world.wait("p", mig_request("1g.10gb"))
    cluster.look()
    cluster.look(after_s=6)
    cluster.look(after_s=299)
    assert cluster.gpu_wishes() != {}
    cluster.look(after_s=2)
    assert cluster.gpu_wishes() == {}
    cluster.look(after_s=299)
    assert cluster.gpu_wishes() == {}
    cluster.look(after_s=2)
    assert cluster.gpu_wishes() != {}


def test_the_oldest_pod_wins_and_the_other_follows_once_it_has_gone():
    cluster = FollowedWorld(gpus=1)
    gpu = cluster.world.gpu("n1", 0)
    cluster.world.publish("n1", 0, "gpu-ratio")
    cluster.world.wait("old", gpu_request(), namespace="z")
    cluster.look()
    cluster.world.wait("new", mig_request("7g.80gb"), namespace="a")
    cluster.look(after_s=6)
    assert cluster.gpu_wishes() == {0: names(gpu, "gpu")}
    cluster.place("old", "z")
    cluster.look(after_s=6)
    assert cluster.gpu_wishes() == {0: names(gpu, "7g-80gb-0")}


def test_a_namespace_with_many_pods_leaves_others_their_share():
    cluster = FollowedWorld(nodes=1, gpus=2, pace=DemandPace(most_pods=4))
    for number in range(20):
        cluster.world.wait(f"p{number:02}", mig_request("9g.999gb"), namespace="many")
    cluster.look()
    cluster.world.wait("one", mig_request("1g.10gb"), namespace="few")
    cluster.look()
    cluster.look(after_s=6)
    assert list(cluster.gpu_wishes()) == [1]


def test_no_more_pods_have_wishes_than_may():
    cluster = FollowedWorld(nodes=3, gpus=2, pace=DemandPace(most_wishes=2))
    for number in range(4):
        cluster.world.wait(f"p{number}", ratio_request(percent=100))
    cluster.look()
    cluster.look(after_s=6)
    assert sum(len(cluster.gpu_wishes(node)) for node in ("n1", "n2", "n3")) == 2


def test_wishes_end_with_a_layout_that_needs_none():
    cluster = FollowedWorld()
    cluster.world.wait("p", mig_request("1g.10gb"))
    cluster.look()
    cluster.look(after_s=6)
    assert cluster.gpu_wishes() != {}
    cluster.layout = Layout.FULL
    cluster.look()
    assert cluster.gpu_wishes() == {}


def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "controller.demand.follower")
    cluster = FollowedWorld()
    cluster.world.wait("p", mig_request("1g.10gb"))
    cluster.look()
    for _ in range(4):
        cluster.look(after_s=6)
    (record,) = [item for item in caplog.records if "to change" in item.message]
    told = vars(record)
    assert (told["pod"], told["claims"], told["node"]) == ("ml/p", "p", "n1")
    assert (told["gpu"], told["from"], told["to"]) == (cluster.world.gpu("n1", 1).name, "gpu", "mig")


def test_new_policies_are_looked_at_anew():
    cluster = FollowedWorld(gpus=1)
    cluster.world.policies = type(cluster.world.policies).model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": ["gpu"]}]}
    )
    cluster.world.wait("p", mig_request("1g.10gb"))
    cluster.look()
    cluster.look(after_s=6)
    assert cluster.gpu_wishes() == {}
    cluster.world.policies = World(0).policies
    cluster.look()
    assert cluster.gpu_wishes() != {}


def test_a_pod_with_extended_resources_has_a_wish_as_well():
    cluster = FollowedWorld()
    state = cluster.shared._state
    expression = 'device.driver == "rootport.dev" && device.attributes["rootport.dev"].type == "mig"'
    state.put(
        Kind.CLASS,
        {
            "kind": "DeviceClass",
            "metadata": {"name": "small"},
            "spec": {"extendedResourceName": "example.com/mig", "selectors": [{"cel": {"expression": expression}}]},
        },
    )
    # As the API server stores it: what is limited is requested as well.
    amounts = {"example.com/mig": "1"}
    state.put(
        Kind.POD,
        {
            "kind": "Pod",
            "metadata": {"namespace": "ml", "name": "x", "uid": "uid-of-x"},
            "spec": {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]},
            "status": {"phase": "Pending"},
        },
    )
    state.put(Kind.NODE, {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1"}}})
    cluster.look()
    cluster.look(after_s=6)
    assert list(cluster.gpu_wishes()) == [1]


class TestTheThread:
    def test_it_looks_until_it_is_stopped_and_survives_errors(self, caplog: pytest.LogCaptureFixture):
        cluster = FollowedWorld(pace=DemandPace(period_s=0.01, wait_s=0.0, retry_s=0.01))
        cluster.follower._clock = time.monotonic
        cluster.world.wait("p", mig_request("1g.10gb"))
        stop, calls = threading.Event(), []

        def yield_to_slices() -> None:
            calls.append(1)
            if len(calls) == 2:
                raise RuntimeError("a mistake")

        thread = cluster.follower.start(stop, supply=cluster, wishes=cluster.wishes, yield_to_slices=yield_to_slices)
        eventually("a wish", lambda: len(calls) > 3 and bool(cluster.wishes.of("n1")))
        stop.set()
        thread.join(5)
        assert not thread.is_alive()
        assert "a mistake" in caplog.text


def test_a_pod_that_waits_at_the_gate_of_placement_has_a_wish_and_one_that_others_hold_has_none():
    cluster = FollowedWorld()
    cluster.world.wait("held", mig_request("1g.10gb"), schedulingGates=[{"name": "example.com/quota"}])
    cluster.look()
    cluster.look(after_s=5)
    assert cluster.gpu_wishes() == {}
    cluster.world.wait("placed", mig_request("1g.10gb"), schedulingGates=[{"name": GATE}])
    cluster.look()
    cluster.look(after_s=5)
    assert cluster.gpu_wishes() != {}
