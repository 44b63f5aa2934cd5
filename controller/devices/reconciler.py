"""Reconciles a node's Device objects: what ``kubectl get devices`` shows. The scheduler does not read them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from controller.cluster.informers import ClusterInformers
from controller.cluster.inventories import StoredInventory, Unreadable
from controller.cluster.liveness import LivenessTracker, is_silent
from controller.cluster.stored_devices import (
    DIGEST_ANNOTATION,
    ContainersByPod,
    containers_of,
    stored_conditions,
    transform_device,
)
from controller.devices.changes import DeviceChanges, device_changes, status_changes
from controller.devices.condition_times import ConditionTimes
from controller.devices.health_events import HealthChange, HealthEvents, health_changes
from controller.devices.offers import DeviceOffers, device_offers
from controller.devices.pace import DevicePace
from controller.devices.pod_containers import PodContainers
from controller.devices.write_batch import Write, WriteBatch
from controller.slices.published_condition import FIELD_MANAGER, PUBLISHED, SILENT
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import DEVICES, JsonObject
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.rootport_v1alpha1 import MAX_PODS, Device, DevicePod, DeviceStatus
from driver.errors import InputError
from driver.layout.device_rules import device_attributes
from driver.layout.left_out import left_out
from driver.model.inventory import Inventory
from driver.objects.claims import ClaimAllocation
from driver.objects.device_statuses import AllocationUsers, device_statuses
from driver.objects.devices import device_objects
from driver.objects.names import device_object_name
from driver.status.cluster import NodeReadiness, readiness
from driver.status.overview import ReadyState

__all__ = ["DeviceReconciler", "NodeEventHandler"]

_LOG: Final = logging.getLogger(__name__)
_MOST_WRITES: Final = 100
_MOST_S: Final = 1.0
_GO_ON_S: Final = 1.0  # by then the watch shows what was written, and a pod that was reserved for is bound


class NodeEventHandler(Protocol):
    """Gets the state of each node that is reconciled: :class:`controller.overview.store.Overview`."""

    def put(
        self,
        node: str,
        *,
        devices: Sequence[Device] | None,
        statuses: Mapping[str, DeviceStatus],
        state: ReadyState,
        reason: str,
        cannot_prepare: bool,
        managed: bool,
    ) -> None:
        """Take in a node that is new or may have changed. Called before anything is written.

        Args:
            node: The node's name.
            devices: Its Device objects in the inventory's order, without a status; None if they are as at the call
                before. The first call for a node has them.
            statuses: The statuses of all of them, by the objects' names.
            state: Whether its plugin reports that it is ready.
            reason: Why it is not, in CamelCase; empty if it is.
            cannot_prepare: Whether its plugin can prepare no claim at all.
            managed: Whether placement allocates its devices.
        """

    def remove(self, node: str) -> None:
        """Drop a node that is gone, or has no inventory any more. It may never have been put.

        Args:
            node: Its name; if that is not known any more, the value of its label, which is the same for names of up to
                63 characters.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What to write: specifications, and the statuses by the objects' names; and what is stored, by name."""

    changes: DeviceChanges = field(default_factory=DeviceChanges)
    statuses: Mapping[str, DeviceStatus] = field(default_factory=dict)
    stored: Mapping[str, JsonObject] = field(default_factory=dict)


