"""The components' rights: enough for the controller, and no wider than one annotation and the labels of GPUs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.main import command
from driver.adapters.kubernetes.resources import NODES, PODS
from driver.objects.node_labels import NODE_LABELS
from driver.status.device_allocated import DEVICE_ALLOCATED
from tests.cluster.compatibility.conftest import SPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import kustomized
from tests.support.simulated_nodes import NAMESPACE, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

POD, NODE = "guarded", "guarded-node"
ONLY = "nothing else of it"


@pytest.fixture(autouse=True)
def _objects(nodes: Nodes, installed: ControlPlane, kubeconfig: Path) -> None:
    metadata = {"annotations": {"example.com/a": "1"}, "labels": {"a": "1"}}
    body: dict[str, Any] = {"metadata": {"name": POD, "namespace": SPACE} | metadata}
    nodes.api.create(PODS, body | {"spec": {"containers": [{"name": "main", "image": "none"}]}})
    nodes.api.create(NODES, {"metadata": {"name": NODE} | metadata})
    for what in (f"pod/{POD}", f"node/{NODE}"):
        eventually("the policies", partial(_refuses, installed, kubeconfig, what))


def _refuses(plane: ControlPlane, kubeconfig: Path, what: str) -> bool:
    # A dry run: what is stored, and written again, is no change.
    return ONLY in patch(plane, kubeconfig, what, {"labels": {"a": "2"}}, "--dry-run=server")


def patch(plane: ControlPlane, kubeconfig: Path, what: str, change: dict[str, Any], *options: str, **rest: Any) -> str:
    body = json.dumps({"metadata": change} | rest)
    place = (f"--namespace={SPACE}",) if what.startswith("pod") else ()
    asked = ("patch", what, *place, "--type=strategic", f"--patch={body}", *options)
    return plane.kubectl(*asked, kubeconfig=kubeconfig, check=False)


def test_the_controller_writes_the_annotation_and_the_labels(installed: ControlPlane, kubeconfig: Path) -> None:
    said = patch(installed, kubeconfig, f"pod/{POD}", {"annotations": {DEVICE_ALLOCATED: "{}"}})
    assert said.strip() == f"pod/{POD} patched"
    said = patch(installed, kubeconfig, f"pod/{POD}", {"labels": {"rootport.dev/leader": "true"}})
    assert said.strip() == f"pod/{POD} patched"
    for value in ("1", None):
        said = patch(installed, kubeconfig, f"node/{NODE}", {"labels": dict.fromkeys(NODE_LABELS, value)})
        assert said.strip() == f"node/{NODE} patched"


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {"example.com/b": "1"}},
        {"annotations": {"example.com/a": None}},
        {"annotations": {"scheduling.koordinator.sh/other": "1"}},
        {"labels": {"b": "1"}},
        {"labels": {"a": None}},
        {"finalizers": ["example.com/x"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
    ],
    ids=str,
)
def test_the_controller_changes_nothing_else(installed: ControlPlane, kubeconfig: Path, change: dict[str, Any]) -> None:
    for what in (f"pod/{POD}", f"node/{NODE}"):
        assert ONLY in patch(installed, kubeconfig, what, change)
    # Nor together with what it may change.
    both = change | {"annotations": change.get("annotations", {}) | {DEVICE_ALLOCATED: "{}"}}
    assert ONLY in patch(installed, kubeconfig, f"pod/{POD}", both)
    both = change | {"labels": change.get("labels", {}) | {NODE_LABELS[0]: "x"}}
    assert ONLY in patch(installed, kubeconfig, f"node/{NODE}", both)


def test_neither_specification_is_in_its_hands(installed: ControlPlane, kubeconfig: Path) -> None:
    spec = {"containers": [{"name": "main", "image": "other"}]}
    assert ONLY in patch(installed, kubeconfig, f"pod/{POD}", {}, spec=spec)
    assert ONLY in patch(installed, kubeconfig, f"node/{NODE}", {}, spec={"unschedulable": True})
    taint = {"key": "example.com/x", "effect": "NoExecute"}
    assert ONLY in patch(installed, kubeconfig, f"node/{NODE}", {}, spec={"taints": [taint]})


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("delete", "pods"),
        ("create", "pods"),
        ("update", "pods"),
        ("patch", "pods/status"),
        ("create", "pods/exec"),
        ("update", "nodes"),
        ("patch", "nodes/status"),
        ("delete", "nodes"),
    ],
    ids=str,
)
def test_no_other_right_comes_with_them(installed: ControlPlane, kubeconfig: Path, verb: str, what: str) -> None:
    resource, _, subresource = what.partition("/")
    asked = ("auth", "can-i", verb, resource, f"--subresource={subresource}", f"--namespace={SPACE}")
    assert installed.kubectl(*asked, kubeconfig=kubeconfig, check=False).split()[0] == "no"


def test_the_components_set_the_options_and_nothing_does_without_them(installed: ControlPlane) -> None:
    def options(*components: str) -> tuple[str, str]:
        made = [item for item in yaml.safe_load_all(kustomized(installed, *components)) if item]
        (deployment,) = (item for item in made if item["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = [item for item in container["args"] if item.startswith(("--pod-annotations", "--node-labels"))]
        with command.make_context("controller", given) as context:
            return context.params["pod_annotations"], context.params["node_labels"]

    assert options() == ("off", "off")
    assert options("pod-annotations") == ("koordinator.sh", "off")
    assert options("node-labels") == ("off", "on")
    assert options("pod-annotations", "node-labels") == ("koordinator.sh", "on")


def test_without_the_components_the_policy_refuses_the_annotation(installed: ControlPlane) -> None:
    made = [item for item in yaml.safe_load_all(kustomized(installed)) if item]
    policies = {item["metadata"]["name"]: item for item in made if item["kind"] == "ValidatingAdmissionPolicy"}
    (own,) = (
        item["expression"]
        for item in policies["rootport-leader-label"]["spec"]["variables"]
        if item["name"] == "ownAnnotations"
    )
    assert json.loads(own) == []
    assert "rootport-node-labels" not in policies
    assert NAMESPACE == "rootport-system"  # which the policies name
