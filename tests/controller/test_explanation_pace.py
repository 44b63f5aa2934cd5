"""How often pods are explained and told: the loop and its writer by a clock that only waiting moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any, cast

import pytest

from controller.explanations.annotated import MESSAGE, REASON, AnnotatedClaims
from controller.explanations.loop import ExplanationLoop, Pace
from controller.explanations.mirror import Mirror
from controller.explanations.records import Outcome
from controller.explanations.turns import BusyError, Turns
from controller.explanations.writer import OutcomeWriter
from controller.packed import pack
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, ForbiddenError, UnavailableError
from driver.explain.explanation import Explanation, Finding, ObjectRef
from driver.explain.reasons import Reason
from driver.explain.state import ClusterState

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
        if self.refuse_patch is not None:
            raise self.refuse_patch
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
def writer(server: Server, annotated: AnnotatedClaims) -> OutcomeWriter:
    return OutcomeWriter(
        cast("KubernetesApi", server),
        annotated,
        instance="test",
        pause=lambda: False,
        clock=lambda: server.now,
        now=lambda: NOON + timedelta(seconds=server.now),
    )


def outcome(message: str = "all are in use", reason: Reason = Reason.DEVICES_IN_USE) -> Outcome:
    pod = ObjectRef(kind="Pod", namespace="ml", name="train-0", uid="pod-uid")
    return Outcome(pod=pod, claims=(("ml/train", "claim-uid"),), reason=reason, message=message)


def write_each_second(server: Server, seconds: int, write: Callable[[], None]) -> None:
    end = server.now + seconds
    while server.now < end:
        write()
        server.now += 1


def test_a_pod_that_waits_for_one_reason_has_an_event_each_half_hour(server: Server, writer: OutcomeWriter) -> None:
    write_each_second(server, 3601, lambda: writer.write(outcome()))
    assert [at for at, _, _ in server.events] == [0, 1800, 3600]


def test_another_reason_is_told_at_once_and_one_that_comes_back_is_no_news(
    server: Server, writer: OutcomeWriter
) -> None:
    reasons = (Reason.DEVICES_IN_USE, Reason.NODE_TAINTED)
    write_each_second(server, 100, lambda: writer.write(outcome(reason=reasons[int(server.now) // 5 % 2])))
    assert [(at, reason) for at, _, reason in server.events] == [(0, "DevicesInUse"), (5, "NodeTainted")]


def test_annotations_that_change_all_the_time_are_written_once_a_minute(server: Server, writer: OutcomeWriter) -> None:
    write_each_second(server, 181, lambda: writer.write(outcome(f"{server.now:g} are in use")))
    assert [at for at, _ in server.patches] == [0, 60, 120, 180]


def test_annotations_that_say_it_already_are_not_written(server: Server, writer: OutcomeWriter) -> None:
    write_each_second(server, 300, lambda: writer.write(outcome()))
    assert [at for at, _ in server.patches] == [0]


def test_annotations_of_an_allocated_claim_go_at_once(
    server: Server, writer: OutcomeWriter, annotated: AnnotatedClaims
) -> None:
    writer.write(outcome())
    server.now += 1
    writer.clear("ml/train", "claim-uid")
    writer.clear("ml/train", "claim-uid")
    assert server.patches[1:] == [(1, None)]
    assert annotated.all() == ()


def test_a_claim_whose_annotations_are_refused_is_asked_once_a_minute_and_stops_nobody(
    server: Server, writer: OutcomeWriter
) -> None:
    server.refuse_patch = ForbiddenError("ValidatingAdmissionPolicy 'theirs' denied request")
    write_each_second(server, 121, lambda: writer.write(outcome()))
    assert [at for at, _ in server.patches] == [0, 60, 120]


def test_an_event_that_did_not_come_through_is_written_when_the_server_is_back(
    server: Server, writer: OutcomeWriter
) -> None:
    server.refuse_event = UnavailableError("away")
    with pytest.raises(UnavailableError):
        writer.write(outcome())
    assert not server.patches  # an annotation says that there is an Event
    server.refuse_event, server.now = None, 1
    writer.write(outcome())
    assert ([at for at, _, _ in server.events], [at for at, _ in server.patches]) == ([1], [1])


def test_who_leads_next_tells_a_pod_anew_only_after_half_an_hour(
    server: Server, writer: OutcomeWriter, annotated: AnnotatedClaims
) -> None:
    metadata = {"namespace": "ml", "name": "train", "uid": "claim-uid", "resourceVersion": "1"}
    annotated.see(metadata | {"annotations": {REASON: "DevicesInUse", MESSAGE: "all are in use"}})
    writer.inherit("pod-uid", "ml/train")
    write_each_second(server, 1801, lambda: writer.write(outcome()))
    assert [at for at, _, _ in server.events] == [1800]


class Looped:
    """A loop over some pods with a pending claim each, until the time is up."""

    def __init__(self, lasts_s: float, *, pods: int = 1, takes_s: float = 0.0, **pace: float) -> None:
        self.stop = Stop(lasts_s)
        self.written: list[tuple[float, str]] = []
        self.explained: list[float] = []
        self.cleared: list[tuple[float, str]] = []
        self.go_first: Callable[[], None] = lambda: None
        self.fails: Callable[[float], bool] = lambda _now: False
        self.takes_s = takes_s
        self.mirror = Mirror(clock=lambda: self.stop.now)
        for index in range(pods):
            self.put(f"p{index:02}")
        self.loop = ExplanationLoop(
            self.mirror,
            explain=self.explain,
            writer=cast("OutcomeWriter", self),
            go_first=self.take_turn,
            stop=self.stop,
            pace=Pace(**pace),
            clock=lambda: self.stop.now,
        )

    def put(self, name: str, **labels: str) -> None:
        metadata = {"namespace": "ml", "name": name, "uid": name, "resourceVersion": "1", "labels": labels}
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
        self.mirror.put("ResourceClaim", f"ml/{name}", pack(claim | {"spec": {"devices": {"requests": [request]}}}))
        pod = {"metadata": metadata, "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}}
        self.mirror.put("Pod", f"ml/{name}", pack(pod))

    def explain(self, _state: ClusterState, subject: ObjectRef) -> Explanation:
        self.explained.append(self.stop.now)
        self.stop.now += self.takes_s
        return Explanation(subject=subject, findings=(Finding(reason=Reason.DEVICES_IN_USE, message="in use"),))

    def take_turn(self) -> None:
        self.go_first()

    # What the loop asks of its writer.

    def inherit(self, pod_uid: str, claim: str) -> None: ...

    def write(self, found: Outcome) -> None:
        self.written.append((self.stop.now, found.pod.name))
        if self.fails(self.stop.now):
            raise UnavailableError("away")

    def clear(self, key: str, uid: str) -> None:
        self.cleared.append((self.stop.now, key))

    def forget_all_but(self, pods: object, claims: object) -> None: ...

    def run(self) -> None:
        self.loop.run(lambda: True)


def test_nobody_is_told_before_the_scheduler_had_its_moment() -> None:
    looped = Looped(60)
    looped.run()
    (at,) = looped.explained
    assert 5 <= at < 20


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
    quick, slow = Looped(40, pods=SEVERAL), Looped(60, pods=SEVERAL, takes_s=1.0)
    quick.run()
    slow.run()
    assert [after - before for before, after in pairwise(quick.explained)] == pytest.approx([0.2] * (SEVERAL - 1))
    assert [after - before for before, after in pairwise(slow.explained)] == pytest.approx([2.0] * (SEVERAL - 1))


def test_a_long_round_ends_and_the_next_one_goes_on_behind_it() -> None:
    looped = Looped(90, pods=SEVERAL, takes_s=2.0, longest_s=30.0)
    looped.run()
    names = [name for _, name in looped.written]
    assert names[:SEVERAL] == [f"p{index:02}" for index in range(SEVERAL)]


def test_changes_without_end_do_not_put_a_round_off() -> None:
    looped = Looped(120)
    seen = iter(range(10**6))

    def change() -> None:
        metadata = {"name": "n", "labels": {"seen": str(next(seen))}}
        looped.mirror.put("Node", "n", pack({"metadata": metadata, "spec": {}, "status": {}}))

    looped.go_first = change
    looped.run()
    assert [after - before for before, after in pairwise(looped.explained)] == pytest.approx([20] * 4, abs=1)


def test_annotations_that_come_back_all_the_time_are_tidied_in_turn_and_keep_nobody_waiting() -> None:
    looped = Looped(60)
    keys = [f"ml/mine-{index:03}" for index in range(250)]
    for key in keys:
        name = key.partition("/")[2]
        metadata = {"namespace": "ml", "name": name, "uid": name, "resourceVersion": "1"}
        spec: dict[str, Any] = {"devices": {"requests": []}}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
        looped.mirror.put("ResourceClaim", key, pack(claim))
        looped.mirror.see_claim(metadata | {"annotations": {REASON: "Mine"}})
    looped.run()
    rounds = [list(group) for _, group in groupby(looped.cleared, key=lambda item: item[0])]
    assert {len(group) for group in rounds} == {100}
    assert {key for group in rounds[:3] for _, key in group} == set(keys)
    assert [after - before for (before, _), (after, _) in pairwise(group[0] for group in rounds)] == pytest.approx(
        [10] * (len(rounds) - 1), abs=0.5
    )
    assert len(looped.explained) == 1


def test_who_asks_by_http_rests_as_long_as_an_answer_took_and_only_some_wait() -> None:
    stop = Stop(1000)
    turns = Turns(most=1, clock=lambda: stop.now, sleep=stop.wait)
    with turns.turn():
        stop.now += 0.5
        with pytest.raises(BusyError), turns.turn():
            pass
    with turns.turn():
        assert stop.now == pytest.approx(1.0)
    stop.now += 10
    with turns.turn():
        assert stop.now == pytest.approx(11.0)
