"""What a change of versions costs while it goes on: pods that start meanwhile, and the time without a leader."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import EVENTS, LEASES, PODS
from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.pods import pod

__all__ = ["Rollout", "watched_rollout"]

_LEASE: Final = "rootport-controller"
_EVERY_S: Final = 2.0
"""Between two pods: more often, and a small machine is busy with the pods alone."""
_LOOK_S: Final = 0.1
"""Between two looks: how exact the waits and the gap are."""
_REFUSED: Final = "FailedPrepareDynamicResources"


@dataclass(slots=True)
class Rollout:
    """What was seen. Seconds, as this process's clock has them.

    Attributes:
        waits: By pod, from its creation until its container has started.
        created: By pod, when it was created, since the watching began.
        refused: What the kubelet said where a claim of these pods could not be prepared.
        renewals: Of the leader's Lease, when it was seen to change, and who held it then; nobody where it was released.
        began: When the change of versions was begun, since the watching began.
        ended: Likewise, when it was over.
    """

    waits: dict[str, float] = field(default_factory=dict)
    created: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    renewals: list[tuple[float, str]] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0

    @property
    def leaders(self) -> list[str]:
        """Who held the Lease, one after the other."""
        holders = [holder for _, holder in self.renewals if holder]
        return [holder for before, holder in itertools.pairwise(["", *holders]) if holder != before]

    @property
    def longest_without_leader(self) -> float:
        """The longest time from a leader's last renewal, or its release of the Lease, to the next one's first."""
        changes = itertools.pairwise(self.renewals)
        held = ""
        longest = 0.0
        for (before, holder), (now, successor) in changes:
            held = holder or held
            if successor and successor != held:
                longest = max(longest, now - before)
        return longest

    def figures(self) -> dict[str, Any]:
        """For people: the waits of pods that were created before the change and while it went on."""
        groups: dict[str, list[float]] = {"before": [], "meanwhile": []}
        for name, wait in self.waits.items():
            if self.created[name] < self.ended:
                groups["before" if self.created[name] < self.began else "meanwhile"].append(wait)
        told: dict[str, Any] = {
            group: {"pods": len(waits), "median": statistics.median(waits), "longest": max(waits)}
            for group, waits in groups.items()
            if waits
        }
        return told | {
            "refused": len(self.refused),
            "seconds": self.ended - self.began,
            "leaders": len(self.leaders),
            "longest without leader": self.longest_without_leader,
        }


class _Watch:
    """Three threads that fill in a :class:`Rollout` until :meth:`end`."""

    def __init__(self, kubeconfig: Path, template: str, prefix: str) -> None:
        self.seen = Rollout()
        self._kubeconfig, self._template, self._prefix = kubeconfig, template, prefix
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._start = time.monotonic()
        self._threads = [self._run(act) for act in (self._create, self._look, self._leader)]

    def now(self) -> float:
        return time.monotonic() - self._start

    def stop(self) -> None:
        self._stop.set()

    def end(self) -> None:
        """Create no more pods, and wait until all have started."""
        self.stop()
        for thread in self._threads:
            thread.join(120)
        if self._errors:
            raise self._errors[0]
        missing = sorted(self.seen.created.keys() - self.seen.waits.keys())
        assert not missing, f"did not start within two minutes: {missing}"
        with KubernetesApi.connect(kubeconfig=self._kubeconfig) as api:
            events = api.list(EVENTS, namespace="default", field_selector=f"reason={_REFUSED}").items
        about = ((item["involvedObject"]["name"], item["message"]) for item in events)
        self.seen.refused += [f"{name}: {message}" for name, message in about if name in self.seen.created]

    def _run(self, act: Callable[[KubernetesApi], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                with KubernetesApi.connect(kubeconfig=self._kubeconfig) as api:
                    act(api)
            except BaseException as error:  # noqa: BLE001 - it is raised where the test waits
                self._errors.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _create(self, api: KubernetesApi) -> None:
        for number in itertools.count():
            name = f"{self._prefix}-{number}"
            made = pod(name, template=self._template, command="ls /dev/nvidia[0-9]*")
            self.seen.created[name] = self.now()
            api.create(PODS, made, namespace="default")
            if self._stop.wait(_EVERY_S):
                return

    def _look(self, api: KubernetesApi) -> None:
        until = float("inf")
        while self.now() < until and not (self._stop.is_set() and self.seen.created.keys() == self.seen.waits.keys()):
            for item in api.list(PODS, namespace="default", label_selector="test=rootport").items:
                name = item["metadata"]["name"]
                if name in self.seen.created and name not in self.seen.waits and _has_started(item):
                    self.seen.waits[name] = self.now() - self.seen.created[name]
            if self._stop.wait(_LOOK_S):
                until = min(until, self.now() + 110)
                time.sleep(_LOOK_S)

    def _leader(self, api: KubernetesApi) -> None:
        last = None
        while not self._stop.wait(_LOOK_S):
            spec = api.get(LEASES, _LEASE, namespace=NAMESPACE)["spec"]
            if spec != last:
                last = spec
                self.seen.renewals.append((self.now(), spec.get("holderIdentity") or ""))


def _has_started(item: Mapping[str, Any]) -> bool:
    states = [one.get("state", {}) for one in item["status"].get("containerStatuses", ())]
    return any(state.keys() - {"waiting"} for state in states)


@contextmanager
def watched_rollout(kubeconfig: Path, template: str, prefix: str, *, before_s: float = 8) -> Iterator[Rollout]:
    """Start a pod a second with a claim of a template, from some time before the block to its end.

    Args:
        kubeconfig: Of an administrator.
        template: The ResourceClaimTemplate, in the namespace default.
        prefix: Of the pods' names.
        before_s: How long before the block, in seconds: what a start costs without a change of versions.
    """
    watch = _Watch(kubeconfig, template, prefix)
    try:
        time.sleep(before_s)
        watch.seen.began = watch.now()
        yield watch.seen
        watch.seen.ended = watch.now()
        watch.end()
    finally:
        watch.stop()
