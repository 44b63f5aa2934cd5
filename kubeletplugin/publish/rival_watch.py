"""Notices at once that the Node's extended resources, or other drivers' ResourceSlices of this node, have changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector, keep
from driver.adapters.kubernetes.resources import NODES, RESOURCE_SLICES, JsonObject
from driver.objects.extended_resources import extended_amounts

__all__ = ["RivalWatch"]

# A check asks the API server twice, and writes to the host's folders. A driver may write slices all the time.
_INTERVAL_S: Final = 5.0


class RivalWatch:
    """Two watches that only say that something has changed: what it is, the checks ask themselves.

    Without the right to watch, or while the API server is away, the checks run at their intervals all the same.

    Args:
        api: The API server.
        node: The node's name.
        on_change: Called at once after a change, from a thread of its own, and for changes soon after it once.
        interval_s: The least seconds between two such calls.
    """

    def __init__(
        self, api: KubernetesApi, *, node: str, on_change: Callable[[], None], interval_s: float = _INTERVAL_S
    ) -> None:
        self._on_change = on_change
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._resources: Mapping[str, object] = {}
        self._node = Reflector[Mapping[str, object]](
            api,
            NODES,
            field_selector=f"metadata.name={node}",
            on_change=self._node_changed,
            transform=_resources_of,
        )
        self._slices = Reflector[None](
            api,
            RESOURCE_SLICES,
            field_selector=f"spec.nodeName={node},spec.driver!={DRIVER_NAME}",
            metadata_only=True,
            on_change=lambda _name, _event: self._changed.set(),
            transform=keep(_identity),
        )

    def start(self) -> None:
        """Watch until :meth:`stop`."""
        for name, reflector in (("node", self._node), ("slices", self._slices)):
            run = reflector.run
            threading.Thread(target=run, args=(self._stop,), name=f"watch-{name}", daemon=True).start()
        threading.Thread(target=self._tell, name="watch-rivals", daemon=True).start()

    def stop(self) -> None:
        """End both watches; no thread is waited for."""
        self._stop.set()
        self._changed.set()

    def _tell(self) -> None:
        while not self._stop.is_set():
            self._changed.wait()
            self._changed.clear()
            if not self._stop.is_set():
                self._on_change()
            self._stop.wait(self._interval_s)

    def _node_changed(self, _name: str, resources: Mapping[str, object] | None) -> None:
        found = resources or {}
        if found != self._resources:  # the kubelet renews the Node every few minutes
            self._resources = found
            self._changed.set()


def _resources_of(stored: JsonObject) -> tuple[JsonObject, Mapping[str, object]]:
    return _identity(stored), extended_amounts((stored.get("status") or {}).get("capacity"))


def _identity(stored: JsonObject) -> JsonObject:
    metadata = stored["metadata"]
    return {"metadata": {key: metadata[key] for key in ("name", "resourceVersion") if key in metadata}}
