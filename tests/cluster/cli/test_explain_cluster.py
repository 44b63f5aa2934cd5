"""``rootport explain`` and ``rootport lint`` on a real API server, for people with different rights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError
from driver.adapters.kubernetes.kubeconfig import cluster_context
from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS
from driver.adapters.kubernetes.snapshot import CLUSTER_ROLE, read_cluster
from tests.support.cluster.control_plane import ControlPlane
from tests.support.paths import REPO

pytestmark = pytest.mark.needs_go

ML, BATCH = "explain-ml", "explain-batch"
_ROLE = REPO / "resourceclasses" / "rbac" / "explain.yaml"
_CONTROLLER = (
    # Where other tests have installed Rootport, its slices are written by the controller alone.
    "--as=system:serviceaccount:rootport-system:rootport-controller",
    "--as-group=system:masters",
)
Run = Callable[..., Any]


def _objects() -> list[dict[str, Any]]:
    """Those of examples/explain, under names of their own."""
    found: list[dict[str, Any]] = []
    for file in sorted((REPO / "examples" / "explain").glob("*.yaml")):
        text = file.read_text()
        text = text.replace("gpu-1", "explain-1").replace("gpu-2", "explain-2").replace("gpu-3", "explain-3")
        text = text.replace("namespace: ml", f"namespace: {ML}").replace("namespace: batch", f"namespace: {BATCH}")
        found += yaml.safe_load(text)["items"]
    return found


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The example's cluster on the API server, and three users in namespace explain-ml."""
    users = ("reader", "nobody")
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
        for namespace in (ML, BATCH)
        for name in ("default", *users)
    ]
    binding: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "explain-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CLUSTER_ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": ML}],
    }
    viewer = binding | {
        "kind": "RoleBinding",
        "metadata": {"name": "viewer", "namespace": ML},
        # What view is made of by a controller that does not run here.
        "roleRef": binding["roleRef"] | {"name": "system:aggregate-to-view"},
    }
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in (ML, BATCH)]
    classes = [item for item in _objects() if item["kind"] == "DeviceClass"]
    others = [item for item in _objects() if item["kind"] != "DeviceClass"]
    control_plane.kubectl("apply", "--server-side", f"--filename={_ROLE}")
    prerequisites = yaml.safe_dump_all([*namespaces, *accounts, binding, viewer, *classes])
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=prerequisites)
    mine = yaml.safe_dump_all([_without_status(item) for item in others])
    slices = yaml.safe_dump_all([_without_status(item) for item in others if item["kind"] == "ResourceSlice"])
    rest = yaml.safe_dump_all([_without_status(item) for item in others if item["kind"] != "ResourceSlice"])
    # Where the admission policies are installed, the controller may create slices and nothing else of these.
    control_plane.kubectl("create", "--filename=-", *_CONTROLLER, input=slices)
    control_plane.kubectl("create", "--filename=-", input=rest)
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig) as api:
        for item in others:
            _write_status(api, item)
        try:
            yield control_plane
        finally:
            control_plane.kubectl("delete", "--filename=-", "--wait=false", "--grace-period=0", "--force", input=mine)


def _without_status(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: part for key, part in item["metadata"].items() if key != "uid"}
    return {key: part for key, part in item.items() if key != "status"} | {"metadata": metadata}


def _write_status(api: KubernetesApi, item: dict[str, Any]) -> None:
    resource = {"Node": NODES, "Pod": PODS, "ResourceClaim": RESOURCE_CLAIMS}.get(item["kind"])
    if resource is None:
        return
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
    if item["kind"] == "Node":
        # Admission taints a node that is not ready yet.
        api.merge_patch(resource, name, {"spec": {"taints": item["spec"].get("taints")}})
    if "status" in item:
        api.merge_patch(resource, name, {"status": item["status"]}, namespace=namespace, subresource="status")


def _user(plane: ControlPlane, name: str) -> Path:
    return plane.service_account_kubeconfig(ML, name)


def test_a_user_with_the_cluster_role_gets_the_answer(rootport: Run, plane: ControlPlane) -> None:
    kubeconfig = _user(plane, "reader")
    ran = rootport("explain", "claim", f"{ML}/train", "--kubeconfig", kubeconfig, "-o", "json")
    assert ran.code == 1, ran.err
    answer = json.loads(ran.out)
    assert answer["reason"] == "DevicesInUse"
    assert answer["pod"]["name"] == "train-0"
    groups = {group["reason"]: group["examples"] for group in answer["nodeGroups"]}
    assert {"explain-1", "explain-2"} <= set(groups["DevicesInUse"])
    assert "explain-3" in groups["NodeUnschedulable"]
    assert f"{BATCH}/sweep-7" in ran.out
    assert "may not be listed" not in ran.out


