"""Joint claims come out of the real kube-scheduler as they should, on every machine there is a topology of.

The machines are nodes without kubelets: their inventories are written as the plugin writes them, and the real
controller publishes their slices. The scheduler binds pods to the machines; nothing runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, JsonObject
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install, start_controller
from tests.support.joint_cases import JointCase, joint_cases
from tests.support.paths import REPO
from tests.support.simulated_nodes import Nodes
from tests.support.waiting import eventually

NAMESPACE: Final = "joint"
EXAMPLES: Final = REPO / "examples"
NO_ROOM: Final = "no room"
_ANSWER_S: Final = 60
_ANY_TAINT: Final = {"operator": "Exists"}


@pytest.fixture(scope="module")
def api(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """An API server with a scheduler and the slices of all machines."""
    folder = tmp_path_factory.mktemp("joint")
    with ControlPlane(folder / "control-plane", cluster_binaries) as plane:
        plane.kubectl("create", "namespace", NAMESPACE)
        plane.kubectl("create", "serviceaccount", "default", f"--namespace={NAMESPACE}")
        install(plane)
        inventories = {case.topology: case.inventory for case in joint_cases()}
        nodes = Nodes(plane.kubeconfig)
        for inventory in inventories.values():
            nodes.api.create(NODES, _node(inventory.node))
            nodes.add(inventory, with_node=False)
        start_controller(plane, plane.processes)
        names = [inventory.node for inventory in inventories.values()]
        with nodes.beating(*names, every_s=5):
            for name in names:
                eventually(f"{name} is published", lambda name=name: nodes.visible(name))
            plane.start_scheduler()
            yield nodes.api
        nodes.api.close()


def _node(name: str) -> JsonObject:
    room = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _without_kubelet(claim: str) -> JsonObject:
    """What every pod here has: nobody runs it, and nobody makes its claim for it."""
    return {
        "tolerations": [_ANY_TAINT],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "resourceClaims": [{"name": "pairs", "resourceClaimName": claim}],
    }


def _pod(name: str, node: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "pairs"}]}}],
            **_without_kubelet(name),
        },
    }


def _rounds() -> Iterator[list[JointCase]]:
    """All cases; in a round each machine has one, so that it is alone there."""
    by_machine: dict[str, list[JointCase]] = {}
    for case in joint_cases():
        if case.is_quick:
            by_machine.setdefault(case.topology.name, []).append(case)
    for cases in zip_longest(*by_machine.values()):
        yield [case for case in cases if case is not None]


def _name(case: JointCase) -> str:
    return case.id.lower().replace("_", "-").replace(".", "-")


def test_every_joint_claim_comes_out_as_near_as_the_machine_allows(api: KubernetesApi) -> None:
    wrong, number = [], 0
    for cases in _rounds():
        for case in cases:
            api.create(RESOURCE_CLAIMS, case.manifest(_name(case), NAMESPACE))
            api.create(PODS, _pod(_name(case), case.inventory.node))
        for case in cases:
            results = eventually(
                f"an answer for {case.id}", lambda case=case: _answer(api, _name(case)), timeout_s=_ANSWER_S
            )
            found = None if results == NO_ROOM else results
            if not case.is_met(found):
                wrong.append(f"{case.id}: expected {case.levels}, came out as {found and case.came_out(found)}")
            number += 1
        _remove(api, [_name(case) for case in cases])
    assert wrong == []
    assert number > 150


def test_the_pods_of_a_training_job_are_on_two_nodes_and_on_the_same_rails(api: KubernetesApi) -> None:
    template, _, job = yaml.safe_load_all((EXAMPLES / "training-job.yaml").read_text())
    names = ["training-job-0", "training-job-1"]
    for name in names:
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
        api.create(RESOURCE_CLAIMS, claim | template["spec"], namespace=NAMESPACE)
        pod = _pod(name, "") | {"spec": job["spec"]["template"]["spec"] | _without_kubelet(name)}
        pod["metadata"]["labels"] = job["spec"]["template"]["metadata"]["labels"]
        api.create(PODS, pod)
    answers = [eventually(f"an answer for {name}", lambda name=name: _answer(api, name)) for name in names]
    nodes = {result["pool"] for results in answers for result in results}
    slices = [
        part for node in nodes for part in api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={node}").items
    ]
    rails = {
        (part["spec"]["nodeName"], device["name"]): device["attributes"]["rail"]["int"]
        for part in slices
        for device in part["spec"].get("devices", ())
        if "rail" in device["attributes"]
    }
    _remove(api, names)
    assert len(nodes) == 2
    for results in answers:
        found = {item["request"]: rails.get((item["pool"], item["device"])) for item in results}
        assert found == {"nic-0": 0, "gpu-0": None, "nic-1": 1, "gpu-1": None}


def _answer(api: KubernetesApi, name: str) -> Sequence[Any] | str | None:
    """What the claim was given, NO_ROOM where it fits nowhere, and None while that is not known."""
    allocation = api.get(RESOURCE_CLAIMS, name, namespace=NAMESPACE).get("status", {}).get("allocation")
    if allocation:
        results: Sequence[Any] = allocation["devices"]["results"]
        return results
    conditions = api.get(PODS, name, namespace=NAMESPACE).get("status", {}).get("conditions", ())
    return NO_ROOM if any(item.get("reason") == "Unschedulable" for item in conditions) else None


def _remove(api: KubernetesApi, names: Sequence[str]) -> None:
    """Delete pods and claims; nobody else here takes the claims' finalizers away."""
    for name in names:
        api.delete(PODS, name, namespace=NAMESPACE)
        api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
        api.delete(RESOURCE_CLAIMS, name, namespace=NAMESPACE)
    eventually("they are gone", lambda: not api.list(RESOURCE_CLAIMS, namespace=NAMESPACE).items)
