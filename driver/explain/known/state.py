"""The state of a cluster, as far as it decides about devices, kept current object by object.

It is fed by a watch, by lists, or from files with the API's JSON. No object makes it raise: one that cannot be read is
left out; ``notes`` has a line for it, and so has an answer that it could change (``left_out``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from weakref import WeakSet

from driver import DRIVER_NAME
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.ledger import Ledger
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.api.resource_v1 import DeviceClass, DeviceTaint, ResourceSlice
from driver.explain.known.cluster import (
    ClaimState,
    InventoryReport,
    Kind,
    NodeState,
    PodState,
    TaintRule,
)
from driver.explain.known.left_out import LeftOut
from driver.explain.known.placing import LEASE, Placing, read_lease, read_time
from driver.explain.known.pod_reading import read_pod, read_prepare_failure
from driver.explain.known.published import PublishedSlices
from driver.explain.known.reading import (
    UnreadableError,
    may_hold_devices,
    object_key,
    read_claim_state,
    read_class,
    read_inventory,
    read_node,
    read_safely,
    read_taint_rule,
)
from driver.explain.known.workloads import Workloads
from driver.layout.names import DEFAULT_ROUTE
from driver.model.health import CANNOT_PREPARE_TAINT, STRATEGY_TAINT, UNHEALTHY_TAINT, Fault
from driver.model.rivals import RIVAL_TAINT, Rival

__all__ = ["ChangedNodes", "ClusterState"]

_NOTES_SHOWN: Final = 5

_FOR_ANY_NODE: Final = frozenset({Kind.SLICE, Kind.TAINT_RULE})
_NO_REPORT: Final = InventoryReport()
_ROOTPORT: Final = "Rootport"


@dataclass(slots=True, eq=False, weakref_slot=True)
class ChangedNodes:
    """The nodes that have changed since somebody last looked, who empties it then.

    Attributes:
        names: Nodes of which the object, or what claims hold of them, has changed, or that have gone.
        may_be_any: Whether others may have changed as well, since slices or rules have.
    """

    names: set[str] = field(default_factory=set)
    may_be_any: bool = True


class ClusterState:
    """The objects that decide about devices. Not thread-safe: whoever shares it locks.

    Args:
        features: The feature gates of the cluster; by default Kubernetes' own defaults.

    Attributes:
        features: The same.
        notes: What the reader of any explanation should know; whoever feeds the state adds to it (features that are
            off, kinds that are not served), and it has a line for each object that cannot be read (a few, and how many
            more).
        left_out: The objects that are there and were not read.
        missing: Kinds of which a dump has no object, though the cluster may have some.
        generation: Grows with every change that can change an explanation. The same object put again, or a change of
            what no explanation looks at (a heartbeat, an annotation), is none.
        index: All devices, with the taints of rules on them, and without that of managed nodes.
        ledger: What allocated claims hold.
        classes: DeviceClasses by name.
        nodes: By name; ``NodeState.node`` stays one object as long as labels do.
        taint_rules: By name.
        templates: Keys of ResourceClaimTemplates.
        placing: The controller that leads, and whether it places; None where that is not known.
        why_not_placed: Returns why placement finds no node for a pod, by its UID; empty where that is not known.
        clock: The time; None where it is not known, as of a dump, or must not be told, so that texts stay the same.
    """

    def __init__(self, *, features: Features | None = None) -> None:
        self.features = features or Features()
        self.notes: list[str] = []
        self.left_out = LeftOut()
        self.missing: frozenset[Kind] = frozenset()
        self.generation = 0
        self.ledger = Ledger(self.features)
        self._slices = PublishedSlices(self.features)
        self.index: PoolIndex = self._slices.index
        self.classes: dict[str, DeviceClass] = {}
        self.nodes: dict[str, NodeState] = {}
        self.taint_rules: dict[str, TaintRule] = self._slices.rules
        self.templates: set[str] = set()
        self.placing: Placing | None = None
        self.why_not_placed: Callable[[str], str] = lambda _pod_uid: ""
        self.clock: Callable[[], datetime] | None = None
        self._workloads = Workloads(self.ledger)
        self._inventories: dict[str, InventoryReport] = {}
        self._versions: defaultdict[str, int] = defaultdict(int)
        self._version = 0
        self._room: dict[str, tuple[int, object, int]] = {}
        self._own_notes: list[str] = []
        self._followers: WeakSet[ChangedNodes] = WeakSet()

    def changed_nodes(self) -> ChangedNodes:
        """Return an object that names the nodes that change from now on; at first it says that any may have."""
        changed = ChangedNodes()
        self._followers.add(changed)
        return changed

    @property
    def selections(self) -> Selections:
        """Answers of selectors, shared by all who ask. Another object from time to time: ask for it each time."""
        return self._slices.selections

    def put(self, kind: Kind, wire: Mapping[str, Any]) -> None:
        """Take over an object that is new or has changed, as the API server stores it.

        Of pods, those that are not placed are enough, of templates their metadata; placed pods add names to holders.
        """
        try:
            key = object_key(wire)
        except UnreadableError as error:
            self._leave_out(kind, "", str(error), wire)
            return
        try:
            changed = self._put(kind, key, wire)
        except UnreadableError as error:
            self.generation += self._remove(kind, key)
            self._leave_out(kind, key, str(error), wire)
            return
        self._is_read(kind, key)
        self.generation += changed

    def publish(self, item: ResourceSlice) -> None:
        """Take over a ResourceSlice that is no JSON; slices with equal devices best share the tuple of them."""
        self._slices.add(item)
        self.generation += 1
        self._any_changed()

    def take_pod(self, pod: PodState) -> None:
        """Take over a pod that is no JSON."""
        self.generation += self._workloads.put_pod(pod.key, pod)

    def leave_out(self, kind: Kind, key: str, why: str, wire: Mapping[str, Any] | None = None) -> None:
        """Take note of an object that whoever feeds the state could not read; not where another version of it was.

        Args:
            kind: Its kind.
            key: ``namespace/name``, or ``name`` for kinds without a namespace.
            why: Why, and what to do about it. It is no line of ``notes``.
            wire: The object, as far as it is known.
        """
        if not self._knows(kind, key):
            self.generation += self.left_out.add(kind, key, why, matters=_matters(kind, wire), is_noted=False)

    def remove(self, kind: Kind, key: str) -> None:
        """Forget an object, if it is there.

        Args:
            kind: Its kind.
            key: ``namespace/name``, or ``name`` for kinds without a namespace.
        """
        self._is_read(kind, key)
        self.generation += self._remove(kind, key)

    def assume(self, claim: ClaimState) -> None:
        """Take a claim for allocated, as ``claim`` has it, until an object that is put shows it so.

        It is for who writes allocations: the next decision is not to take the same devices. Objects of the claim that
        still have no allocation do not end it, since they may be older than what was written; :meth:`forget` does.
        """
        self._claim_changed(self._workloads.assume(claim.key, claim))

    def forget(self, key: str) -> None:
        """Take back what was assumed of the claim ``namespace/name``, if no object has shown it since."""
        self._claim_changed(self._workloads.forget(key))

    def claim(self, key: str) -> ClaimState | None:
        """Return the claim ``namespace/name``."""
        return self._workloads.claims.get(key)

    def pod(self, key: str) -> PodState | None:
        """Return the pod ``namespace/name``."""
        return self._workloads.pods.get(key)

    def claim_keys(self) -> Collection[str]:
        """Return the keys of all claims."""
        return self._workloads.claims.keys()

    def pod_keys(self) -> Collection[str]:
        """Return the keys of all pods."""
        return self._workloads.pods.keys()

    def pending(self) -> tuple[str, ...]:
        """Return the keys of all claims without an allocation, sorted."""
        return self._workloads.pending()

    def pods_of(self, claim_key: str) -> tuple[PodState, ...]:
        """Return the pods that name the claim or own it: those not placed first, those that have ended last."""
        return self._workloads.pods_of(claim_key)

    def extended_claim(self, pod: PodState) -> ClaimState | None:
        """Return the claim that kube-scheduler has made of a pod's extended resources; None where there is none.

        It is found as the scheduler finds it, by its owner, also before it stands in the pod's status, where the name
        of one that the scheduler has deleted may stand. Without owners, as in a simulation, the name counts.
        """
        return self._workloads.extended_claim(pod)

    def pod_with_more_claims(self, namespace: str) -> PodState | None:
        """Return a pod of the namespace that names more claims than are read, if there is one."""
        found = (pod for pod in self._workloads.pods.values() if pod.has_more_claims and pod.namespace == namespace)
        return next(found, None)

    def holders(self, device: DeviceId) -> tuple[ClaimState, ...]:
        """Return the claims that have the device, or shares of it; admin access holds nothing."""
        return self._workloads.holders(device)

    def held_on(self, node: str) -> tuple[ClaimState, ...]:
        """Return the claims that hold something of a pool that only this node has, by key.

        A pool is a node's by what its slices say, or by its name where none of its slices are there any more.
        """
        pools = [pool for pool in self._slices.pools_of(node) if self._slices.nodes_of(pool) == {node}]
        pools += [pool for pool in self._workloads.held_pools(node) if not self._slices.nodes_of(pool)]
        keys = {key for pool in pools for key in self._workloads.holders_of_pool(pool)}
        return tuple(self._workloads.claims[key] for key in sorted(keys))

    @property
    def managed_nodes(self) -> list[str]:
        """The names of the nodes of which :meth:`is_tainted` is true."""
        return self._slices.managed_nodes

    def is_tainted(self, node: str) -> bool:
        """Whether Rootport's placement gives the node's devices: all of Rootport's there have the taint that says so.

        ``index`` has these devices without the taint: for what fits it counts as tolerated.
        """
        return self._slices.is_tainted(node)

    def managed_since(self, node: str) -> datetime | None:
        """Return since when that is so; None where it is not, or the taints have no time.

        Of several times the earliest counts: a device that comes later has the taint from its beginning.
        """
        return read_time(self._slices.managed_since(node))

    def nodes_of_slices(self) -> set[str]:
        """Return the names of nodes that ResourceSlices are for, whether their Node objects are there or not."""
        return self._slices.nodes

    def version(self, node: str) -> int:
        """Return a number that grows when the node's devices, taints, holdings or inventory may have changed."""
        return self.index.version(node) + self._versions.get(node, 0) + self._version

    def room(self, node: NodeState) -> int:
        """Return how many unused devices the node sees; 0 where a slice's node selector is invalid.

        Remembered until what the node sees changes: it is asked of thousands of nodes.
        """
        name = node.node.metadata.name
        version = self.version(name)
        known = self._room.get(name)
        if known is None or known[0] != version or known[1] is not node.node:
            known = self._room[name] = (version, node.node, self._count_room(node))
        return known[2]

    def _count_room(self, node: NodeState) -> int:
        try:
            view = self.index.view(node.node)
        except AllocationError:
            return 0
        room = view.size
        for pool in view.pools:
            in_use = self.ledger.in_use(pool.id)
            if in_use:
                room -= sum([device.name in in_use for part in pool.slices for device in part.source])
        return room

    def taint_source(self, device: DeviceId, taint: DeviceTaint) -> str:
        """Return who put a taint on a device: ``DeviceTaintRule NAME``, ``Rootport``, or ``its driver`` for others.

        Of Rootport's slices the controller keeps what an administrator has written into them.
        """
        rule = self._slices.rule_behind(device, taint)
        if rule:
            return f"DeviceTaintRule {rule}"
        if device.driver != DRIVER_NAME:
            return "its driver"
        return _ROOTPORT if taint.key.startswith(f"{DRIVER_NAME}/") else "an administrator, in its ResourceSlice"

    def is_unhealthy(self, device: DeviceId, taint: DeviceTaint) -> bool:
        """Whether the taint is Rootport's for a device that is not well."""
        return taint.key == UNHEALTHY_TAINT and self.taint_source(device, taint) == _ROOTPORT

    def is_refused(self, device: DeviceId, taint: DeviceTaint) -> bool:
        """Whether the taint is Rootport's for a node whose plugin can prepare no claim."""
        return taint.key == CANNOT_PREPARE_TAINT and self.taint_source(device, taint) == _ROOTPORT

    def lacks_strategy(self, device: DeviceId, taint: DeviceTaint) -> bool:
        """Whether the taint is Rootport's for a GPU whose strategy for shares the node cannot serve."""
        return taint.key == STRATEGY_TAINT and self.taint_source(device, taint) == _ROOTPORT

    def is_given_out_elsewhere(self, device: DeviceId, taint: DeviceTaint) -> bool:
        """Whether the taint is Rootport's for a device that another system gives out as well."""
        return taint.key == RIVAL_TAINT and self.taint_source(device, taint) == _ROOTPORT

    def has_default_route(self, device: DeviceId, taint: DeviceTaint) -> bool:
        """Whether the taint is Rootport's for a NIC through which the node's default route goes."""
        return taint.key == DEFAULT_ROUTE and self.taint_source(device, taint) == _ROOTPORT

    def rivals_behind(self, device: DeviceId, taint: DeviceTaint) -> tuple[Rival, ...]:
        """Return the rivals for which a device has Rootport's taint; none where the plugin no longer reports them."""
        return self._inventories.get(device.pool, _NO_REPORT).rivals_behind(device.device, taint.value)

    def fault_behind(self, device: DeviceId, taint: DeviceTaint) -> Fault | None:
        """Return the fault for which a device has Rootport's taint; None where the plugin no longer reports it."""
        return self._inventories.get(device.pool, _NO_REPORT).fault_behind(device.device, taint.value)

    def prepare_problem(self, pod: PodState) -> str:
        """Return why the pod's kubelet could not prepare its claims the last time; empty where no Event says so."""
        return self._workloads.prepare_problem(pod)

    def inventory_problem(self, node: str) -> str:
        """Return what the conditions of the node's NodeInventory name as wrong; empty if nothing, or there is none."""
        return self._inventories.get(node, _NO_REPORT).problem

    def inventory_remark(self, node: str) -> str:
        """Return what the controller left out of what it published for the node, and why; empty for nothing."""
        return self._inventories.get(node, _NO_REPORT).remark

    def modes_remark(self, node: str) -> str:
        """Return why not every mode of the node's GPUs is published all the time; empty where each is."""
        return self._inventories.get(node, _NO_REPORT).modes

    def _put(self, kind: Kind, key: str, wire: Mapping[str, Any]) -> bool:
        """Whether something changed."""
        if kind in _FOR_ANY_NODE:
            self._any_changed()
        match kind:
            case Kind.SLICE:
                return self._slices.put(key, wire)
            case Kind.TAINT_RULE:
                return self._slices.put_rule(read_safely(read_taint_rule, wire))
            case Kind.CLASS:
                return _replaced(self.classes, key, read_safely(read_class, wire))
            case Kind.CLAIM:
                return self._put_claim(key, read_safely(read_claim_state, wire))
            case Kind.POD:
                return self._workloads.put_pod(key, read_safely(read_pod, wire))
            case Kind.NODE:
                return self._put_node(key, read_safely(read_node, wire))
            case Kind.INVENTORY:
                return self._put_inventory(key, read_safely(read_inventory, wire))
            case Kind.EVENT:
                return self._workloads.put_prepare_failure(key, read_safely(read_prepare_failure, wire))
            case Kind.LEASE:
                return self._put_placing(read_safely(read_lease, wire))
            case Kind.TEMPLATE:
                is_new = key not in self.templates
                self.templates.add(key)
                return is_new

    def _remove(self, kind: Kind, key: str) -> bool:
        if kind in _FOR_ANY_NODE:
            self._any_changed()
        match kind:
            case Kind.SLICE:
                return self._slices.remove(key)
            case Kind.TAINT_RULE:
                return self._slices.remove_rule(key)
            case Kind.CLASS:
                return self.classes.pop(key, None) is not None
            case Kind.CLAIM:
                return self._put_claim(key, None)
            case Kind.POD:
                return self._workloads.put_pod(key, None)
            case Kind.NODE:
                self._room.pop(key, None)
                self._node_changed(key)
                return self.nodes.pop(key, None) is not None
            case Kind.INVENTORY:
                return self._put_inventory(key, _NO_REPORT)
            case Kind.EVENT:
                return self._workloads.put_prepare_failure(key, None)
            case Kind.LEASE:
                return key.rpartition("/")[2] == LEASE and self._put_placing(Placing())
            case Kind.TEMPLATE:
                was_there = key in self.templates
                self.templates.discard(key)
                return was_there

    def _put_placing(self, placing: Placing | None) -> bool:
        """Note who leads; whether more has changed than that it still does."""
        former = self.placing
        if placing is None:
            return False
        self.placing = placing
        return former is None or replace(former, renewed=None) != replace(placing, renewed=None)

    def _put_claim(self, key: str, claim: ClaimState | None) -> bool:
        return self._touched(self._workloads.put_claim(key, claim))

    def _claim_changed(self, touched: Collection[PoolId] | None) -> None:
        self.generation += self._touched(touched)

    def _touched(self, touched: Collection[PoolId] | None) -> bool:
        """Note a change of claims, if there was one: ``touched`` are the pools of which other devices are held."""
        for pool in touched or ():
            for node in self._slices.nodes_of(pool):
                self._touch(node)
        return touched is not None

    def _touch(self, node: str) -> None:
        """Note that what ``node`` sees has changed; the empty name stands for any node."""
        if node:
            self._versions[node] += 1
            self._node_changed(node)
        else:
            self._version += 1
            self._any_changed()

    def _node_changed(self, name: str) -> None:
        for changed in self._followers:
            changed.names.add(name)

    def _any_changed(self) -> None:
        for changed in self._followers:
            changed.may_be_any = True

    def _put_node(self, key: str, node: NodeState) -> bool:
        former = self.nodes.get(key)
        if former == node:
            return False
        if former is not None and former.node == node.node:
            node = replace(node, node=former.node)
        self.nodes[key] = node
        self._node_changed(key)
        return True

    def _put_inventory(self, key: str, word: InventoryReport) -> bool:
        if self._inventories.get(key, _NO_REPORT) == word:
            return False
        self._inventories[key] = word
        if word == _NO_REPORT:
            del self._inventories[key]
        self._touch(key)
        return True

    def _knows(self, kind: Kind, key: str) -> bool:
        known: Mapping[Kind, Container[str]] = {
            Kind.SLICE: self._slices.names,
            Kind.CLASS: self.classes,
            Kind.CLAIM: self._workloads.claims,
            Kind.POD: self._workloads.pods,
            Kind.NODE: self.nodes,
            Kind.TAINT_RULE: self.taint_rules,
            Kind.TEMPLATE: self.templates,
        }
        return key in known.get(kind, ())

    def _leave_out(self, kind: Kind, key: str, why: str, wire: Mapping[str, Any]) -> None:
        if self.left_out.add(kind, key, why, matters=_matters(kind, wire)):
            self._note_left_out()

    def _is_read(self, kind: Kind, key: str) -> None:
        """Note that an object which had been left out was read by now, or is gone."""
        if self.left_out.forget(kind, key):
            self._note_left_out()

    def _note_left_out(self) -> None:
        self.generation += 1
        # Only what is shown: a tenant may have thousands of them, and change each.
        lines = self.left_out.notes(_NOTES_SHOWN)
        self.notes[:] = [note for note in self.notes if note not in self._own_notes] + lines
        self._own_notes = lines


def _matters(kind: Kind, wire: Mapping[str, Any] | None) -> bool:
    """Whether an object that is not read may change an answer about others."""
    return kind is not Kind.CLAIM or wire is None or may_hold_devices(wire)


def _replaced(into: dict[str, DeviceClass], key: str, new: DeviceClass) -> bool:
    if into.get(key) == new:
        return False
    into[key] = new
    return True
