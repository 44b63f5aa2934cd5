"""Which devices of a node's GPUs are published, by its stored slices, and which of them with the taint of a change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.model.devices import DeviceName
from driver.modes.gpu import card_of
from driver.modes.rule import Layout

__all__ = ["NOTHING", "Published", "decisive_use", "read_published", "shared"]

_KINDS_OF_NODES: Final = 1024
_OTHER_MODES: Final = ("mig-", "gpu-ratio-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The published devices of a node's GPUs.

    Attributes:
        opened: Those that can be allocated.
        closed: Those with the taint of a change.
    """

    opened: frozenset[DeviceName]
    closed: frozenset[DeviceName]

    def __or__(self, other: Published) -> Published:
        """Return what may be published if either of the two is so: what is open in one of them counts as open."""
        opened = self.opened | other.opened
        return shared(opened, (self.closed | other.closed) - opened)


@lru_cache(maxsize=_KINDS_OF_NODES)
def shared(opened: frozenset[DeviceName], closed: frozenset[DeviceName]) -> Published:
    """Return what is published, as one object for all nodes of which the same is published.

    Args:
        opened: As the attribute.
        closed: Likewise.
    """
    return Published(opened=opened, closed=closed)


def read_published(stored: Iterable[JsonObject]) -> Published:
    """Return which devices of GPUs are published.

    A device in several slices, which a write has not reached yet, is open if any of them says so.

    Args:
        stored: All slices of this driver in a pool, as the API server has them.
    """
    opened: set[DeviceName] = set()
    closed: set[DeviceName] = set()
    for wire in stored:
        for device in wire["spec"].get("devices") or ():
            name = device["name"]
            if card_of(name) is not None:
                is_closed = any(taint["key"] == MODE_CHANGE_TAINT for taint in device.get("taints") or ())
                (closed if is_closed else opened).add(name)
    return shared(frozenset(opened), frozenset(closed - opened))


def decisive_use(layout: Layout, published: Published, in_use: Collection[str]) -> frozenset[str]:
    """Return what of the use of a node's devices decides what is published of them: equal where nothing changes.

    Args:
        layout: The cluster's layout.
        published: What is published of the node.
        in_use: The devices that claims have.
    """
    changing = {card_of(name) for name in published.closed}
    follows_use: set[str | None] = set()
    if layout is Layout.LEAN:
        # A GPU of which more than itself is published has other modes ready, or is in use in one of them.
        follows_use = {card_of(name) for name in published.opened if name.startswith(_OTHER_MODES)}
    found: set[str] = set()
    for name in in_use:
        card = card_of(name)
        if card is not None and (name not in published.opened or card in changing):
            found.add(name)
        elif card in follows_use:
            found.add(name.partition(f"-{card}")[0] + f"-{card}")
    return frozenset(found)


NOTHING: Final = shared(frozenset(), frozenset())
