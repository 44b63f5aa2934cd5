"""Writes Events on a Device and on the pods that use it: it is unhealthy, healthy again, or may be given out twice."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from controller.cluster.stored_devices import StoredConditions, stored_conditions
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, ForbiddenError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import DEVICES, EVENTS_K8S_IO, JsonObject
from driver.api.rootport_v1alpha1 import MAX_PODS, Condition, DeviceStatus
from driver.objects.device_conditions import HAS_RIVAL, HEALTHY
from driver.objects.events import controller_event, pod_reference

__all__ = ["HealthChange", "HealthEvents", "health_changes", "health_events"]

_LOG: Final = logging.getLogger(__name__)

# As k8s.io/kubernetes v1.36.3, pkg/apis/core/validation/events.go, wants it: for Events on what has no namespace.
_NAMESPACE: Final = "default"
_NOTE_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChange:
    """A device became unhealthy, is healthy again, or has a rival while claims have it.

    Attributes:
        name: The Device object's name.
        uid: Its UID.
        is_healthy: Whether it became healthy.
        condition: The condition that changed, with its time.
        began: When the fault began: the same for both Events.
        status: Its status now, with the pods that use it.
    """

    name: str
    uid: str
    is_healthy: bool
    condition: Condition
    began: str
    status: DeviceStatus


def health_changes(
    bodies: Iterable[JsonObject], statuses: Mapping[str, DeviceStatus], stored: Mapping[str, JsonObject]
) -> tuple[HealthChange, ...]:
    """Return the changes of health in the statuses that are about to be applied, compared with the stored ones.

    So a new leader writes no Event twice. That a new device is healthy is no change.

    Args:
        bodies: Of :func:`controller.devices.changes.status_changes`.
        statuses: The statuses by the objects' names, with times.
        stored: The stored objects by name.
    """
    changes = []
    for metadata in (body["metadata"] for body in bodies):
        name = metadata["name"]
        former = stored_conditions(stored[name])
        changes += [look(name, metadata["uid"], former, statuses[name]) for look in (_new_health, _new_rival)]
    return tuple(change for change in changes if change is not None)


def _new_rival(name: str, uid: str, former: StoredConditions, status: DeviceStatus) -> HealthChange | None:
    """Return that another system may give out a device that claims have: at once, since nothing else prevents it."""
    condition = next((item for item in status.conditions if item.type == HAS_RIVAL), None)
    if condition is None or HAS_RIVAL in former or not status.allocations:
        return None
    began = condition.last_transition_time
    return HealthChange(name=name, uid=uid, is_healthy=False, condition=condition, began=began, status=status)


def _new_health(name: str, uid: str, former: StoredConditions, status: DeviceStatus) -> HealthChange | None:
    condition = next((item for item in status.conditions if item.type == HEALTHY), None)
    before, since = former.get(HEALTHY, ("", ""))
    if condition is None or condition.status == before:
        return None
    if condition.status != "False" and (condition.status, before) != ("True", "False"):
        return None
    is_healthy = condition.status == "True"
    return HealthChange(
        name=name,
        uid=uid,
        is_healthy=is_healthy,
        condition=condition,
        began=since if is_healthy else condition.last_transition_time,
        status=status,
    )


class _Words(NamedTuple):
    """What the Events of a change say."""

    start: str
    reason: str
    action: str
    what: str


def _words(change: HealthChange) -> _Words:
    if change.condition.type == HAS_RIVAL:
        what = "can be given to other pods as well, by another system"
        return _Words("device-rival", "RivalPlugin", "WatchingRivals", what)
    if change.is_healthy:
        return _Words("device-healthy", "DeviceHealthy", "WatchingHealth", "is healthy again")
    what = f"is unhealthy: {change.condition.reason}"
    return _Words("device-unhealthy", "DeviceUnhealthy", "WatchingHealth", what)


def health_events(change: HealthChange, *, instance: str, now: datetime) -> Iterator[JsonObject]:
    """Yield the Events of a change, as events.k8s.io/v1 takes them: on the Device, and on at most 16 pods that use it.

    An Event's name is made of its object and of when the fault began: written twice, it is refused.

    Args:
        change: The change.
        instance: The reporting instance, at most 128 bytes.
        now: The time of the Events.
    """
    start, reason, action, what = _words(change)
    began = _number(change.began)
    device = {"apiVersion": DEVICES.api_version, "kind": DEVICES.kind, "name": change.name, "uid": change.uid}

    def about(name: str, namespace: str, note: str, regarding: JsonObject) -> JsonObject:
        return controller_event(
            name,
            namespace,
            regarding=regarding,
            type_="Normal" if change.is_healthy else "Warning",
            reason=reason,
            action=action,
            note=note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            instance=instance,
            now=now,
        )

    note = f"Device {what}. {change.condition.message}"
    yield about(f"{start}.{change.uid}.{began}", _NAMESPACE, note, device)
    pods = {pod.uid: (item.namespace, pod.name, item.claim) for item in change.status.allocations for pod in item.pods}
    for uid, (namespace, name, claim) in list(pods.items())[:MAX_PODS]:
        pod = pod_reference(namespace, name, uid)
        note = f"Device {change.name}, which the pod has by claim {claim}, {what}. {change.condition.message}"
        yield about(f"{start}.{uid}.{change.uid}.{began}", namespace, note, pod) | {"related": device}


class HealthEvents:
    """Writes the Events. Not thread-safe.

    Args:
        api: The API server.
        instance: The reporting instance.
        pause: Called before each write.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        instance: str,
        pause: Callable[[], None],
    ) -> None:
        self._api = api
        self._instance = instance
        self._pause = pause

    def write(self, *changes: HealthChange) -> None:
        """Write the Events of changes; leave out one that is refused, because a retry would be refused as well.

        Raises:
            ApiServerError: The API server does not answer.
        """
        for change in changes:
            self._write(change)

    def _write(self, change: HealthChange) -> None:
        fields = {"device": change.name, "reason": change.condition.reason}
        _LOG.warning(f"device {_words(change).what}", extra=fields)
        for event in health_events(change, instance=self._instance, now=datetime.now(UTC)):
            self._pause()
            try:
                self._api.create(EVENTS_K8S_IO, event)
            except (AlreadyExistsError, NotFoundError):
                continue  # an earlier try, or a namespace that is gone or going
            except (InvalidError, ForbiddenError) as error:
                _LOG.error("event refused", extra=fields | {"error": str(error)})


def _number(time: str) -> str:
    """Return a time as a part of a name."""
    return time.translate(str.maketrans("", "", "-:")).lower()
