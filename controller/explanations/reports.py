"""Says what is written of an explanation: the Event on the pod, and the annotations of its claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller.cluster.pending_annotations import ANNOTATIONS, MESSAGE, REASON
from driver.explain.explanation import ObjectRef
from driver.explain.reasons import Reason
from driver.objects.events import controller_event, pod_reference

__all__ = ["EVENT_AGAIN_S", "PendingReport", "annotations_patch", "pending_event"]

EVENT_AGAIN_S: Final = 1800.0
"""After so many seconds a pod that still waits for the same reason has another Event, for they live an hour."""

# Nothing that is known keeps the pod from its devices, so there is nothing to report.
_NO_REPORT: Final = frozenset(
    {
        Reason.FITS,
        Reason.ALLOCATED,
        Reason.WAITING_FOR_POD,
        Reason.WAITING_FOR_PLACEMENT,
        Reason.OBJECT_UNREADABLE,
        Reason.EXTENDED_RESOURCE_NOT_EVALUATED,
    }
)
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReport:
    """The result of an explanation, as the cluster shows it.

    Attributes:
        pod: The pod, with its UID.
        claims: Key and UID of its claims that are not allocated.
        reason: The reason of the explanation.
        message: The reason for a person, at most 1024 bytes.
    """

    pod: ObjectRef
    claims: tuple[tuple[str, str], ...]
    reason: Reason
    message: str

    @property
    def is_reportable(self) -> bool:
        """Whether something keeps the pod from its devices."""
        return self.reason not in _NO_REPORT

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations that its claims should have."""
        return self._said if self.is_reportable else {}

    @property
    def listed(self) -> Mapping[str, str]:
        """What the list of pending claims has of a claim that is not made yet, as annotations.

        The pod may wait for a device plugin on every node: that is no finding, but more than "not explained".
        """
        is_of_plugin = self.reason is Reason.EXTENDED_RESOURCE_NOT_EVALUATED
        return self._said if self.is_reportable or is_of_plugin else {}

    @property
    def _said(self) -> Mapping[str, str]:
        return {REASON: str(self.reason), MESSAGE: self.message}


def pending_event(report: PendingReport, *, instance: str, now: datetime) -> dict[str, Any]:
    """Return a Warning on the pod, as events.k8s.io/v1 takes it.

    Its name is made of the reason, the pod's UID and the half hour: the next leader cannot write it a second time.

    Args:
        report: The report.
        instance: The reporting instance, at most 128 bytes.
        now: The time of the Event.
    """
    pod = report.pod
    slot = int(now.timestamp() // EVENT_AGAIN_S)
    return controller_event(
        f"{_CAPITAL.sub('-', report.reason).lower()}.{pod.uid}.{slot}",
        pod.namespace,
        regarding=pod_reference(pod.namespace, pod.name, pod.uid),
        type_="Warning",
        reason=str(report.reason),
        action="Allocating",
        note=report.message,
        instance=instance,
        now=now,
    )


def annotations_patch(uid: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return a merge patch for the claim with this UID, that leaves it only the wanted ones of :data:`ANNOTATIONS`."""
    return {"metadata": {"uid": uid, "annotations": {key: wanted.get(key) for key in ANNOTATIONS}}}
