"""One pass over a node's Device objects: what ``kubectl get devices`` shows. Nothing is scheduled by them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final, Protocol

from controller.cluster_view import ClusterView
from controller.condition_times import ConditionTimes
from controller.device_changes import (
    ContainersByPod,
    DeviceChanges,
    containers_of,
    device_changes,
    status_changes,
    stored_conditions,
)
from controller.device_offers import DeviceOffers, device_offers
from controller.health_events import HealthChange, HealthEvents, health_changes
from controller.liveness import Liveness, LivenessTracker
from controller.pod_containers import PodContainers
from controller.published_condition import FIELD_MANAGER, SILENT, published_condition
from controller.slice_features import SliceFeatures
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import DEVICES, JsonObject
from driver.api.gpu_policies import GpuPolicies
from driver.api.rootport_v1alpha1 import MAX_PODS, Device, DevicePod, DeviceStatus
from driver.errors import InputError
from driver.layout import left_out
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.objects import (
    ClaimAllocation,
    device_object_name,
    device_objects,
    device_statuses,
    inventory_of,
    parse_node_inventory,
)
from driver.objects.device_statuses import AllocationPods
from driver.objects.health import node_health
from driver.status.overview import NodeState

__all__ = ["DevicePass", "NodeListener"]

_LOG: Final = logging.getLogger(__name__)
_MOST_WRITES: Final = 100
_MOST_S: Final = 1.0
_GO_ON_S: Final = 1.0  # by then the watch shows what was written, and a pod that was reserved for is bound


class NodeListener(Protocol):
    """Gets what each pass finds out of a node: :class:`controller.overview.store.Overview`."""

    def put(
        self,
        node: str,
        *,
        devices: Sequence[Device] | None,
        statuses: Mapping[str, DeviceStatus],
        state: NodeState,
        reason: str,
        cannot_prepare: bool,
    ) -> None:
        """A node is new or may have changed. Called by the thread of the passes, before it writes anything.

        Args:
            node: The node's name.
            devices: Its Device objects in the inventory's order, whose own status says nothing; None where they are
                as they were at the call before. The first call of a node has them.
            statuses: By the objects' names, of all of them.
            state: Whether its plugin says that all is well.
            reason: Why not, in a CamelCase word or a few; empty where it does.
            cannot_prepare: Whether it can prepare no claim at all.
        """

    def remove(self, node: str) -> None:
        """The node is gone, or says nothing of its devices any more. It may never have been put.

        Args:
            node: Its name, or, where that is not known any more, the value of its label (a name of up to 63 characters
                is the same).
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a pass writes, and of which of these writes somebody is to be told first."""

    changes: DeviceChanges = field(default_factory=DeviceChanges)
    told: tuple[HealthChange, ...] = ()


class DevicePass:
    """Does passes. For one thread.

    Args:
        api: Where to write.
        view: What there is.
        policies: What of GPUs is on offer, at this moment.
        features: What of slices the API server keeps.
        stop: Once set, the write under way is the last one.
        pause: Called before each write: waits until it is this pass's turn.
        most_writes: How many writes a pass makes at most, and fewer where they take longer than a second. A
            NodeInventory may hold thousands of devices, and the objects of other nodes must not wait for all of them.
        instance: Who reports, in Events.
        liveness: Who is alive; None where all nodes count as alive.
        listener: Gets what each pass finds.
        clock: Monotonic seconds.
        wall: The time of day.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        view: ClusterView,
        policies: Callable[[], GpuPolicies],
        features: SliceFeatures,
        stop: threading.Event,
        pause: Callable[[], None],
        most_writes: int = _MOST_WRITES,
        instance: str = "rootport-controller",
        liveness: LivenessTracker | None = None,
        listener: NodeListener | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._view = view
        self._policies = policies
        self._features = features
        self._stop = stop
        self._pause = pause
        self._most_writes = most_writes
        self._liveness = liveness
        self._listener = listener
        self._clock = clock
        self._wall = wall
        self._events = HealthEvents(api, instance=instance, pause=pause, clock=wall)
        self._containers = PodContainers(api)
        self._times = ConditionTimes()
        self._offers: dict[str, DeviceOffers] = {}
        self._silent: set[str] = set()

    def was_silent(self, label: str) -> bool:
        """Whether the node with this label was silent at its last pass; for any thread."""
        return label in self._silent

    def run(self, label: str) -> float | None:
        """Make the Device objects with this node label what the node's inventory and the claims say.

        Without an inventory, delete them.

        After how many seconds to go on where this pass did not do everything, or None.

        Raises:
            ApiServerError: Something could not be written; another pass goes on from there.
        """
        with_specs = self._view.take_specs_due(label)
        try:
            is_done = self._write(label, self._plan(label, with_specs=with_specs))
        except BaseException:
            if with_specs:
                self._view.specs_are_due(label)
            raise
        if is_done:
            return None if self._containers.are_final(label) else _GO_ON_S
        if with_specs:
            self._view.specs_are_due(label)
        return _GO_ON_S

    def _write(self, label: str, plan: _Plan) -> bool:
        """Whether all is written, or nothing more is to be written for now."""
        if not plan.changes:
            return True
        written = Counter[str]()
        writes = list(self._writes(plan))
        end = None
        for what, write in islice(writes, self._most_writes):
            self._pause()
            if self._stop.is_set():
                return True
            # Not before the first write: what is waited for until then is no part of it, and each pass makes one.
            end = self._clock() + _MOST_S if end is None else end
            if self._clock() > end:
                break
            try:
                write()
            except NotFoundError:
                # Nothing creates an object on the way: it was deleted since the watch showed it.
                _LOG.debug("device object is gone already", extra={"label": label})
            written[what] += 1
        _LOG.info("devices written", extra={"label": label, **written})
        return written.total() == len(writes)

    def _writes(self, plan: _Plan) -> Iterator[tuple[str, Callable[[], object]]]:
        apply = partial(self._api.apply, DEVICES, field_manager=FIELD_MANAGER)
        told = {change.name: change for change in plan.told}
        yield from (("applied", partial(apply, body)) for body in plan.changes.apply)
        for body in plan.changes.status:
            # The Event first: once the status says it, it is no news to the next controller.
            if change := told.get(body["metadata"]["name"]):
                yield "told", partial(self._events.write, change)
            yield "statuses", partial(self._apply_status, body)
        yield from (("deleted", partial(self._api.delete, DEVICES, name, uid=uid)) for name, uid in plan.changes.delete)

    def _apply_status(self, body: JsonObject) -> None:
        self._view.expect_status(body)
        self._api.apply(DEVICES, body, field_manager=FIELD_MANAGER, subresource="status")

    def _plan(self, label: str, *, with_specs: bool) -> _Plan:
        stored = self._view.devices(label)
        node = self._view.node_of_label(label)
        wire = None if node is None else self._view.inventory(node)
        if node is None or wire is None:
            self._forget(node or label, label)
            return _Plan(changes=device_changes((), stored, node_uid=""))
        uid = self._view.node_uid(node)
        if uid is None:
            return _Plan()  # its inventory goes soon, and then these
        try:
            inventory = inventory_of(parse_node_inventory(wire))
            desired = None
            # What is new may be there before it is known to be.
            count = sum(1 for _ in inventory.devices())
            if with_specs or len(self._offers.get(label, ())) != count:
                desired = self._desired(label, inventory)
        except InputError:
            return _Plan()  # the node's condition says so
        changes = DeviceChanges() if desired is None else device_changes(desired, stored, node_uid=uid)
        gone = {name for name, _ in changes.delete}
        kept = {item["metadata"]["name"]: item for item in stored if item["metadata"]["name"] not in gone}
        is_silent = self._is_silent(label, node, wire)
        health = node_health(wire)
        statuses = self._statuses(label, inventory, health, kept, is_silent=is_silent)
        if self._listener is not None:
            state, reason = _node_state(wire, is_silent=is_silent)
            self._listener.put(
                node,
                devices=desired,
                statuses=statuses,
                state=state,
                reason=reason,
                cannot_prepare=bool(health.cannot_prepare) and not is_silent,
            )
        changes = replace(changes, status=status_changes(statuses, list(kept.values())))
        return _Plan(changes=changes, told=health_changes(changes.status, statuses, kept))

    def _desired(self, label: str, inventory: Inventory) -> tuple[Device, ...]:
        policies, has_counters = self._policies(), self._features.has_counters
        reasons = left_out(inventory, policies=policies, has_counters=has_counters)
        desired = device_objects(inventory, left_out=reasons)
        self._offers[label] = device_offers(inventory, reasons, policies=policies, has_counters=has_counters)
        return desired

    def _statuses(
        self, label: str, inventory: Inventory, health: NodeHealth, kept: Mapping[str, JsonObject], *, is_silent: bool
    ) -> dict[str, DeviceStatus]:
        told = containers_of(list(kept.values()))
        looked_at: set[str] = set()
        offers = zip(inventory.devices(), self._offers[label], strict=True)
        statuses = device_statuses(
            inventory,
            self._view.allocations(inventory.node),
            health=health,
            offers={device.name: offer for device, offer in offers},
            is_silent=is_silent,
            pods=lambda item: self._pods(label, item, told, looked_at),
        )
        self._containers.retain(label, looked_at)
        by_name = {device_object_name(inventory.node, device): status for device, status in statuses.items()}
        stored = {name: stored_conditions(item) for name, item in kept.items()}
        return self._times.of_node(label, by_name, stored, self._wall())

    def _pods(self, label: str, item: ClaimAllocation, told: ContainersByPod, looked_at: set[str]) -> AllocationPods:
        pods = sorted(self._view.pods.of_claim(f"{item.namespace}/{item.claim}"), key=lambda pod: (pod.name, pod.uid))
        shown = pods[:MAX_PODS]
        looked_at.update(pod.uid for pod in shown)
        return [
            DevicePod(name=pod.name, uid=pod.uid, containers=self._containers.names(label, item, pod, told))
            for pod in shown
        ], len(pods) - len(shown)

    def _is_silent(self, label: str, node: str, wire: JsonObject) -> bool:
        """As the node's slices are withdrawn and kept away: see :func:`controller.node_decision.decide`."""
        if self._liveness is None:
            return False
        was_withdrawn = (published_condition(wire) or {}).get("reason") == SILENT
        is_silent = self._liveness.liveness(node, self._clock()) is Liveness.SILENT or (
            was_withdrawn and not self._liveness.has_beaten(node)
        )
        if is_silent:
            self._silent.add(label)
        else:
            self._silent.discard(label)
        return is_silent

    def _forget(self, node: str, label: str) -> None:
        self._offers.pop(label, None)
        self._silent.discard(label)
        self._containers.retain(label, ())
        self._times.forget(label)
        if self._listener is not None:
            self._listener.remove(node)


def _node_state(wire: JsonObject, *, is_silent: bool) -> tuple[NodeState, str]:
    """What the node's plugin says of itself; one that says nothing is taken to be ready."""
    if is_silent:
        return "Silent", SILENT
    for condition in (wire.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            return "NotReady", str(condition.get("reason") or "NotReady")
    return "Ready", ""