def test_all_that_is_pending_in_the_namespace_of_the_context_needs_no_more_rights(
    rootport: Run, plane: ControlPlane
) -> None:
    kubeconfig = _user(plane, "reader")
    ran = rootport("explain", "-n", ML, "--kubeconfig", kubeconfig, "-o", "json")
    assert ran.code == 1, ran.err
    found = {item["subject"]["name"]: item["reason"] for item in json.loads(ran.out)["items"]}
    assert found == {"train-0": "DevicesInUse", "typo-0": "SelectorSelectsTooFew"}
    everywhere = rootport("explain", "-A", "--kubeconfig", kubeconfig)
    assert (everywhere.code, everywhere.out) == (2, "")
    assert "view in all namespaces, or name one of them with -n" in everywhere.err
    admin = rootport("explain", "-A", "--kubeconfig", plane.kubeconfig, "-o", "json")
    subjects = {(item["subject"]["namespace"], item["subject"]["name"]) for item in json.loads(admin.out)["items"]}
    assert {(ML, "train-0"), (ML, "typo-0")} <= subjects


def test_a_user_who_may_not_list_claims_is_told_whom_to_ask_for_what(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("explain", "claim", f"{ML}/train", "--kubeconfig", _user(plane, "nobody"))
    assert (ran.code, ran.out) == (2, "")
    assert "resourceslices.resource.k8s.io" in ran.err
    assert f"ClusterRole {CLUSTER_ROLE}" in ran.err
    assert "--from" in ran.err


def test_the_rights_of_the_cluster_role_are_needed_one_by_one(plane: ControlPlane) -> None:
    role = yaml.safe_load(_ROLE.read_text())
    role["metadata"]["name"] = "explain-without-claims"
    role["rules"][0]["resources"].remove("resourceclaims")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "explain-without-claims"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "explain-without-claims"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": BATCH}],
    }
    plane.kubectl("apply", "--filename=-", input=yaml.safe_dump_all([role, binding]))
    kubeconfig = plane.service_account_kubeconfig(BATCH, "nobody")
    with KubernetesApi.connect(kubeconfig=kubeconfig) as api, pytest.raises(ForbiddenError) as refused:
        read_cluster(api, ML)
    assert "resourceclaims.resource.k8s.io" in refused.value.message
    assert CLUSTER_ROLE in (refused.value.hint or "")


def test_lint_needs_no_rights_in_any_namespace(rootport: Run, plane: ControlPlane, tmp_path: Path) -> None:
    names = {"metadata": {"name": "explain-published"}, "apiVersion": "rbac.authorization.k8s.io/v1"}
    published = [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices", "deviceclasses"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    ]
    role = names | {"kind": "ClusterRole", "rules": published}
    binding = names | {
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "explain-published"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": BATCH}],
    }
    plane.kubectl("apply", "--filename=-", input=yaml.safe_dump_all([role, binding]))
    kubeconfig = plane.service_account_kubeconfig(BATCH, "default")
    claims = tmp_path / "claims.yaml"
    # The typo's model is on no node; the two GPUs of train are there, though in use.
    claims.write_text(yaml.safe_dump_all([_claim("train"), _claim("typo")]))
    ran = rootport("lint", claims, "--kubeconfig", kubeconfig)
    assert ran.code == 1, ran.err
    assert [line.rpartition(" ")[2] for line in ran.out.splitlines() if "error:" in line] == ["[selects-too-few]"]
    assert "ResourceClaim typo" in ran.out
    ran = rootport("lint", claims, "--kubeconfig", _user(plane, "nobody"))
    assert (ran.code, f"ClusterRole {CLUSTER_ROLE}" in ran.err) == (2, True)


def _claim(name: str) -> dict[str, Any]:
    (found,) = (item for item in _objects() if item["kind"] == "ResourceClaim" and item["metadata"]["name"] == name)
    return _without_status(found)


def test_the_cluster_role_reads_no_pods_of_other_namespaces(rootport: Run, plane: ControlPlane) -> None:
    ran = rootport("explain", "claim", f"{BATCH}/sweep-7", "--kubeconfig", _user(plane, "reader"))
    assert (ran.code, ran.out) == (2, "")
    assert "pods" in ran.err
    assert f"ClusterRole view in namespace {BATCH}" in ran.err


def test_only_the_namespaces_pods_are_read_and_all_namespaces_claims(plane: ControlPlane) -> None:
    with KubernetesApi.connect(kubeconfig=_user(plane, "reader")) as api:
        state = read_cluster(api, ML)
    assert state.pod(f"{ML}/train-0") is not None
    assert state.pod(f"{BATCH}/sweep-7-0") is None
    holder = state.claim(f"{BATCH}/sweep-7")
    assert holder is not None
    assert holder.holds


def test_the_namespace_is_that_of_the_context(
    rootport: Run, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(plane.kubeconfig.read_text())
    (context,) = config["contexts"]
    there = {"name": "there", "context": context["context"] | {"namespace": ML}}
    config |= {"contexts": [context, there], "current-context": "there"}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{path}")
    assert rootport("explain", "claim", "train").code == 1
    ran = rootport("explain", "claim", "train", "--context", context["name"])
    assert (ran.code, "there is no claim default/train" in ran.err) == (2, True)
    ran = rootport("explain", "claim", "train", "--context", "elsewhere")
    assert (ran.code, "there is no context 'elsewhere'" in ran.err) == (2, True)
    assert cluster_context().namespace == ML


def test_a_server_that_does_not_answer_is_no_claim_that_does_not_fit(
    rootport: Run, plane: ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    ran = rootport("explain", "claim", "ml/train", "--kubeconfig", path)
    assert ran.code == 2
    assert "no answer from the API server" in ran.err
