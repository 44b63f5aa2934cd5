"""Writes the Events and annotations of reports: only what differs, and not too often."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from datetime import UTC, datetime
from typing import Final

from controller.cluster.pending_annotations import REASON, AnnotatedClaims
from controller.explanations.reports import EVENT_AGAIN_S, PendingReport, annotations_patch, pending_event
from controller.explanations.write_limits import RefusedWrites
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ApiServerError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    UnavailableError,
)
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, RESOURCE_CLAIMS

__all__ = ["ReportWriter"]

_LOG: Final = logging.getLogger(__name__)
_ANNOTATE_AGAIN_S: Final = 60.0
# Of one pod at a time; the next pod may be of another namespace.
_WRITES_AT_A_TIME: Final = 10
_AT_A_TIME_S: Final = 1.0  # an admission webhook that does not answer keeps one write waiting for up to 30 s
# With 401 nothing can be written, with 429 and 503 nothing for now: other writes would fail as well. With the other
# statuses it may be the object: etcd's "request is too large" is a 500.
_FOR_ALL_WRITES: Final = (401, 429, 503)


class ReportWriter:
    """Makes Events and annotations what the reports say. Not thread-safe.

    Args:
        api: The API server.
        annotated: The claims' annotations.
        instance: The reporting instance of Events.
        pause: Called before each write with the object's namespace: waits as long as the rate demands. Returns True if
            the controller stops.
        clock: Monotonic seconds.
        now: The time of day.
    """

    def __init__(
        self,
        api: KubernetesApi,
        annotated: AnnotatedClaims,
        *,
        instance: str,
        pause: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._annotated = annotated
        self._instance = instance
        self._pause = pause
        self._clock = clock
        self._now = now
        self._reported: dict[tuple[str, str], float] = {}  # when, by the pod's UID and the reason
        self._patched: dict[str, float] = {}  # when, by the claim's UID
        self._refused = RefusedWrites(clock)  # Events and annotations, by the same keys

    def assume_reported(self, pod_uid: str, claim: str) -> None:
        """Assume, at the start, that the leader before has written the pod's Event for the reason in the annotation.

        The Event is written before the annotation, so an annotation means that there is an Event.
        """
        reason = self._annotated.annotations(claim).get(REASON)
        if reason:
            self._reported[pod_uid, reason] = self._clock()

    def write(self, report: PendingReport) -> tuple[tuple[str, str], ...]:
        """Write what differs from the report and is due, of a few claims.

        Returns:
            The claims that are left for the next time.

        Raises:
            ApiServerError: The API server is away, or refuses such writes altogether.
        """
        began = self._clock()
        if report.is_reportable:
            self._write_event(report)
        writes = 0
        for index, (key, uid) in enumerate(report.claims):
            if not self._is_annotation_due(key, uid, report.annotations):
                continue
            if writes == _WRITES_AT_A_TIME or (writes and self._clock() - began >= _AT_A_TIME_S):
                return report.claims[index:]
            writes += 1
            self._patch(key, uid, report.annotations)
        return ()

    def clear(self, key: str, uid: str) -> None:
        """Remove the annotations of a claim that is allocated, or that no pod waits for.

        Raises:
            ApiServerError: As for :meth:`write`.
        """
        if self._annotated.annotations(key) and not self._refused.is_too_early(uid):
            self._patch(key, uid, {})

    def forget_all_but(self, pods: Collection[str], claims: Collection[str]) -> None:
        """Forget when other pods and claims than these were written, by UID."""
        self._reported = {event: at for event, at in self._reported.items() if event[0] in pods}
        self._patched = {uid: at for uid, at in self._patched.items() if uid in claims}
        self._refused.forget_old()

    def _write_event(self, report: PendingReport) -> None:
        event = (report.pod.uid, str(report.reason))
        at = self._reported.get(event)
        if (at is not None and self._clock() - at < EVENT_AGAIN_S) or self._refused.is_too_early(event):
            return
        if self._pause(report.pod.namespace):
            return
        try:
            self._api.create(EVENTS_K8S_IO, pending_event(report, instance=self._instance, now=self._now()))
        except AlreadyExistsError:
            pass  # the leader before has written it
        except ApiServerError as error:
            self._skip(error, event, "event refused", str(report.pod))
            return
        else:
            _LOG.info("claims are pending", extra={"pod": str(report.pod), "reason": str(report.reason)})
        self._refused.forget(event)
        self._reported[event] = self._clock()

    def _is_annotation_due(self, key: str, uid: str, wanted: Mapping[str, str]) -> bool:
        at = self._patched.get(uid)
        is_too_early = at is not None and self._clock() - at < _ANNOTATE_AGAIN_S
        return self._annotated.annotations(key) != wanted and not (is_too_early or self._refused.is_too_early(uid))

    def _patch(self, key: str, uid: str, wanted: Mapping[str, str]) -> None:
        namespace, _, name = key.partition("/")
        if self._pause(namespace):
            return
        self._patched[uid] = self._clock()
        try:
            stored = self._api.merge_patch(RESOURCE_CLAIMS, name, annotations_patch(uid, wanted), namespace=namespace)
        except ConflictError:
            return  # another claim of that name
        except ApiServerError as error:
            self._skip(error, uid, "annotations refused", f"claim {key}")
            return
        self._refused.forget(uid)
        self._annotated.observe(stored["metadata"])

    def _skip(self, error: ApiServerError, refused: Hashable, what: str, whose: str) -> None:
        """Do without this write for a while, so that other writes go on.

        Raises:
            ApiServerError: Other writes would fail as well.
        """
        if _is_for_all(error):
            raise error
        retry_in_s = self._refused.add(refused)
        # It, or its namespace, is gone or going: what happens every day.
        level = logging.DEBUG if isinstance(error, NotFoundError) else logging.WARNING
        _LOG.log(level, what, extra={"of": whose, "error": str(error), "retry_in_s": round(retry_in_s, 1)})


def _is_for_all(error: ApiServerError) -> bool:
    """Return whether a write of another object would fail as well."""
    if error.status is None:
        return isinstance(error, UnavailableError)
    return error.status in _FOR_ALL_WRITES or (isinstance(error, ForbiddenError) and _is_without_right(error))


def _is_without_right(error: ForbiddenError) -> bool:
    """Return whether the authorizer refuses, and not a quota, a policy, a webhook or a namespace being deleted.

    It says ``... is forbidden: User "..." cannot create resource ...`` (k8s.io/apiserver, responsewriters/errors.go).
    """
    why = str(error).partition(" is forbidden: ")[2]
    return why.startswith('User "') and " cannot " in why
