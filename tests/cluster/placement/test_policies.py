"""What the component placement lets the controller write, and what it keeps others from: on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, InvalidError
from driver.adapters.kubernetes.resources import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    JsonObject,
    Resource,
)
from driver.model.managed_nodes import ALL_PODS, ANNOTATION, ENABLED, GATE, LABEL, TAINT
from tests.cluster.placement.conftest import SPACE
from tests.support.cluster.control_plane import ControlPlane
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

NAMESPACES = Resource("", "v1", "namespaces", "Namespace")
FINALIZER = "resource.kubernetes.io/delete-protection"
TOLERATED = {"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}
BLANKET = {"operator": "Exists"}
REFUSED = (ForbiddenError, InvalidError)
CONSUMER = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "u"}
"""No pod: kube-controller-manager would see that there is none of that name."""


def claim(name: str, **request: Any) -> JsonObject:
    exactly = {"deviceClassName": "gpu.rootport.dev"} | request
    return {
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def template(name: str, **request: Any) -> JsonObject:
    body = claim(name, **request)
    return {"metadata": body["metadata"], "spec": {"spec": body["spec"]}}


def pod(name: str, *, claims: bool = True, **spec: Any) -> JsonObject:
    named = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "absent"}]} if claims else {}
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name, "namespace": SPACE}, "spec": {"containers": containers} | named | spec}


def allocation(*, tolerations: tuple[JsonObject, ...] = (TOLERATED,), driver: str = "rootport.dev") -> JsonObject:
    result = {"request": "gpu", "driver": driver, "pool": "n1", "device": "gpu-0", "tolerations": list(tolerations)}
    return {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-02T03:04:05Z"}


@pytest.fixture(scope="module")
def admin(placing: ControlPlane) -> KubernetesApi:
    return KubernetesApi.connect(kubeconfig=placing.kubeconfig)


@pytest.fixture(scope="module")
def controller(kubeconfig: Path, admin: KubernetesApi) -> KubernetesApi:
    """With its own rights, once the policies are at work."""
    api = KubernetesApi.connect(kubeconfig=kubeconfig)
    eventually("the policies", lambda: _is_refused(admin, template("trial", tolerations=[BLANKET])))
    eventually("the gate", lambda: _gates(admin.create(PODS, pod("trial"), dry_run=True)) == [GATE])
    return api


def _is_refused(api: KubernetesApi, body: JsonObject) -> bool:
    try:
        api.create(RESOURCE_CLAIM_TEMPLATES, body, dry_run=True)
    except REFUSED:
        return True
    return False


def _gates(stored: JsonObject) -> list[str]:
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", [])]


@pytest.fixture
def made(admin: KubernetesApi, controller: KubernetesApi) -> Iterator[JsonObject]:
    yield admin.create(RESOURCE_CLAIMS, claim("guarded"))
    admin.merge_patch(RESOURCE_CLAIMS, "guarded", {"metadata": {"finalizers": None}}, namespace=SPACE)
    admin.delete(RESOURCE_CLAIMS, "guarded", namespace=SPACE)


def status(api: KubernetesApi, body: JsonObject) -> JsonObject:
    return api.merge_patch(RESOURCE_CLAIMS, "guarded", {"status": body}, namespace=SPACE, subresource="status")


def test_the_controller_allocates_and_takes_back(controller: KubernetesApi, made: JsonObject) -> None:
    metadata = {"annotations": {ANNOTATION: "{}"}, "finalizers": [FINALIZER]}
    controller.merge_patch(RESOURCE_CLAIMS, "guarded", {"metadata": metadata}, namespace=SPACE)
    stored = status(controller, {"allocation": allocation()})
    assert stored["status"]["allocation"]["devices"]["results"][0]["tolerations"] == [TOLERATED]
    assert "allocation" not in status(controller, {"allocation": None}).get("status", {})
    bare = {"annotations": {ANNOTATION: None}, "finalizers": None}
    stored = controller.merge_patch(RESOURCE_CLAIMS, "guarded", {"metadata": bare}, namespace=SPACE)
    assert stored["metadata"].get("finalizers", []) == made["metadata"].get("finalizers", [])


@pytest.mark.parametrize(
    "written",
    [
        {"allocation": allocation(driver="example.com")},
        {"allocation": allocation(tolerations=())},
        {"allocation": allocation(), "reservedFor": [CONSUMER]},
    ],
    ids=["another driver's device", "a device of no managed node", "a consumer"],
)
@pytest.mark.usefixtures("made")
def test_it_allocates_nothing_else(controller: KubernetesApi, written: JsonObject) -> None:
    with pytest.raises(REFUSED, match="nothing else of it"):
        status(controller, written)


@pytest.mark.usefixtures("made")
def test_it_takes_back_nothing_that_is_used_or_that_the_scheduler_allocated(
    admin: KubernetesApi, controller: KubernetesApi
) -> None:
    status(admin, {"allocation": allocation(tolerations=())})
    with pytest.raises(REFUSED, match="nothing else of it"):
        status(controller, {"allocation": None})
    status(admin, {"allocation": None})
    status(admin, {"allocation": allocation(), "reservedFor": [CONSUMER]})
    with pytest.raises(REFUSED):  # the API server's own rule: what is reserved is allocated
        status(controller, {"allocation": None})
    with pytest.raises(REFUSED, match="nothing else of it"):
        status(controller, {"allocation": None, "reservedFor": None})
    status(admin, {"allocation": None, "reservedFor": None})


@pytest.mark.parametrize("make", [claim, template])
@pytest.mark.parametrize("toleration", [TOLERATED, BLANKET, {"key": TAINT, "operator": "Exists"}], ids=str)
def test_nobody_may_tolerate_the_taint_of_managed_nodes(
    admin: KubernetesApi, controller: KubernetesApi, make: Any, toleration: JsonObject
) -> None:
    del controller
    resource = RESOURCE_CLAIMS if make is claim else RESOURCE_CLAIM_TEMPLATES
    with pytest.raises(REFUSED, match="tolerate the taint"):
        admin.create(resource, make("x", tolerations=[toleration]), dry_run=True)
    body = make("x")
    requests = (body["spec"].get("spec") or body["spec"])["devices"]["requests"]
    exactly = requests[0].pop("exactly")
    requests[0]["firstAvailable"] = [exactly | {"name": "a", "tolerations": [toleration]}]
    with pytest.raises(REFUSED, match="tolerate the taint"):
        admin.create(resource, body, dry_run=True)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "example.com/x", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "rootport.dev/unhealthy", "operator": "Exists"},
    ],
    ids=str,
)
def test_other_taints_are_tolerated_as_ever(
    admin: KubernetesApi, controller: KubernetesApi, toleration: JsonObject
) -> None:
    del controller
    admin.create(RESOURCE_CLAIMS, claim("x", tolerations=[toleration]), dry_run=True)


def test_nobody_else_writes_the_annotation(admin: KubernetesApi, made: JsonObject) -> None:
    del made
    forged = {"metadata": {"annotations": {ANNOTATION: "{}"}}}
    with pytest.raises(REFUSED, match=ANNOTATION):
        admin.merge_patch(RESOURCE_CLAIMS, "guarded", forged, namespace=SPACE)
    body = template("x")
    body["spec"]["metadata"] = forged["metadata"]
    with pytest.raises(REFUSED, match=ANNOTATION):
        admin.create(RESOURCE_CLAIM_TEMPLATES, body, dry_run=True)


def test_the_annotation_stays_as_long_as_the_claim_is_allocated(
    admin: KubernetesApi, controller: KubernetesApi, made: JsonObject
) -> None:
    del made
    metadata = {"annotations": {ANNOTATION: "{}"}, "finalizers": [FINALIZER]}
    controller.merge_patch(RESOURCE_CLAIMS, "guarded", {"metadata": metadata}, namespace=SPACE)
    status(controller, {"allocation": allocation()})
    bare = {"metadata": {"annotations": {ANNOTATION: None}}}
    with pytest.raises(REFUSED, match="stays as long as it is allocated"):
        admin.merge_patch(RESOURCE_CLAIMS, "guarded", bare, namespace=SPACE)
    admin.merge_patch(RESOURCE_CLAIMS, "guarded", {"metadata": {"labels": {"a": "b"}}}, namespace=SPACE)
    status(controller, {"allocation": None})
    admin.merge_patch(RESOURCE_CLAIMS, "guarded", bare, namespace=SPACE)


def test_new_pods_with_claims_wait_at_the_gate(admin: KubernetesApi, controller: KubernetesApi) -> None:
    del controller
    other: JsonObject = {"schedulingGates": [{"name": "example.com/quota"}]}
    assert _gates(admin.create(PODS, pod("x"), dry_run=True)) == [GATE]
    assert set(_gates(admin.create(PODS, pod("x", **other), dry_run=True))) == {GATE, "example.com/quota"}
    assert _gates(admin.create(PODS, pod("x", claims=False), dry_run=True)) == []
    assert _gates(admin.create(PODS, pod("x", nodeName="n1"), dry_run=True)) == []
    elsewhere = pod("x")
    elsewhere["metadata"]["namespace"] = "default"
    try:
        assert _gates(admin.create(PODS, elsewhere, dry_run=True)) == []
    except ApiServerError as error:  # the controller-manager has not made the service account there yet
        assert "serviceaccount" in str(error)  # noqa: PT017 - that is no refusal of ours


def test_the_controller_removes_its_gate_and_nothing_else(admin: KubernetesApi, controller: KubernetesApi) -> None:
    other = {"name": "example.com/quota"}
    admin.create(PODS, pod("gated", schedulingGates=[other]))
    try:
        for change in (
            {"spec": {"schedulingGates": [{"name": GATE}]}},
            {"spec": {"schedulingGates": None}},
            {"spec": {"schedulingGates": [other], "nodeSelector": {"a": "b"}}},
            {"spec": {"schedulingGates": [other], "activeDeadlineSeconds": 5}},
            {"spec": {"schedulingGates": [other], "containers": [{"name": "main", "image": "another"}]}},
            {"spec": {"schedulingGates": [other]}, "metadata": {"labels": {"a": "b"}}},
            {"spec": {"activeDeadlineSeconds": 5}},
        ):
            with pytest.raises(REFUSED):
                controller.merge_patch(PODS, "gated", change, namespace=SPACE)
        ungated = controller.merge_patch(PODS, "gated", {"spec": {"schedulingGates": [other]}}, namespace=SPACE)
        assert _gates(ungated) == ["example.com/quota"]
    finally:
        admin.delete(PODS, "gated", namespace=SPACE)


def test_the_controller_nominates_a_node_for_a_pod_at_its_gate_and_writes_nothing_else_of_its_status(
    admin: KubernetesApi, controller: KubernetesApi
) -> None:
    admin.create(PODS, pod("gated", claims=False, schedulingGates=[{"name": GATE}]))

    def write(body: JsonObject) -> JsonObject:
        return controller.merge_patch(PODS, "gated", body, namespace=SPACE, subresource="status")

    nominated = {"nominatedNodeName": "n1"}
    try:
        for change in (
            {"status": nominated | {"phase": "Running"}},
            {"status": nominated | {"message": "mine"}},
            {"status": nominated | {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"status": nominated, "metadata": {"labels": {"a": "b"}}},
            {"status": nominated, "metadata": {"annotations": {"a": "b"}}},
        ):
            with pytest.raises(REFUSED):
                write(change)
        assert write({"status": nominated})["status"]["nominatedNodeName"] == "n1"
        admin.merge_patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace=SPACE)
        with pytest.raises(REFUSED):
            write({"status": {"nominatedNodeName": "n2"}})
    finally:
        admin.delete(PODS, "gated", namespace=SPACE)


def test_all_new_pods_wait_at_the_gate_where_the_namespace_wants_it(
    admin: KubernetesApi, controller: KubernetesApi
) -> None:
    del controller

    def label(value: str) -> None:
        admin.merge_patch(NAMESPACES, SPACE, {"metadata": {"labels": {LABEL: value}}})

    def gates(**spec: Any) -> list[str]:
        return _gates(admin.create(PODS, pod("x", claims=False, **spec), dry_run=True))

    label(ALL_PODS)
    try:
        eventually("the gate of a pod without claims", lambda: gates() == [GATE])
        assert _gates(admin.create(PODS, pod("x"), dry_run=True)) == [GATE]
        assert gates(nodeName="n1") == []
    finally:
        label(ENABLED)
    eventually("no gate", lambda: gates() == [])


def test_the_policies_have_no_mistakes_of_type(placing: ControlPlane, controller: KubernetesApi) -> None:
    del controller
    found = json.loads(placing.kubectl("get", "validatingadmissionpolicies", "--output=json"))["items"]
    ours = {"rootport-leader-label", "rootport-claim-annotations", "rootport-placement-annotation"}
    wrong = {
        item["metadata"]["name"]: item.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
        for item in found
        if item["metadata"]["name"] in ours
    }
    assert set(wrong) == ours
    assert not any(wrong.values()), wrong
