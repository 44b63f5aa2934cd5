"""Tells a pod's owner by Events where it was placed, and when that is over: best effort, in a thread of its own."""

from __future__ import annotations

import logging
import queue
import threading
from datetime import UTC, datetime
from typing import Any, Final, Literal

from controller.placement.next_step import Reason
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, ApiServerError
from driver.adapters.kubernetes.resources import EVENTS_K8S_IO
from driver.explain.tell.summary import NOTE_BYTES, shortened
from driver.objects.events import controller_event, pod_reference
from driver.placement.decision import Decision, Placement

__all__ = ["PlacementEvents", "placed_event", "taken_back_event"]

_LOG: Final = logging.getLogger(__name__)
_MOST_QUEUED: Final = 1000
_PER_S: Final = 20.0
_DEVICES_SHOWN: Final = 8
_WHY: Final = {
    Reason.SCHEDULER: "kube-scheduler could not place the pod there, and has deallocated it",
    Reason.POD_GONE: "the pod that it was for is gone",
    Reason.NODE_UNUSABLE: "the node cannot take the pod any more",
    Reason.UNUSED: "the pod was not bound in time, which the last FailedScheduling of kube-scheduler may explain",
    Reason.GIVEN_TWICE: "another claim has been given the same device",
    Reason.PARTIAL: "the pod's other claims fit nowhere together with it",
}


def placed_event(decision: Decision, chosen: Placement, *, instance: str, now: datetime) -> dict[str, Any]:
    """Return the Event for a pod that was placed, as events.k8s.io/v1 takes it."""
    devices = [item.device for result in chosen.results for item in result.devices.results]
    shown = ", ".join(devices[:_DEVICES_SHOWN]) + (", ..." if len(devices) > _DEVICES_SHOWN else "")
    # The sentence begins with the node, of which the devices are told first.
    why = decision.why.removeprefix(f"node {chosen.node} ")
    note = f"On node {chosen.node} ({shown}): {why}"
    return _event("Placed", "Normal", (decision.pod, decision.pod_uid), note, instance=instance, now=now)


def taken_back_event(
    pod: tuple[str, str], claim: str, node: str, reason: Reason, *, instance: str, now: datetime
) -> dict[str, Any]:
    """Return the Event for a pod that waits and has lost an allocation; the pod by key and UID, the claim by key."""
    note = f"ResourceClaim {claim.partition('/')[2]} is not allocated on node {node} any more: {_WHY[reason]}"
    return _event("PlacementTakenBack", "Warning", pod, note, instance=instance, now=now)


def _event(
    reason: str, type_: Literal["Normal", "Warning"], pod: tuple[str, str], note: str, *, instance: str, now: datetime
) -> dict[str, Any]:
    key, uid = pod
    namespace, _, name = key.partition("/")
    return controller_event(
        f"{reason.lower()}.{uid}.{int(now.timestamp() * 1000):x}",
        namespace,
        regarding=pod_reference(namespace, name, uid),
        type_=type_,
        reason=reason,
        action="Placing",
        note=shortened(note, NOTE_BYTES),
        instance=instance,
        now=now,
    )


class PlacementEvents:
    """Writes Events one after the other, not too many a second; those that there is no room for are left out.

    Args:
        api: The API server.
        instance: The reporting instance.
    """

    def __init__(self, api: KubernetesApi, *, instance: str) -> None:
        self._api = api
        self._instance = instance
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(_MOST_QUEUED)

    def placed(self, decision: Decision, chosen: Placement) -> None:
        """Tell that a pod was placed, soon. Thread-safe."""
        self._put(placed_event(decision, chosen, instance=self._instance, now=datetime.now(UTC)))

    def taken_back(self, pod: tuple[str, str], claim: str, node: str, reason: Reason) -> None:
        """Tell that a pod (key and UID) has lost the allocation of a claim, soon. Thread-safe."""
        self._put(taken_back_event(pod, claim, node, reason, instance=self._instance, now=datetime.now(UTC)))

    def run(self, stop: threading.Event) -> None:
        """Write Events until stopped; no failure ends it."""
        while not stop.wait(1.0 / _PER_S):
            try:
                body = self._queue.get(timeout=1.0)
            except queue.Empty:
                continue
            try:
                self._api.create(EVENTS_K8S_IO, body)
            except AlreadyExistsError:
                pass
            except ApiServerError as error:
                _LOG.debug("event refused", extra={"pod": _pod_of(body), "error": str(error)})
            except Exception:  # noqa: BLE001 - Events are the least that placement does
                _LOG.exception("unexpected error; one event is left out", extra={"pod": _pod_of(body)})

    def _put(self, body: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait(body)
        except queue.Full:
            _LOG.debug("no room for an event", extra={"pod": _pod_of(body)})


def _pod_of(body: dict[str, Any]) -> str:
    return f"{body['regarding']['namespace']}/{body['regarding']['name']}"
