"""Writes labels of Nodes by which users of Koordinator and of GPU Feature Discovery select GPUs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from controller.cluster.inventories import StoredInventory, Unreadable
from controller.compatibility.refusals import Refusals
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from driver.adapters.kubernetes.reflector import Reflector, keep
from driver.adapters.kubernetes.resources import NODES, JsonObject
from driver.objects.node_labels import NODE_LABELS, node_labels

__all__ = ["FIELD_MANAGER", "NodeLabels"]

FIELD_MANAGER: Final = "rootport-node-labels"
"""The field manager of the labels: what it does not own of them is somebody else's."""

_LOG: Final = logging.getLogger(__name__)
_CONFLICT_S: Final = 5.0  # by then the watch shows who has the label


class NodeLabels:
    """Makes this driver's labels of each Node those of its NodeInventory. :meth:`reconcile` is not thread-safe.

    A label that another manager has, such as GPU Feature Discovery, is left as it is, and to that manager alone.

    Args:
        api: The API server.
        inventory: Returns a node's NodeInventory; None if there is none.
        remove: Whether to remove all of the labels instead.
        enqueue: Called with the name of a Node that is new, or whose labels of these names have changed.
        pause: Called before each write: waits as long as the pace demands. Returns True if the controller stops.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        inventory: Callable[[str], StoredInventory | None],
        remove: bool,
        enqueue: Callable[[str], None],
        pause: Callable[[], bool],
    ) -> None:
        self._api = api
        self._inventory = inventory
        self._remove = remove
        self._enqueue = enqueue
        self._pause = pause
        self._seen: dict[str, JsonObject] = {}  # by the watch's thread
        self._left: dict[str, frozenset[str]] = {}
        self._refusals = Refusals("nodes are not labelled")
        self._nodes = Reflector(
            api, NODES, metadata_only=True, on_change=self._changed, transform=keep(_transform_node)
        )

    @property
    def is_synced(self) -> bool:
        """Whether the Nodes have been read once."""
        return self._nodes.synced.is_set()

    def watch(self, stop: threading.Event) -> None:
        """Watch the Nodes' labels until ``stop`` is set."""
        self._nodes.run(stop)

    def reconcile(self, node: str) -> float | None:
        """Write the Node's labels if they are not as they should be, for :func:`~controller.work_loop.work`.

        Raises:
            ApiServerError: The API server is away or too busy.
        """
        stored = self._nodes.get(node)
        wanted = None if stored is None else self._wanted(node)
        if stored is None or wanted is None:
            self._left.pop(node, None)
            return None
        has, own, others = stored["labels"], stored["own"], stored["others"]
        self._tell(node, frozenset(others & wanted.keys()))
        desired = {name: value for name, value in wanted.items() if name not in others}
        if desired == {name: has[name] for name in own} or self._pause():
            return None
        # With the UID: a Node that was deleted meanwhile, or is another one of its name, is not this one.
        metadata: JsonObject = {"name": node, "uid": stored["metadata"]["uid"]}
        body: JsonObject = {"metadata": metadata | ({"labels": desired} if desired else {})}
        try:
            self._api.apply(NODES, body, field_manager=FIELD_MANAGER, force=False)
        except ConflictError:
            return _CONFLICT_S
        except NotFoundError:
            return None
        except (ForbiddenError, InvalidError) as error:
            return self._refusals.again_s(error, node=node)
        self._refusals.end()
        _LOG.info("node labelled" if desired else "labels removed", extra={"node": node, "labels": len(desired)})
        return None

    def _wanted(self, node: str) -> dict[str, str] | None:
        """Return the labels; None for those that there are, while the inventory cannot be read."""
        stored = None if self._remove else self._inventory(node)
        if stored is None:
            return {}
        inventory = stored.inventory()
        return None if isinstance(inventory, Unreadable) else node_labels(inventory)

    def _tell(self, node: str, left: frozenset[str]) -> None:
        if left == self._left.get(node, frozenset()):
            return
        self._left[node] = left
        if left:
            _LOG.warning(
                "labels of others are left as they are: something else labels this node",
                extra={"node": node, "labels": ", ".join(sorted(left))},
            )

    def _changed(self, name: str, _event: None) -> None:
        found = self._nodes.get(name)
        former = self._seen.pop(name, None)
        if found is not None:
            self._seen[name] = found
            if former is not None and _decisive(former) == _decisive(found):
                return  # its heartbeat, or labels of other names
        self._enqueue(name)


def _transform_node(wire: JsonObject) -> JsonObject:
    """Keep a Node's labels of these names, which of them this field manager owns, and which are others'.

    One that both own is the other's: a write of another value would be refused.
    """
    metadata = wire["metadata"]
    labels = metadata.get("labels") or {}
    own: set[str] = set()
    theirs: set[str] = set()
    for entry in metadata.get("managedFields") or ():
        names = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
        (own if entry.get("manager") == FIELD_MANAGER else theirs).update(names)
    has = {name: labels[name] for name in NODE_LABELS if name in labels}
    return {
        "metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion")},
        "labels": has,
        "own": frozenset(name for name in has if f"f:{name}" in own),
        "others": frozenset(name for name in has if f"f:{name}" not in own - theirs),
    }


def _decisive(kept: JsonObject) -> tuple[object, ...]:
    return kept["metadata"]["uid"], kept["labels"], kept["own"], kept["others"]
