"""Prints what GPUs do as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from driver.cli.amounts import gibibytes, gibibytes_of, percent
from driver.cli.columns import Cell, Columns
from driver.cli.render import console
from driver.status.load import DeviceLoad, Holder

__all__ = ["NodeLoad", "print_loads"]

_DASH: Final = "-"
_TITLES: Final = ("GPU", "UTIL", "MEMORY", "GIVEN", "TEMP", "POWER", "HOLDERS")
_FIGURES: Final[dict[str, Callable[[DeviceLoad], float | None]]] = {
    "utilization": lambda load: load.utilization,
    "memory": lambda load: load.memory_used,
    "allocated": lambda load: load.core_allocated,
    "temperature": lambda load: load.temperature,
    "power": lambda load: load.power,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """A node's GPUs.

    Attributes:
        node: The node's name.
        devices: Its GPUs, by index.
        error: Why nothing is known of them; empty where something is.
    """

    node: str
    devices: tuple[DeviceLoad, ...] = ()
    error: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the node as JSON types."""
        error = {"error": self.error} if self.error else {}
        return {"name": self.node, **error, "devices": [device.to_wire() for device in self.devices]}


def print_loads(loads: Sequence[NodeLoad], *, sort: str, one_node: bool) -> None:
    """Print a line for each GPU.

    Args:
        loads: The nodes, by name.
        sort: ``name``, or the figure whose largest come first.
        one_node: Whether the reader knows the node's name.
    """
    rows = [(load.node, device) for load in loads for device in load.devices]
    if not rows:
        if not any(load.error for load in loads):
            click.echo("No GPU is on this node." if one_node else "No GPU is on these nodes.")
        return
    if sort in _FIGURES:
        figure = _FIGURES[sort]
        rows.sort(key=lambda row: -1.0 if (value := figure(row[1])) is None else value, reverse=True)
    with_node = sort in _FIGURES and not one_node
    cells = [[*([Cell(node)] if with_node else []), *_row(device)] for node, device in rows]
    titles = ("NODE", *_TITLES) if with_node else _TITLES
    left = [0, 1] if with_node else [0]
    flexible = [0, len(titles) - 1] if with_node else [len(titles) - 1]
    columns = Columns(titles, cells, flexible=flexible, left=left, width=console().width)
    lines = [*columns.heading()]
    last = None
    for (node, _), row in zip(rows, cells, strict=True):
        # By name, a node's stands above its GPUs: it may be long.
        if not with_node and not one_node and node != last:
            lines.append(click.style(node, bold=True))
            last = node
        lines += columns.row(row)
    click.echo("\n".join(lines))


def _row(device: DeviceLoad) -> list[Cell]:
    # Also without colours it must be seen.
    name = Cell(f"{device.name} !", "red", is_bold=True) if device.healthy is False else Cell(device.name)
    return [name, *map(Cell, _cells(device)), Cell(_holders(device), "cyan")]


def _cells(device: DeviceLoad) -> list[str]:
    memory = _DASH
    if device.memory_used is not None:
        used, total = device.memory_used, device.memory_total
        memory = gibibytes(used) if total is None else gibibytes_of(used, total)
    return [
        _DASH if device.utilization is None else percent(device.utilization),
        memory,
        _allocated(device),
        _DASH if device.temperature is None else f"{device.temperature:.0f}C",
        _DASH if device.power is None else f"{device.power:.0f}W",
    ]


def _allocated(device: DeviceLoad) -> str:
    """Return what is allocated of a GPU, ``50% 40Gi``; of one in partitions the core may not be known."""
    core = percent(device.core_allocated) if device.core_allocated else ""
    memory = gibibytes(device.memory_allocated) if device.memory_allocated else ""
    return f"{core} {memory}".strip() or _DASH


def _holders(device: DeviceLoad) -> str:
    """Return who has a GPU, ``ml/train-0, ml/notebook``: pods, or claims of unknown pods; of several, their shares."""
    shares: dict[str, float] = {}
    for holder in device.holders:
        who = _who(holder)
        # The containers of a pod that name one claim have one share together.
        shares[who] = max(shares.get(who, 0.0), holder.core or 0.0)
    several = len(shares) > 1
    return ", ".join(f"{who} {percent(core)}" if several and core else who for who, core in shares.items())


def _who(holder: Holder) -> str:
    return f"{holder.namespace}/{holder.pod}" if holder.pod else f"claim {holder.namespace}/{holder.claim}"
