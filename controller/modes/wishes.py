"""What pending claims need to be published of GPUs, handed from the thread that finds it to those that publish."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from driver.model.devices import DeviceName

__all__ = ["NodeWishes", "Wishes"]

NodeWishes: TypeAlias = Mapping[DeviceName, frozenset[DeviceName]]
"""By the name of a GPU: the names of the devices that should be published of it."""

_NONE: Final[NodeWishes] = MappingProxyType({})


class Wishes:
    """The devices that should be published for claims that wait for them. Safe for several threads.

    A GPU without a wish keeps what is published of it.

    Args:
        enqueue: Called with the name of each node whose wishes have changed.
    """

    def __init__(self, enqueue: Callable[[str], None] = lambda _node: None) -> None:
        self._enqueue = enqueue
        self._lock = threading.Lock()
        self._wishes: dict[str, NodeWishes] = {}

    def of(self, node: str) -> NodeWishes:
        """Return the wishes for a node's GPUs; a GPU that is not named has none."""
        with self._lock:
            return self._wishes.get(node, _NONE)

    def set(self, wishes: Mapping[str, NodeWishes]) -> None:
        """Replace all wishes.

        Args:
            wishes: By the node's name. Nodes that are not named have no wishes any more.
        """
        new: dict[str, NodeWishes] = {
            node: MappingProxyType(dict(of_node)) for node, of_node in wishes.items() if of_node
        }
        with self._lock:
            former, self._wishes = self._wishes, new
        for node in sorted(former.keys() | new.keys()):
            if former.get(node, _NONE) != new.get(node, _NONE):
                self._enqueue(node)
