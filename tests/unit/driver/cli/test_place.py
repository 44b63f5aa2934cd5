"""`rootport place --dry-run`: where pods would go, on a dump of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import LEADER_ANNOTATION
from tests.support.paths import REPO
from tests.support.placement_world import PlacementWorld, gpus

Run = Callable[..., Any]
PODS = REPO / "examples" / "managed-nodes"


_VERSIONS: Final = {Kind.NODE: "v1", Kind.POD: "v1"}


class _Recorded(ClusterState):
    """A state that keeps what is put, as a dump has it."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[dict[str, Any]] = []

    def put(self, kind: Kind, wire: Mapping[str, Any]) -> None:
        self.items.append({"apiVersion": _VERSIONS.get(kind, "resource.k8s.io/v1"), "kind": kind.value, **wire})
        super().put(kind, wire)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Two managed nodes, and a pod that waits."""
    state = _Recorded()
    PlacementWorld(2, state=state).pod("waiting", [gpus(2)])
    folder = tmp_path / "dump"
    folder.mkdir()
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": state.items}))
    return folder


def test_each_pod_has_its_nodes_with_figures_and_devices_and_a_reason(rootport: Run, dump: Path) -> None:
    ran = rootport("place", "--dry-run", "-f", PODS, "--from", dump)
    assert ran.code == 0
    assert "pod placed/quarter-0: node n0000" in ran.out
    assert "node n0000 rather than n0001" in ran.out
    assert "1: n0000" in ran.out
    assert "room that typical pods lose" in ran.out
    assert "gpu-0001-00-00-0" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    assert "6 of 6 pods would be placed by policy pack; nothing was changed" in ran.out


def test_pods_see_those_before_them(rootport: Run, dump: Path) -> None:
    ran = rootport("place", "--dry-run", "-f", PODS, "--from", dump, "-o", "json")
    answer = json.loads(ran.out)
    first, second, two, *_ = answer["pods"]
    (share,) = first["chosen"]["claims"][0]["allocation"]["devices"]["results"]
    (other,) = second["chosen"]["claims"][0]["allocation"]["devices"]["results"]
    assert (share["pool"], share["device"]) == (other["pool"], other["device"])
    assert share["tolerations"] == [{"key": "rootport.dev/managed", "operator": "Exists", "effect": "NoSchedule"}]
    assert answer["nodes"] == "managed"
    assert two["runnerUp"]["node"] != two["chosen"]["node"]
    assert [place["node"] for place in two["ranked"]] == [two["chosen"]["node"], two["runnerUp"]["node"]]


@pytest.mark.parametrize(("policy", "gpus_in_use"), [("pack", 4), ("first-fit", 5)])
def test_the_example_shows_what_placement_is_for(rootport: Run, dump: Path, policy: str, gpus_in_use: int) -> None:
    ran = rootport("place", "--dry-run", "-f", PODS, "--from", dump, "--policy", policy, "-o", "json")
    placed = [claim for pod in json.loads(ran.out)["pods"] for claim in pod["chosen"]["claims"]]
    results = [result for claim in placed for result in claim["allocation"]["devices"]["results"]]
    assert len({(result["pool"], result["device"]) for result in results}) == gpus_in_use


def test_a_pod_of_the_cluster_is_placed_by_another_policy(rootport: Run, dump: Path) -> None:
    ran = rootport("place", "--dry-run", "--pod", "ml/waiting", "--from", dump, "--policy", "spread")
    assert ran.code == 0
    assert "1 of 1 pod would be placed by policy spread" in ran.out


def test_what_fits_nowhere_is_said_with_the_number_of_nodes(rootport: Run, dump: Path, tmp_path: Path) -> None:
    file = tmp_path / "nine.yaml"
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "nine"}}
    file.write_text(json.dumps({**claim, "spec": {"devices": {"requests": [gpus(9)]}}}))
    ran = rootport("place", "--dry-run", "-f", file, "--from", dump)
    assert ran.code == 1
    assert "it fits on none of 2 nodes: too few free devices for its claims (2)" in ran.out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["-f", PODS], "the controller places pods, this command only shows where (add --dry-run)"),
        (["--dry-run"], "no pods are given"),
        (["--dry-run", "--pod", "ml/none"], "there is no pod ml/none with claims (only pods with claims are placed)"),
        (["--dry-run", "--pod", "waiting"], "there is no pod default/waiting with claims (name its namespace with -n)"),
    ],
)
def test_what_cannot_be_answered(rootport: Run, dump: Path, options: list[Any], error: str) -> None:
    ran = rootport("place", *options, "--from", dump)
    assert ran.code == 2
    assert error in ran.err


def test_simulate_places_by_a_policy_and_says_how_fragmented_the_gpus_are(rootport: Run) -> None:
    machine = REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml"
    asked = ("simulate", "--topology", machine, "--gpu-model", "H100", "--nodes", 3, "--claims", PODS)
    ran = rootport(*asked, "--policy", "spread")
    assert ran.code == 0
    assert "Placed by policy spread. Of the 20.0 GPUs that are left free" in ran.out
    nodes = {
        policy: {
            claim["node"] for claim in json.loads(rootport(*asked, "--policy", policy, "-o", "json").out)["claims"]
        }
        for policy in ("pack", "spread")
    }
    assert len(nodes["spread"]) == 3
    assert len(nodes["pack"]) == 1
    twice = [rootport(*asked, "--policy", "pack", "-o", "json").out for _ in range(2)]
    assert twice[0] == twice[1]
    assert json.loads(twice[0])["placement"]["policy"] == "pack"


def test_the_policy_is_that_of_the_controller_that_leads(rootport: Run, dump: Path) -> None:
    asked = ("place", "--dry-run", "--pod", "waiting", "-n", "ml", "--from", dump)
    ran = rootport(*asked)
    assert "would be placed by policy pack" in ran.out
    assert "no controller is known to place here, so the policy is pack" in ran.err
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": "rootport-system",
            "name": "rootport-controller",
            "annotations": {LEADER_ANNOTATION: "spread me"},
        },
        "spec": {"holderIdentity": "me"},
    }
    (dump / "lease.json").write_text(json.dumps(lease))
    ran = rootport(*asked)
    assert "would be placed by policy spread" in ran.out
    assert "policy spread is that of the controller that leads" in ran.err
    ran = rootport(*asked, "--policy", "pack")
    assert "would be placed by policy pack" in ran.out
    assert "the controller that leads" not in ran.err


def test_what_to_do_next_is_said(rootport: Run, dump: Path, tmp_path: Path) -> None:
    state = _Recorded()
    PlacementWorld(0, state=state).add_node("n0", managed=False)
    PlacementWorld(0, state=state).pod("big", [gpus(9)])
    (dump / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": state.items}))
    ran = rootport("place", "--dry-run", "--pod", "ml/big", "--from", dump, "--nodes", "managed")
    assert ran.code == 1
    assert "kubectl label node NODE rootport.dev/placement=managed" in ran.err
    assert "rootport explain pod ml/big" in ran.err
    (tmp_path / "none.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n")
    ran = rootport("place", "--dry-run", "-f", tmp_path / "none.yaml", "--from", dump)
    assert ran.code == 2
    assert "examples/managed-nodes/pods.yaml" in ran.err
