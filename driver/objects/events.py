"""Events as events.k8s.io/v1 takes them, reported by Rootport's controller."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from driver import DRIVER_NAME
from driver.api.times import micro_time_text
from driver.objects.consumers import GROUP_KIND, Consumer

__all__ = ["consumer_reference", "controller_event", "pod_reference"]

_CONTROLLER: Final = f"{DRIVER_NAME}/controller"
_GROUP_VERSION: Final = "scheduling.k8s.io/v1beta1"  # of Kubernetes 1.37


def pod_reference(namespace: str, name: str, uid: str) -> dict[str, str]:
    """Return a reference to a pod (core/v1, ObjectReference)."""
    return {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid}


def consumer_reference(namespace: str, consumer: Consumer) -> dict[str, str]:
    """Return a reference to a pod or a PodGroup that a claim in the namespace is reserved for."""
    reference = pod_reference(namespace, consumer.name, consumer.uid)
    return reference | {"apiVersion": _GROUP_VERSION, "kind": GROUP_KIND} if consumer.is_group else reference


def controller_event(  # noqa: PLR0913 - all by name
    name: str,
    namespace: str,
    *,
    regarding: Mapping[str, Any],
    type_: Literal["Normal", "Warning"],
    reason: str,
    action: str,
    note: str,
    instance: str,
    now: datetime,
) -> dict[str, Any]:
    """Return an Event.

    Args:
        name: Its name: the API server refuses a second one of the same name.
        namespace: That of the object, ``default`` for one without.
        regarding: A reference to the object.
        type_: Its type.
        reason: Why it was written, in CamelCase.
        action: What was done, in CamelCase.
        note: For people, at most 1024 bytes.
        instance: The reporting instance, at most 128 bytes.
        now: The time of the Event.
    """
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time_text(now),
        "reportingController": _CONTROLLER,
        "reportingInstance": instance,
        "action": action,
        "reason": reason,
        "type": type_,
        "regarding": regarding,
        "note": note,
    }
