"""Where pods go, with which devices, and what is said about it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import pytest

from driver.explain.known.cluster import Kind
from driver.model.managed_nodes import GATE, TAINT
from driver.modes.rule import Layout
from driver.placement.decision import Decision, Placement
from driver.placement.mix import Mix
from driver.placement.placer import Placer
from driver.placement.shapes import PodShape
from driver.placement.telling import term_text
from tests.support.placement_world import Json, PlacementWorld, gpus, mig, nics, share

_OF_CLASS: Final = "deviceclass.resource.kubernetes.io/gpu.rootport.dev"


def _devices(decision: Decision) -> list[str]:
    assert decision.chosen is not None
    return [item.device for result in decision.chosen.results for item in result.devices.results]


def test_a_pod_gets_a_node_and_results_that_tolerate_the_taint() -> None:
    world = PlacementWorld(2)
    world.pod("train", [gpus(2)])
    decision = world.place("train")
    assert decision.chosen is not None
    assert decision.runner_up is not None
    assert [claim.key for claim in decision.claims] == ["ml/train-0"]
    (result,) = decision.chosen.results
    assert len(result.devices.results) == 2
    for item in result.devices.results:
        assert item.pool == decision.chosen.node
        assert [(toleration.key, toleration.effect) for toleration in item.tolerations] == [(TAINT, "NoSchedule")]
    assert result.node_selector is not None
    assert decision.why == "node n0000 rather than n0001, which is as good: the first by name is taken"


def test_shares_are_packed_on_one_gpu_and_whole_gpus_stay() -> None:
    world = PlacementWorld(3)
    for name in ("a", "b"):
        world.pod(name, [share(50)])
        assert world.run(name)
    held = {
        item.device
        for decision in world.decisions.values()
        for item in (decision.chosen.results[0].devices.results if decision.chosen else ())
    }
    assert len(held) == 1
    assert len({decision.chosen.node for decision in world.decisions.values() if decision.chosen}) == 1


def test_spread_gives_pods_room() -> None:
    world = PlacementWorld(3, policy="spread")
    for name in ("a", "b", "c"):
        world.pod(name, [share(50)])
        world.run(name)
    assert len({decision.chosen.node for decision in world.decisions.values() if decision.chosen}) == 3


def test_first_fit_takes_what_the_scheduler_would() -> None:
    world = PlacementWorld(3, policy="first-fit")
    world.pod("a", [gpus(2)])
    decision = world.place("a")
    assert decision.chosen is not None
    assert decision.chosen.node == "n0000"
    assert _devices(decision) == [device.name for device in world.slices()[0].spec.devices[:2]]


def test_what_is_assumed_is_taken_until_it_is_forgotten() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus(8)])
    world.pod("b", [gpus(1)])
    decision = world.place("a")
    world.placer.assume(decision)
    assert world.place("b").chosen is None
    assert world.place("a").why == "its claims are allocated"
    world.placer.forget(decision)
    assert world.place("b").chosen is not None


def test_an_older_version_of_a_claim_does_not_end_what_is_assumed_and_a_stored_allocation_does() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus(8)])
    world.pod("b", [gpus(1)])
    decision = world.place("a")
    world.placer.assume(decision)
    claim: Json = {"metadata": {"namespace": "ml", "name": "a-0", "uid": "uid-a-0"}, "spec": {"devices": {}}}
    world.state.put(Kind.CLAIM, claim)  # as an informer shows it late
    assert world.place("b").chosen is None
    world.write(decision)
    world.placer.forget(decision)  # what is stored stays
    assert world.place("b").chosen is None
    world.state.put(Kind.CLAIM, claim)  # the scheduler has deallocated it
    assert world.place("b").chosen is not None


def test_a_claim_that_was_made_anew_is_not_the_one_that_was_assumed() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus(8)])
    world.placer.assume(world.place("a"))
    claim: Json = {"metadata": {"namespace": "ml", "name": "a-0", "uid": "another"}, "spec": {"devices": {}}}
    world.state.put(Kind.CLAIM, claim)
    world.pod("b", [gpus(1)])
    assert world.place("b").chosen is not None


def test_cpu_of_a_pod_counts_from_the_decision_on() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus()], cpu="90")
    world.pod("b", [gpus()], cpu="8")
    decision = world.place("a")
    world.placer.assume(decision)
    assert "not enough CPU (1)" in world.place("b").why
    world.write(decision)  # allocated, and not bound yet
    assert "not enough CPU (1)" in world.place("b").why
    world.bind("a", "n0000")
    assert "not enough CPU (1)" in world.place("b").why
    world.end("a")
    assert world.place("b").chosen is not None


def test_a_placer_that_starts_anew_counts_pods_whose_claims_are_allocated() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus()], cpu="90")
    world.pod("b", [gpus()], cpu="8")
    decision = world.place("a")
    world.placer.assume(decision)
    world.write(decision)
    pod = world.state.pod("ml/b")
    assert pod is not None
    assert "not enough CPU (1)" in Placer(world.state).place(pod).why


def test_several_claims_of_a_pod_are_on_one_node() -> None:
    world = PlacementWorld(2)
    world.pod("filler", [nics(8)])
    world.run("filler")
    world.pod("pair", [gpus(1)], [nics(1)])
    decision = world.place("pair")
    assert decision.chosen is not None
    assert len(decision.chosen.results) == 2
    assert {item.pool for result in decision.chosen.results for item in result.devices.results} == {"n0001"}


def test_a_claim_that_is_allocated_binds_the_pod_to_its_node() -> None:
    world = PlacementWorld(3)
    world.pod("first", [gpus(1)])
    world.run("first")
    node = world.nodes_of["first"]
    world.pod("second", [gpus(1)], spec={"nodeSelector": {}})
    shared = {"name": "shared", "resourceClaimName": "first-0"}
    wire = world.bound["ml/second"]
    wire["spec"]["resourceClaims"].insert(0, shared)
    world.state.put(Kind.POD, wire)
    decision = world.place("second")
    assert decision.chosen is not None
    assert decision.chosen.node == node
    assert decision.runner_up is None
    assert [claim.key for claim in decision.claims] == ["ml/second-0"]


def test_nodes_that_are_avoided_are_not_taken() -> None:
    world = PlacementWorld(2)
    world.pod("a", [gpus()])
    decision = world.place("a", avoid=["n0000"])
    assert decision.chosen is not None
    assert decision.chosen.node == "n0001"
    nowhere = world.place("a", avoid=["n0000", "n0001"])
    assert nowhere.chosen is None
    assert "kube-scheduler could not place it there (2)" in nowhere.why


def test_only_managed_nodes_with_the_taint_count() -> None:
    world = PlacementWorld(0)
    world.add_node("n0000", managed=False)
    world.pod("a", [gpus()])
    assert world.place("a").why == "no node is managed; 1 node is not managed"
    everywhere = Placer(world.state, managed_only=False)
    pod = world.state.pod("ml/a")
    assert pod is not None
    decision = everywhere.place(pod)
    assert decision.chosen is not None
    assert not decision.chosen.results[0].devices.results[0].tolerations
    world.add_node("n0001")
    decision = world.place("a")
    assert decision.chosen is not None
    assert decision.chosen.node == "n0001"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulingGates": [{"name": GATE}]}, ""),
        ({"schedulingGates": [{"name": "example.com/quota"}]}, "it has scheduling gates of others: example.com/quota"),
        (
            {"schedulingGroup": {"podGroupName": "g"}},
            "not evaluated: a scheduling group: its pods are scheduled together",
        ),
        ({"nodeSelector": {"zone": "b"}}, "it fits on none of 1 node: labels that the pod does not select (1)"),
        (
            {
                "containers": [
                    {
                        "name": "main",
                        "resources": {"requests": {_OF_CLASS: "1"}},
                    }
                ]
            },
            f"not evaluated: kube-scheduler makes a claim of {_OF_CLASS}: 1, and allocates it itself",
        ),
        (
            {"containers": [{"name": "main", "resources": {"requests": {"example.com/fpga": "1"}}}]},
            "it fits on none of 1 node: not enough example.com/fpga (1)",
        ),
    ],
    ids=["own gate", "others' gate", "group", "selector", "extended resource of a class", "extended resource"],
)
def test_what_cannot_be_placed_is_said(spec: Json, why: str) -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus()], spec=spec)
    decision = world.place("a")
    assert (decision.chosen is None) == bool(why)
    if why:
        assert decision.why == why


def test_claims_for_other_drivers_are_left_to_the_scheduler() -> None:
    world = PlacementWorld(1)
    foreign: Json = {
        "metadata": {"name": "fpga.example.com"},
        "spec": {"selectors": [_cel('device.driver == "example.com"')]},
    }
    world.state.put(Kind.CLASS, foreign)
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "fpga.example.com", "allocationMode": "ExactCount", "count": 1},
    }
    world.pod("alone", [request])
    assert world.place("alone").why.endswith("need devices of other drivers: kube-scheduler allocates them")
    world.pod("mixed", [gpus(), request])
    assert "asks for devices of Rootport and of other drivers at once" in world.place("mixed").why
    world.pod("both", [gpus()], [request])
    assert world.place("both").chosen is None  # its node has to have an FPGA
    world.state.put(Kind.SLICE, _fpga_slice("n0000"))
    decision = world.place("both")
    assert decision.chosen is not None
    assert [claim.key for claim in decision.claims] == ["ml/both-0"]
    assert len(decision.chosen.results) == 1


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _fpga_slice(node: str) -> Json:
    return {
        "metadata": {"name": f"fpga-{node}"},
        "spec": {
            "driver": "example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "fpga-0"}],
        },
    }


def test_the_best_alternative_is_looked_for_on_all_nodes_first() -> None:
    world = PlacementWorld(2)
    world.pod("filler", [gpus(6)])
    world.run("filler")
    full = world.nodes_of["filler"]
    parts = [
        {"name": "four", "deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": 4},
        {"name": "two", "deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": 2},
    ]
    world.pod("ladder", [{"name": "gpus", "firstAvailable": parts}])
    decision = world.place("ladder")
    assert decision.chosen is not None
    assert decision.chosen.node != full  # by two GPUs alone, the node in use would be better
    assert len(_devices(decision)) == 4
    assert decision.runner_up is not None
    assert decision.runner_up.node == full


def test_partitions_come_from_a_gpu_that_is_divided_already() -> None:
    world = PlacementWorld(1, layout=Layout.FULL)
    for name in ("a", "b"):
        world.pod(name, [mig("1g.10gb")])
        assert world.run(name)
    first, second = (_devices(world.decisions[f"ml/{name}"])[0] for name in ("a", "b"))
    assert first.split("-1g")[0] == second.split("-1g")[0]
    world.pod("whole", [gpus(7)])
    assert world.run("whole")


def test_nics_are_near_the_gpus_of_another_claim() -> None:
    world = PlacementWorld(1)
    world.pod("a", [share(30)])
    world.run("a")
    world.pod("b", [gpus(2)], [nics(2)])
    decision = world.place("b")
    devices = {device.name: device for item in world.slices() for device in item.spec.devices}
    switches = [devices[name].attributes["pcieSwitch"].string_value for name in _devices(decision)]
    assert switches[:2] == switches[2:]


def test_the_reason_names_figures_of_both_nodes() -> None:
    world = PlacementWorld(2, policy="spread")
    world.pod("a", [gpus(2)])
    world.run("a")
    world.pod("b", [gpus(1)])
    assert world.place("b").why == "node n0001 rather than n0000; GPUs in use: 0 %, and 25 % on n0000; less is better"


def test_a_node_that_goes_and_slices_that_change_are_followed() -> None:
    world = PlacementWorld(2)
    world.pod("a", [gpus()])
    world.state.remove(Kind.NODE, "n0000")
    decision = world.place("a")
    assert decision.chosen is not None
    assert decision.chosen.node == "n0001"
    for name in list(world.state.nodes_of_slices()):
        world.state.remove(Kind.SLICE, f"00000-rootport.dev-{name}")
        world.state.remove(Kind.SLICE, f"00001-rootport.dev-{name}")
    assert world.place("a").chosen is None


def test_what_runs_when_placement_begins_is_typical() -> None:
    world = PlacementWorld(2)
    for number in range(3):
        world.pod(f"whole-{number}", [gpus(4)])
        assert world.run(f"whole-{number}")
    late = Placer(world.state)
    assert sum(late.fragmentation().values()) == 0  # what is left are four GPUs on one node
    world.pod("share", [share(10)])
    world.run("share")
    assert sum(late.fragmentation().values()) > 0


def test_persistent_volumes_are_left_to_the_scheduler_and_that_is_said() -> None:
    world = PlacementWorld(1)
    world.pod("a", [gpus()], spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
    decision = world.place("a")
    assert decision.chosen is not None
    assert decision.why.endswith("; not evaluated: its persistent volumes")


def test_pods_that_fit_nowhere_are_typical_too_and_each_counts_once() -> None:
    world = PlacementWorld(1)
    world.pod("half", [share(50)])
    assert world.run("half")
    for number in range(3):
        world.pod(f"big-{number}", [gpus(16)])
        assert world.place(f"big-{number}").chosen is None
    unusable = sum(world.placer.fragmentation().values())
    assert unusable > 7500 / 2  # most pods that come can use nothing of the 7.5 GPUs
    for _ in range(100):
        world.place("big-0")
    assert sum(world.placer.fragmentation().values()) == unusable


def test_the_pods_that_run_count_when_placement_begins_and_not_again() -> None:
    world = PlacementWorld(1)
    world.pod("big", [gpus(6)], cpu="8")
    assert world.run("big")
    late = Placer(world.state)
    assert sum(late.fragmentation().values()) == 2000  # two GPUs, of no use to those that take six
    for number in range(40):
        pod = world.pod(f"share-{number}", [share(100)])
        late.place(pod)
    assert sum(late.fragmentation().values()) < 500


def test_that_no_other_node_would_do_is_said_with_why() -> None:
    world = PlacementWorld(3)
    world.add_node("n0002", allocatable={"cpu": "1"})
    world.pod("a", [gpus()], cpu="8")
    why = "node n0001 is the only one that would do: kube-scheduler could not place it there (1), not enough CPU (1)"
    assert world.place("a", avoid=["n0000"]).why == why
    world.pod("b", [gpus(2)], [nics(1)])
    decision = world.place("b")
    assert decision.chosen is not None
    first = replace(decision.chosen, results=decision.chosen.results[:1])
    world.write(replace(decision, claims=decision.claims[:1], chosen=first))
    node = decision.chosen.node
    assert world.place("b").why == f"node {node} is where its other claims are allocated"


def test_a_decision_ends_with_its_time_whatever_a_pod_selects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.placement.placer.MAX_CPU_S", 0.3)
    values = [f"v{number}" for number in range(40)]
    expressions = [{"key": f"k{number}", "operator": "NotIn", "values": values} for number in range(30)]
    terms = [
        {"matchExpressions": [*expressions, {"key": f"none-{number}", "operator": "Exists"}]} for number in range(30)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    world = PlacementWorld(60)
    world.pod("slow", [gpus()], spec={"affinity": {"nodeAffinity": required}})
    began = time.thread_time()
    decision = world.place("slow")
    assert time.thread_time() - began < 0.9
    assert decision.took_too_long
    assert decision.why.startswith("not evaluated")
    pod = world.state.pod("ml/slow")
    assert pod is not None
    assert not world.placer.nominate(replace(pod, claims=()))


def test_a_decision_ends_with_its_time_whatever_pods_are_wanted_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.placement.placer.MAX_CPU_S", 0.1)
    world = PlacementWorld(2)
    for number in range(1500):
        labels = {"app": f"a{number}"}
        wire = {"metadata": {"namespace": "x", "name": f"p{number}", "labels": labels}, "spec": {"nodeName": "n0000"}}
        world.placer.put_bound_pod(f"x/p{number}", wire)
    anywhere = {"namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    terms = [
        {**anywhere, "labelSelector": {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}] * 8}}
        for number in range(250)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    for kind in ("podAffinity", "podAntiAffinity"):
        world.pod(kind.lower(), [gpus()], spec={"affinity": {kind: required}})
        began = time.thread_time()
        assert world.place(kind.lower()).took_too_long
        assert time.thread_time() - began < 0.4


def test_admin_access_is_placed_whatever_it_tolerates_and_what_else_tolerates_the_taint_is_the_schedulers() -> None:
    world = PlacementWorld(1)
    watched = gpus()
    watched["exactly"] |= {"adminAccess": True, "tolerations": [{"operator": "Exists"}]}
    world.pod("monitor", [watched])
    decision = world.place("monitor")
    assert decision.chosen is not None
    for item in decision.chosen.results[0].devices.results:
        assert TAINT in [toleration.key for toleration in item.tolerations]  # without it the controller does not write
    taken = gpus()
    taken["exactly"] |= {"tolerations": [{"operator": "Exists"}]}
    world.pod("old", [taken])
    decision = world.place("old")
    assert decision.claims == ()  # so the controller opens the gate
    assert (
        decision.why == "claim ml/old-0 tolerates the taint rootport.dev/managed by itself: kube-scheduler allocates it"
    )


def test_the_figures_of_pack_are_real_and_add_up() -> None:
    world = PlacementWorld(2, mix=Mix.of([PodShape(8000, 0, 1, 1000)] * 3 + [PodShape(8000, 0, 1, 250)]))
    world.pod("a", [share(50)])
    world.run("a")
    pod = world.pod("b", [share(25)], cpu="8")
    decision, places = world.placer.ranked(pod, most=2)
    assert decision.why == "node n0000 rather than n0001; " + _lost(places[0], places[1])
    for place in places:
        lost, _, _, *parts = place.score.terms
        assert lost.value == pytest.approx(sum(part.value for part in parts))
        assert parts[0].value == 0.25
        assert {term.unit for term in (lost, *parts)} == {"GPUs"}


def _lost(chosen: Placement, other: Placement) -> str:
    mine, theirs = (term_text(place.score.terms[0]) for place in (chosen, other))
    return f"room that typical pods lose: {mine}, and {theirs} on {other.node}; less is better"


def test_the_model_that_running_pods_name_is_learnt_when_placement_begins() -> None:
    world = PlacementWorld(2)
    world.add_node("a-t4")
    for wire in _slices_of(world, "a-t4", model="T4"):
        world.state.put(Kind.SLICE, wire)
    asked = gpus()
    asked["exactly"]["selectors"] = [_cel('device.attributes["rootport.dev"].model == "T4"')]
    for number in range(4):
        world.pod(f"t4-{number}", [asked])
        assert world.run(f"t4-{number}") == "a-t4"
    pod = world.pod("any", [gpus()])
    late = Placer(world.state)
    places = late.ranked(pod, most=3)[1]
    assert [place.node for place in places] == ["n0000", "n0001", "a-t4"]
    surcharges = {place.node: place.score.terms[-1].value for place in places}
    assert surcharges["a-t4"] > surcharges["n0000"]


def _slices_of(world: PlacementWorld, node: str, *, model: str) -> list[Json]:
    found: list[Json] = []
    for number, item in enumerate(item for item in world.slices() if item.spec.pool.name == node):
        wire = item.to_wire()
        wire["metadata"]["name"] = f"{number:05}-rootport.dev-{node}"
        for device in wire["spec"]["devices"]:
            device["taints"] = [{"key": TAINT, "effect": "NoSchedule"}]
            if device["attributes"]["type"] == {"string": "gpu"}:
                device["attributes"]["model"] = {"string": model}
        found.append(wire)
    return found
