"""Writes Events and annotations: only what differs, each as seldom as its rule says, and all of them slowly."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from controller.explanations.annotated import REASON, AnnotatedClaims
from controller.explanations.records import EVENT_AGAIN_S, Outcome, annotations_patch, pending_event
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ApiServerError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO, RESOURCE_CLAIMS

__all__ = ["OutcomeWriter"]

_LOG: Final = logging.getLogger(__name__)
_ANNOTATE_AGAIN_S: Final = 60.0
# Of a 403 in a namespace that is being deleted (k8s.io/apiserver, plugin namespace/lifecycle), whose objects go anyway.
# Of a policy or a webhook; without the right to write at all the text says "cannot".
_OF_ONE_OBJECT: Final = ("being terminated", "denied")


class OutcomeWriter:
    """Makes what the cluster shows of explanations the outcomes. For one thread.

    Args:
        api: Where to write.
        annotated: What the claims' annotations say.
        instance: Who reports, in Events.
        pause: Called before each write: waits until it is this writer's turn. True: write no more, the end is near.
        clock: Monotonic seconds.
        now: The time of day.
    """

    def __init__(
        self,
        api: KubernetesApi,
        annotated: AnnotatedClaims,
        *,
        instance: str,
        pause: Callable[[], bool],
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
        self._refused: dict[str, float] = {}  # likewise

    def inherit(self, pod_uid: str, claim: str) -> None:
        """At the start: what a claim's annotation says, whoever led before has told the pod in an Event.

        The Event is written before the annotation, so an annotation means that there is an Event.
        """
        reason = self._annotated.said(claim).get(REASON)
        if reason:
            self._told[pod_uid, reason] = self._clock()

    def write(self, outcome: Outcome) -> None:
        """Write what differs from the outcome and is due.

        Raises:
            ApiServerError: The API server is away, or refuses such writes altogether.
        """
        if outcome.is_trouble:
            self._tell(outcome)
        for key, uid in outcome.claims:
            self._annotate(key, uid, outcome.annotations)

    def clear(self, key: str, uid: str) -> None:
        """Remove the claim's annotations, at once: it is allocated, or nobody wants it.

        Raises:
            ApiServerError: As for :meth:`write`.
        """
        refused_at = self._refused.get(uid)
        if refused_at is not None and self._clock() - refused_at < _ANNOTATE_AGAIN_S:
            return
        if self._annotated.said(key) and not self._pause():
            self._patch(key, uid, {})

    def forget_all_but(self, pods: Collection[str], claims: Collection[str]) -> None:
        """Keep in memory only what was told these pods, and of these claims (UIDs)."""
        self._told = {told: at for told, at in self._told.items() if told[0] in pods}
        self._patched = {uid: at for uid, at in self._patched.items() if uid in claims}
        long_ago = self._clock() - _ANNOTATE_AGAIN_S
        self._refused = {uid: at for uid, at in self._refused.items() if at > long_ago}

    def _tell(self, outcome: Outcome) -> None:
        told = (outcome.pod.uid, str(outcome.reason))
        at = self._told.get(told)
        if (at is not None and self._clock() - at < EVENT_AGAIN_S) or self._pause():
            return
        try:
            self._api.create(EVENTS_K8S_IO, pending_event(outcome, instance=self._instance, now=self._now()))
        except AlreadyExistsError:
            pass  # whoever led before has written it
        except ApiServerError as error:
            _bear(error, "event refused", str(outcome.pod))
        else:
            _LOG.info("claims are pending", extra={"pod": str(outcome.pod), "reason": str(outcome.reason)})
        self._told[told] = self._clock()

    def _annotate(self, key: str, uid: str, wanted: Mapping[str, str]) -> None:
        if self._annotated.said(key) == wanted:
            return
        at = self._patched.get(uid)
        if (at is not None and self._clock() - at < _ANNOTATE_AGAIN_S) or self._pause():
            return
        self._patch(key, uid, wanted)

    def _patch(self, key: str, uid: str, wanted: Mapping[str, str]) -> None:
        namespace, _, name = key.partition("/")
        self._patched[uid] = self._clock()
        try:
            stored = self._api.merge_patch(RESOURCE_CLAIMS, name, annotations_patch(uid, wanted), namespace=namespace)
        except ConflictError:
            return  # another claim of that name
        except ApiServerError as error:
            _bear(error, "annotations refused", f"claim {key}")
            self._refused[uid] = self._clock()
            return
        self._annotated.see(stored["metadata"])


def _bear(error: ApiServerError, what: str, whose: str) -> None:
    """Do without this write; another try of the same would be refused as well.

    Raises:
        ApiServerError: It is no matter of this object.
    """
    if isinstance(error, NotFoundError):
        return  # it, or its namespace, is gone
    is_of_one = isinstance(error, ForbiddenError) and any(text in str(error) for text in _OF_ONE_OBJECT)
    if not (is_of_one or isinstance(error, InvalidError)):
        raise error
    _LOG.warning(what, extra={"of": whose, "error": str(error)})
