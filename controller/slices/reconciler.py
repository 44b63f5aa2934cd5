"""One pass over one node: look, decide, and make its slices, its condition and its objects what they should be."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from controller.cluster.liveness import Liveness, LivenessTracker
from controller.cluster.view import ClusterView
from controller.slices.decision import Action, NodeView, decide
from controller.slices.features import SliceFeatures
from controller.slices.published_condition import SILENT, PublishedCondition
from controller.slices.taints import foreign_taints
from controller.slices.writer import NameTakenError, SliceWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import LEASES, NODE_INVENTORIES, NODES, JsonObject, Resource
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.errors import InputError
from driver.layout import left_out_notes, resource_slices
from driver.model.health import CANNOT_PREPARE_TAINT
from driver.objects import inventory_of, parse_node_inventory
from driver.objects.health import node_health

__all__ = ["NodePass"]

_LOG: Final = logging.getLogger(__name__)


class NodePass:
    """Does passes. Safe for several threads, as long as each node is in the hands of one.

    Args:
        api: Where to write.
        namespace: Where the nodes' Leases are.
        view: What there is.
        liveness: Who is alive.
        writer: Writes slices.
        features: What of slices the API server keeps.
        condition: Writes the condition Published.
        policies: What the administrator lets be given of GPUs, now.
        nic_policies: Likewise of RDMA NICs.
        node_grace_s: How long an inventory may wait for its Node.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        view: ClusterView,
        liveness: LivenessTracker,
        writer: SliceWriter,
        features: SliceFeatures,
        condition: PublishedCondition,
        policies: Callable[[], GpuPolicies] = lambda: DEFAULT_POLICIES,
        nic_policies: Callable[[], NicPolicies] = lambda: DEFAULT_NIC_POLICIES,
        node_grace_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._view = view
        self._liveness = liveness
        self._writer = writer
        self._features = features
        self._condition = condition
        self._policies = policies
        self._nic_policies = nic_policies
        self._node_grace_s = node_grace_s
        self._clock = clock
        self._missed_since: dict[str, float] = {}
        self._doubted: set[str] = set()

    def run(self, node: str) -> float | None:
        """Do what is to be done; after how many seconds to look again whatever happens, or None.

        Raises:
            ApiServerError: Something could not be read or written; another pass goes on from there.
        """
        inventory = self._view.inventory(node)
        uid = self._view.node_uid(node)
        if inventory is None and not self._view.slices.pool(node):
            self._missed_since.pop(node, None)
            if uid is None:
                self._forget_heartbeat(node)
            return None
        if "/" in node:  # a pool may be named so, but no object: there is nothing to ask for or to wait for
            self._writer.withdraw(node)
            return None
        action = decide(self._look(node, uid, inventory), node_grace_s=self._node_grace_s)
        _LOG.debug("pass", extra={"node": node, "action": action.value})
        if self._liveness.is_heard(node, self._clock()):
            self._doubted.discard(node)
        elif inventory is not None and node not in self._doubted:
            self._doubt(node, inventory)
        match action:
            case Action.PUBLISH if inventory is not None and uid is not None:
                self._publish(uid, inventory)
            case Action.WITHDRAW_SILENT if inventory is not None:
                self._withdraw_silent(node, inventory)
            case Action.WITHDRAW_UNTOLD if self._is_missing(NODE_INVENTORIES, node):
                self._writer.withdraw(node)
            case Action.FORGET if self._is_missing(NODES, node):
                self._forget(node, inventory)
            case Action.AWAIT_NODE:
                return self._node_grace_s
        return None

    def _look(self, node: str, uid: str | None, inventory: JsonObject | None) -> NodeView:
        now = self._clock()
        if uid is None:
            self._missed_since.setdefault(node, now)
        else:
            self._missed_since.pop(node, None)
        condition = (self._condition.of(inventory) if inventory is not None else None) or {}
        return NodeView(
            has_node=uid is not None,
            node_was_seen=self._view.node_was_seen(node),
            missed_for_s=now - self._missed_since.get(node, now),
            has_inventory=inventory is not None,
            liveness=self._liveness.liveness(node, now),
            has_beaten=self._liveness.has_beaten(node),
            was_withdrawn=condition.get("reason") == SILENT,
        )

    def _publish(self, uid: str, wire: JsonObject) -> None:
        policies, has_counters = self._policies(), self._features.has_counters
        stored = self._view.slices.pool(wire["metadata"]["name"])
        health = node_health(wire)
        try:
            inventory = inventory_of(parse_node_inventory(wire))
            slices = resource_slices(
                inventory,
                policies=policies,
                nic_policies=self._nic_policies(),
                has_counters=has_counters,
                has_shares=self._features.has_shares,
                health=health,
                other_taints=foreign_taints(stored),
            )
        except InputError as error:
            # What was published before stays: its devices may be in use, and the next inventory may be good again.
            self._condition.put(wire, ok=False, reason="InvalidInventory", message=str(error))
            return
        except ApiServerError:
            raise
        except Exception as error:
            message = (
                f"{type(error).__name__} while the inventory was laid out: a bug of Rootport; see the controller's log"
            )
            self._condition.put(wire, ok=False, reason="InternalError", message=message)
            raise
        try:
            changes = self._writer.publish(slices, stored, node_uid=uid)
        except (InvalidError, ForbiddenError) as error:
            self._condition.put(wire, ok=False, reason="SlicesRefused", message=str(error))
            raise
        except NameTakenError as error:
            self._condition.put(wire, ok=False, reason="NameTaken", message=str(error))
            raise
        devices = sum(len(item.spec.devices) for item in slices)
        told = f"devices: {devices}, ResourceSlices: {len(slices)}, pool generation: {changes.generation}"
        losses = self._features.notes if inventory.gpus or inventory.nics else ()
        notes = left_out_notes(inventory, policies=policies, has_counters=has_counters)
        refused = (
            (f"all have the taint {CANNOT_PREPARE_TAINT}={health.cannot_prepare}:NoSchedule",)
            if health.cannot_prepare
            else ()
        )
        message = "; ".join((told, *refused, *losses, *notes))
        self._condition.put(wire, ok=True, reason="Published", message=message)

    def _doubt(self, node: str, inventory: JsonObject) -> None:
        """Once for each silence: a plugin that then says it is ready is about to be heard."""
        try:
            self._condition.doubt(inventory)
        except (InvalidError, ForbiddenError) as error:
            _LOG.warning("the condition is refused", extra={"node": node, "error": str(error)})
        self._doubted.add(node)

    def _withdraw_silent(self, node: str, inventory: JsonObject) -> None:
        # First the reason: were the slices deleted and this process killed, the next one would publish them again.
        try:
            self._condition.put(
                inventory,
                ok=False,
                reason=SILENT,
                message="the node's plugin is silent: it has not renewed its Lease, so nothing could be prepared there",
            )
        except (InvalidError, ForbiddenError) as error:
            # Such as a status that the node has filled to its limits: that must not keep its devices on offer.
            _LOG.warning("the condition is refused", extra={"node": node, "error": str(error)})
        self._writer.withdraw(node)

    def _is_missing(self, resource: Resource, name: str) -> bool:
        """Ask the API server itself before anything is deleted because a watch does not show an object."""
        try:
            self._api.get(resource, name)
        except NotFoundError as error:
            # A resource that is not served at all (its CRD is gone) says nothing about the object.
            return error.reason == "NotFound"
        return False

    def _forget(self, node: str, inventory: JsonObject | None) -> None:
        _LOG.info("node is gone: deleting what belongs to it", extra={"node": node})
        self._writer.withdraw(node)
        if inventory is not None:
            self._delete(NODE_INVENTORIES, node, uid=inventory["metadata"]["uid"])
        if self._view.has_lease(node):  # one that the watch does not show yet is left for :meth:`_forget_heartbeat`
            self._delete(LEASES, node, namespace=self._namespace)
        self._condition.forget(node)
        self._missed_since.pop(node, None)
        self._doubted.discard(node)
        self._view.forget(node)

    def _forget_heartbeat(self, node: str) -> None:
        """Where nothing but a Lease is left: a plugin that outlived its Node has made it anew, and then ended."""
        if self._view.has_lease(node):
            if self._liveness.liveness(node, self._clock()) is not Liveness.SILENT or not self._is_missing(NODES, node):
                return
            self._delete(LEASES, node, namespace=self._namespace)
        self._view.forget(node)

    def _delete(self, resource: Resource, name: str, *, uid: str | None = None, namespace: str | None = None) -> None:
        try:
            self._api.delete(resource, name, uid=uid, namespace=namespace)
        except NotFoundError:
            _LOG.debug("gone already", extra={"kind": resource.kind, "object": name})
