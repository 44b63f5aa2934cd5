"""Writes Events and annotations: only what differs, each as seldom as its rule says, and all of them slowly."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from datetime import UTC, datetime
from typing import Final

from controller.cluster.pending_annotations import REASON, AnnotatedClaims
from controller.explanations.records import EVENT_AGAIN_S, Outcome, annotations_patch, pending_event
from controller.explanations.refusals import Refusals
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

__all__ = ["OutcomeWriter"]

_LOG: Final = logging.getLogger(__name__)
_ANNOTATE_AGAIN_S: Final = 60.0
# Of one pod at a time; the next pods may be those of others.
_WRITES_A_TURN: Final = 10
_TURN_S: Final = 1.0  # an admission webhook that does not answer keeps one write waiting for up to 30 s
# With 401 nothing can be written, with 429 and 503 nothing for now: other writes would end alike. With the other
# statuses it may be the object: etcd's "request is too large" is a 500.
_OF_ALL: Final = (401, 429, 503)


class OutcomeWriter:
    """Makes what the cluster shows of explanations the outcomes. For one thread.

    Args:
        api: Where to write.
        annotated: What the claims' annotations say.
        instance: Who reports, in Events.
        pause: Called before each write with the object's namespace: waits until it is this writer's turn. True: write
            no more, the end is near.
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
        self._told: dict[tuple[str, str], float] = {}  # when, by the pod's UID and the reason
        self._patched: dict[str, float] = {}  # when, by the claim's UID
        self._refusals = Refusals(clock)  # Events and annotations, by the same keys

    def inherit(self, pod_uid: str, claim: str) -> None:
        """At the start: what a claim's annotation says, whoever led before has told the pod in an Event.

        The Event is written before the annotation, so an annotation means that there is an Event.
        """
        reason = self._annotated.said(claim).get(REASON)
        if reason:
            self._told[pod_uid, reason] = self._clock()

    def write(self, outcome: Outcome) -> tuple[tuple[str, str], ...]:
        """Write what differs from the outcome and is due, of a few claims.

        Returns:
            The claims that were not looked at: for another turn.

        Raises:
            ApiServerError: The API server is away, or refuses such writes altogether.
        """
        began = self._clock()
        if outcome.is_trouble:
            self._tell(outcome)
        writes = 0
        for index, (key, uid) in enumerate(outcome.claims):
            if not self._is_annotation_due(key, uid, outcome.annotations):
                continue
            if writes == _WRITES_A_TURN or (writes and self._clock() - began >= _TURN_S):
                return outcome.claims[index:]
            writes += 1
            self._patch(key, uid, outcome.annotations)
        return ()

    def clear(self, key: str, uid: str) -> None:
        """Remove the claim's annotations, at once: it is allocated, or nobody wants it.

        Raises:
            ApiServerError: As for :meth:`write`.
        """
        if self._annotated.said(key) and not self._refusals.is_too_early(uid):
            self._patch(key, uid, {})

    def forget_all_but(self, pods: Collection[str], claims: Collection[str]) -> None:
        """Keep in memory only what was told these pods, and of these claims (UIDs)."""
        self._told = {told: at for told, at in self._told.items() if told[0] in pods}
        self._patched = {uid: at for uid, at in self._patched.items() if uid in claims}
        self._refusals.forget_old()

    def _tell(self, outcome: Outcome) -> None:
        told = (outcome.pod.uid, str(outcome.reason))
        at = self._told.get(told)
        if (at is not None and self._clock() - at < EVENT_AGAIN_S) or self._refusals.is_too_early(told):
            return
        if self._pause(outcome.pod.namespace):
            return
        try:
            self._api.create(EVENTS_K8S_IO, pending_event(outcome, instance=self._instance, now=self._now()))
        except AlreadyExistsError:
            pass  # whoever led before has written it
        except ApiServerError as error:
            self._bear(error, told, "event refused", str(outcome.pod))
            return
        else:
            _LOG.info("claims are pending", extra={"pod": str(outcome.pod), "reason": str(outcome.reason)})
        self._refusals.forget(told)
        self._told[told] = self._clock()

    def _is_annotation_due(self, key: str, uid: str, wanted: Mapping[str, str]) -> bool:
        at = self._patched.get(uid)
        is_too_early = at is not None and self._clock() - at < _ANNOTATE_AGAIN_S
        return self._annotated.said(key) != wanted and not (is_too_early or self._refusals.is_too_early(uid))

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
            self._bear(error, uid, "annotations refused", f"claim {key}")
            return
        self._refusals.forget(uid)
        self._annotated.see(stored["metadata"])

    def _bear(self, error: ApiServerError, refused: Hashable, what: str, whose: str) -> None:
        """Do without this write for a while; what others wait for goes on.

        Raises:
            ApiServerError: It is no matter of this object.
        """
        if _is_of_all(error):
            raise error
        retry_in_s = self._refusals.add(refused)
        # It, or its namespace, is gone or going: what happens every day.
        level = logging.DEBUG if isinstance(error, NotFoundError) else logging.WARNING
        _LOG.log(level, what, extra={"of": whose, "error": str(error), "retry_in_s": round(retry_in_s, 1)})


def _is_of_all(error: ApiServerError) -> bool:
    """Whether a write of another object would fail alike."""
    if error.status is None:
        return isinstance(error, UnavailableError)
    return error.status in _OF_ALL or (isinstance(error, ForbiddenError) and _is_without_right(error))


def _is_without_right(error: ForbiddenError) -> bool:
    """Whether it is the authorizer that refuses: quotas, policies, webhooks and namespaces being deleted do as well.

    It says ``... is forbidden: User "..." cannot create resource ...`` (k8s.io/apiserver, responsewriters/errors.go).
    """
    why = str(error).partition(" is forbidden: ")[2]
    return why.startswith('User "') and " cannot " in why