class DeviceReconciler:
    """Makes a node's Device objects those of its inventory, with the claims' allocations. Not thread-safe.

    Args:
        api: The API server.
        informers: The stored objects.
        policies: Returns the GPU policies in force.
        device_policies: Returns the device policies in force.
        modes_follow_demand: Returns whether each GPU can be had in any mode that the policies offer.
        stop: Once set, the write under way is the last one.
        pause: Called before each write: waits as long as the pace demands.
        pace: How many writes are under way at once; None for one of its own.
        most_writes: How many writes are made at a time at most, and fewer if they take longer than a second. A
            NodeInventory may hold thousands of devices, and the objects of other nodes must not wait for all of them.
        instance: The reporting instance of Events.
        liveness: The nodes' heartbeats; None if all nodes count as alive.
        handler: Gets the nodes' states.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        informers: ClusterInformers,
        policies: Callable[[], GpuPolicies],
        device_policies: Callable[[], DevicePolicies] = lambda: DEFAULT_DEVICE_POLICIES,
        modes_follow_demand: Callable[[], bool] = lambda: True,
        stop: threading.Event,
        pause: Callable[[], None],
        pace: DevicePace | None = None,
        most_writes: int = _MOST_WRITES,
        instance: str = "rootport-controller",
        liveness: LivenessTracker | None = None,
        handler: NodeEventHandler | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._informers = informers
        self._policies = policies
        self._device_policies = device_policies
        self._modes_follow_demand = modes_follow_demand
        self._stop = stop
        self._pause = pause
        self._pace = pace or DevicePace(wait=stop.wait)
        self._most_writes = most_writes
        self._liveness = liveness
        self._handler = handler
        self._clock = clock
        self._events = HealthEvents(api, instance=instance, pause=pause)
        self._containers = PodContainers(api)
        self._times = ConditionTimes()
        self._offers: dict[str, DeviceOffers] = {}
        self._silent: set[str] = set()

    def was_silent(self, label: str) -> bool:
        """Return whether the node with this label was silent when it was last reconciled. Thread-safe."""
        return label in self._silent

    def reconcile(self, label: str) -> float | None:
        """Reconcile the Device objects with this node label; delete them if the node has no inventory.

        Returns:
            Seconds until it must be reconciled again because something is left to do; None if nothing is.

        Raises:
            ApiServerError: Something could not be written; the next attempt goes on from there.
        """
        with_specs = self._informers.take_specs_due(label)
        try:
            is_done = self._write(label, self._plan(label, with_specs=with_specs))
        except BaseException:
            if with_specs:
                self._informers.specs_are_due(label)
            raise
        if is_done:
            return None if self._containers.are_final(label) else _GO_ON_S
        if with_specs:
            self._informers.specs_are_due(label)
        return _GO_ON_S

    def _write(self, label: str, plan: _Plan) -> bool:
        """Write the plan; return whether everything is written, or nothing more is to be written for now."""
        batch = WriteBatch(
            self._pace, pause=self._pause, stop=self._stop, most=self._most_writes, most_s=_MOST_S, clock=self._clock
        )
        applied: dict[str, JsonObject] = {}
        batch.make(Write("applied", partial(self._apply, body, applied)) for body in plan.changes.apply)
        # The status of an object that was just made is written at once, not when the watch shows it.
        stored = {**plan.stored, **applied}
        statuses = status_changes(plan.statuses, list(stored.values()))
        health: dict[str, list[HealthChange]] = {}
        for change in health_changes(statuses, plan.statuses, stored):
            health.setdefault(change.name, []).append(change)
        batch.make(self._status_writes(statuses, health))
        batch.make(
            Write("deleted", partial(self._api.delete, DEVICES, name, uid=uid)) for name, uid in plan.changes.delete
        )
        if batch.written:
            _LOG.info("devices written", extra={"label": label, **batch.written})
        return batch.is_done

    def _status_writes(
        self, bodies: Sequence[JsonObject], health: Mapping[str, Sequence[HealthChange]]
    ) -> Iterator[Write]:
        for body in bodies:
            changes = health.get(body["metadata"]["name"], ())
            # The Events first: once the status says it, the next controller would write none.
            events = partial(self._events.write, *changes) if changes else None
            yield Write("statuses", partial(self._apply_status, body), first=events)

    def _apply(self, body: JsonObject, applied: dict[str, JsonObject]) -> None:
        name = body["metadata"]["name"]
        self._informers.expected_devices.expect(name, applied=body["metadata"]["annotations"][DIGEST_ANNOTATION])
        applied[name] = transform_device(self._api.apply(DEVICES, body, field_manager=FIELD_MANAGER))

    def _apply_status(self, body: JsonObject) -> None:
        self._informers.expected_devices.expect(body["metadata"]["name"], status=body["status"])
        self._api.apply(DEVICES, body, field_manager=FIELD_MANAGER, subresource="status")

    def _plan(self, label: str, *, with_specs: bool) -> _Plan:
        stored = self._informers.devices(label)
        node = self._informers.node_of_label(label)
        reported = None if node is None else self._informers.inventory(node)
        if node is None or reported is None:
            self._forget(node or label, label)
            return _Plan(changes=device_changes((), stored, node_uid=""))
        uid = self._informers.node_uid(node)
        if uid is None:
            return _Plan()  # its inventory goes soon, and then these
        try:
            inventory = reported.inventory()
            if isinstance(inventory, Unreadable):
                return _Plan()  # the node's condition says why
            desired = None
            # The inventory may be newer than the event that makes the specs due.
            count = sum(1 for _ in inventory.devices())
            if with_specs or len(self._offers.get(label, ())) != count:
                desired = self._desired(label, inventory)
        except InputError:
            return _Plan()  # likewise
        changes = DeviceChanges() if desired is None else device_changes(desired, stored, node_uid=uid)
        gone = {name for name, _ in changes.delete}
        kept = {item["metadata"]["name"]: item for item in stored if item["metadata"]["name"] not in gone}
        silent = self._is_silent(label, node, reported)
        statuses = self._statuses(label, inventory, reported, kept, is_silent=silent)
        if self._handler is not None:
            # A plugin that has not reported yet counts as ready here.
            found = readiness(reported.conditions, is_silent=silent, unreported=NodeReadiness(state="Ready"))
            self._handler.put(
                node,
                devices=desired,
                statuses=statuses,
                state=found.state,
                reason=found.reason,
                cannot_prepare=found.cannot_prepare,
                managed=found.managed,
            )
        return _Plan(changes=changes, statuses=statuses, stored=kept)

    def _desired(self, label: str, inventory: Inventory) -> tuple[Device, ...]:
        policies, device_policies = self._policies(), self._device_policies()
        reasons = left_out(inventory, policies=policies, device_policies=device_policies)
        desired = device_objects(inventory, left_out=reasons, attributes=device_attributes(inventory, device_policies))
        self._offers[label] = device_offers(
            inventory,
            reasons,
            policies=policies,
            device_policies=device_policies,
            follow_demand=self._modes_follow_demand(),
        )
        return desired

    def _statuses(
        self,
        label: str,
        inventory: Inventory,
        reported: StoredInventory,
        kept: Mapping[str, JsonObject],
        *,
        is_silent: bool,
    ) -> dict[str, DeviceStatus]:
        known = containers_of(list(kept.values()))
        shown: set[str] = set()
        offers = zip(inventory.devices(), self._offers[label], strict=True)
        statuses = device_statuses(
            inventory,
            self._informers.allocations(inventory.node),
            health=reported.health,
            offers={device.name: offer for device, offer in offers},
            is_silent=is_silent,
            users=lambda item: self._users(label, item, known, shown),
        )
        self._containers.retain(label, shown)
        by_name = {device_object_name(inventory.node, device): status for device, status in statuses.items()}
        stored = {name: stored_conditions(item) for name, item in kept.items()}
        return self._times.of_node(label, by_name, stored, datetime.now(UTC))

    def _users(self, label: str, item: ClaimAllocation, known: ContainersByPod, shown: set[str]) -> AllocationUsers:
        """Return the first pods and PodGroups with an allocation; add the UIDs of these pods to ``shown``."""
        users = sorted(
            self._informers.pods.of_claim(f"{item.namespace}/{item.claim}"), key=lambda user: (user.name, user.uid)
        )
        pods = [user for user in users if not user.is_group]
        first = pods[:MAX_PODS]
        shown.update(pod.uid for pod in first)
        return AllocationUsers(
            pods=[
                DevicePod(name=pod.name, uid=pod.uid, containers=self._containers.names(label, item, pod, known))
                for pod in first
            ],
            more_pods=len(pods) - len(first),
            pod_groups=list(dict.fromkeys(user.name for user in users if user.is_group))[:MAX_PODS],
        )

    def _is_silent(self, label: str, node: str, reported: StoredInventory) -> bool:
        if self._liveness is None:
            return False
        silent = is_silent(
            self._liveness.liveness(node, self._clock()),
            was_withdrawn=(reported.condition(PUBLISHED) or {}).get("reason") == SILENT,
            has_beaten=self._liveness.has_beaten(node),
        )
        if silent:
            self._silent.add(label)
        else:
            self._silent.discard(label)
        return silent

    def _forget(self, node: str, label: str) -> None:
        self._offers.pop(label, None)
        self._silent.discard(label)
        self._containers.retain(label, ())
        self._times.forget(label)
        if self._handler is not None:
            self._handler.remove(node)
