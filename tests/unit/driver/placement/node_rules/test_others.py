"""Pods that want others near or far, and pods that are to be spread, as kube-scheduler's filters have it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.placement_world import PlacementWorld, gpus

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def _world(zones: str = "aab") -> PlacementWorld:
    world = PlacementWorld(0)
    for number, zone in enumerate(zones):
        world.add_node(f"n{number}", labels={ZONE: zone})
    return world


def _term(key: str, *, topology: str = ZONE, **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": {"app": key}}, "topologyKey": topology, **more}


def _affinity(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def _bound(
    world: PlacementWorld, name: str, node: str, app: str, *, namespace: str = "ml", spec: Json | None = None
) -> None:
    wire = {
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [], **(spec or {})},
    }
    world.placer.put_bound_pod(f"{namespace}/{name}", wire)


def _fitting(world: PlacementWorld, name: str = "new") -> set[str]:
    """The nodes that a pod could go to."""
    pod = world.state.pod(f"ml/{name}")
    assert pod is not None
    return {place.node for place in world.placer.ranked(pod, most=100)[1]}


def test_a_pod_goes_near_those_that_it_wants() -> None:
    world = _world()
    world.pod("new", [gpus()], spec=_affinity("podAffinity", _term("db")))
    assert _fitting(world) == set()
    assert "the pod's affinity to other pods (3)" in world.place("new").why
    _bound(world, "db-0", "n0", "db")
    assert _fitting(world) == {"n0", "n1"}
    _bound(world, "db-0", "n2", "db")
    assert _fitting(world) == {"n2"}
    world.placer.put_bound_pod("ml/db-0", None)
    assert _fitting(world) == set()


def test_the_first_of_pods_that_want_each_other_goes_anywhere() -> None:
    world = _world()
    world.pod("new", [gpus()], labels={"app": "db"}, spec=_affinity("podAffinity", _term("db")))
    assert _fitting(world) == {"n0", "n1", "n2"}
    _bound(world, "db-0", "n2", "db")
    assert _fitting(world) == {"n2"}


def test_all_terms_are_about_one_pod() -> None:
    world = _world()
    both = _affinity("podAffinity", _term("db"), {"labelSelector": {"matchLabels": {"tier": "x"}}, "topologyKey": ZONE})
    world.pod("new", [gpus()], spec=both)
    _bound(world, "db-0", "n0", "db")
    assert _fitting(world) == set()


def test_a_pod_keeps_away_from_those_that_it_does_not_want() -> None:
    world = _world()
    world.pod("new", [gpus()], spec=_affinity("podAntiAffinity", _term("noisy")))
    assert _fitting(world) == {"n0", "n1", "n2"}
    _bound(world, "noisy-0", "n1", "noisy")
    assert _fitting(world) == {"n2"}


def test_a_pod_keeps_away_from_those_that_do_not_want_it() -> None:
    world = _world()
    _bound(world, "shy", "n0", "shy", spec=_affinity("podAntiAffinity", _term("new", topology=HOST)))
    world.pod("new", [gpus()], labels={"app": "new"})
    assert _fitting(world) == {"n1", "n2"}
    assert world.place("new").chosen is not None


@pytest.mark.parametrize(
    ("term", "away"),
    [
        ({}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, True),
    ],
    ids=["own namespace", "named", "all"],
)
def test_terms_are_about_the_pods_of_their_namespaces(term: Json, away: bool) -> None:
    world = _world("ab")
    _bound(world, "noisy", "n0", "noisy", namespace="other")
    world.pod("new", [gpus()], spec=_affinity("podAntiAffinity", _term("noisy", **term)))
    assert (_fitting(world) == {"n1"}) == away


def test_namespaces_by_label_are_not_evaluated_and_that_is_said() -> None:
    world = _world("a")
    term = _term("noisy", namespaceSelector={"matchLabels": {"team": "a"}})
    world.pod("new", [gpus()], spec=_affinity("podAntiAffinity", term))
    assert world.place("new").why == "not evaluated: a namespaceSelector in its podAntiAffinity"


def test_pods_that_are_only_assumed_count_as_well() -> None:
    world = _world("ab")
    apart = _affinity("podAntiAffinity", _term("trainer", topology=HOST))
    for name in ("first", "new"):
        world.pod(name, [gpus()], labels={"app": "trainer"}, spec=apart)
    decision = world.place("first")
    world.placer.assume(decision)
    assert decision.chosen is not None
    assert _fitting(world) == {"n0", "n1"} - {decision.chosen.node}
    world.placer.forget(decision)
    assert _fitting(world) == {"n0", "n1"}


def _spread(**more: Any) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}
    return {"topologySpreadConstraints": [rule]}


def test_pods_are_spread_over_places() -> None:
    world = _world("aab")
    world.pod("new", [gpus()], labels={"app": "web"}, spec=_spread())
    assert _fitting(world) == {"n0", "n1", "n2"}
    _bound(world, "web-0", "n0", "web")
    assert _fitting(world) == {"n2"}
    _bound(world, "web-1", "n2", "web")
    assert _fitting(world) == {"n0", "n1", "n2"}


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        ({"maxSkew": 2}, {"n0", "n1", "n2"}),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, {"n0", "n1", "n2"}),
        ({"minDomains": 3}, {"n2"}),
        ({"topologyKey": "rack"}, set()),
        ({"labelSelector": {"matchLabels": {"app": "other"}}}, {"n0", "n1", "n2"}),
        ({"labelSelector": None}, {"n0", "n1", "n2"}),
    ],
    ids=["more skew", "preferred only", "few places", "no such label", "others", "no selector"],
)
def test_how_pods_are_spread(rule: Json, nodes: set[str]) -> None:
    world = _world("aab")
    _bound(world, "web-0", "n0", "web")
    world.pod("new", [gpus()], labels={"app": "web"}, spec=_spread(**rule))
    assert _fitting(world) == nodes


def test_places_that_the_pod_may_not_be_in_do_not_count() -> None:
    world = _world("aab")
    _bound(world, "web-0", "n0", "web")
    world.pod("new", [gpus()], labels={"app": "web"}, spec={**_spread(), "nodeSelector": {ZONE: "a"}})
    assert _fitting(world) == {"n0", "n1"}
    every = _spread(nodeAffinityPolicy="Ignore")
    world.pod("new", [gpus()], labels={"app": "web"}, spec={**every, "nodeSelector": {ZONE: "a"}})
    assert _fitting(world) == set()


def test_pods_that_are_being_deleted_do_not_count_when_pods_are_spread() -> None:
    world = _world("ab")
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.pod("new", [gpus()], labels={"app": "web"}, spec={"topologySpreadConstraints": [rule]})
    _bound(world, "old", "n0", "web")
    assert _fitting(world) == {"n1"}
    wire = {
        "metadata": {
            "namespace": "ml",
            "name": "old",
            "labels": {"app": "web"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "n0", "containers": []},
    }
    world.placer.put_bound_pod("ml/old", wire)
    assert _fitting(world) == {"n0", "n1"}
    world.placer.put_bound_pod("ml/old", None)
    assert _fitting(world) == {"n0", "n1"}
