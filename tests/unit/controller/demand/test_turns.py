"""Whose turn it is where more pods wait than can have one."""

from __future__ import annotations

from collections import Counter

import pytest

from controller.demand.turns import DemandPace
from driver.explain.known.cluster import Kind
from tests.support.demand_world import gpu_request, mig_request, names
from tests.support.followed_world import FollowedWorld

NEVER = "9g.999gb"


def looked_at(cluster: FollowedWorld, rounds: int) -> Counter[str]:
    """How often each pod had a turn in the next rounds."""
    found = Counter[str]()
    for _ in range(rounds):
        cluster.look()
        found.update(item.pod.key for item in cluster.tracked() if item.looked_at == cluster.now)
    return found


@pytest.mark.parametrize("namespaces", [1, 30])
def test_every_pod_has_its_turn_though_nothing_is_found_for_those_before_it(namespaces: int):
    cluster = FollowedWorld(pace=DemandPace(most_pods=10))
    for number in range(30):
        cluster.world.wait(f"p{number:02}", mig_request(NEVER), namespace=f"of-{number % namespaces}")
    cluster.look()
    cluster.now += 6
    assert list(looked_at(cluster, 3).values()) == [1] * 30
    assert list(looked_at(cluster, 6).values()) == [2] * 30


def test_a_wish_is_found_for_a_pod_behind_many_for_which_there_is_none():
    cluster = FollowedWorld(pace=DemandPace(most_pods=10))
    for number in range(30):
        cluster.world.wait(f"p{number:02}", mig_request(NEVER))
    cluster.look()
    cluster.world.wait("last", mig_request("1g.10gb"))
    cluster.look()
    for _ in range(4):
        cluster.look(after_s=6)
    assert list(cluster.gpu_wishes()) == [1]


def test_fewer_pods_have_a_turn_after_a_round_that_was_too_short_for_all():
    cluster = FollowedWorld(pace=DemandPace(most_pods=8))
    for number in range(16):
        cluster.world.wait(f"p{number:02}", mig_request(NEVER))
    turns = cluster.follower._turns
    cluster.look()
    cluster.now += 6
    turns.end_round({}, in_time=False)
    turns.end_round({}, in_time=False)
    assert [sum(looked_at(cluster, 1).values()) for _ in range(3)] == [2, 4, 8]
    for _ in range(9):
        turns.end_round({}, in_time=False)
    assert sum(looked_at(cluster, 1).values()) == 1


class TestPodsBeyondHelp:
    def put(self, cluster: FollowedWorld, kind: str, number: int) -> None:
        """A pod that no change of a GPU helps, whatever is published."""
        name = f"{kind}-{number:02}"
        cluster.world.wait(name, mig_request("1g.10gb"))
        state = cluster.shared._state
        key = f"ml/{name}"
        pod = {
            "kind": "Pod",
            "metadata": {"namespace": "ml", "name": name, "uid": f"uid-of-{name}"},
            "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": name}]},
            "status": {"phase": "Pending"},
        }
        if kind == "gate":
            pod["spec"] |= {"schedulingGates": [{"name": "example.com/wait"}]}  # type: ignore[operator]
            state.put(Kind.POD, pod)
        elif kind == "allocated":
            cluster.world.hold_names(name, "n1", ["nothing"])
        elif kind == "missing":
            state.remove(Kind.CLAIM, key)
        else:
            request = {"name": "r", "exactly": {"deviceClassName": "other", "allocationMode": "ExactCount", "count": 1}}
            cluster.world.wait(name, request)

    @pytest.mark.parametrize("kind", ["gate", "allocated", "missing", "other"])
    def test_they_take_no_turn_from_others(self, kind: str):
        cluster = FollowedWorld(pace=DemandPace(most_pods=4))
        cluster.shared._state.put(
            Kind.CLASS,
            {
                "kind": "DeviceClass",
                "metadata": {"name": "other"},
                "spec": {"selectors": [{"cel": {"expression": 'device.driver == "example.com"'}}]},
            },
        )
        for number in range(8):
            self.put(cluster, kind, number)
        cluster.look()
        for number in range(4):
            cluster.world.wait(f"p{number}", mig_request(NEVER))
        for _ in range(3):
            cluster.look(after_s=6)
        assert looked_at(cluster, 1) == {f"ml/p{number}": 1 for number in range(4)}

    def test_one_has_its_turn_once_that_has_changed(self):
        cluster = FollowedWorld()
        self.put(cluster, "missing", 0)
        cluster.look()
        cluster.look(after_s=6)
        assert looked_at(cluster, 1) == {}
        cluster.world.wait("missing-00", mig_request("1g.10gb"))
        cluster.look()
        assert list(cluster.gpu_wishes()) == [1]


