"""Publishes inventory, conditions and health as the node's NodeInventory: one write for a change, none otherwise.

Written by server-side apply, so that what others add to the object (labels, annotations) stays theirs. The object has
no owner: were it the Node's, a Node registered anew would have the garbage collector delete a living node's inventory
and with it the pool. The controller removes the inventories of nodes that are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from driver import __version__
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import NODE_INVENTORIES, JsonObject
from driver.api.node_status import Condition, DeviceFault, NodeInventoryStatus
from driver.api.strict import StrictError, read, write
from driver.health.recovered import RECOVERED_ANNOTATION
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory, InventorySource
from driver.model.rivals import Rival
from driver.objects.faults import device_faults, device_rivals, known_rivals
from driver.objects.written_inventory import node_inventory
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType, conditions

__all__ = ["FIELD_MANAGER", "NodePublisher", "is_stored", "status_to_write"]

_LOG: Final = logging.getLogger(__name__)

FIELD_MANAGER: Final = "rootport-kubelet-plugin"
"""Whose fields these are in server-side apply; the same for all nodes, instances and versions."""


class NodePublisher:
    """Keeps one node's NodeInventory as it should be. :meth:`publish` is called from one thread at a time.

    Args:
        api: The API server.
        node: The node's name.
        spec: Returns the latest inventory as a spec; None if nothing has been discovered yet.
        reports: Returns the latest reports, READY first.
        health: Returns the devices' health; None if it is not known yet: what is stored stays.
        rivals: Returns who else gives out the node's devices; None if it is not known yet: what is stored stays.
        report: Called with a condition that has to do with the publishing itself.
        on_told: Called once, after the first run that told who else gives out the devices.
        recovered: Called with the object's annotation of devices that an administrator declares recovered.
        prepares_before_binding: Returns the types of devices that the plugin prepares before a pod is bound; None if
            it is not known yet: what is stored stays.
        former_rivals: Called with the rivals that are stored, none where there is no object.
        now: Returns the time.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        node: str,
        spec: Callable[[], JsonObject | None],
        reports: Callable[[], tuple[ConditionReport, ...]],
        health: Callable[[], NodeHealth | None] = lambda: None,
        rivals: Callable[[], tuple[Rival, ...] | None] = lambda: (),
        report: Callable[[ConditionReport], None] = lambda _: None,
        on_told: Callable[[], None] = lambda: None,
        recovered: Callable[[str], None] = lambda _: None,
        former_rivals: Callable[[tuple[Rival, ...]], None] = lambda _: None,
        prepares_before_binding: Callable[[], tuple[str, ...] | None] = lambda: (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._node = node
        self._spec = spec
        self._reports = reports
        self._health = health
        self._rivals = rivals
        self._report = report
        self._on_told = on_told
        self._recovered = recovered
        self._former_rivals = former_rivals
        self._before_binding = prepares_before_binding
        self._now = now
        # What was applied last, and what the API server made of it: a CRD older than this plugin drops fields, and
        # that must not be taken for a change to be undone again and again.
        self._applied: JsonObject | None = None
        self._accepted: JsonObject | None = None
        self._is_refused = False
        self._has_told = False
        self._status_applied: NodeInventoryStatus | None = None
        self._status_accepted: JsonObject | None = None

    def publish(self) -> None:
        """Read the stored NodeInventory and write what differs; an inventory that somebody deleted is made again.

        Raises:
            ApiServerError: The API server could not be asked, or has refused.
            RootportError: The devices' health could not be saved.
        """
        try:
            self._publish()
        finally:
            # Where there is nothing to tell, or the first conditions have been published or refused.
            if not self._has_told and (self._rivals() == () or self._reports()):
                self._has_told = True
                self._on_told()

    def has_told(self) -> bool:
        """Return whether it is known to the cluster who else gives out the devices, as far as the plugin knows it."""
        return self._has_told

    def _publish(self) -> None:
        stored = self._stored()
        if stored is not None:
            self._recovered(_annotation(stored, RECOVERED_ANNOTATION))
        self._former_rivals(() if stored is None else known_rivals(_status(stored).rivals))
        if self._must_wait(stored):
            return
        stored = self._publish_spec(stored)
        self._publish_status(stored)

    def _must_wait(self, stored: JsonObject | None) -> bool:
        """Whether devices must not be published yet: another system may give them out, and no status tells that.

        It waits until the rivals are known and told, and no longer than until the first conditions are published.
        """
        spec = self._spec()
        if spec is None or (stored is not None and is_stored(spec, stored)):
            return False
        rivals, has_reports = self._rivals(), bool(self._reports())
        if rivals is None:
            return not has_reports and stored is None
        if not rivals or (stored is not None and _status(stored).rivals == device_rivals(rivals)):
            return False
        if has_reports:
            self._publish_status(stored or self._apply(self._empty()))
        return not has_reports

    def _stored(self) -> JsonObject | None:
        try:
            return self._api.get(NODE_INVENTORIES, self._node)
        except NotFoundError as error:
            if error.reason == "NotFound":
                return None
            raise  # there is no such kind: its CRD is not installed

    def _publish_spec(self, stored: JsonObject | None) -> JsonObject:
        spec = self._spec()
        if spec is None:
            if stored is not None:
                # What is stored may still be right; the status says that this plugin cannot see it now.
                return stored
            # The conditions, which say why, need an object that carries them.
            spec = self._empty()
        if stored is not None and (
            is_stored(spec, stored) or (spec == self._applied and stored.get("spec") == self._accepted)
        ):
            self._report_refused(None)
            return stored
        try:
            accepted = self._apply(spec)
        except InvalidError as error:
            self._report_refused(error)
            return self._apply(self._empty()) if stored is None else stored
        self._report_refused(None)
        return accepted

    def _empty(self) -> JsonObject:
        spec: JsonObject = node_inventory(Inventory(node=self._node, source=InventorySource.LIVE))["spec"]
        return spec

    def _apply(self, spec: JsonObject) -> JsonObject:
        body: JsonObject = {"metadata": {"name": self._node}, "spec": spec}
        accepted = self._api.apply(NODE_INVENTORIES, body, field_manager=FIELD_MANAGER)
        self._applied, self._accepted = spec, accepted.get("spec")
        _LOG.info("inventory published", extra={"generation": accepted["metadata"].get("generation")})
        if not is_stored(spec, accepted):
            _LOG.warning("the API server does not store all of the inventory: update the CRDs to this version's")
        return accepted

    def _report_refused(self, error: InvalidError | None) -> None:
        """Report that the API server refuses the inventory, by the bounds of its CRD; or that it no longer does."""
        if error is None and not self._is_refused:
            return
        self._is_refused = True
        self._report(
            ConditionReport(
                type=ConditionType.INVENTORY_ACCEPTED,
                status=ConditionStatus.TRUE if error is None else ConditionStatus.FALSE,
                reason="Accepted" if error is None else "Refused",
                message=f"the API server refuses what the node has: {error}" if error else "the inventory is stored",
            )
        )

    def _publish_status(self, stored: JsonObject) -> None:
        to_write = partial(
            status_to_write,
            self._reports(),
            health=self._health(),
            rivals=self._rivals(),
            prepares_before_binding=self._before_binding(),
        )
        status = to_write(stored, now=self._now())
        if status is None or (status == self._status_applied and stored.get("status") == self._status_accepted):
            return
        body: JsonObject = {"metadata": {"name": self._node}, "status": write(status)}
        accepted = self._api.apply(NODE_INVENTORIES, body, field_manager=FIELD_MANAGER, subresource="status")
        self._status_applied, self._status_accepted = status, accepted.get("status")
        summary = status.conditions[0]
        fields = {
            "ready": summary.status,
            "reason": summary.reason,
            "faults": len(status.faults),
            "rivals": len(status.rivals),
        }
        _LOG.info("conditions published", extra=fields)
        if to_write(accepted, now=self._now()) is not None:
            _LOG.warning("the API server does not store all of the status: update the CRDs to this version's")


def is_stored(spec: JsonObject, stored: JsonObject) -> bool:
    """Whether a stored NodeInventory has this spec, and nothing else there."""
    return bool(stored.get("spec") == spec)


def status_to_write(
    reports: tuple[ConditionReport, ...],
    stored: JsonObject,
    *,
    health: NodeHealth | None = None,
    rivals: tuple[Rival, ...] | None = (),
    prepares_before_binding: tuple[str, ...] | None = (),
    now: datetime,
) -> NodeInventoryStatus | None:
    """Return the status that must be written; None if the stored object has it already.

    Args:
        reports: The latest ones; none while the process is starting.
        stored: The stored NodeInventory.
        health: The devices' health; None while it is not known: what is stored stays.
        rivals: Who else gives out the devices; None likewise.
        prepares_before_binding: The types of devices that the plugin prepares before a pod is bound, sorted;
            None likewise.
        now: The time of the transitions.
    """
    if not reports:
        return None
    generation = int(stored["metadata"].get("generation", 0))
    former = _status(stored)
    wanted = NodeInventoryStatus(
        conditions=conditions(reports, former.conditions, generation=generation, now=now),
        plugin_version=__version__,
        observed_generation=generation,
        # All of it each time: what is left out of an apply, its owner gives up.
        watched=former.watched if health is None else tuple(sorted(health.watched)),
        faults=former.faults if health is None else device_faults(health),
        rivals=former.rivals if rivals is None else device_rivals(rivals),
        prepares_before_binding=(
            former.prepares_before_binding if prepares_before_binding is None else prepares_before_binding
        ),
    )
    # Conditions of other types are somebody else's.
    ours = tuple(condition for condition in former.conditions if condition.type in set(ConditionType))
    changed = _ordered(replace(former, conditions=ours)) != _ordered(wanted)
    return wanted if changed else None


def _ordered(status: NodeInventoryStatus) -> NodeInventoryStatus:
    """Return the status with its lists sorted: the API server need not keep their order."""
    return replace(
        status,
        conditions=tuple(sorted(status.conditions, key=_type)),
        watched=tuple(sorted(status.watched)),
        prepares_before_binding=tuple(sorted(status.prepares_before_binding)),
        faults=tuple(sorted(status.faults, key=_fault_key)),
        rivals=tuple(
            replace(item, devices=tuple(sorted(item.devices)))
            for item in sorted(status.rivals, key=lambda item: (item.name, item.kind))
        ),
    )


def _annotation(stored: JsonObject, name: str) -> str:
    return str((stored["metadata"].get("annotations") or {}).get(name, ""))


def _status(stored: JsonObject) -> NodeInventoryStatus:
    try:
        return read(NodeInventoryStatus, stored.get("status") or {}, ignore_unknown=True)
    except StrictError:
        return NodeInventoryStatus()


def _type(condition: Condition) -> str:
    return condition.type


def _fault_key(fault: DeviceFault) -> tuple[str, str]:
    return fault.device, fault.reason
