"""What is counted between two scrapes: durations, the kubelet's calls, writes to the API server."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from driver.adapters.http.durations import Durations
from driver.adapters.kubernetes.errors import ConflictError
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.resources import DEVICES
from driver.adapters.kubernetes.write_counts import WriteCounter
from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError, RootportError
from kubeletplugin.claims.timed import TimedClaims
from kubeletplugin.service import ClaimPrepared


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0, 0), (0.1, 0), (0.11, 1), (1.0, 1), (9.0, 2)], ids=str)
def test_a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed(seconds: float, bucket: int) -> None:
    durations = Durations(["a", "b"], bounds_s=(0.1, 1.0))
    durations.add("a", seconds)
    assert [at for at, count in enumerate(durations.so_far()["a"].counts) if count] == [bucket]
    assert durations.so_far()["a"].sum_s == seconds
    assert sum(durations.so_far()["b"].counts) == 0


def test_what_fails_is_timed_as_well() -> None:
    clock = Clock()
    durations = Durations(["a"], bounds_s=(1.0,), clock=clock)

    def fail() -> None:
        with durations.timed("a"):
            clock.now += 3
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert (durations.so_far()["a"].counts, durations.so_far()["a"].sum_s) == ((0, 1), 3)


def test_threads_lose_no_count() -> None:
    durations = Durations(["a"])
    threads = [threading.Thread(target=lambda: [durations.add("a", 0.001) for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(durations.so_far()["a"].counts) == 8000


CLAIMS = [ClaimReference(namespace="ml", name=name, uid=f"uid-{name}") for name in ("a", "b")]


class Slow:
    """Takes two seconds; the claim b fails."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        self._clock.now += 2
        return {c.uid: NodeError("no") if c.name == "b" else ClaimPrepared(devices=()) for c in claims}

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        return dict.fromkeys((claim.uid for claim in claims), None)


def test_each_claim_of_a_call_counts_and_so_does_each_failure() -> None:
    clock = Clock()
    timed = TimedClaims(Slow(clock), clock=clock)
    assert list(timed.prepare(CLAIMS)) == ["uid-a", "uid-b"]
    timed.unprepare(CLAIMS[:1])
    counts = timed.so_far()
    assert {name: (sum(found.counts), found.sum_s) for name, found in counts.durations.items()} == {
        "prepare": (2, 4),
        "unprepare": (1, 0),
    }
    assert counts.errors == {"prepare": 1, "unprepare": 0}


def test_writes_are_counted_by_kind_and_verb() -> None:
    counter = WriteCounter()
    status = Request(verb="patch", resource=DEVICES, name="n.gpu", subresource="status")
    counter(status, None)
    counter(status, ConflictError("another was first"))
    counter(Request(verb="delete", resource=DEVICES, name="n.gpu"), None)
    counts = counter.so_far()
    assert counts.sent == {("devices.rootport.dev/status", "patch"): 2, ("devices.rootport.dev", "delete"): 1}
    assert counts.failed == {("devices.rootport.dev/status", "patch"): 1, ("devices.rootport.dev", "delete"): 0}