class TestPodsMadeAnew:
    def given_up(self) -> FollowedWorld:
        cluster = FollowedWorld(gpus=1)
        cluster.world.wait("first", mig_request("1g.10gb"))
        cluster.look()
        cluster.look(after_s=6)
        cluster.carry_out()
        cluster.look()
        assert cluster.gpu_wishes() != {}
        cluster.look(after_s=61)
        assert cluster.gpu_wishes() == {}
        cluster.world.publish("n1", 0, "gpu")
        cluster.place("first")
        return cluster

    def test_one_like_a_pod_that_was_not_placed_waits_as_well(self):
        cluster = self.given_up()
        cluster.world.wait("second", mig_request("1g.10gb"))
        cluster.look()
        cluster.look(after_s=280)
        assert cluster.gpu_wishes() == {}
        cluster.look(after_s=20)
        assert cluster.gpu_wishes() != {}

    def test_those_of_other_namespaces_and_other_kinds_do_not(self):
        cluster = self.given_up()
        cluster.world.wait("other-kind", mig_request("2g.20gb"))
        cluster.world.wait("other-namespace", mig_request("1g.10gb"), namespace="other")
        cluster.look()
        cluster.look(after_s=6)
        (wished,) = cluster.gpu_wishes().values()
        gpu = cluster.world.gpu("n1", 0)
        assert wished & names(gpu, "1g-10gb-0", "1g-10gb-6")
        assert wished & names(gpu, "2g-20gb-0", "2g-20gb-2", "2g-20gb-4")

    def test_one_that_waited_already_takes_the_gpu(self):
        cluster = FollowedWorld(gpus=1)
        cluster.world.wait("first", mig_request("7g.80gb"))
        cluster.look()
        cluster.world.wait("second", mig_request("7g.80gb"))
        cluster.look(after_s=6)
        cluster.look(after_s=6)
        (first, second) = cluster.tracked()
        assert (first.wish is not None, second.wish) == (True, None)
        cluster.look(after_s=301)
        assert (first.wish, second.wish is not None) == (None, True)


class TestUnexpectedErrors:
    def test_one_pod_s_failure_leaves_others_their_turn(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        from controller.demand import follower  # noqa: PLC0415

        real = follower.waiting_pod

        def waiting_pod(state, pod):
            if pod.name == "bad":
                raise RuntimeError("a mistake")
            return real(state, pod)

        monkeypatch.setattr(follower, "waiting_pod", waiting_pod)
        cluster = FollowedWorld(gpus=1)
        cluster.world.wait("bad", gpu_request())
        cluster.look()
        cluster.world.wait("good", mig_request("1g.10gb"))
        cluster.look()
        for _ in range(3):
            cluster.look(after_s=6)
        assert cluster.gpu_wishes() != {}
        assert caplog.text.count("unexpected error") == 1
        bad, _ = cluster.tracked()
        assert bad.not_before > cluster.now + 200

    def test_a_wish_that_cannot_be_kept_is_dropped_and_others_are_kept(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        from driver.modes.demand import DemandRound  # noqa: PLC0415

        cluster = FollowedWorld(gpus=2)
        for name in ("bad", "good"):
            cluster.world.wait(name, mig_request("7g.80gb"))
        cluster.look()
        cluster.look(after_s=6)
        assert len(cluster.gpu_wishes()) == 2
        real = DemandRound.keep

        def keep(self, pod, wish):
            if pod.key == "ml/bad":
                raise RuntimeError("a mistake")
            return real(self, pod, wish)

        monkeypatch.setattr(DemandRound, "keep", keep)
        cluster.look()
        cluster.look()
        assert len(cluster.gpu_wishes()) == 1
        assert caplog.text.count("unexpected error") == 1
