"""How often pods are explained and told: the loop and its writer by a clock that only waiting moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any, cast

import pytest

from controller.cluster.packed import pack
from controller.cluster.pending_annotations import MESSAGE, REASON, AnnotatedClaims
from controller.explanations.fair_sharing import FairShares, RequestLimiter
from controller.explanations.loop import ExplanationLoop
from controller.explanations.pending_pods import Pace
from controller.explanations.reports import PendingReport
from controller.explanations.shared_state import BusyError, SharedClusterState
from controller.explanations.write_limits import RefusedWrites, WriteRateLimiter
from controller.explanations.writer import ReportWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ApiServerError,
    ForbiddenError,
    InvalidError,
    NamespaceTerminatingError,
    NotFoundError,
    UnavailableError,
)
from driver.explain.explanation import Explanation, Finding, ObjectRef
from driver.explain.reasons import Reason

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
SEVERAL = 12


class Stop(threading.Event):
    """Waiting for it takes no time, but moves the clock; set when the time is up."""

    def __init__(self, lasts_s: float) -> None:
        super().__init__()
        self.now = 0.0
        self._lasts_s = lasts_s

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        if self.now >= self._lasts_s:
            self.set()
        return self.is_set()


class Server:
    """Stands for the API server: what was written and when, and what it refuses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[tuple[float, str, str]] = []
        self.patches: list[tuple[float, str | None]] = []
        self.refuse_event: Exception | None = None
        self.refuse_patch: Exception | None = None
        self.refuse_patch_of: dict[str, Exception] = {}
        self.patched: list[tuple[float, str]] = []
        self._version = 1

    def create(self, _resource: object, body: dict[str, Any]) -> dict[str, Any]:
        if self.refuse_event is not None:
            raise self.refuse_event
        name = body["metadata"]["name"]
        if any(name == known for _, known, _ in self.events):
            raise AlreadyExistsError("there already")
        self.events.append((self.now, name, body["reason"]))
        return body

    def merge_patch(self, _resource: object, name: str, body: dict[str, Any], *, namespace: str) -> dict[str, Any]:
        said = body["metadata"]["annotations"]
        self.patches.append((self.now, said[MESSAGE]))
        refusal = self.refuse_patch or self.refuse_patch_of.get(name)
        if refusal is not None:
            raise refusal
        self.patched.append((self.now, f"{namespace}/{name}"))
        self._version += 1
        metadata = {"name": name, "namespace": namespace, "resourceVersion": str(self._version)}
        annotations = {key: value for key, value in said.items() if value is not None}
        return {"metadata": metadata | {"uid": body["metadata"]["uid"], "annotations": annotations}}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def annotated() -> AnnotatedClaims:
    return AnnotatedClaims()


@pytest.fixture
def writer(server: Server, annotated: AnnotatedClaims) -> ReportWriter:
    return ReportWriter(
        cast("KubernetesApi", server),
        annotated,
        instance="test",
        pause=lambda _namespace: False,
        clock=lambda: server.now,
        now=lambda: NOON + timedelta(seconds=server.now),
    )


def report(message: str = "all are in use", reason: Reason = Reason.DEVICES_IN_USE) -> PendingReport:
    pod = ObjectRef(kind="Pod", namespace="ml", name="train-0", uid="pod-uid")
    return PendingReport(pod=pod, claims=(("ml/train", "claim-uid"),), reason=reason, message=message)


def write_each_second(server: Server, seconds: int, write: Callable[[], None]) -> None:
    end = server.now + seconds
    while server.now < end:
        write()
        server.now += 1


def test_a_pod_that_waits_for_one_reason_has_an_event_each_half_hour(server: Server, writer: ReportWriter) -> None:
    write_each_second(server, 3601, lambda: writer.write(report()))
    assert [at for at, _, _ in server.events] == [0, 1800, 3600]


