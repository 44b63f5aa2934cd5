"""Stored NodeInventories, each parsed once for all reconcilers of the node."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from controller.cluster.packed import PACKED, unpacked
from driver.adapters.kubernetes.resources import JsonObject
from driver.errors import InputError
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.objects.health import node_health
from driver.objects.inventories import inventory_of, parse_node_inventory

__all__ = ["InventoryCache", "StoredInventory", "Unreadable"]

# Bytes of packed objects. A node of eight GPUs with MIG and eight NICs with 16 VFs each has 2 KiB; parsed, 70 to 130
# times that.
_MOST_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a NodeInventory cannot be read.

    Attributes:
        message: All mistakes, for a person.
    """

    message: str


_Version: TypeAlias = tuple[str, str]


class InventoryCache:
    """The inventories that were parsed last, by UID and resource version. Safe for several threads.

    Several reconcilers read the same inventory within a second, and to parse it takes milliseconds. More is not kept:
    of thousands of nodes that would be most of the controller's memory.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parsed: OrderedDict[_Version, tuple[Inventory | Unreadable, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._parsed)

    def get(self, version: _Version) -> Inventory | Unreadable | None:
        """Return the inventory of this UID and resource version; None if it is not kept."""
        with self._lock:
            found = self._parsed.get(version)
            return None if found is None else found[0]

    def put(self, version: _Version, parsed: Inventory | Unreadable, size: int) -> None:
        """Keep an inventory whose packed object has ``size`` bytes, in place of the oldest ones."""
        with self._lock:
            if version in self._parsed or size > _MOST_BYTES:
                return
            self._parsed[version] = parsed, size
            self._bytes += size
            while self._bytes > _MOST_BYTES:
                _, (_, freed) = self._parsed.popitem(last=False)
                self._bytes -= freed


class StoredInventory:
    """A NodeInventory as the API server has it, unpacked and parsed only when that is asked for. For one thread.

    Args:
        kept: What the informer keeps of it: :func:`controller.cluster.transforms.transform_inventory`.
        cache: What was parsed before.
    """

    def __init__(self, kept: JsonObject, cache: InventoryCache) -> None:
        self._kept = kept
        self._cache = cache

    @property
    def name(self) -> str:
        """The object's name, which is the node's."""
        return str(self._kept["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self._kept["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """The generation of its specification; 0 if it has none."""
        return int(self._kept["metadata"].get("generation", 0))

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """The conditions of its status."""
        return (self._wire.get("status") or {}).get("conditions") or ()

    @property
    def health(self) -> NodeHealth:
        """The health of the node's devices, by its status."""
        return node_health(self._wire)

    @property
    def claims_to_prepare(self) -> frozenset[str]:
        """The UIDs of the claims that its status names to be prepared before their pods are bound."""
        listed = (self._wire.get("status") or {}).get("claimsToPrepare") or ()
        return frozenset(str(item["uid"]) for item in listed)

    def condition(self, type_: str) -> Mapping[str, Any] | None:
        """Return the condition of this type; None if there is none."""
        return next((item for item in self.conditions if item.get("type") == type_), None)

    def inventory(self) -> Inventory | Unreadable:
        """Return the node's inventory, or why it cannot be read."""
        # Not by generation: a status that cannot be read makes the whole object unreadable.
        version = (self.uid, str(self._kept["metadata"]["resourceVersion"]))
        if (known := self._cache.get(version)) is not None:
            return known
        parsed: Inventory | Unreadable
        try:
            parsed = inventory_of(parse_node_inventory(self._wire))
        except InputError as error:
            parsed = Unreadable(str(error))
        self._cache.put(version, parsed, len(self._kept[PACKED]))
        return parsed

    @cached_property
    def _wire(self) -> JsonObject:
        return unpacked(self._kept)
