"""Reconciles the ResourceSlices of a node, and the conditions of its NodeInventory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from controller.cluster.informers import ClusterInformers
from controller.cluster.inventories import StoredInventory, Unreadable
from controller.cluster.liveness import Liveness, LivenessTracker
from controller.modes.node_modes import NodeModes, NodePlan
from controller.slices.decision import Action, NodeFacts, decide
from controller.slices.features import NO_BINDING_CONDITIONS, SliceFeatures
from controller.slices.published_condition import SILENT, PublishedCondition
from controller.slices.taints import foreign_taints
from controller.slices.writer import CountersLostError, NameTakenError, SliceWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import LEASES, NODE_INVENTORIES, NODES, JsonObject, Resource
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import Device, ResourceSlice
from driver.errors import InputError
from driver.layout.left_out import left_out_notes
from driver.layout.names import DEFAULT_ROUTE
from driver.layout.rule_notes import attribute_notes
from driver.layout.slices import resource_slices
from driver.layout.taints import MODE_CHANGE_TAINT, default_route_taints
from driver.model.health import CANNOT_PREPARE_TAINT, NodeHealth
from driver.model.inventory import Inventory
from driver.model.managed_nodes import TAINT
from driver.model.rivals import RIVAL_TAINT
from driver.wording import listed

__all__ = ["SliceReconciler"]

_LOG: Final = logging.getLogger(__name__)
_NOT_ASKED: Final = (
    "GPUs bring no CPU and no memory of the node, although GpuPolicies have nodeAllocatable: the controller's "
    "--feature-gates lacks DRANodeAllocatableResources=true"
)
_NOT_DECLARED: Final = (
    "GPUs bring no CPU and no memory of the node: its kubelet does not declare the feature "
    "DRANodeAllocatableResources: turn on the gate there"
)
_NODE_GRACE_S: Final = 60.0  # a plugin may come up before kubelet registers


class SliceReconciler:
    """Makes a node's slices what its inventory says. Safe for several threads, if no two of them have the same node.

    Args:
        api: The API server.
        namespace: Where the nodes' Leases are.
        informers: The stored objects.
        liveness: The nodes' heartbeats.
        writer: Writes slices.
        features: Knows which fields of slices the API server keeps.
        condition: Writes the condition Published.
        policies: Returns the GPU policies in force.
        nic_policies: Returns the NIC policies in force.
        device_policies: Returns the device policies in force.
        modes: Plans what is published of GPUs.
        is_tainted: Returns whether the controller allocates this node's devices, so that they are tainted.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        informers: ClusterInformers,
        liveness: LivenessTracker,
        writer: SliceWriter,
        features: SliceFeatures,
        condition: PublishedCondition,
        policies: Callable[[], GpuPolicies],
        nic_policies: Callable[[], NicPolicies],
        device_policies: Callable[[], DevicePolicies] = lambda: DEFAULT_DEVICE_POLICIES,
        modes: NodeModes,
        is_tainted: Callable[[str], bool] = lambda _node: False,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._informers = informers
        self._liveness = liveness
        self._writer = writer
        self._features = features
        self._condition = condition
        self._policies = policies
        self._nic_policies = nic_policies
        self._device_policies = device_policies
        self._modes = modes
        self._is_tainted = is_tainted
        self._missed_since: dict[str, float] = {}
        self._unheard: set[str] = set()

    def reconcile(self, node: str) -> float | None:
        """Reconcile one node.

        Returns:
            Seconds until it must be reconciled again, whether or not something changes; None if that is not needed.

        Raises:
            ApiServerError: Something could not be read or written; the next attempt goes on from there.
        """
        inventory = self._informers.inventory(node)
        uid = self._informers.node_uid(node)
        if inventory is None and not self._informers.slices.pool(node):
            self._missed_since.pop(node, None)
            if uid is None:
                self._forget_heartbeat(node)
            return None
        if "/" in node:  # a pool may be named so, but no object: there is nothing to ask for or to wait for
            self._writer.withdraw(node)
            return None
        action = decide(self._facts(node, uid, inventory), node_grace_s=_NODE_GRACE_S)
        _LOG.debug("pass", extra={"node": node, "action": action.value})
        if self._liveness.is_heard(node, time.monotonic()):
            self._unheard.discard(node)
        elif inventory is not None and node not in self._unheard:
            self._set_ready_unknown(node, inventory)
        match action:
            case Action.PUBLISH if inventory is not None and uid is not None:
                return self._publish(uid, inventory)
            case Action.WITHDRAW_SILENT if inventory is not None:
                self._withdraw_silent(node, inventory)
            case Action.WITHDRAW_UNREPORTED if self._is_missing(NODE_INVENTORIES, node):
                self._writer.withdraw(node)
            case Action.FORGET if self._is_missing(NODES, node):
                self._forget(node, inventory)
            case Action.AWAIT_NODE:
                return _NODE_GRACE_S
        return None

    def _facts(self, node: str, uid: str | None, inventory: StoredInventory | None) -> NodeFacts:
        now = time.monotonic()
        if uid is None:
            self._missed_since.setdefault(node, now)
        else:
            self._missed_since.pop(node, None)
        condition = (self._condition.of(inventory) if inventory is not None else None) or {}
        return NodeFacts(
            has_node=uid is not None,
            node_was_seen=self._informers.node_was_seen(node),
            missed_for_s=now - self._missed_since.get(node, now),
            has_inventory=inventory is not None,
            liveness=self._liveness.liveness(node, now),
            has_beaten=self._liveness.has_beaten(node),
            was_withdrawn=condition.get("reason") == SILENT,
        )

    def _publish(self, uid: str, reported: StoredInventory) -> float | None:
        stored = self._informers.slices.pool(reported.name)
        try:
            layout = self._layout(reported, stored)
        except ApiServerError:
            raise
        except Exception as error:
            message = (
                f"{type(error).__name__} while the inventory was laid out: a bug of Rootport; see the controller's log"
            )
            self._condition.put(reported, ok=False, reason="InternalError", message=message)
            raise
        if isinstance(layout, Unreadable):
            # What was published before stays: its devices may be in use, and the next inventory may be good again.
            self._condition.put(reported, ok=False, reason="InvalidInventory", message=layout.message)
            return None
        inventory, slices, plan = layout
        try:
            changes = self._writer.publish(slices, stored, node_uid=uid)
        except (InvalidError, ForbiddenError) as error:
            self._condition.put(reported, ok=False, reason="SlicesRefused", message=str(error))
            raise
        except CountersLostError:
            self._features.forget()  # so that the next attempt lays the node out without counters
            raise
        except NameTakenError as error:
            self._condition.put(reported, ok=False, reason="NameTaken", message=str(error))
            raise
        again_s = self._modes.carried_out(reported.name, plan)
        message = self._message(inventory, slices, plan, reported.health, generation=changes.generation)
        self._condition.put(reported, ok=True, reason="Published", message=message, choice=plan.choice)
        return again_s

    def _layout(
        self, reported: StoredInventory, stored: Sequence[JsonObject]
    ) -> tuple[Inventory, tuple[ResourceSlice, ...], NodePlan] | Unreadable:
        """Return the inventory, the slices that it takes and the plan for its GPUs, or why there are none."""
        inventory, health = reported.inventory(), reported.health
        if isinstance(inventory, Unreadable):
            return inventory
        plan = self._modes.plan(inventory, health, stored)
        # What the plan goes by: asked again, the API server might give another answer.
        has_counters = self._features.has_counters if plan.choice is None else plan.choice.has_counters
        try:
            slices = resource_slices(
                inventory,
                policies=self._policies(),
                nic_policies=self._nic_policies(),
                device_policies=self._device_policies(),
                has_counters=has_counters,
                has_shares=self._features.has_shares,
                has_lists=self._features.has_lists,
                has_node_allocatable=self._features.has_node_allocatable and self._declares(reported.name),
                has_binding_conditions=bool(health.prepares_before_binding) and self._features.has_binding_conditions,
                only=plan.only,
                closed=plan.closed,
                health=health,
                managed=self._is_tainted(reported.name),
                other_taints=foreign_taints(stored),
            )
        except InputError as error:
            return Unreadable(str(error))
        return inventory, slices, plan

    def _message(
        self,
        inventory: Inventory,
        slices: Sequence[ResourceSlice],
        plan: NodePlan,
        health: NodeHealth,
        *,
        generation: int,
    ) -> str:
        """Return what is published, and what is not, for a person."""
        devices = sum(len(item.spec.devices) for item in slices)
        parts = [f"devices: {devices}, ResourceSlices: {len(slices)}, pool generation: {generation}"]
        if plan.closed:
            parts.append(
                f"devices that wait to leave the slices, with the taint {MODE_CHANGE_TAINT}: {len(plan.closed)}"
            )
        if slices and any(taint.key == TAINT for device in slices[0].spec.devices for taint in device.taints):
            parts.append(
                f"placed by Rootport: all have the taint {TAINT}:NoSchedule"
                if self._features.has_taints
                else "placed by kube-scheduler although the Node's label asks for Rootport, which cannot keep it away"
            )
        if health.cannot_prepare:
            parts.append(f"all have the taint {CANNOT_PREPARE_TAINT}={health.cannot_prepare}:NoSchedule")
        if health.rivals:
            names = listed(sorted({rival.name for rival in health.rivals}))
            tainted = [device for item in slices for device in item.spec.devices if _has_rival(device)]
            parts.append(f"devices that {names} may give out as well, with the taint {RIVAL_TAINT}: {len(tainted)}")
        if inventory.gpus or inventory.nics:
            parts += self._features.notes
        if inventory.gpus and any(policy.node_allocatable for policy in self._policies().policies):
            if not self._features.asks_node_allocatable:
                parts.append(_NOT_ASKED)
            elif self._features.has_node_allocatable and not self._declares(inventory.node):
                parts.append(_NOT_DECLARED)
        if health.prepares_before_binding:
            waiting = sum(bool(device.binding_conditions) for item in slices for device in item.spec.devices)
            if self._features.has_binding_conditions:
                parts.append(f"devices that are prepared before a pod is bound, with binding conditions: {waiting}")
            else:
                parts.append(NO_BINDING_CONDITIONS)
        device_policies = self._device_policies()
        if needed := sorted(default_route_taints(inventory, device_policies)):
            parts.append(f"with the node's default route, and so with the taint {DEFAULT_ROUTE}: {listed(needed)}")
        notes = (
            *left_out_notes(inventory, policies=self._policies(), device_policies=device_policies),
            *attribute_notes(inventory, slices, device_policies),
        )
        return "; ".join((*parts, *notes))

    def _declares(self, node: str) -> bool:
        return self._informers.declares_node_allocatable(node)

    def _set_ready_unknown(self, node: str, inventory: StoredInventory) -> None:
        """Set Ready to Unknown once for each silence: a plugin that sets it to True again will soon be heard."""
        try:
            self._condition.set_ready_unknown(inventory)
        except (InvalidError, ForbiddenError) as error:
            _LOG.warning("the condition is refused", extra={"node": node, "error": str(error)})
        self._unheard.add(node)

    def _withdraw_silent(self, node: str, inventory: StoredInventory) -> None:
        # First the reason: were the slices deleted and this process killed, the next one would publish them again.
        try:
            self._condition.put(
                inventory,
                ok=False,
                reason=SILENT,
                message="the node's plugin is silent: it has not renewed its Lease, so nothing could be prepared there",
            )
        except (InvalidError, ForbiddenError) as error:
            # Such as a status that the node has filled to its limits: that must not keep its slices published.
            _LOG.warning("the condition is refused", extra={"node": node, "error": str(error)})
        self._writer.withdraw(node)

    def _is_missing(self, resource: Resource, name: str) -> bool:
        """Ask the API server itself, before anything is deleted because a watch does not show an object."""
        try:
            self._api.get(resource, name)
        except NotFoundError as error:
            # A resource that is not served at all (its CRD is gone) says nothing about the object.
            return error.reason == "NotFound"
        return False

    def _forget(self, node: str, inventory: StoredInventory | None) -> None:
        _LOG.info("node is gone: deleting what belongs to it", extra={"node": node})
        self._writer.withdraw(node)
        if inventory is not None:
            self._delete(NODE_INVENTORIES, node, uid=inventory.uid)
        if self._informers.has_lease(node):  # one that the watch does not show yet is for :meth:`_forget_heartbeat`
            self._delete(LEASES, node, namespace=self._namespace)
        self._condition.forget(node)
        self._modes.forget(node)
        self._missed_since.pop(node, None)
        self._unheard.discard(node)
        self._informers.forget(node)

    def _forget_heartbeat(self, node: str) -> None:
        """Delete a Lease that alone is left: a plugin that outlived its Node has made it anew, and then ended."""
        if self._informers.has_lease(node):
            if self._liveness.liveness(node, time.monotonic()) is not Liveness.SILENT or not self._is_missing(
                NODES, node
            ):
                return
            self._delete(LEASES, node, namespace=self._namespace)
        self._informers.forget(node)

    def _delete(self, resource: Resource, name: str, *, uid: str | None = None, namespace: str | None = None) -> None:
        try:
            self._api.delete(resource, name, uid=uid, namespace=namespace)
        except NotFoundError:
            _LOG.debug("gone already", extra={"kind": resource.kind, "object": name})


def _has_rival(device: Device) -> bool:
    return any(taint.key == RIVAL_TAINT for taint in device.taints)
