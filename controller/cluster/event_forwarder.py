"""Forwards events of the informers to a handler that needs more of the objects than the informers keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from controller.cluster.packed import PACKED, pack
from driver.adapters.kubernetes.reflector import keep
from driver.adapters.kubernetes.resources import JsonObject, Resource

__all__ = ["BothHandlers", "ClusterEvent", "ClusterEventHandler", "EventForwarder", "Transform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEvent:
    """An object is new or has changed.

    Attributes:
        data: The part of the object that matters to the handler, of :func:`controller.cluster.packed.pack`.
        claim: A claim's metadata with no other annotations than Rootport's; None for other kinds.
    """

    data: bytes
    claim: Mapping[str, Any] | None = None


class ClusterEventHandler(Protocol):
    """Gets every change of the objects that decide about devices; see :mod:`controller.explanations`."""

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Take in an object that is new or has changed; ``data`` is of :func:`controller.cluster.packed.pack`."""

    def remove(self, kind: str, key: str) -> None:
        """Drop an object that is gone."""

    def observe_claim(self, metadata: Mapping[str, Any]) -> None:
        """Take in the metadata of a claim that is new or has changed."""


class BothHandlers:
    """Hands every change to two handlers."""

    def __init__(self, one: ClusterEventHandler, other: ClusterEventHandler) -> None:
        self._handlers = (one, other)

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Take in an object that is new or has changed."""
        for handler in self._handlers:
            handler.put(kind, key, data)

    def remove(self, kind: str, key: str) -> None:
        """Drop an object that is gone."""
        for handler in self._handlers:
            handler.remove(kind, key)

    def observe_claim(self, metadata: Mapping[str, Any]) -> None:
        """Take in the metadata of a claim that is new or has changed."""
        for handler in self._handlers:
            handler.observe_claim(metadata)


class Transform(Protocol):
    """What a reflector takes as its transform."""

    def __call__(self, stored: JsonObject, /) -> tuple[JsonObject, ClusterEvent | None]:
        """Return what is kept of a stored object, and the event that is forwarded."""
        ...


class EventForwarder:
    """Makes events of stored objects, and forwards them to the handler, if there is one.

    Args:
        handler: Gets the events; None to make and forward none.
    """

    def __init__(self, handler: ClusterEventHandler | None) -> None:
        self._handler = handler

    def transform(
        self,
        kept: Callable[[JsonObject], JsonObject],
        event: Callable[[JsonObject], JsonObject],
        *,
        claim: Callable[[JsonObject], JsonObject] | None = None,
    ) -> Transform:
        """Return a transform that keeps ``kept(object)``, and forwards ``event(object)`` and ``claim(object)``."""
        if self._handler is None:
            return keep(kept)
        return lambda stored: (
            kept(stored),
            ClusterEvent(data=pack(event(stored)), claim=None if claim is None else claim(stored)),
        )

    def transform_packed(self, packed: Callable[[JsonObject], JsonObject]) -> Transform:
        """Return a transform that keeps ``packed(object)``, and forwards its bytes."""
        if self._handler is None:
            return keep(packed)

        def transform(stored: JsonObject) -> tuple[JsonObject, ClusterEvent]:
            kept = packed(stored)
            return kept, ClusterEvent(data=kept[PACKED])

        return transform

    def forward(self, resource: Resource, key: str, event: ClusterEvent | None) -> None:
        """Forward an event; None says that the object is gone."""
        if self._handler is None:
            return
        if event is None:
            self._handler.remove(resource.kind, key)
            return
        if event.claim is not None:
            self._handler.observe_claim(event.claim)
        self._handler.put(resource.kind, key, event.data)