def test_another_reason_is_reported_at_once_and_one_that_comes_back_is_not(
    server: Server, writer: ReportWriter
) -> None:
    reasons = (Reason.DEVICES_IN_USE, Reason.NODE_TAINTED)
    write_each_second(server, 100, lambda: writer.write(report(reason=reasons[int(server.now) // 5 % 2])))
    assert [(at, reason) for at, _, reason in server.events] == [(0, "DevicesInUse"), (5, "NodeTainted")]


def test_annotations_that_change_all_the_time_are_written_once_a_minute(server: Server, writer: ReportWriter) -> None:
    write_each_second(server, 181, lambda: writer.write(report(f"{server.now:g} are in use")))
    assert [at for at, _ in server.patches] == [0, 60, 120, 180]


def test_annotations_that_say_it_already_are_not_written(server: Server, writer: ReportWriter) -> None:
    write_each_second(server, 300, lambda: writer.write(report()))
    assert [at for at, _ in server.patches] == [0]


def test_annotations_of_an_allocated_claim_go_at_once(
    server: Server, writer: ReportWriter, annotated: AnnotatedClaims
) -> None:
    writer.write(report())
    server.now += 1
    writer.clear("ml/train", "claim-uid")
    writer.clear("ml/train", "claim-uid")
    assert server.patches[1:] == [(1, None)]
    assert annotated.claims() == ()


def test_a_claim_whose_annotations_are_refused_is_tried_once_a_minute_and_delays_no_other(
    server: Server, writer: ReportWriter
) -> None:
    server.refuse_patch = ForbiddenError("ValidatingAdmissionPolicy 'theirs' denied request")
    write_each_second(server, 121, lambda: writer.write(report()))
    assert [at for at, _ in server.patches] == [0, 60, 120]


def test_an_event_that_did_not_come_through_is_written_when_the_server_is_back(
    server: Server, writer: ReportWriter
) -> None:
    server.refuse_event = UnavailableError("away")
    with pytest.raises(UnavailableError):
        writer.write(report())
    assert not server.patches  # an annotation says that there is an Event
    server.refuse_event, server.now = None, 1
    writer.write(report())
    assert ([at for at, _, _ in server.events], [at for at, _ in server.patches]) == ([1], [1])


def test_the_next_leader_writes_an_event_again_only_after_half_an_hour(
    server: Server, writer: ReportWriter, annotated: AnnotatedClaims
) -> None:
    metadata = {"namespace": "ml", "name": "train", "uid": "claim-uid", "resourceVersion": "1"}
    annotated.observe(metadata | {"annotations": {REASON: "DevicesInUse", MESSAGE: "all are in use"}})
    writer.assume_reported("pod-uid", "ml/train")
    write_each_second(server, 1801, lambda: writer.write(report()))
    assert [at for at, _, _ in server.events] == [1800]


def in_use(subject: ObjectRef) -> Explanation:
    return Explanation(subject=subject, findings=(Finding(reason=Reason.DEVICES_IN_USE, message="in use"),))


def cut(subject: ObjectRef, *, unknown: int, nodes: int = 1000) -> Explanation:
    finding = Finding(reason=Reason.SEARCH_LIMIT, message="not looked at")
    return Explanation(subject=subject, findings=(finding,), nodes=nodes, nodes_unknown=unknown, is_cut=unknown > 0)


class Looped:
    """A loop over some pods with a pending claim each, until the time is up."""

    def __init__(
        self,
        lasts_s: float,
        *,
        pods: int = 1,
        takes_s: float = 0.0,
        clear_s: float = 0.0,
        server: Server | None = None,
        **pace: float,
    ) -> None:
        self.stop = Stop(lasts_s)
        self.written: list[tuple[float, str]] = []
        self.messages: list[str] = []
        self.explained: list[float] = []
        self.cleared: list[tuple[float, str]] = []
        self.yield_to_slices: Callable[[], None] = lambda: None
        self.fails: Callable[[float], bool] = lambda _now: False
        self.takes_s = takes_s
        self.clear_s = clear_s
        self.cluster = SharedClusterState(clock=lambda: self.stop.now)
        self.found: Callable[[ObjectRef], Explanation] = in_use
        for index in range(pods):
            self.put(f"p{index:02}")
        self.loop = ExplanationLoop(
            self.cluster,
            explain=self.explain,
            writer=cast("ReportWriter", self) if server is None else self.writer(server),
            yield_to_slices=self.take_turn,
            stop=self.stop,
            pace=Pace(**pace),
            clock=lambda: self.stop.now,
        )

    def writer(self, server: Server) -> ReportWriter:
        """One that writes to the server, as fast as the controller's does."""
        writes = WriteRateLimiter(self.stop, per_s=10, burst=100, namespace_burst=50, clock=lambda: self.stop.now)

        def pause(namespace: str) -> bool:
            ended = writes.wait(namespace)
            server.now = self.stop.now
            return ended

        return ReportWriter(
            cast("KubernetesApi", server),
            self.cluster.annotated,
            instance="test",
            pause=pause,
            clock=lambda: self.stop.now,
            now=lambda: NOON + timedelta(seconds=self.stop.now),
        )

    def put(self, name: str, *, namespace: str = "ml", claims: int = 1, **labels: str) -> None:
        """A pod and its claims: one of its name, or several."""
        names = [name] if claims == 1 else [f"{name}-{index:04}" for index in range(claims)]
        for of_claim in names:
            metadata = {"namespace": namespace, "name": of_claim, "uid": of_claim, "resourceVersion": "1"}
            request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
            self.cluster.put(
                "ResourceClaim", f"{namespace}/{of_claim}", pack(claim | {"spec": {"devices": {"requests": [request]}}})
            )
        metadata = {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1"}
        entries = [{"name": of_claim, "resourceClaimName": of_claim} for of_claim in names]
        pod = {"metadata": metadata | {"labels": labels}, "spec": {"resourceClaims": entries}}
        self.cluster.put("Pod", f"{namespace}/{name}", pack(pod))

    def ask(self, name: str, resource: str) -> None:
        """A pod that asks for an extended resource."""
        metadata = {"namespace": "ml", "name": name, "uid": name, "resourceVersion": "1"}
        spec = {"containers": [{"resources": {"requests": {resource: "1"}}}]}
        self.cluster.put("Pod", f"ml/{name}", pack({"metadata": metadata, "spec": spec}))

    def device_class(self, name: str, resource: str) -> None:
        wire = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}
        self.cluster.put("DeviceClass", name, pack(wire))

    def annotate(self, count: int) -> list[str]:
        """Claims that no pod waits for, with annotations that stay; their keys."""
        keys = [f"ml/mine-{index:03}" for index in range(count)]
        for key in keys:
            name = key.partition("/")[2]
            metadata = {"namespace": "ml", "name": name, "uid": name, "resourceVersion": "1"}
            spec: dict[str, Any] = {"devices": {"requests": []}}
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
            self.cluster.put("ResourceClaim", key, pack(claim))
            self.cluster.observe_claim(metadata | {"annotations": {REASON: "Mine"}})
        return keys

    def explain(self, subject: ObjectRef) -> Explanation:
        self.explained.append(self.stop.now)
        self.stop.now += self.takes_s
        return self.found(subject)

    def take_turn(self) -> None:
        self.yield_to_slices()

    # What the loop asks of its writer.

    def assume_reported(self, pod_uid: str, claim: str) -> None: ...

    def write(self, found: PendingReport) -> None:
        self.written.append((self.stop.now, found.pod.name))
        self.messages.append(found.message)
        if self.fails(self.stop.now):
            raise UnavailableError("away")

    def clear(self, key: str, uid: str) -> None:
        self.cleared.append((self.stop.now, key))
        self.stop.now += self.clear_s

    def forget_all_but(self, pods: object, claims: object) -> None: ...

    def run(self) -> None:
        self.loop.run(lambda: True)


def test_nothing_is_reported_before_the_scheduler_had_its_moment() -> None:
    looped = Looped(60)
    looped.run()
    (at,) = looped.explained
    assert 5 <= at < 20


def test_a_pod_with_extended_resources_is_reported_before_kube_scheduler_has_made_its_claim(server: Server) -> None:
    looped = Looped(30, pods=0, server=server)
    looped.ask("train", "nvidia.com/gpu")
    looped.ask("other", "example.com/fpga")
    looped.run()
    assert looped.explained == []
    looped = Looped(30, pods=0, server=server)
    looped.ask("train", "nvidia.com/gpu")
    looped.ask("other", "example.com/fpga")
    looped.device_class("whole", "nvidia.com/gpu")
    looped.run()
    assert [(name.split(".")[1], reason) for _, name, reason in server.events] == [("train", "DevicesInUse")]
    assert server.patches == []
    assert looped.cluster.unmade.annotations("train")[REASON] == "DevicesInUse"
    assert looped.cluster.unmade.annotations("other") == {}


def test_a_pod_that_waits_for_a_device_plugin_is_listed_and_not_reported(server: Server) -> None:
    looped = Looped(30, pods=0, server=server)
    looped.ask("train", "nvidia.com/gpu")
    looped.device_class("whole", "nvidia.com/gpu")
    finding = Finding(reason=Reason.EXTENDED_RESOURCE_NOT_EVALUATED, message="of a device plugin")
    looped.found = lambda subject: Explanation(subject=subject, findings=(finding,))
    looped.run()
    assert server.events == []
    assert looped.cluster.unmade.annotations("train")[REASON] == "ExtendedResourceNotEvaluated"


def test_what_was_found_is_not_computed_again_while_nothing_changes() -> None:
    looped = Looped(300, pods=3)
    looped.run()
    assert len(looped.explained) == 3
    assert len(looped.written) > 3  # an Event may be due


def test_rounds_that_fail_are_made_ever_more_seldom() -> None:
    looped = Looped(2000)
    looped.fails = lambda _now: True
    looped.run()
    gaps = [after - before for (before, _), (after, _) in pairwise(looped.written)]
    assert gaps[-3:] == pytest.approx([300] * 3, abs=1)
    assert gaps[2:6] == pytest.approx([20, 40, 80, 160], abs=1)


def test_after_a_round_that_went_well_the_next_failure_counts_as_the_first() -> None:
    looped = Looped(400, idle_s=10)
    looped.fails = lambda now: now < 100 or now > 200
    looped.run()
    later = [at for at, _ in looped.written if at > 200]
    assert later[1] - later[0] == pytest.approx(10, abs=1)


def test_explanations_are_bounded_by_number_and_by_the_time_they_take() -> None:
    quick, slow = Looped(40, pods=SEVERAL, per_s=5.0), Looped(60, pods=SEVERAL, takes_s=1.0)
    quick.run()
    slow.run()
    assert [after - before for before, after in pairwise(quick.explained)] == pytest.approx([0.2] * (SEVERAL - 1))
    assert [after - before for before, after in pairwise(slow.explained)] == pytest.approx([2.0] * (SEVERAL - 1))


def test_of_many_that_take_long_none_is_left_out() -> None:
    looped = Looped(90, pods=SEVERAL, takes_s=2.0)
    looped.run()
    names = [name for _, name in looped.written]
    assert names[:SEVERAL] == [f"p{index:02}" for index in range(SEVERAL)]


def test_changes_without_end_do_not_put_a_round_off() -> None:
    looped = Looped(120)
    seen = iter(range(10**6))

    def change() -> None:
        metadata = {"name": "n", "labels": {"seen": str(next(seen))}}
        looped.cluster.put("Node", "n", pack({"metadata": metadata, "spec": {}, "status": {}}))

    looped.yield_to_slices = change
    looped.run()
    assert [after - before for before, after in pairwise(looped.explained)] == pytest.approx([20] * 5, abs=1)


def test_stale_annotations_that_come_back_all_the_time_are_removed_fairly_and_delay_no_pod() -> None:
    looped = Looped(60)
    keys = looped.annotate(250)
    looped.run()
    rounds = [list(group) for _, group in groupby(looped.cleared, key=lambda item: item[0])]
    assert {len(group) for group in rounds} == {100}
    assert {key for group in rounds[:3] for _, key in group} == set(keys)
    assert [after - before for (before, _), (after, _) in pairwise(group[0] for group in rounds)] == pytest.approx(
        [10] * (len(rounds) - 1), abs=0.5
    )
    assert len(looped.explained) == 1


def test_removing_annotations_slowly_delays_explanations_only_for_a_moment() -> None:
    due_s = 10.5
    looped = Looped(40, clear_s=0.1, wait_s=due_s)
    looped.annotate(250)
    looped.run()
    (explained,) = looped.explained
    waited_s = sum(looped.clear_s for at, _ in looped.cleared if due_s < at < explained)
    assert 0 < waited_s < 2.5
    assert explained < due_s + 2.5
    assert len(looped.cleared) > 3 * waited_s / looped.clear_s  # the rest comes later


def test_http_requests_pause_as_long_as_an_answer_took_and_only_some_wait() -> None:
    stop = Stop(1000)
    limiter = RequestLimiter(most=1, clock=lambda: stop.now, sleep=stop.wait)
    with limiter.slot():
        stop.now += 0.5
        with pytest.raises(BusyError), limiter.slot():
            pass
    with limiter.slot():
        assert stop.now == pytest.approx(1.0)
    stop.now += 10
    with limiter.slot():
        assert stop.now == pytest.approx(11.0)


def change_all_the_time(looped: Looped) -> None:
    seen = iter(range(10**6))

    def change() -> None:
        metadata = {"name": "n", "labels": {"seen": str(next(seen))}}
        looped.cluster.put("Node", "n", pack({"metadata": metadata, "spec": {}, "status": {}}))

    looped.yield_to_slices = change


def test_an_explanation_over_budget_is_tried_again_after_minutes_whatever_changes_and_the_message_has_that() -> None:
    looped = Looped(2000)
    change_all_the_time(looped)
    looped.found = lambda subject: cut(subject, unknown=990)
    looped.run()
    gaps = [after - before for before, after in pairwise(looped.explained)]
    assert gaps == pytest.approx([300, 600], abs=2)
    assert looped.messages[0].endswith("Rootport looks again in 5 minutes.")
    assert looped.messages[-1].endswith("Rootport looks again in 20 minutes.")
    assert looped.loop.put_off == 1


def test_a_long_message_leaves_room_for_the_time_of_the_next_attempt() -> None:
    looped = Looped(60)
    looped.found = lambda subject: replace(
        cut(subject, unknown=990), findings=(Finding(reason=Reason.SEARCH_LIMIT, message="ä" * 5000),)
    )
    looped.run()
    assert len(looped.messages[0].encode()) <= 1024
    assert looped.messages[0].endswith("in 5 minutes.")


def test_an_explanation_that_a_few_more_attempts_finish_is_reported_once_it_is_finished() -> None:
    looped = Looped(60)
    unknown = iter([600, 200, 0])
    looped.found = lambda subject: cut(subject, unknown=next(unknown))
    looped.run()
    assert len(looped.explained) == 3
    assert looped.explained[-1] - looped.explained[0] < 2
    assert looped.written[0][0] >= looped.explained[-1]
    assert not looped.loop.put_off


def test_a_namespace_with_thousands_of_pods_that_take_long_does_not_keep_others_waiting() -> None:
    looped = Looped(300, pods=0)
    for index in range(3000):
        looped.put(f"a{index:04}", namespace="crowd")

    def found(subject: ObjectRef) -> Explanation:
        if subject.namespace != "crowd":
            return in_use(subject)
        looped.stop.now += 2.0
        return cut(subject, unknown=990)

    came: list[float] = []

    def come() -> None:
        if looped.stop.now >= 100 and not came:
            came.append(looped.stop.now)
            for index in range(5):
                looped.put(f"z{index}", namespace="quiet")

    looped.found, looped.yield_to_slices = found, come
    looped.run()
    told = {name: at for at, name in reversed(looped.written)}
    # The five seconds that the scheduler has, and the explanations under way when they came and when these are over.
    assert max(told[f"z{index}"] for index in range(5)) < came[0] + 5 + 2 * 4 + 2
    assert sum(name.startswith("a") for name in told) > 50


@pytest.mark.parametrize(("pods", "claims"), [(1, 1000), (12, 100)], ids=["one pod", "many pods"])
def test_pods_with_very_many_claims_keep_those_of_others_waiting_no_longer_than_a_few_writes(
    server: Server, pods: int, claims: int
) -> None:
    looped = Looped(150, pods=0, server=server)
    for index in range(pods):
        looped.put(f"a{index:02}", namespace="crowd", claims=claims)
    # What is found is different each time, so all annotations are due again whenever they may be.
    looped.found = lambda subject: Explanation(
        subject=subject,
        findings=(Finding(reason=Reason.DEVICES_IN_USE, message=f"{looped.stop.now} in use"),),
    )
    change_all_the_time(looped)
    change, came = looped.yield_to_slices, [20.0, 70.0, 80.0]
    put: dict[str, float] = {}

    def change_and_come() -> None:
        change()
        if came and looped.stop.now >= came[0]:
            name = f"z{len(came)}"
            put[f"quiet/{name}"] = came.pop(0)
            looped.put(name, namespace="quiet")

    looped.yield_to_slices = change_and_come
    looped.run()
    told = {key: at for at, key in reversed(server.patched)}
    waited_s = {key: told[key] - at for key, at in put.items()}
    # The five seconds that the scheduler has, the turn under way when they came, that when these were over.
    assert len(waited_s) == 3
    assert max(waited_s.values()) < 5 + 3
    assert len([key for key in told if key.startswith("crowd/")]) >= 64


def test_of_a_pod_with_very_many_claims_the_first_64_are_annotated_one_turn_after_the_other(server: Server) -> None:
    looped = Looped(60, pods=0, server=server)
    looped.put("many", claims=100)
    looped.run()
    assert len(server.events) == 1
    assert [key for _, key in server.patched] == [f"ml/many-{index:04}" for index in range(64)]
    assert len(looped.explained) == 1
    assert server.patched[-1][0] - server.events[0][0] < 5


def test_a_claim_that_is_allocated_meanwhile_is_not_annotated_later(server: Server) -> None:
    looped = Looped(60, pods=0, server=server)
    looped.put("many", claims=30)

    def allocate() -> None:
        if len(server.patched) == 10:
            metadata = {"namespace": "ml", "name": "many-0020", "uid": "many-0020", "resourceVersion": "2"}
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}}
            result = {"request": "gpu", "driver": "rootport.dev", "pool": "n", "device": "d"}
            claim["status"] = {"allocation": {"devices": {"results": [result]}}}
            looped.cluster.put("ResourceClaim", "ml/many-0020", pack(claim))

    looped.yield_to_slices = allocate
    looped.run()
    keys = [key for _, key in server.patched]
    assert "ml/many-0020" not in keys
    assert keys[-1] == "ml/many-0029"


REFUSALS_OF_ONE = {
    "too large for etcd": UnavailableError("etcdserver: request is too large (HTTP 500)", status=500),
    "a webhook that fails": UnavailableError("failed calling webhook: context deadline exceeded", status=500),
    "etcd takes too long": UnavailableError("etcdserver: request timed out", status=504),
    "quota": ForbiddenError('events "e" is forbidden: exceeded quota: few, requested: count/events=1', status=403),
    "policy": ForbiddenError("ValidatingAdmissionPolicy 'theirs' denied request", status=403),
    "a policy that quotes": ForbiddenError(
        'claims "c" is forbidden: ValidatingAdmissionPolicy \'p\' denied request: User "x" cannot', status=403
    ),
    "being deleted": NamespaceTerminatingError("because it is being terminated", status=403),
    "invalid": InvalidError("metadata.labels: too long", status=422),
    "entity too large": InvalidError("request entity too large", status=413),
    "gone": NotFoundError("no such namespace", status=404),
    "a teapot": ApiServerError("no coffee", status=418),
}
REFUSALS_OF_ALL = {
    "no answer": UnavailableError("no answer from the API server"),
    "busy": UnavailableError("too many requests", status=429),
    "unavailable": UnavailableError("starting", status=503),
    "credentials": ForbiddenError("Unauthorized", status=401),
    "rights": ForbiddenError(
        'resourceclaims.resource.k8s.io "c" is forbidden: User "system:serviceaccount:a:b" cannot patch resource'
        ' "resourceclaims" in API group "resource.k8s.io" in the namespace "ml"',
        status=403,
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS_OF_ONE.values(), ids=REFUSALS_OF_ONE)
def test_a_claim_that_cannot_be_annotated_has_a_back_off_and_delays_no_other(
    server: Server, refusal: Exception
) -> None:
    looped = Looped(4000, pods=2, server=server)
    server.refuse_patch_of["p00"] = refusal
    looped.run()
    (told,) = server.patched
    assert told[0] < 5 + 2
    assert told[1] == "ml/p01"
    tried = [at for at, _ in server.patches if at != told[0]]
    gaps = [after - before for before, after in pairwise(tried)]
    assert gaps[1:] == pytest.approx([60, 120, 240, 480, 960, 1800][: len(gaps) - 1], abs=31)
    assert len(gaps) >= 5


@pytest.mark.parametrize("refusal", REFUSALS_OF_ONE.values(), ids=REFUSALS_OF_ONE)
def test_an_event_that_is_refused_is_tried_again_later_and_the_annotations_are_written(
    server: Server, writer: ReportWriter, refusal: Exception
) -> None:
    server.refuse_event = refusal
    writer.write(report())
    assert len(server.patched) == 1
    server.refuse_event, server.now = None, 10
    writer.write(report())
    assert not server.events
    server.now = 31
    writer.write(report())
    assert len(server.events) == 1


@pytest.mark.parametrize(
    ("refusal", "level"),
    [
        pytest.param(NamespaceTerminatingError("being terminated", status=403), "DEBUG", id="being deleted"),
        pytest.param(REFUSALS_OF_ONE["gone"], "DEBUG", id="gone"),
        pytest.param(REFUSALS_OF_ONE["quota"], "WARNING", id="quota"),
    ],
)
def test_events_in_a_namespace_that_is_being_deleted_log_no_warning(
    server: Server, writer: ReportWriter, caplog: pytest.LogCaptureFixture, refusal: Exception, level: str
) -> None:
    caplog.set_level("DEBUG")
    server.refuse_event = refusal
    writer.write(report())
    assert [record.levelname for record in caplog.records if record.message == "event refused"] == [level]


@pytest.mark.parametrize("refusal", REFUSALS_OF_ONE.values(), ids=REFUSALS_OF_ONE)
def test_a_claim_whose_annotations_cannot_be_removed_delays_no_other(
    server: Server, writer: ReportWriter, refusal: Exception
) -> None:
    writer.write(report())
    server.refuse_patch = refusal
    write_each_second(server, 100, lambda: writer.clear("ml/train", "claim-uid"))
    assert [at for at, _ in server.patches] == [0, 0, 30, 90]


@pytest.mark.parametrize("refusal", REFUSALS_OF_ALL.values(), ids=REFUSALS_OF_ALL)
def test_what_every_write_would_meet_with_ends_the_round(
    server: Server, writer: ReportWriter, refusal: Exception
) -> None:
    server.refuse_event = refusal
    with pytest.raises(type(refusal)):
        writer.write(report())
    server.refuse_event, server.refuse_patch = None, refusal
    with pytest.raises(type(refusal)):
        writer.write(report())
    server.refuse_patch, server.now = None, 60
    writer.write(report())
    assert (len(server.events), len(server.patched)) == (1, 1)


def test_writes_that_the_server_takes_long_to_refuse_are_left_for_the_next_time(
    server: Server, writer: ReportWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tuple((f"ml/{index}", str(index)) for index in range(10))

    def refuse(*_args: object, **_namespace: str) -> None:
        server.now += 10
        raise UnavailableError("failed calling webhook", status=500)

    monkeypatch.setattr(server, "merge_patch", refuse)
    assert writer.write(replace(report(), claims=claims)) == claims[1:]


def test_no_more_than_some_thousand_refusals_are_remembered() -> None:
    refusals = RefusedWrites(lambda: 0.0)
    for index in range(20_000):
        refusals.add(index)
    remembered = [index for index in range(20_000) if refusals.is_too_early(index)]
    assert remembered == list(range(10_000, 20_000))


def test_forty_pods_are_reported_within_seconds() -> None:
    looped = Looped(60, pods=40, takes_s=0.02)
    looped.run()
    assert len({name for _, name in looped.written}) == 40
    assert sorted(at for at, _ in looped.written)[39] < 5 + 5


def test_the_namespace_that_used_least_is_next_and_absence_saves_nothing() -> None:
    shares = FairShares()
    limiter = []
    for _ in range(6):
        chosen = shares.next(["dear", "cheap"])
        shares.charge(chosen, 3.0 if chosen == "dear" else 1.0)
        limiter.append(chosen)
    assert limiter.count("cheap") == 4
    assert shares.next(["dear", "cheap", "new"]) == "new"
    for _ in range(100):
        shares.charge(shares.next(["dear"]), 1.0)
    late = [shares.next(["dear", "cheap"]) for _ in range(1)]
    shares.charge("cheap", 1.5)
    assert (late, shares.next(["dear", "cheap"])) == (["cheap"], "dear")


def test_writes_are_made_at_once_up_to_a_number_and_slowly_behind_it() -> None:
    stop = Stop(1000)
    pace = WriteRateLimiter(stop, per_s=10, burst=100, clock=lambda: stop.now)
    at = []
    for _ in range(120):
        assert not pace.wait()
        at.append(stop.now)
    assert at[99] == 0
    assert [after - before for before, after in pairwise(at[99:])] == pytest.approx([0.1] * 20)
    stop.now += 5
    pace.wait()
    assert stop.now == pytest.approx(at[-1] + 5)


def test_a_namespace_leaves_to_others_some_of_what_may_be_written_at_once() -> None:
    stop = Stop(10_000)
    pace = WriteRateLimiter(stop, per_s=10, burst=100, namespace_burst=50, clock=lambda: stop.now)
    for _ in range(500):
        pace.wait("crowd")
    assert stop.now == pytest.approx(45)
    for _ in range(50):
        pace.wait("quiet")
    assert stop.now == pytest.approx(45)
    for index in range(100):  # all of them together are no faster than one
        pace.wait(f"n{index}")
    assert stop.now == pytest.approx(55, abs=5.5)


def test_a_request_that_waits_too_long_is_refused() -> None:
    limiter = RequestLimiter(wait_s=0.05)
    asked = threading.Event()
    done = threading.Event()

    def hold() -> None:
        with limiter.slot("a"):
            asked.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert asked.wait(10)
        with pytest.raises(BusyError), limiter.slot("b"):
            pass
    finally:
        done.set()
        holder.join()
    with limiter.slot("b"):
        pass


def test_a_namespace_that_takes_all_places_loses_one_to_another_one() -> None:
    limiter = RequestLimiter(most=3, wait_s=30.0, sleep=lambda _s: None)
    done, asked = threading.Event(), threading.Event()
    order: list[str] = []

    def ask(who: str) -> None:
        try:
            with limiter.slot(who):
                order.append(who)
                asked.set()
                done.wait(10)
        except BusyError:
            order.append("busy")

    threads = [threading.Thread(target=ask, args=("crowd",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert asked.wait(10)
    while len(limiter.requests) < 3:
        time.sleep(0.01)
    other = threading.Thread(target=ask, args=("quiet",))
    other.start()
    threads.append(other)
    while "busy" not in order:
        time.sleep(0.01)
    with pytest.raises(BusyError), limiter.slot("crowd"):
        pass
    done.set()
    for thread in threads:
        thread.join()
    assert order == ["crowd", "busy", "quiet", "crowd"]
