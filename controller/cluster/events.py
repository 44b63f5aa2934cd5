"""Passes on what the watches show to a listener who needs more of the objects than the publisher keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from controller.cluster.packed import PACKED, pack
from controller.cluster.transforms import SAID
from driver.adapters.kubernetes.resources import JsonObject, Resource

__all__ = ["ClusterListener", "News"]

_NEWS: Final = "news"


class ClusterListener(Protocol):
    """Gets everything that the watches show of what decides about devices; see :mod:`controller.explanations`."""

    def put(self, kind: str, key: str, data: bytes) -> None:
        """An object is new or has changed; ``data`` is of :func:`controller.cluster.packed.pack`."""

    def remove(self, kind: str, key: str) -> None:
        """An object is gone."""

    def see_claim(self, metadata: Mapping[str, Any]) -> None:
        """A claim is new or has changed: its metadata."""


class News:
    """From a watch's objects to a listener, who need not be there.

    Args:
        listener: Who is told.
    """

    def __init__(self, listener: ClusterListener | None) -> None:
        self._listener = listener

    def of(
        self, kept: Callable[[JsonObject], JsonObject], essence: Callable[[JsonObject], JsonObject]
    ) -> Callable[[JsonObject], JsonObject]:
        """A watch's transform: what it keeps, and from an object's arrival until it was told the essence as well."""
        if self._listener is None:
            return kept
        return lambda wire: kept(wire) | {_NEWS: pack(essence(wire))}

    def tell(self, resource: Resource, key: str, kept: JsonObject | None) -> None:
        """Tell of a change; what was kept for that alone is kept no longer."""
        if self._listener is None:
            return
        if kept is None:
            self._listener.remove(resource.kind, key)
            return
        if (said := kept.pop(SAID, None)) is not None:
            self._listener.see_claim(said)
        news = kept.pop(_NEWS, None) or kept.get(PACKED)
        if news is not None:
            self._listener.put(resource.kind, key, news)
