"""Pending claims are told of, once and currently: the controller at a real API server, with its own rights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.explanations.pending_pods import Pace
from controller.explanations.routes import explain_route
from controller.explanations.service import Explanations
from controller.publisher import Publisher, PublisherOptions
from controller.serving.callers import Callers
from driver.adapters.http.exchange import Request
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, NODES, PODS, RESOURCE_CLAIMS, JsonObject
from driver.errors import InputError
from driver.explain.explanation import ObjectRef
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, node
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

GPU = "gpu-0000-10-00-0"
REASON, MESSAGE = "rootport.dev/pending-reason", "rootport.dev/pending-message"
FAST = Pace(settle_s=0.2, round_s=0.3, wait_s=0.2, idle_s=0.5, per_s=50.0, retry_s=0.2)


class Leader:
    """A publisher with explanations, in this process and in a hurry, with the controller's own rights."""

    def __init__(self, plane: ControlPlane, *, all_names: bool = False) -> None:
        self.api = KubernetesApi.connect(kubeconfig=plane.service_account_kubeconfig(NAMESPACE, "rootport-controller"))
        self.explanations = Explanations(self.api, instance="test", all_names=all_names, pace=FAST)
        self.publisher = Publisher(
            self.api, PublisherOptions(fresh_for_s=600, grace_s=1200), explanations=self.explanations
        )
        self.publisher.start()

    def stop(self) -> None:
        assert self.publisher.failure == ""
        assert self.publisher.stop(20)


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.add(node(gpu("10"), name="node-a"))
    # The API server taints new Nodes until they are ready.
    made.api.merge_patch(NODES, "node-a", {"spec": {"taints": None}})
    for name in ("mine", "theirs"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        installed.kubectl("apply", "--filename=-", input=json.dumps(body))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        installed.kubectl("apply", "--filename=-", input=json.dumps(account))
    yield made
    for name in ("mine", "theirs"):
        for kind in ("pods", "resourceclaims", "events.events.k8s.io"):
            installed.kubectl("delete", kind, "--all", f"--namespace={name}", "--force")
    installed.kubectl("delete", "rolebinding", "explain", "--namespace=mine", "--ignore-not-found")
    made.clear()


@pytest.fixture
def lead(installed: ControlPlane) -> Iterator[Callable[..., Leader]]:
    started: list[Leader] = []

    def run(**options: bool) -> Leader:
        started.append(Leader(installed, **options))
        return started[-1]

    yield run
    for leader in started:
        leader.publisher.stop(20)


def claim(nodes: Nodes, name: str, *, namespace: str = "mine", count: int = 1) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": count}}
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"devices": {"requests": [request]}}}
    nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test")


def allocate(nodes: Nodes, name: str, *, namespace: str = "mine") -> None:
    """As kube-scheduler does."""
    results = [{"request": "gpu", "driver": "rootport.dev", "pool": "node-a", "device": GPU}]
    status = {"allocation": {"devices": {"results": results}}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, name, {"status": status}, namespace=namespace, subresource="status")


def pod(nodes: Nodes, name: str, of_claim: str, *, namespace: str = "mine") -> JsonObject:
    return nodes.api.create(
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": of_claim}],
            },
        },
    )


