"""What the controller sees of the cluster: six watches, and which node each change is about."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from controller.cluster.alignment_view import PodIndex
from controller.cluster.allocation_view import AllocationIndex
from controller.cluster.events import ClusterListener, News
from controller.cluster.liveness import LivenessTracker
from controller.cluster.packed import packed, unpacked
from controller.cluster.slice_cache import SliceCache
from controller.cluster.stored_devices import essence_of_device, has_status, is_same_but_status, status_digest
from controller.cluster.transforms import (
    HEALTH,
    allocations_of_claim,
    identity_of_node,
    inventory_with_health,
    news_of_claim,
    news_of_inventory,
    news_of_node,
    said_of_claim,
)
from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector
from driver.adapters.kubernetes.resources import (
    DEVICES,
    LEASES,
    NODE_INVENTORIES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
)
from driver.objects import NODE_LABEL, ClaimAllocation, PodConsumer, node_label

__all__ = ["ClusterView"]


class ClusterView:
    """The watches. Safe for several threads.

    Args:
        api: The API server.
        namespace: Where the Leases are.
        leader_lease: The name of the controller's own Lease, which is no node's.
        liveness: Gets the heartbeats.
        look_at: Called with the name of a node whose inventory, devices' health, Node or slices have changed.
        look_at_devices: Called with a node's label value when its Device objects may have to change.
        look_at_pod: Called with the UID of a pod whose claims' devices have changed.
        listener: Gets the slices of all drivers, the claims, the Nodes and the inventories; without one, less is read.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 - whom to tell of what, by name
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        leader_lease: str,
        liveness: LivenessTracker,
        look_at: Callable[[str], None],
        look_at_devices: Callable[[str], None],
        look_at_pod: Callable[[str], None] = lambda _uid: None,
        listener: ClusterListener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._namespace = namespace
        self._leader_lease = leader_lease
        self._leader_renewed: object = None
        self._liveness = liveness
        self._look_at = look_at
        self._look_at_devices = look_at_devices
        self._news = News(listener)
        self._clock = clock
        self._lock = threading.Lock()
        self._node_uids: dict[str, str] = {}
        self._told: dict[str, tuple[str, int, bytes]] = {}
        self._nodes_by_label: dict[str, str] = {}
        self._devices: defaultdict[str, dict[str, JsonObject]] = defaultdict(dict)
        self._device_labels: dict[str, str] = {}
        self._expected: dict[str, bytes] = {}
        self._allocations = AllocationIndex()
        self._specs_due: set[str] = set()
        self._inventories = Reflector(
            api,
            NODE_INVENTORIES,
            on_change=self._inventory_changed,
            transform=self._news.of(inventory_with_health, news_of_inventory),
        )
        self._nodes = Reflector(
            api,
            NODES,
            metadata_only=listener is None,
            on_change=self._node_changed,
            transform=self._news.of(identity_of_node, news_of_node),
        )
        self._leases = Reflector(api, LEASES, namespace=namespace, on_change=self._lease_changed)
        self._slices = Reflector(
            api,
            RESOURCE_SLICES,
            field_selector="" if listener else f"spec.driver={DRIVER_NAME}",
            on_change=self._slice_changed,
            transform=packed,
        )
        self._devices_seen = Reflector(api, DEVICES, on_change=self._device_changed, transform=essence_of_device)
        kept_of_claim = said_of_claim if listener else allocations_of_claim
        self._claims = Reflector(
            api,
            RESOURCE_CLAIMS,
            on_change=self._claim_changed,
            transform=self._news.of(kept_of_claim, news_of_claim),
        )
        self.slices = SliceCache(self._slices.get, clock=clock)
        """This driver's slices, by pool."""
        self.pods = PodIndex(self._allocations.of_claim, look_at_pod)
        """The pods that have devices of this driver, by UID."""

    def start(self, stop: threading.Event) -> list[threading.Thread]:
        """Watch until ``stop`` is set, in threads of their own."""
        threads = [
            threading.Thread(target=reflector.run, args=(stop,), name=f"watch-{name}", daemon=True)
            for name, reflector in (
                ("nodeinventories", self._inventories),
                ("nodes", self._nodes),
                ("leases", self._leases),
                ("resourceslices", self._slices),
                ("devices", self._devices_seen),
                ("resourceclaims", self._claims),
            )
        ]
        for thread in threads:
            thread.start()
        return threads

    @property
    def is_synced(self) -> bool:
        """Whether everything that decides about slices was read once."""
        return all(item.synced.is_set() for item in (self._inventories, self._nodes, self._leases, self._slices))

    @property
    def devices_are_synced(self) -> bool:
        """Whether the Device objects, and the claims that they tell of, were read once."""
        return self.is_synced and self._devices_seen.synced.is_set() and self._claims.synced.is_set()

    def inventory(self, node: str) -> JsonObject | None:
        """The node's NodeInventory."""
        found = self._inventories.get(node)
        return None if found is None else unpacked(found)

    def node_uid(self, node: str) -> str | None:
        """The Node's uid; None where there is no Node."""
        found = self._nodes.get(node)
        return None if found is None else str(found["metadata"]["uid"])

    def node_was_seen(self, node: str) -> bool:
        """Whether a Node of that name was there since this process started, or since it was forgotten."""
        with self._lock:
            return node in self._node_uids

    def has_lease(self, node: str) -> bool:
        """Whether there is a Lease of that name, other than the controllers' own."""
        return node != self._leader_lease and self._leases.get(f"{self._namespace}/{node}") is not None

    def node_of_label(self, label: str) -> str | None:
        """The node whose Device objects have this value of the label."""
        with self._lock:
            return self._nodes_by_label.get(label)

    def devices(self, label: str) -> list[JsonObject]:
        """The Device objects with this value of the node label; of each what :func:`essence_of_device` keeps."""
        with self._lock:
            return list(self._devices.get(label, {}).values())

    def expect_status(self, body: JsonObject) -> None:
        """A Device is about to have this status applied: once the watch shows it, it is no news."""
        with self._lock:
            self._expected[body["metadata"]["name"]] = status_digest(body["status"])

    def allocations(self, node: str) -> list[ClaimAllocation]:
        """What claims were given of this driver's devices on a node."""
        return self._allocations.of_pool(node)

    def take_specs_due(self, label: str) -> bool:
        """Whether more than claims may have changed since this was asked last, so that the specs need a look as well.

        To make a node's specs takes ten times as long as to make their statuses, and claims come and go all the time.
        """
        with self._lock:
            is_due = label in self._specs_due
            self._specs_due.discard(label)
        return is_due

    def specs_are_due(self, *labels: str) -> None:
        """The specs of the Device objects with these labels need a look."""
        with self._lock:
            self._specs_due.update(labels)

    def known(self) -> tuple[set[str], set[str]]:
        """All nodes and all node labels that there is something about; the specs of all are due."""
        nodes = {str(wire["metadata"]["name"]) for wire in self._inventories.objects()}
        labels = {node_label(node) for node in nodes}
        self.slices.retain(str(wire["metadata"]["name"]) for wire in self._slices.objects())
        with self._lock:
            labels.update(self._devices)
            self._specs_due.update(labels)
        return nodes.union(self.slices.pools()), labels

    def forget(self, node: str) -> None:
        """The node is gone, and all that was known of it is deleted."""
        self._liveness.forget(node)
        with self._lock:
            self._node_uids.pop(node, None)

    def _inventory_changed(self, name: str) -> None:
        inventory = self._inventories.get(name)
        self._news.tell(NODE_INVENTORIES, name, inventory)
        label = node_label(name)
        told: tuple[str, int, bytes] | None = None
        with self._lock:
            former = self._told.get(name)
            if inventory is None:
                self._told.pop(name, None)
                if self._nodes_by_label.get(label) == name:
                    del self._nodes_by_label[label]
            else:
                metadata = inventory["metadata"]
                told = (str(metadata["uid"]), int(metadata.get("generation", 0)), inventory[HEALTH])
                if told == former:
                    return  # its conditions: ours, or the plugin's
                self._told[name] = told
                self._nodes_by_label[label] = name
        if inventory is not None:
            self._liveness.track(name, self._clock())
        self._look_at(name)
        if told is None or former is None or told[:2] != former[:2]:
            self._look_at_specs(label)
        else:
            self._look_at_devices(label)  # nothing but the devices' health, of which their specs have nothing

    def _node_changed(self, name: str) -> None:
        self._news.tell(NODES, name, self._nodes.get(name))
        uid = self.node_uid(name)
        with self._lock:
            if uid is not None and self._node_uids.get(name) == uid:
                return  # its status, every few seconds
            if uid is not None:
                self._node_uids[name] = uid
        self._look_at(name)
        self._look_at_specs(node_label(name))

    def _lease_changed(self, key: str) -> None:
        lease = self._leases.get(key)
        if lease is None:
            return
        name = lease["metadata"]["name"]
        spec = lease.get("spec") or {}
        renewed = spec.get("renewTime")
        if name != self._leader_lease:
            is_released = not spec.get("holderIdentity")
            self._liveness.observe(name, str(renewed), self._clock(), is_released=is_released)
        elif renewed != self._leader_renewed:
            self._leader_renewed = renewed
            self._liveness.contact(self._clock())

    def _slice_changed(self, name: str) -> None:
        found = self._slices.get(name)
        self._news.tell(RESOURCE_SLICES, name, found)
        if found is not None and found["spec"]["driver"] != DRIVER_NAME:
            return
        for pool in self.slices.refresh(name):
            self._look_at(pool)

    def _look_at_specs(self, label: str) -> None:
        self.specs_are_due(label)
        self._look_at_devices(label)

    def _device_changed(self, name: str) -> None:
        device = self._devices_seen.get(name)
        known: JsonObject | None = None
        with self._lock:
            expected = self._expected.pop(name, None)
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
        is_same = is_same_but_status(known, device)
        if is_same and device is not None and has_status(device, expected):
            return
        look = self._look_at_devices if is_same else self._look_at_specs
        for changed in {former, label} - {None}:
            look(str(changed))

    def _claim_changed(self, key: str) -> None:
        claim = self._claims.get(key)
        self._news.tell(RESOURCE_CLAIMS, key, claim)
        given: tuple[ClaimAllocation, ...] = () if claim is None else claim["allocations"]
        pods: tuple[PodConsumer, ...] = () if claim is None else claim["pods"]
        pools = self._allocations.refresh(key, given)
        if self.pods.refresh(key, pods, is_given_anew=bool(pools)):
            pools |= {item.pool for item in given}
        for pool in pools:
            self._look_at_devices(node_label(pool))
