"""The parts of explanations that need no API server: names, annotations, packing, records, the HTTP route."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller.cluster.packed import pack, packed, unpacked
from controller.cluster.pending_annotations import MESSAGE, REASON, UNKNOWN, AnnotatedClaims
from controller.cluster.transforms import claim_metadata, inventory_event, node_event, transform_inventory
from controller.explanations.budgeted import ON_DEMAND, BudgetedExplainer
from controller.explanations.informers import transform_pod
from controller.explanations.redaction import hide_names
from controller.explanations.reports import PendingReport, annotations_patch, pending_event
from controller.explanations.routes import explain_route
from controller.explanations.shared_state import BusyError, SharedClusterState
from controller.explanations.stale_annotations import StaleAnnotations
from controller.serving.callers import Caller, NotAuthenticatedError
from driver.adapters.http.exchange import Request, Response
from driver.adapters.kubernetes.skipped import SkippedObjects
from driver.errors import InputError
from driver.explain.explanation import ChangeKind, Explanation, Finding, ObjectRef, Proposal
from driver.explain.known.cluster import Kind
from driver.explain.known.pod_reading import read_pod
from driver.explain.known.reading import read_inventory, read_node
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.explain.tell.wire import to_wire
from driver.objects.faults import PREPARE_CONDITIONS, STRATEGY_CONDITIONS

CLAIM = ObjectRef(kind="ResourceClaim", namespace="mine", name="train")
NOW = datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC)


def explanation(message: str, **more: Any) -> Explanation:
    return Explanation(subject=CLAIM, findings=(Finding(reason=Reason.DEVICES_IN_USE, message=message),), **more)


def report(reason: Reason = Reason.DEVICES_IN_USE) -> PendingReport:
    pod = ObjectRef(kind="Pod", namespace="mine", name="train-0", uid="u1")
    return PendingReport(pod=pod, claims=(("mine/train", "u2"),), reason=reason, message="all are in use")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "held by claim theirs/secret (pod theirs/secret-0)",
            "held by 1 claim of another namespace",
        ),
        (
            "claim theirs/a (2 pods such as theirs/b, 4 devices) has it",
            "1 claim of another namespace (4 devices) has it",
        ),
        ("claims theirs/a, theirs/b and theirs/c", "3 claims of other namespaces"),
        ("claim theirs/a, claim theirs/b", "2 claims of other namespaces"),
        (
            "claim theirs/a (pod theirs/b), claim theirs/c (pod theirs/d) and 5 more claims",
            "2 claims of other namespaces and 5 more claims",
        ),
        ("held by mine/a, theirs/b, theirs/c", "held by mine/a and 2 of other namespaces"),
        ("claim mine/a has gpu-0 of node-1", "claim mine/a has gpu-0 of node-1"),
        (
            "rootport.dev/model, rootport.dev/node-1/gpu-0, 0/5 nodes",
            "rootport.dev/model, rootport.dev/node-1/gpu-0, 0/5 nodes",
        ),
        ("theirs/a.b-c, then", "1 of another namespace, then"),
    ],
    ids=lambda text: text[:20],
)
def test_what_others_have_is_counted_and_not_named(text: str, shown: str) -> None:
    found = hide_names(explanation(text, notes=(text,)), namespace="mine", others={"mine", "theirs"})
    assert (found.findings[0].message, found.notes) == (shown, (shown,))


def test_what_is_wrong_in_hidden_objects_is_not_shown() -> None:
    notes = (
        "ResourceClaim theirs/a is left out: spec: no secret-project",
        "ResourceClaim mine/a is left out: spec: no",
    )
    found = hide_names(explanation("", notes=notes), namespace="mine", others={"mine", "theirs"})
    assert found.notes == ("1 claim of another namespace is left out", notes[1])


def test_a_proposal_to_end_hidden_claims_only_counts_them() -> None:
    ends = (ObjectRef(kind="ResourceClaim", namespace="theirs", name="secret"), CLAIM)
    proposal = Proposal(
        kind=ChangeKind.END_CLAIMS,
        text="end claim theirs/secret",
        ends=ends,
        pods=(ObjectRef(kind="Pod", namespace="theirs", name="secret-0"),),
        commands=("kubectl -n theirs delete pod secret-0",),
    )
    (found,) = hide_names(explanation("", proposals=(proposal,)), namespace="mine", others={"theirs"}).proposals
    assert (found.text, found.ends, found.pods, found.commands) == (
        "end 1 claim of another namespace",
        (CLAIM,),
        (),
        (),
    )
    own = Proposal(
        kind=ChangeKind.END_CLAIMS, text="end claim mine/a", ends=(CLAIM,), commands=("kubectl delete pod a",)
    )
    assert hide_names(explanation("", proposals=(own,)), namespace="mine", others={"theirs"}).proposals == (own,)


def test_an_event_has_one_name_for_a_pod_a_reason_and_half_an_hour() -> None:
    def name(found: PendingReport, later_s: float) -> str:
        event = pending_event(found, instance="test", now=NOW + timedelta(seconds=later_s))
        text: str = event["metadata"]["name"]
        return text

    assert name(report(), 0) == name(report(), 600)
    assert len({name(report(), 0), name(report(), 1800), name(report(Reason.NODE_TAINTED), 0)}) == 3
    assert name(report(), 0).startswith("devices-in-use.u1.")


@pytest.mark.parametrize("reason", [Reason.FITS, Reason.ALLOCATED, Reason.WAITING_FOR_POD], ids=str)
def test_where_all_is_well_the_annotations_go(reason: Reason) -> None:
    assert annotations_patch("u2", report(reason).annotations)["metadata"]["annotations"] == {
        REASON: None,
        MESSAGE: None,
    }


def metadata(version: int, reason: str | None, *, uid: str = "u") -> dict[str, Any]:
    annotations = {"other": "x"} if reason is None else {REASON: reason, MESSAGE: "m"}
    return {
        "namespace": "mine",
        "name": "a",
        "uid": uid,
        "resourceVersion": str(version),
        "annotations": annotations,
    }


def test_a_late_event_of_the_watch_does_not_undo_an_own_write() -> None:
    claims = AnnotatedClaims()
    claims.observe(metadata(5, None))
    assert claims.claims() == ()
    claims.observe(metadata(9, "DevicesInUse"))
    claims.observe(metadata(7, "NodeTainted"))
    assert claims.annotations("mine/a") == {REASON: "DevicesInUse", MESSAGE: "m"}
    claims.observe(metadata(8, "FeatureOff", uid="another"))  # made anew under the same name, as the watch shows it
    assert claims.annotations("mine/a")[REASON] == "FeatureOff"
    claims.observe(metadata(12, None, uid="another"))
    assert (claims.annotations("mine/a"), claims.claims()) == ({}, ())


@pytest.mark.parametrize(
    ("reason", "message", "said"),
    [
        pytest.param("DevicesInUse", "all are in use", ("DevicesInUse", "all are in use"), id="own"),
        pytest.param("A" * 100_000, "", (UNKNOWN, ""), id="a long reason"),
        pytest.param("devicesinuse", "", (UNKNOWN, ""), id="another spelling"),
        pytest.param("", "", (UNKNOWN, ""), id="no reason"),
        pytest.param("Fits", "a\x1b[2J\u202e\nb", ("Fits", "a [2J b"), id="unprintable"),
        pytest.param("Fits", "x" * 200_000, ("Fits", "x" * 1021 + "…"), id="a long message"),
    ],
)
def test_annotations_say_what_rootport_can_have_written_and_no_more(
    reason: str, message: str, said: tuple[str, str]
) -> None:
    claims = AnnotatedClaims()
    claims.observe(metadata(1, None) | {"annotations": {REASON: reason, MESSAGE: message}})
    assert tuple(claims.annotations("mine/a").values()) == said


def test_a_watch_keeps_nothing_else_of_a_claims_annotations() -> None:
    wire = metadata(1, None) | {"annotations": {"other": "x" * 10_000, REASON: "y" * 10_000, MESSAGE: "z" * 10_000}}
    assert len(repr(claim_metadata({"metadata": wire}))) < 2000


def test_what_is_packed_comes_back_without_managed_fields() -> None:
    wire: dict[str, Any] = {
        "metadata": {"name": "s", "uid": "u", "managedFields": [1]},
        "spec": {"driver": "d", "pool": {"name": "p"}},
    }
    kept = packed(wire)
    assert kept["spec"] == {"driver": "d", "pool": {"name": "p"}}
    assert unpacked(kept) == {"metadata": {"name": "s", "uid": "u"}, "spec": wire["spec"]}
    assert wire["metadata"]["managedFields"] == [1]


def test_an_object_that_breaks_the_state_is_skipped_and_the_next_one_is_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skipped = SkippedObjects()
    cluster = SharedClusterState(skipped=skipped)

    def broken(state: ClusterState, kind: Kind, wire: dict[str, Any]) -> None:
        put(state, kind, wire)
        if wire["metadata"]["name"] == "bad":
            raise RecursionError("on purpose")

    put = ClusterState.put
    monkeypatch.setattr(ClusterState, "put", broken)
    for name in ("bad", "good"):
        cluster.put("Node", name, pack({"metadata": {"name": name}}))
    with cluster.use() as state:
        assert state.nodes.keys() == {"good"}
        assert state.left_out.mattering(Kind.NODE) == (1, "bad")
    assert skipped.so_far() == {("nodes", "Failed"): 1}
    monkeypatch.undo()
    cluster.put("Node", "bad", pack({"metadata": {"name": "bad"}, "spec": {"unschedulable": True}}))
    with cluster.use() as state:
        assert state.nodes.keys() == {"good", "bad"}
        assert state.left_out.mattering(Kind.NODE) == (0, "")


def test_an_explanation_that_an_unreadable_object_may_change_is_not_certain_and_names_no_other_namespace() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    broken = {"devices": {"results": [{"driver": "d", "pool": 5, "device": "x"}]}}
    slices = {"driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}
    cluster = SharedClusterState()
    for kind, wire in (
        ("Node", {"metadata": {"name": "n"}}),
        ("DeviceClass", {"metadata": {"name": "any"}, "spec": {}}),
        ("ResourceSlice", {"metadata": {"name": "s"}, "spec": slices | {"devices": [{"name": "x"}]}}),
        (
            "ResourceClaim",
            {"metadata": {"namespace": "mine", "name": "train"}, "spec": {"devices": {"requests": [request]}}},
        ),
        (
            "ResourceClaim",
            {"metadata": {"namespace": "theirs", "name": "secret"}, "status": {"allocation": broken}},
        ),
        (
            "Pod",
            {
                "metadata": {"namespace": "mine", "name": "p", "uid": "u"},
                "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "train"}]},
            },
        ),
    ):
        metadata = wire["metadata"]
        cluster.put(kind, "/".join(metadata[key] for key in ("namespace", "name") if key in metadata), pack(wire))
    found = BudgetedExplainer(cluster, threading.Event()).explain(CLAIM, ON_DEMAND)
    assert (found.reason, found.fits, found.is_known) == (Reason.OBJECT_UNREADABLE, False, False)
    hidden = hide_names(found, namespace="mine", others=cluster.namespaces)
    assert "secret" not in json.dumps(to_wire(hidden))
    cluster.remove("ResourceClaim", "theirs/secret")
    assert BudgetedExplainer(cluster, threading.Event()).explain(CLAIM, ON_DEMAND).fits


def test_of_a_pod_with_extended_resources_what_it_requests_is_kept_and_of_one_without_devices_nothing() -> None:
    requests = {"cpu": "1", "nvidia.com/gpu": "2"}
    containers = [{"name": "side", "env": [1], "resources": {}}, {"name": "main", "resources": {"requests": requests}}]
    wire: dict[str, Any] = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}}
    kept = transform_pod(json.loads(json.dumps(wire)))
    assert kept is not None
    assert kept["spec"]["containers"] == [{}, {"resources": {"requests": requests}}]
    assert read_pod(kept).containers == read_pod(wire).containers
    wire["spec"]["containers"][1]["resources"] = {"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}}
    assert transform_pod(wire) is None


def test_of_very_many_resources_of_a_pod_one_more_is_kept_than_is_read() -> None:
    requests = {f"example.com/r{number}": "1" for number in range(100_000)}
    containers: list[dict[str, Any]] = [{"name": "main", "resources": {"requests": requests}}]
    kept = transform_pod({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}})
    assert kept is not None
    assert len(kept["spec"]["containers"][0]["resources"]["requests"]) == 257
    assert read_pod(kept).has_more_resources


def test_a_nodes_event_has_its_extended_resources() -> None:
    allocatable = {"cpu": "8", "nvidia.com/gpu": "4", "hugepages-2Mi": "0"}
    wire = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    assert read_node(node_event(wire)).extended == {"nvidia.com/gpu": 4}


def test_stale_annotations_of_every_namespace_are_removed_however_many_another_has() -> None:
    stale = StaleAnnotations()
    theirs = [f"theirs/{number:04}" for number in range(5000)]
    for key in stale.next([*theirs, "zzz/mine"], 10):
        stale.attempted(key)
    assert "zzz/mine" in stale.next([*theirs, "zzz/mine", "zzz/other"], 10)
    many = [f"n{number:03}/{claim}" for number in range(30) for claim in ("a", "b")]
    had: list[str] = []
    for _ in range(6):
        chosen = stale.next(many, 10)
        for key in chosen:
            stale.attempted(key)
        had += chosen
    assert sorted(had) == many


def test_a_heartbeat_is_no_change_and_a_taint_is_one() -> None:
    cluster = SharedClusterState()

    def node(**spec: object) -> bytes:
        return pack({"metadata": {"name": "n"}, "spec": spec, "status": {}})

    cluster.put("Node", "n", node())
    with cluster.use() as state:
        before = state.generation
    cluster.put("Node", "n", node())
    with cluster.use() as state:
        assert state.generation == before
    cluster.put("Node", "n", node(unschedulable=True))
    assert cluster.queued == 1
    assert not cluster.apply_changes(10)
    with cluster.use() as state:
        assert state.generation > before
        assert state.nodes["n"].unschedulable
    cluster.remove("Node", "n")
    with cluster.use() as state:
        assert not state.nodes


class Explaining:
    def __init__(self, problem: str = "") -> None:
        self.problem = problem

    def explain(self, subject: ObjectRef, *, all_names: bool) -> Explanation:
        if subject.name == "busy":
            raise BusyError("too many")
        if subject.name != "train":
            raise InputError(f"there is no {subject}")
        return explanation(f"all names: {all_names}")


class Users:
    """Tokens are names of rights."""

    def caller(self, request: Request) -> Caller:
        token = request.headers.get("authorization", "")
        if not token:
            raise NotAuthenticatedError("no bearer token")
        return Caller(username=token)

    def may(self, caller: Caller, verb: str, resource: str, *, group: str, namespace: str = "", name: str = "") -> bool:
        rights = {
            "all": {"get claims", "get pods", "list"},
            "own": {"get claims", "get pods"},
            "claims": {"get claims"},
        }
        asked = {
            ("get", "resourceclaims"): "get claims",
            ("get", "pods"): "get pods",
            ("list", "resourceclaims"): "list",
        }
        assert namespace == ("" if verb == "list" else "mine")
        return asked[verb, resource] in rights.get(caller.username, set())


def ask(path: str, user: str, *, problem: str = "", method: str = "GET", **query: str) -> Response:
    route = explain_route(Explaining(problem), Users())
    return route(Request(method=method, path=path, query=query, headers={"authorization": user}))


CLAIM_PATH, POD_PATH = "/claims/mine/train/explain", "/pods/mine/train/explain"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (lambda: ask(CLAIM_PATH, "own"), 200),
        (lambda: ask(POD_PATH, "own"), 200),
        (lambda: ask(POD_PATH, "claims"), 403),
        (lambda: ask(CLAIM_PATH, "nobody"), 403),
        (lambda: ask(CLAIM_PATH, ""), 401),
        (lambda: ask(CLAIM_PATH, "own", method="POST"), 405),
        (lambda: ask(CLAIM_PATH, "own", problem="this controller does not lead"), 503),
        (lambda: ask("/claims/mine/gone/explain", "own"), 404),
        (lambda: ask("/claims/mine/train", "own"), 404),
        (lambda: ask("/claims/mine//explain", "own"), 404),
        (lambda: ask(f"/claims/mine/{'a' * 300}/explain", "own"), 404),
        (lambda: ask("/claims/mine/busy/explain", "own"), 503),
    ],
    ids=[
        "claim",
        "pod",
        "pod without pods",
        "no right",
        "nobody",
        "POST",
        "no leader",
        "gone",
        "path",
        "empty",
        "long",
        "busy",
    ],
)
def test_the_route_answers_whom_it_may(answer: Callable[[], Response], status: int) -> None:
    assert answer().status == status


@pytest.mark.parametrize(
    "path",
    [
        "/claims/../train/explain",
        "/claims/mine/../explain",
        "/claims/mine/../theirs/train/explain",
        "/claims/mine/%2e%2e/explain",
        "/claims/mine%2Ftrain/x/explain",
        "/claims/mine/train%2F..%2Fother/explain",
        "/claims/my.ns/train/explain",
        "/claims/mine/Train/explain",
        "/claims/mine/train%00/explain",
        "/claims/mine/train%0A/explain",
        "/claims/mine/tr%C3%A4in/explain",
        "/claims/mine/%FF/explain",
        "/claims/mine/train/explain/",
        "/claims//mine/train/explain",
        "/claims",
    ],
)
def test_a_path_that_can_name_nothing_is_not_found_without_a_review(path: str) -> None:
    answer = ask(path, "nobody")  # who would be refused
    assert (answer.status, answer.body) == (404, ask("/claims/mine/train", "nobody").body)


def test_the_route_names_objects_of_other_namespaces_only_for_callers_who_may_list_all_claims() -> None:
    said = {user: json.loads(ask(CLAIM_PATH, user).body)["findings"][0]["message"] for user in ("own", "all")}
    assert said == {"own": "all names: False", "all": "all names: True"}


def test_the_route_answers_as_the_terminal_does_where_asked() -> None:
    text = ask(CLAIM_PATH, "all", format="text").body.decode()
    assert text.startswith("claim mine/train: DevicesInUse")


TAINTING = (*PREPARE_CONDITIONS, *STRATEGY_CONDITIONS.values())
"""Conditions by which devices are tainted."""


def faults(*reasons: str) -> list[dict[str, Any]]:
    return [
        {
            "device": "gpu-0",
            "reason": reason,
            "effect": "NoSchedule",
            "since": "2026-01-01T00:00:00Z",
            "message": "it fell off the bus",
        }
        for reason in reasons
    ]


def inventory(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"}, "spec": {}, "status": status}


def test_what_is_wrong_with_devices_reaches_explain() -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    word = read_inventory(inventory_event(inventory(conditions=[condition], faults=faults("Xid79"))))
    (fault,) = word.faults
    assert (fault.device, fault.reason, fault.message) == ("gpu-0", "Xid79", "it fell off the bus")


@pytest.mark.parametrize(
    ("status", "differs"),
    [
        pytest.param({"watched": ["a", "b"], "faults": faults("X", "Y"), "conditions": [{"type": "Published"}]}, False,
                     id="the controller's own condition"),
        pytest.param({"watched": ["a", "b"], "faults": faults("X", "Y"), "conditions": [{"type": "Ready"}]}, True,
                     id="whether the plugin is ready"),
        *(pytest.param({"watched": ["a", "b"], "faults": faults("X", "Y"), "conditions": [{"type": kind}]}, True,
                       id=kind) for kind in TAINTING),
        pytest.param({"watched": ["b", "a"], "faults": faults("Y", "X")}, False, id="another order"),
        pytest.param({"watched": ["a", "b"], "faults": faults("X")}, True, id="a fault less"),
        pytest.param({"watched": ["a"], "faults": faults("X", "Y")}, True, id="watched less"),
        pytest.param({"watched": ["a", "b"], "faults": [*faults("X"), faults("Y")[0] | {"message": "z"}]}, True,
                     id="another message"),
        pytest.param({}, True, id="nothing told"),
    ],
)  # fmt: skip
def test_only_a_change_of_the_devices_health_is_one(status: dict[str, Any], *, differs: bool) -> None:
    before = transform_inventory(inventory(watched=["a", "b"], faults=faults("X", "Y")))
    after = transform_inventory(inventory(**status))
    assert (before["health"] != after["health"]) is differs
