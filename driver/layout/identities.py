"""What distinguishes machines that are equal otherwise: the UUIDs of GPUs and the GUIDs of NICs.

To lay out a node takes milliseconds, and a large cluster has thousands of nodes of a few kinds. So a kind is laid out
once, with a placeholder for each of these values, and each node gets its own values in a copy of the few devices that
publish one. Most devices of a node, its MIG partitions, publish none and are the same objects for all its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from driver.api.resource_v1 import Device
from driver.layout.chunks import Chunk
from driver.layout.published import published
from driver.layout.values import identifier
from driver.model.devices import Gpu, RdmaNic, RdmaPort, RdmaVf

__all__ = ["Placeholders", "without_identities"]

# No source reports such a character: a value that looks like a placeholder would become another one of its own node.
_MARK: Final = "\0"


def without_identities(
    gpus: Iterable[Gpu], nics: Iterable[RdmaNic]
) -> tuple[tuple[Gpu, ...], tuple[RdmaNic, ...], Mapping[str, str]]:
    """Return the devices with a placeholder for each value that only this node has, and these values.

    Returns:
        The GPUs, the NICs, and the values by placeholder.
    """
    values: dict[str, str] = {}

    def placeholder(what: str, value: str | None) -> str | None:
        if value is None or identifier(value) is None:  # one that is not published makes no difference
            return None
        values[f"{_MARK}{what}"] = value
        return f"{_MARK}{what}"

    def first_port(nic: RdmaNic) -> tuple[RdmaPort, ...]:
        # The others' GUIDs, and those of VFs, are not published.
        return tuple(
            replace(port, guid=placeholder(nic.address, port.guid) if place == 0 else None)
            for place, port in enumerate(nic.ports)
        )

    return (
        tuple(replace(gpu, uuid=placeholder(gpu.address, gpu.uuid)) for gpu in gpus),
        tuple(replace(nic, ports=first_port(nic), vfs=tuple(map(_without_guids, nic.vfs))) for nic in nics),
        values,
    )


def _without_guids(vf: RdmaVf) -> RdmaVf:
    if all(port.guid is None for port in vf.ports):
        return vf
    return replace(vf, ports=tuple(replace(port, guid=None) for port in vf.ports))


class Placeholders:
    """The contents of slices with placeholders. Safe for several threads.

    Args:
        parts: The contents.

    Attributes:
        parts: The same.
    """

    def __init__(self, parts: tuple[Chunk, ...]) -> None:
        self.parts = parts
        # For each of them, the places of the devices with a placeholder, and which attributes have which.
        found = ({at: _marked(device) for at, device in enumerate(part.devices)} for part in parts)
        self._places = tuple({at: marked for at, marked in part.items() if marked} for part in found)
        # Simulated nodes have the values of one machine, and a node is often laid out twice in a row.
        self._last: tuple[Mapping[str, str], tuple[Chunk, ...]] = ({}, parts)

    def filled(self, values: Mapping[str, str]) -> tuple[Chunk, ...]:
        """Return the contents with these values; what has no placeholder stays the same object."""
        last_values, last = self._last
        if values == last_values:
            return last
        filled = tuple(
            _filled(part, places, values) if places else part
            for part, places in zip(self.parts, self._places, strict=True)
        )
        self._last = values, filled
        return filled


def _marked(device: Device) -> Mapping[str, str]:
    texts = ((name, value.string_value) for name, value in device.attributes.items())
    return {name: text for name, text in texts if text is not None and text.startswith(_MARK)}


def _filled(part: Chunk, places: Mapping[int, Mapping[str, str]], values: Mapping[str, str]) -> Chunk:
    devices = list(part.devices)
    for at, marked in places.items():
        given = {name: identifier(values[text]) for name, text in marked.items() if text in values}
        own = published({name: value for name, value in given.items() if value is not None})
        devices[at] = devices[at].model_copy(update={"attributes": {**devices[at].attributes, **own}})
    return replace(part, devices=tuple(devices))
