"""Collects a cluster's nodes and devices object by object, from the API server or from a dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from driver.api.rootport_v1alpha1 import Device
from driver.errors import InputError
from driver.objects.invalid import object_errors
from driver.status.cluster import NodeReadiness, node_readiness
from driver.wording import listed

__all__ = ["Observation", "ObservationBuilder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The nodes and devices of a cluster at one moment.

    Attributes:
        devices: The devices that were asked for.
        readiness: The readiness of the nodes, by name.
        notes: Sentences about what could not be read and is left out.
    """

    devices: tuple[Device, ...]
    readiness: dict[str, NodeReadiness]
    notes: tuple[str, ...] = ()


class ObservationBuilder:
    """Collects the objects of all nodes, or of one.

    Args:
        node: The only node to collect; None for all.
    """

    def __init__(self, node: str | None = None) -> None:
        self._node = node
        self._devices: dict[str, Device] = {}
        self._readiness: dict[str, NodeReadiness] = {}
        self._unreadable: list[str] = []

    def add_device(self, wire: Mapping[str, Any]) -> None:
        """Add a Device object; one that cannot be read is left out with a note."""
        try:
            device = Device.model_validate(wire)
        except ValidationError as error:
            self._unreadable.append(f"{wire['metadata']['name']} ({object_errors(error)[0]})")
            return
        if self._node in {None, device.spec.node_name}:
            self._devices[device.metadata.name] = device

    def add_inventory(self, wire: Mapping[str, Any]) -> None:
        """Add a NodeInventory's statement about its node."""
        name = wire["metadata"]["name"]
        if self._node in {None, name}:
            self._readiness[name] = node_readiness(wire)

    def result(self, *, is_selected: bool, notes: tuple[str, ...] = ()) -> Observation:
        """Return what was collected.

        Args:
            is_selected: Whether only some devices were asked for; nodes without one of them are left out then.
            notes: Further sentences about what could not be read.

        Raises:
            InputError: There is no such node.
        """
        if self._node is not None and not self._devices and not self._readiness:
            raise InputError(f"Rootport knows no node {self._node}", hint="`rootport status` lists those that it knows")
        readiness = self._readiness
        if is_selected:
            chosen = {device.spec.node_name for device in self._devices.values()}
            readiness = {name: ready for name, ready in readiness.items() if name in chosen}
        return Observation(
            devices=tuple(self._devices.values()), readiness=readiness, notes=(*self._left_out(), *notes)
        )

    def _left_out(self) -> tuple[str, ...]:
        if not self._unreadable:
            return ()
        count = len(self._unreadable)
        return (f"left out: Device objects that cannot be read ({count}): {listed(self._unreadable)}",)