def own_annotations(nodes: Nodes, name: str, *, namespace: str = "mine") -> dict[str, str]:
    annotations = nodes.api.get(RESOURCE_CLAIMS, name, namespace=namespace)["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if key in (REASON, MESSAGE)}


def events(nodes: Nodes, of: JsonObject) -> list[JsonObject]:
    metadata = of["metadata"]
    found = nodes.api.list(EVENTS_K8S_IO, namespace=metadata["namespace"]).items
    return [item for item in found if item["regarding"].get("uid") == metadata["uid"]]


def only_event(nodes: Nodes, of: JsonObject, name: str) -> JsonObject:
    """Return the only Event on a pod, once the claim has its annotations as well."""
    eventually(f"annotations of {name}", lambda: own_annotations(nodes, name, namespace=of["metadata"]["namespace"]))
    (event,) = events(nodes, of)
    return event


def test_a_pending_claim_has_one_event_on_its_pod_and_annotations_until_it_is_allocated(
    nodes: Nodes, lead: Callable[..., Leader]
) -> None:
    claim(nodes, "holder")
    allocate(nodes, "holder")
    claim(nodes, "waits")
    waits = pod(nodes, "waits-0", "waits")
    leader = lead()
    event = only_event(nodes, waits, "waits")
    assert (event["type"], event["reason"], event["reportingController"]) == (
        "Warning",
        "DevicesInUse",
        "rootport.dev/controller",
    )
    assert event["regarding"]["name"] == "waits-0"
    assert "mine/holder" in event["note"]
    assert own_annotations(nodes, "waits") == {REASON: "DevicesInUse", MESSAGE: event["note"]}
    # Nothing changes: nothing is written.
    version = nodes.api.get(RESOURCE_CLAIMS, "waits", namespace="mine")["metadata"]["resourceVersion"]
    rounds(nodes)
    assert nodes.api.get(RESOURCE_CLAIMS, "waits", namespace="mine")["metadata"]["resourceVersion"] == version
    # The scheduler finds a device.
    nodes.api.delete(RESOURCE_CLAIMS, "holder", namespace="mine")
    allocate(nodes, "waits")
    eventually("no annotations", lambda: not own_annotations(nodes, "waits"))
    assert events(nodes, waits) == [event]
    leader.stop()


def test_the_next_leader_writes_no_event_twice(nodes: Nodes, lead: Callable[..., Leader]) -> None:
    claim(nodes, "waits", count=2)
    waits = pod(nodes, "waits-0", "waits")
    first = lead()
    event = only_event(nodes, waits, "waits")
    before = nodes.api.get(RESOURCE_CLAIMS, "waits", namespace="mine")
    first.stop()
    second = lead()
    rounds(nodes)
    assert events(nodes, waits) == [event]
    assert nodes.api.get(RESOURCE_CLAIMS, "waits", namespace="mine") == before
    second.stop()


def test_a_claim_that_no_pod_waits_for_any_more_has_no_annotations(nodes: Nodes, lead: Callable[..., Leader]) -> None:
    claim(nodes, "waits", count=2)
    claim(nodes, "unused", count=2)
    waits = pod(nodes, "waits-0", "waits")
    lead()
    only_event(nodes, waits, "waits")
    assert not own_annotations(nodes, "unused")
    nodes.api.delete(PODS, "waits-0", namespace="mine")
    eventually("no annotations", lambda: not own_annotations(nodes, "waits"))


@pytest.mark.parametrize("all_names", [False, True], ids=["namespace", "all"])
def test_claims_of_other_namespaces_are_named_only_where_an_administrator_wants_it(
    nodes: Nodes, lead: Callable[..., Leader], all_names: bool
) -> None:
    claim(nodes, "secret-project", namespace="theirs")
    allocate(nodes, "secret-project", namespace="theirs")
    claim(nodes, "waits")
    waits = pod(nodes, "waits-0", "waits")
    leader = lead(all_names=all_names)
    note = only_event(nodes, waits, "waits")["note"]
    assert ("secret-project" in note, "of another namespace" in note) == (all_names, not all_names)
    subject = ObjectRef(kind="ResourceClaim", namespace="mine", name="waits")
    assert "secret-project" in str(leader.explanations.explain(subject, all_names=True))
    assert "secret-project" not in str(leader.explanations.explain(subject, all_names=False))


def test_callers_who_may_read_a_claim_have_it_explained_by_http(
    nodes: Nodes, installed: ControlPlane, lead: Callable[..., Leader]
) -> None:
    claim(nodes, "waits", count=2)
    leader = lead()
    eventually("the cluster is read", lambda: not leader.explanations.problem)
    route = explain_route(leader.explanations, Callers(nodes.api))

    def ask(namespace: str, name: str = "waits") -> tuple[int, bytes]:
        token = installed.kubectl("create", "token", "default", f"--namespace={namespace}").strip()
        answer = route(
            Request(method="GET", path=f"/claims/mine/{name}/explain", headers={"authorization": f"Bearer {token}"})
        )
        return answer.status, answer.body

    assert ask("mine")[0] == 403
    claim(nodes, "waits-too", namespace="theirs")
    edit = ("create", "rolebinding", "explain", "--namespace=mine", "--clusterrole=rootport-explain")
    installed.kubectl(*edit, "--serviceaccount=theirs:default")
    status, body = ask("theirs")
    assert (status, json.loads(body)["subject"]["name"]) == (200, "waits")
    # A name that is not there leads to none of another namespace.
    eventually("the other claim is seen", lambda: _is_seen(leader, "theirs", "waits-too"))
    assert ask("theirs", "waits-too") == (404, b"there is no claim mine/waits-too\n")


def _is_seen(leader: Leader, namespace: str, name: str) -> bool:
    try:
        leader.explanations.explain(ObjectRef(kind="ResourceClaim", namespace=namespace, name=name), all_names=True)
    except InputError:
        return False
    return True


def test_a_controller_that_does_not_lead_answers_so_to_authorized_callers(
    nodes: Nodes, installed: ControlPlane
) -> None:
    follower = Explanations(nodes.api, instance="test", all_names=False)
    route = explain_route(follower, Callers(nodes.api))
    token = installed.kubectl("create", "token", "default", "--namespace=mine").strip()

    def ask(**headers: str) -> tuple[int, bytes]:
        answer = route(Request(method="GET", path="/claims/mine/waits/explain", headers=headers))
        return answer.status, answer.body

    assert ask()[0] == 401
    assert ask(authorization=f"Bearer {token}")[0] == 403
    edit = ("create", "rolebinding", "explain", "--namespace=mine", "--clusterrole=rootport-explain")
    installed.kubectl(*edit, "--serviceaccount=mine:default")
    other = explain_route(follower, Callers(nodes.api))  # answers are kept for some seconds

    def leads() -> str:
        headers = {"authorization": f"Bearer {token}"}
        answer = other(Request(method="GET", path="/claims/mine/waits/explain", headers=headers))
        return answer.body.decode() if answer.status == 503 else ""

    assert "does not lead" in eventually("the answer", leads)


def test_a_claim_that_fits_is_left_alone(nodes: Nodes, lead: Callable[..., Leader]) -> None:
    claim(nodes, "fits")
    fits = pod(nodes, "fits-0", "fits")
    lead()
    rounds(nodes)
    assert not own_annotations(nodes, "fits")
    assert not events(nodes, fits)


def test_a_claim_that_is_too_large_for_annotations_keeps_no_other_waiting(
    nodes: Nodes, lead: Callable[..., Leader], caplog: pytest.LogCaptureFixture
) -> None:
    largest(nodes, "a-large")
    body = {"metadata": {"annotations": {MESSAGE: "x" * 200}}}
    with pytest.raises(UnavailableError, match="request is too large") as refused:
        nodes.api.merge_patch(RESOURCE_CLAIMS, "a-large", body, namespace="mine")
    assert refused.value.status == 500
    large = pod(nodes, "a-large-0", "a-large")
    leader = lead()
    eventually("the event", lambda: events(nodes, large))
    eventually("the refusal", lambda: "annotations refused" in caplog.messages)
    claim(nodes, "waits", namespace="theirs", count=2)
    only_event(nodes, pod(nodes, "waits-0", "waits", namespace="theirs"), "waits")
    assert "pending claims are told of later" not in caplog.messages
    assert not own_annotations(nodes, "a-large")
    leader.stop()


def largest(nodes: Nodes, name: str) -> None:
    """A claim that is as large as etcd takes it, but for some bytes."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev", "count": 2}}

    def create(count: int) -> bool:
        labels = {f"l{index:05}": "x" * 63 for index in range(count)}
        body = {"metadata": {"name": name, "namespace": "mine", "labels": labels}}
        try:
            nodes.api.create(RESOURCE_CLAIMS, body | {"spec": {"devices": {"requests": [request]}}})
        except UnavailableError:
            return False
        return True

    fits, too_many = 20_800, 21_100  # etcd's limit of 1.5 MiB is between
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if create(middle):
            fits = middle
            nodes.api.delete(RESOURCE_CLAIMS, name, namespace="mine")
        else:
            too_many = middle
    assert create(fits)


def test_a_controller_process_explains_without_errors(nodes: Nodes, start: Callable[[], Controller]) -> None:
    claim(nodes, "waits", count=2)
    waits = pod(nodes, "waits-0", "waits")
    controller = start()
    event: Any = eventually("the event", lambda: events(nodes, waits), timeout_s=40)
    assert len(event) == 1
    eventually("the annotations", lambda: own_annotations(nodes, "waits"))
    assert controller.stop() == 0
    assert not controller.logged("level=(warning|error)|traceback")


def rounds(nodes: Nodes) -> None:
    """Wait until some rounds have gone by: until a claim that came later was told of, and one more after that."""
    for name in ("mark-a", "mark-b"):
        claim(nodes, name, count=2)
        mark = pod(nodes, name, name)
        only_event(nodes, mark, name)
        nodes.api.delete(PODS, name, namespace="mine")
        try:
            nodes.api.delete(RESOURCE_CLAIMS, name, namespace="mine")
        except NotFoundError:
            continue
