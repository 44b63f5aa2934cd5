"""What is written of an explanation: the Event on the pod, and the annotations of its claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller.cluster.pending_annotations import ANNOTATIONS, MESSAGE, REASON
from driver import DRIVER_NAME
from driver.api.times import micro_time_text
from driver.explain.explanation import ObjectRef
from driver.explain.reasons import Reason

__all__ = ["EVENT_AGAIN_S", "Outcome", "annotations_patch", "pending_event"]

EVENT_AGAIN_S: Final = 1800.0
"""After so many seconds a pod that still waits for the same reason has another Event, for they live an hour."""

# Nothing that is known keeps it from its devices, so there is nothing to tell.
_ALL_IS_WELL: Final = frozenset(
    {
        Reason.FITS,
        Reason.ALLOCATED,
        Reason.WAITING_FOR_POD,
        Reason.OBJECT_UNREADABLE,
        Reason.EXTENDED_RESOURCE_NOT_EVALUATED,
    }
)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an explanation comes to.

    Attributes:
        pod: The pod, with its UID.
        claims: Its claims that are not allocated: key and UID.
        reason: What decides.
        message: For a person, at most 1024 bytes.
    """

    pod: ObjectRef
    claims: tuple[tuple[str, str], ...]
    reason: Reason
    message: str

    @property
    def is_trouble(self) -> bool:
        """Whether there is something to tell."""
        return self.reason not in _ALL_IS_WELL

    @property
    def annotations(self) -> Mapping[str, str]:
        """What the claims should say; nothing where all is well."""
        return {REASON: str(self.reason), MESSAGE: self.message} if self.is_trouble else {}


def pending_event(outcome: Outcome, *, instance: str, now: datetime) -> dict[str, Any]:
    """A Warning on the pod, as events.k8s.io/v1 takes it.

    Its name is made of the reason, the pod's UID and the half hour: whoever leads next cannot write it a second time.

    Args:
        outcome: What to tell.
        instance: Who reports it, at most 128 bytes.
        now: The time of the Event.
    """
    pod = outcome.pod
    slot = int(now.timestamp() // EVENT_AGAIN_S)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{_CAPITAL.sub('-', outcome.reason).lower()}.{pod.uid}.{slot}",
            "namespace": pod.namespace,
        },
        "eventTime": micro_time_text(now),
        "reportingController": f"{DRIVER_NAME}/controller",
        "reportingInstance": instance,
        "action": "Allocating",
        "reason": str(outcome.reason),
        "type": "Warning",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "note": outcome.message,
    }


def annotations_patch(uid: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """A merge patch for the claim with this UID: of :data:`ANNOTATIONS` it has the wanted ones and no others then."""
    return {"metadata": {"uid": uid, "annotations": {key: wanted.get(key) for key in ANNOTATIONS}}}
