"""The controller's informers: six watches, and which keys each change adds to the work queues."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from controller.cluster.claim_index import AllocationIndex, AwaitingClaims
from controller.cluster.event_forwarder import ClusterEvent, ClusterEventHandler, EventForwarder
from controller.cluster.expected_devices import ExpectedDevices
from controller.cluster.inventories import InventoryCache, StoredInventory
from controller.cluster.liveness import LivenessTracker
from controller.cluster.packed import packed
from controller.cluster.pod_index import PodIndex
from controller.cluster.slice_cache import SliceCache
from controller.cluster.stored_devices import is_same_but_status, transform_device
from controller.cluster.transforms import (
    AWAITED,
    HEALTH,
    NODE_ALLOCATABLE,
    UID,
    claim_event,
    claim_metadata,
    inventory_event,
    node_event,
    transform_claim,
    transform_inventory,
    transform_node,
)
from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector, keep, without_managed_fields
from driver.adapters.kubernetes.resources import (
    DEVICES,
    LEASES,
    NODE_INVENTORIES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
)
from driver.api.claim_reference import ClaimReference
from driver.model.managed_nodes import is_labelled
from driver.objects.claims import ClaimAllocation
from driver.objects.consumers import Consumer
from driver.objects.names import NODE_LABEL, node_label

__all__ = ["ClusterInformers"]

_NO_TRAITS: Final = (False, False)


class ClusterInformers:
    """Watches the objects that decide about slices and devices. Safe for several threads.

    Args:
        api: The API server.
        namespace: Where the Leases are.
        leader_lease: The name of the controller's own Lease, which is no node's.
        liveness: Gets the heartbeats.
        enqueue_node: Called with the name of a node whose inventory, devices' health, Node or slices have changed.
        enqueue_devices: Called with a node's label value when its Device objects may have to change.
        enqueue_pod: Called with the UID of a pod whose claims' devices have changed.
        use_changed: Called with the name of a node when claims have other devices of it than before.
        awaited_changed: Called with the name of a node when other claims wait for its plugin than before.
        handler: Gets the slices of all drivers, the claims, the Nodes and the inventories; without one, less is read.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        leader_lease: str,
        liveness: LivenessTracker,
        enqueue_node: Callable[[str], None],
        enqueue_devices: Callable[[str], None],
        enqueue_pod: Callable[[str], None] = lambda _uid: None,
        use_changed: Callable[[str], None] = lambda _node: None,
        awaited_changed: Callable[[str], None] = lambda _node: None,
        handler: ClusterEventHandler | None = None,
    ) -> None:
        self._namespace = namespace
        self._leader_lease = leader_lease
        self._leader_renewed: object = None
        self._liveness = liveness
        self._enqueue_node = enqueue_node
        self._enqueue_devices = enqueue_devices
        self._use_changed = use_changed
        self._awaited_changed = awaited_changed
        self._forwarder = EventForwarder(handler)
        self._lock = threading.Lock()
        self._node_uids: dict[str, str] = {}
        self._node_traits: dict[str, tuple[bool, bool]] = {}  # of a few nodes: to be managed; the kubelet's feature
        self._versions: dict[str, tuple[str, int, bytes]] = {}
        self._nodes_by_label: dict[str, str] = {}
        self._devices: defaultdict[str, dict[str, JsonObject]] = defaultdict(dict)
        self._device_labels: dict[str, str] = {}
        self._allocations = AllocationIndex()
        self._specs_due: set[str] = set()
        self._parsed = InventoryCache()
        self._inventories = Reflector(
            api,
            NODE_INVENTORIES,
            on_change=self._inventory_changed,
            transform=self._forwarder.transform(transform_inventory, inventory_event),
        )
        self._nodes = Reflector(
            api,
            NODES,
            metadata_only=handler is None,
            on_change=self._node_changed,
            transform=self._forwarder.transform(transform_node, node_event),
        )
        self._leases = Reflector(
            api, LEASES, namespace=namespace, on_change=self._lease_changed, transform=keep(without_managed_fields)
        )
        self._slices = Reflector(
            api,
            RESOURCE_SLICES,
            field_selector="" if handler else f"spec.driver={DRIVER_NAME}",
            on_change=self._slice_changed,
            transform=self._forwarder.transform_packed(packed),
        )
        self._devices_seen = Reflector(api, DEVICES, on_change=self._device_changed, transform=keep(transform_device))
        self._claims = Reflector(
            api,
            RESOURCE_CLAIMS,
            on_change=self._claim_changed,
            transform=self._forwarder.transform(transform_claim, claim_event, claim=claim_metadata),
        )
        self.slices = SliceCache(self._slices.get)
        """This driver's slices, by pool."""
        self.pods = PodIndex(self._allocations.of_claim, enqueue_pod)
        """The pods and PodGroups that have devices of this driver, by UID."""
        self.awaiting = AwaitingClaims()
        """The claims that wait for a node's plugin before their pods are bound."""
        self.expected_devices = ExpectedDevices()
        """The own writes of Device objects, which enqueue nothing once the watch shows them."""

    def start(
        self, stop: threading.Event, *, devices_after: Callable[[], object] = lambda: None
    ) -> list[threading.Thread]:
        """Watch until ``stop`` is set, in threads of their own.

        Args:
            stop: Ends the watches.
            devices_after: Waits until it is time to read the Device objects, which decide about no slice, and are the
                most objects of all.
        """

        def run(reflector: Reflector[Any], *, later: bool) -> None:
            if later:
                devices_after()
            reflector.run(stop)

        threads = [
            threading.Thread(target=run, args=(reflector,), kwargs={"later": later}, name=f"watch-{name}", daemon=True)
            for name, reflector, later in (
                ("nodeinventories", self._inventories, False),
                ("nodes", self._nodes, False),
                ("leases", self._leases, False),
                ("resourceslices", self._slices, False),
                ("devices", self._devices_seen, True),
                ("resourceclaims", self._claims, False),
            )
        ]
        for thread in threads:
            thread.start()
        return threads

    @property
    def is_synced(self) -> bool:
        """Whether everything that decides about slices has been read once.

        Claims as well: a device that one has must not leave the slices.
        """
        deciding = (self._inventories, self._nodes, self._leases, self._slices, self._claims)
        return all(item.synced.is_set() for item in deciding)

    @property
    def devices_are_synced(self) -> bool:
        """Whether the Device objects have been read once as well, which have what claims have in their status."""
        return self.is_synced and self._devices_seen.synced.is_set()

    def inventory(self, node: str) -> StoredInventory | None:
        """Return the node's NodeInventory; None if there is none."""
        found = self._inventories.get(node)
        return None if found is None else StoredInventory(found, self._parsed)

    def node_uid(self, node: str) -> str | None:
        """Return the Node's UID; None if there is no Node."""
        found = self._nodes.get(node)
        return None if found is None else str(found["metadata"]["uid"])

    def is_labelled_managed(self, node: str) -> bool:
        """Return whether the Node's label makes it managed."""
        found = self._nodes.get(node)
        return found is not None and _is_labelled(found)

    def declares_node_allocatable(self, node: str) -> bool:
        """Return whether the node's kubelet declares that it heeds what devices take of its CPU and memory."""
        return NODE_ALLOCATABLE in (self._nodes.get(node) or {})

    @property
    def node_count(self) -> int:
        """How many Nodes there are."""
        return self._nodes.count

    def node_was_seen(self, node: str) -> bool:
        """Return whether a Node of that name existed since this process started, or since it was forgotten."""
        with self._lock:
            return node in self._node_uids

    def has_lease(self, node: str) -> bool:
        """Return whether there is a Lease of that name, other than the controllers' own."""
        return node != self._leader_lease and self._leases.get(f"{self._namespace}/{node}") is not None

    def node_of_label(self, label: str) -> str | None:
        """Return the node whose Device objects have this value of the label; None if it is not known."""
        with self._lock:
            return self._nodes_by_label.get(label)

    def devices(self, label: str) -> list[JsonObject]:
        """Return what :func:`transform_device` keeps of the Device objects with this value of the node label."""
        with self._lock:
            return list(self._devices.get(label, {}).values())

    def allocations(self, node: str) -> list[ClaimAllocation]:
        """Return the claims' allocations of this driver's devices on a node."""
        return self._allocations.of_pool(node)

    def take_specs_due(self, label: str) -> bool:
        """Return whether the specs of a node's Device objects may have to change, and take them as done.

        To make a node's specs takes ten times as long as to make their statuses, and most changes are those of claims,
        which change no spec.
        """
        with self._lock:
            is_due = label in self._specs_due
            self._specs_due.discard(label)
        return is_due

    def specs_are_due(self, *labels: str) -> None:
        """Remember that the specs of the Device objects with these labels may have to change."""
        with self._lock:
            self._specs_due.update(labels)

    def known(self) -> tuple[set[str], set[str]]:
        """Return all nodes and all node labels that there are objects of, and mark the specs of all as due."""
        nodes = {str(wire["metadata"]["name"]) for wire in self._inventories.objects()}
        labels = {node_label(node) for node in nodes}
        self.slices.retain(str(wire["metadata"]["name"]) for wire in self._slices.objects())
        with self._lock:
            labels.update(self._devices)
            self._specs_due.update(labels)
        return nodes.union(self.slices.pools()), labels

    def forget(self, node: str) -> None:
        """Forget a node that is gone, with everything that belonged to it."""
        self._liveness.forget(node)
        with self._lock:
            self._node_uids.pop(node, None)

    def _inventory_changed(self, name: str, event: ClusterEvent | None) -> None:
        inventory = self._inventories.get(name)
        self._forwarder.forward(NODE_INVENTORIES, name, event)
        label = node_label(name)
        version: tuple[str, int, bytes] | None = None
        with self._lock:
            former = self._versions.get(name)
            if inventory is None:
                self._versions.pop(name, None)
                if self._nodes_by_label.get(label) == name:
                    del self._nodes_by_label[label]
            else:
                metadata = inventory["metadata"]
                version = (str(metadata["uid"]), int(metadata.get("generation", 0)), inventory[HEALTH])
                if version == former:
                    return  # its conditions: ours, or the plugin's
                self._versions[name] = version
                self._nodes_by_label[label] = name
        if inventory is not None:
            self._liveness.track(name, time.monotonic())
        self._enqueue_node(name)
        if version is None or former is None or version[:2] != former[:2]:
            self._enqueue_specs(label)
        else:
            self._enqueue_devices(label)  # only the devices' health, which is in no spec

    def _node_changed(self, name: str, event: ClusterEvent | None) -> None:
        self._forwarder.forward(NODES, name, event)
        found = self._nodes.get(name)
        uid = None if found is None else str(found["metadata"]["uid"])
        with self._lock:
            former = self._node_traits.pop(name, _NO_TRAITS)
            traits = _NO_TRAITS if found is None else (_is_labelled(found), NODE_ALLOCATABLE in found)
            if traits != _NO_TRAITS:
                self._node_traits[name] = traits
            if uid is not None and self._node_uids.get(name) == uid and former == traits:
                return  # its status, every few seconds
            if uid is not None:
                self._node_uids[name] = uid
        self._enqueue_node(name)
        self._enqueue_specs(node_label(name))

    def _lease_changed(self, key: str, _event: None) -> None:
        lease = self._leases.get(key)
        if lease is None:
            return
        name = lease["metadata"]["name"]
        spec = lease.get("spec") or {}
        renewed = spec.get("renewTime")
        if name != self._leader_lease:
            is_released = not spec.get("holderIdentity")
            self._liveness.observe(name, str(renewed), time.monotonic(), is_released=is_released)
        elif renewed != self._leader_renewed:
            self._leader_renewed = renewed
            self._liveness.contact(time.monotonic())

    def _slice_changed(self, name: str, event: ClusterEvent | None) -> None:
        found = self._slices.get(name)
        self._forwarder.forward(RESOURCE_SLICES, name, event)
        if found is not None and found["spec"]["driver"] != DRIVER_NAME:
            return
        for pool in self.slices.refresh(name):
            self._enqueue_node(pool)

    def _enqueue_specs(self, label: str) -> None:
        self.specs_are_due(label)
        self._enqueue_devices(label)

    def _device_changed(self, name: str, _event: None) -> None:
        device = self._devices_seen.get(name)
        known: JsonObject | None = None
        with self._lock:
            former = self._device_labels.pop(name, None)
            if former is not None:
                known = self._devices[former].pop(name, None)
                if not self._devices[former]:
                    del self._devices[former]
            label = former
            if device is not None:
                label = str((device["metadata"].get("labels") or {}).get(NODE_LABEL, ""))
                self._device_labels[name] = label
                self._devices[label][name] = device
        if self.expected_devices.is_own(name, known, device):
            return
        enqueue = self._enqueue_devices if is_same_but_status(known, device) else self._enqueue_specs
        for changed in {former, label} - {None}:
            enqueue(str(changed))

    def _claim_changed(self, key: str, event: ClusterEvent | None) -> None:
        claim = self._claims.get(key)
        self._forwarder.forward(RESOURCE_CLAIMS, key, event)
        allocations: tuple[ClaimAllocation, ...] = () if claim is None else claim["allocations"]
        users: tuple[Consumer, ...] = () if claim is None else claim["consumers"]
        pools = self._allocations.refresh(key, allocations)
        for pool in pools:
            self._use_changed(pool)
        if self.pods.refresh(key, users, is_allocation_changed=bool(pools)):
            pools |= {item.pool for item in allocations}
        for pool in pools:
            self._enqueue_devices(node_label(pool))
        namespace, _, name = key.partition("/")
        awaited = None if claim is None else claim.get(AWAITED)
        reference = ClaimReference(namespace=namespace, name=name, uid=claim[UID]) if claim and awaited else None
        for node in self.awaiting.refresh(key, reference, awaited or ()):
            self._awaited_changed(node)


def _is_labelled(node: JsonObject) -> bool:
    return is_labelled(node["metadata"].get("labels") or {})
