"""All nodes with their devices as they are now, and the changes since a version.

The device reconciler puts in the desired Device objects; the HTTP API, its stream of events and the metrics read them.
Three things are kept of each node: its overview, that as JSON, and its Device objects as compressed JSON. So 5,000
nodes of 16 devices fit in memory, and a change costs one node's work, however many clients there are.

Readers that fall behind cost nothing: of a node only its last state is kept, never a queue of changes.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from controller.cluster.packed import compress, decompress
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from driver.objects.names import node_label
from driver.status.overview import DeviceOverview, NodeOverview, ReadyState, device_overview

__all__ = ["Changes", "Overview"]

_MOST_GONE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes after a version.

    Attributes:
        version: The version that they lead to.
        is_reset: Whether the former version is not of this store, or too old: read everything anew. All other fields
            are empty then.
        nodes: The nodes that are new or changed, each as the JSON of its overview, the oldest change first.
        gone: The names of the nodes that are gone.
        claims: Whether pending claims changed.
    """

    version: int
    is_reset: bool = False
    nodes: tuple[bytes, ...] = ()
    gone: tuple[str, ...] = ()
    claims: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    version: int
    overview: NodeOverview
    wire: bytes
    specs: bytes
    statuses: bytes


class Overview:
    """The nodes by name. Thread-safe, if each node is put by one thread at a time.

    A node is found by its name or by the value of its label (:func:`driver.objects.node_label`).

    Args:
        first_version: The version of the empty store. By default it is the time in milliseconds, so that an earlier
            controller's version is never taken for one of this store. Browsers count to 2**53, which is enough.
    """

    def __init__(self, *, first_version: int | None = None) -> None:
        self._first = self._version = int(time.time() * 1000) if first_version is None else first_version
        self._changed = threading.Condition()
        # Both in the order of their versions: what is new stands at the end.
        self._nodes: OrderedDict[str, _Node] = OrderedDict()
        self._gone: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._forgotten = self._first  # the gone nodes up to this version are not known any more
        self._claims = self._first

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        return self._version

    def put(
        self,
        node: str,
        *,
        devices: Sequence[Device] | None,
        statuses: Mapping[str, DeviceStatus],
        state: ReadyState,
        reason: str,
        cannot_prepare: bool = False,
        managed: bool = False,
    ) -> None:
        """Put a node that is new or has changed. If it has not, the version stays the same.

        Args:
            node: Its name.
            devices: Its Device objects in the inventory's order, whose status is ignored; None for those of the last
                call. A node is not shown before the first call with devices.
            statuses: Their statuses, by the objects' names; a device without one has no status.
            state: Whether its plugin reports that it is ready.
            reason: Why it is not; empty if it is.
            cannot_prepare: Whether its plugin can prepare no claim at all.
            managed: Whether placement allocates its devices.
        """
        key = node_label(node)
        with self._changed:
            old = self._nodes.get(key)
        if devices is None:
            if old is None:
                return
            devices = tuple(Device.model_validate(item) for item in decompress(old.specs))
            specs = old.specs
        else:
            specs = compress([_spec(device) for device in devices])
        known = [statuses.get(device.metadata.name) for device in devices]
        packed = compress([None if status is None else status.to_wire() for status in known])
        shown = tuple(
            _shared(device_overview(device.model_copy(update={"status": status})), old)
            for device, status in zip(devices, known, strict=True)
        )
        overview = NodeOverview(
            name=node, state=state, reason=reason, cannot_prepare=cannot_prepare, managed=managed, devices=shown
        )
        if old is not None and (old.overview, old.specs, old.statuses) == (overview, specs, packed):
            return
        wire = json.dumps(overview.to_wire(), separators=(",", ":")).encode()
        with self._changed:
            self._version += 1
            self._gone.pop(key, None)
            self._nodes[key] = _Node(version=self._version, overview=overview, wire=wire, specs=specs, statuses=packed)
            self._nodes.move_to_end(key)
            self._changed.notify_all()

    def remove(self, node: str) -> None:
        """Remove a node that is gone, or has no inventory, if it is known."""
        key = node_label(node)
        with self._changed:
            known = self._nodes.pop(key, None)
            if known is None:
                return
            self._version += 1
            self._gone[key] = (self._version, known.overview.name)
            while len(self._gone) > _MOST_GONE:
                _, (self._forgotten, _) = self._gone.popitem(last=False)
            self._changed.notify_all()

    def claims_changed(self) -> None:
        """Count a change of the pending claims, or of their reasons, as a new version."""
        with self._changed:
            self._version += 1
            self._claims = self._version
            self._changed.notify_all()

    def nodes(self) -> tuple[NodeOverview, ...]:
        """Return all nodes, by name."""
        with self._changed:
            found = [item.overview for item in self._nodes.values()]
        return tuple(sorted(found, key=lambda item: item.name))

    def wires(self) -> tuple[int, tuple[bytes, ...]]:
        """Return the version, and all nodes by name, each as the JSON of its overview."""
        with self._changed:
            version, found = self._version, [(item.overview.name, item.wire) for item in self._nodes.values()]
        return version, tuple(wire for _, wire in sorted(found))

    def node(self, name: str) -> NodeOverview | None:
        """Return one node; None if it is not known."""
        known = self._nodes.get(node_label(name))
        return None if known is None else known.overview

    def devices(self, name: str) -> tuple[JsonObject, ...]:
        """Return a node's Device objects as JSON, with metadata.name, spec and status; none if it is not known."""
        known = self._nodes.get(node_label(name))
        if known is None:
            return ()
        pairs = zip(decompress(known.specs), decompress(known.statuses), strict=True)
        return tuple(spec if status is None else spec | {"status": status} for spec, status in pairs)

    def wait(self, since: int, timeout_s: float) -> Changes:
        """Return the changes after a version, and wait for some if there are none.

        Args:
            since: The version that the caller knows.
            timeout_s: How long to wait at most. After that there are no changes, and the version is the same.
        """
        with self._changed:
            if since <= self._version:
                self._changed.wait_for(lambda: self._version > since, timeout_s)
            if since > self._version or since < self._forgotten:
                return Changes(version=self._version, is_reset=True)
            newest = takewhile(lambda item: item.version > since, reversed(self._nodes.values()))
            left = takewhile(lambda item: item[0] > since, reversed(self._gone.values()))
            return Changes(
                version=self._version,
                nodes=tuple(item.wire for item in newest)[::-1],
                gone=tuple(name for _, name in left)[::-1],
                claims=self._claims > since,
            )


def _spec(device: Device) -> JsonObject:
    return {"metadata": {"name": device.metadata.name}, "spec": device.to_wire()["spec"]}


def _shared(device: DeviceOverview, old: _Node | None) -> DeviceOverview:
    """Return the equal object of before, if there is one: most of a node's devices do not change with one of them."""
    return next((item for item in old.overview.devices if item == device), device) if old else device
