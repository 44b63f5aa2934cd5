"""What users are told of pods on managed nodes, while a controller places and after it has gone; and the example."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import yaml

from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, PODS, RESOURCE_CLAIMS, JsonObject
from driver.adapters.kubernetes.snapshot import read_cluster
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, ObjectRef
from driver.explain.reasons import Reason
from driver.model.managed_nodes import GATE
from driver.status.cluster import node_readiness
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.placed_cluster import PlacedCluster
from tests.support.paths import REPO
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

EXAMPLE: Final = REPO / "examples" / "managed-nodes" / "pods.yaml"
PLACED: Final = "placed"


def explained(cluster: PlacedCluster, name: str, kind: str = "Pod") -> Explanation:
    state = read_cluster(cluster.api, SPACE)
    return Explainer(state).explain(ObjectRef(kind=kind, namespace=SPACE, name=name))


def test_a_pod_without_room_is_told_what_is_missing_and_then_that_nobody_places(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", gpus=1)
    controller = cluster.controller()
    eventually("the node is known as managed", lambda: node_readiness(cluster.api.get(NODE_INVENTORIES, "m1")).managed)
    cluster.template("one")
    cluster.pod("first", "one")
    cluster.wait_bound("first")
    (claim,) = cluster.claims_of("first")
    answer = explained(cluster, claim["metadata"]["name"], "ResourceClaim")
    assert answer.reason is Reason.ALLOCATED
    assert "placed by Rootport: node m1: " in answer.findings[0].message
    cluster.pod("second", "one")
    eventually("its claim is made", lambda: len(cluster.claims_of("second")) == 1)
    answer = explained(cluster, "second")
    assert [item.reason for item in answer.findings] == [Reason.DEVICES_IN_USE, Reason.SCHEDULING_GATED]
    assert GATE in answer.findings[1].message
    assert "rootport.dev/managed" not in " ".join(item.text for item in answer.proposals)
    assert controller.stop() == 0
    answer = explained(cluster, "second")
    assert [item.reason for item in answer.findings] == [Reason.DEVICES_IN_USE, Reason.PLACEMENT_NOT_RUNNING]
    cluster.delete_pod("first")
    eventually(
        "its device is free", lambda: explained(cluster, "second").reason is Reason.PLACEMENT_NOT_RUNNING, timeout_s=40
    )
    answer = explained(cluster, "second")
    assert (answer.fits, answer.nodes_fitting) == (False, 1)
    assert "no controller of Rootport leads" in answer.findings[0].message
    cluster.controller()
    cluster.wait_bound("second")


def test_a_pod_whose_devices_are_free_and_whose_cpu_is_not_is_told_in_placements_words(cluster: PlacedCluster) -> None:
    cluster.add_node("m1", amounts={"cpu": "4", "memory": "64Gi", "pods": "100"})
    cluster.controller()
    cluster.template("one")
    cluster.pod("large", "one", cpu="8")

    def annotated() -> bool:
        (claim, *_) = cluster.claims_of("large") or [{"metadata": {}}]
        return claim["metadata"].get("annotations", {}).get("rootport.dev/pending-reason") == "PlacementSaysOtherwise"

    eventually("the controller tells it", annotated, timeout_s=60)
    answer = explained(cluster, "large")
    assert answer.reason is Reason.PLACEMENT_SAYS_OTHERWISE
    assert "all devices are free on managed node m1" in answer.findings[0].message
    assert "fits on none of 1 node" in answer.findings[0].message
    assert "CPU" in answer.findings[0].message


def test_a_gate_that_nobody_takes_away_is_told(cluster: PlacedCluster) -> None:
    """The component is installed, and the controller that leads does not place."""
    cluster.add_node("u1", managed=False)
    cluster.controller(policy="none", settled=False)
    eventually("it leads", lambda: cluster.controllers[-1].logged("elected"))
    eventually("its slices are there", lambda: bool(cluster.nodes.slices("u1")))
    cluster.template("one")
    cluster.pod("p1", "one")
    eventually("its claim is made", lambda: len(cluster.claims_of("p1")) == 1)
    answer = explained(cluster, "p1")
    assert (answer.reason, answer.fits) == (Reason.PLACEMENT_NOT_RUNNING, False)
    assert "--placement none, or is older" in answer.findings[0].message
    assert f"its gate {GATE} stays" in answer.findings[0].message
    (command,) = answer.proposals[0].commands
    cluster.plane.kubectl(*shlex.split(command)[1:])
    assert cluster.wait_bound("p1") == {"p1": answer.proposals[0].node}


@pytest.fixture
def example(cluster: PlacedCluster) -> Iterator[Path]:
    yield EXAMPLE
    cluster.plane.kubectl("delete", "pods", "--all", f"--namespace={PLACED}", "--force", "--grace-period=0")
    for claim in cluster.api.list(RESOURCE_CLAIMS, namespace=PLACED).items:
        free = {"status": {"reservedFor": None, "allocation": None}}
        name = claim["metadata"]["name"]
        with suppress(NotFoundError):  # it went with its pod
            cluster.api.merge_patch(RESOURCE_CLAIMS, name, free, namespace=PLACED, subresource="status")
            cluster.api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace=PLACED)
    cluster.plane.kubectl("delete", "namespace", PLACED, "--wait=false")


def test_the_example_leaves_no_gpu_in_use_in_part(cluster: PlacedCluster, example: Path) -> None:
    for name in ("m1", "m2"):
        cluster.add_node(name)
    cluster.controller(policy="pack")
    documents = list(yaml.safe_load_all(example.read_text()))
    assert [item["kind"] for item in documents] == ["Namespace", *["ResourceClaimTemplate"] * 4, *["Pod"] * 6]

    def pods() -> dict[str, JsonObject]:
        return {item["metadata"]["name"]: item for item in cluster.api.list(PODS, namespace=PLACED).items}

    def are_bound() -> bool:
        return all(pod["spec"].get("nodeName") for pod in pods().values())

    for document in documents:  # one after the other: what is expected depends on the order in which they are placed
        cluster.plane.kubectl("apply", "--filename=-", input=yaml.safe_dump(document))
        if document["kind"] == "Pod":
            eventually("it is bound", are_bound, timeout_s=60)
    assert len(pods()) == 6
    devices: dict[str, set[tuple[str, str]]] = {}
    for claim in cluster.api.list(RESOURCE_CLAIMS, namespace=PLACED).items:
        results = claim["status"]["allocation"]["devices"]["results"]
        (owner,) = claim["metadata"]["ownerReferences"]
        devices[owner["name"]] = {(item["pool"], item["device"]) for item in results}
    assert devices["quarter-0"] == devices["quarter-1"]
    assert len(devices["two-gpus-0"]) == 2
    assert len({pool for pool, _ in devices["two-gpus-0"]}) == 1
    assert not devices["two-gpus-0"] & devices["quarter-0"]
    assert devices["half-0"] == devices["quarter-0"]
    assert devices["quarter-2"] == devices["three-quarters-0"]
    assert len(set.union(*devices.values())) == 4


def test_the_examples_kustomization_installs_the_component(placing: ControlPlane) -> None:
    made = [item for item in yaml.safe_load_all(placing.kubectl("kustomize", str(EXAMPLE.parent))) if item]
    named = {(item["kind"], item["metadata"]["name"]): item for item in made}
    (container,) = named["Deployment", "rootport-controller"]["spec"]["template"]["spec"]["containers"]
    assert "--placement=pack" in container["args"]
    assert ("MutatingAdmissionPolicy", "rootport-placement-gate") in named
    # What is to be deleted to turn it off stands in the operators' page, with all that only the component has.
    page = (REPO / "docs" / "operator" / "placement.md").read_text()
    base = [item for item in yaml.safe_load_all(placing.kubectl("kustomize", str(REPO / "resourceclasses"))) if item]
    own = named.keys() - {(item["kind"], item["metadata"]["name"]) for item in base}
    deleted = {
        (kind, name)
        for line in page.splitlines()
        if line.startswith("$ kubectl delete ")
        for kind in line.split()[3].split(",")
        for name in line.split()[4:]
    }
    assert {(_plural(kind), name) for kind, name in own} == deleted


def _plural(kind: str) -> str:
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
