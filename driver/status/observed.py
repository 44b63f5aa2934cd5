"""The nodes and devices of a cluster, gathered object by object: from the API server, or from a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from driver.api.rootport_v1alpha1 import Device
from driver.errors import InputError
from driver.objects.invalid import field_errors
from driver.status.cluster import NodeWord, node_word

__all__ = ["Observed", "Observing"]

_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The nodes and devices of a cluster.

    Attributes:
        devices: Those that were asked for.
        words: What is known of the nodes themselves.
        notes: What could not be read and is left out, in words.
    """

    devices: tuple[Device, ...]
    words: dict[str, NodeWord]
    notes: tuple[str, ...] = ()


class Observing:
    """Gathers what there is of all nodes, or of one.

    Args:
        node: Only this one; None for all.
    """

    def __init__(self, node: str | None = None) -> None:
        self._node = node
        self._devices: dict[str, Device] = {}
        self._words: dict[str, NodeWord] = {}
        self._unreadable: list[str] = []
        self._unreadable_count = 0

    def take_device(self, wire: Mapping[str, Any]) -> None:
        """Take over a Device object; one that cannot be read is left out with a note."""
        try:
            device = Device.model_validate(wire)
        except ValidationError as error:
            self._unreadable_count += 1
            if len(self._unreadable) < _MOST_NAMED:
                self._unreadable.append(f"{wire['metadata']['name']} ({field_errors(error)[0]})")
            return
        if self._node in {None, device.spec.node_name}:
            self._devices[device.metadata.name] = device

    def take_inventory(self, wire: Mapping[str, Any]) -> None:
        """Take over what a NodeInventory says of its node."""
        name = wire["metadata"]["name"]
        if self._node in {None, name}:
            self._words[name] = node_word(wire)

    def result(self, *, is_selected: bool, notes: tuple[str, ...] = ()) -> Observed:
        """All of it.

        Args:
            is_selected: Only some devices were asked for: of nodes without one nothing is told.
            notes: What else could not be read.

        Raises:
            InputError: There is no such node.
        """
        if self._node is not None and not self._devices and not self._words:
            raise InputError(f"Rootport knows no node {self._node}", hint="`rootport status` lists those that it knows")
        words = self._words
        if is_selected:
            chosen = {device.spec.node_name for device in self._devices.values()}
            words = {name: word for name, word in words.items() if name in chosen}
        return Observed(devices=tuple(self._devices.values()), words=words, notes=(*self._left_out(), *notes))

    def _left_out(self) -> tuple[str, ...]:
        if not self._unreadable:
            return ()
        more = self._unreadable_count - len(self._unreadable)
        named = ", ".join(self._unreadable) + (f" and {more} more" if more else "")
        return (f"left out: Device objects that cannot be read ({self._unreadable_count}): {named}",)
