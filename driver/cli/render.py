"""Draws a node for a terminal: the PCIe tree with who holds what, and the distance matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from driver.cli.amounts import gibibytes
from driver.model.devices import Device, DeviceName, Fpga, Gpu, RdmaFunction
from driver.model.distance import LEGEND, DistanceMatrix, DistanceRow
from driver.model.inventory import Inventory
from driver.model.pci import is_virtual_switch, pci_order
from driver.wording import plural

__all__ = [
    "console",
    "device_summary",
    "distance_matrix",
    "in_tree_order",
    "pcie_tree",
    "print_trimmed",
    "requested_width",
    "table",
]

_WIDTH_WITHOUT_TERMINAL = 140
_LEAST_WIDTH = 20
_MOST_WIDTH = 10_000
_GAP = 2  # between columns, as rich pads them
_HOLDER_STYLES = ("green", "cyan", "magenta", "yellow", "blue", "bright_green", "bright_cyan", "bright_magenta")


def console(*, stderr: bool = False) -> Console:
    """Return a console that shows text as it is.

    What goes into a file or a pipe has no colours, and the width that ``COLUMNS`` says, else a fixed one.
    """
    # No markup and no emoji codes: names from files and flags are printed, not interpreted.
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = requested_width() or _WIDTH_WITHOUT_TERMINAL
    return made


def requested_width() -> int | None:
    """Return what ``COLUMNS`` says, within what makes sense; None where it says nothing."""
    text = os.environ.get("COLUMNS", "")
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    return min(max(int(text), _LEAST_WIDTH), _MOST_WIDTH) if is_number and int(text) else None


def print_trimmed(screen: Console, shown: RenderableType) -> None:
    """Print something without the spaces that rich leaves at the ends of lines: what is copied has none."""
    for line in screen.render_lines(shown, pad=False):
        text = Text.assemble(*((segment.text, segment.style or "") for segment in line if not segment.control))
        text.rstrip()
        screen.print(text, soft_wrap=True)


def table(*columns: str) -> Table:
    """Return an empty table without a frame, as kubectl prints them."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(columns))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def device_summary(device: Device, *, nic_model: bool = False) -> str:
    """Return what a person wants to know of a device, in a few words; of a NIC its model only on request."""
    match device:
        case Gpu():
            memory = gibibytes(device.memory_bytes, unit=" GiB") if device.memory_bytes else None
            parts = [device.model or "GPU of unknown model", memory]
        case RdmaFunction():
            port = device.ports[0] if device.ports else None
            parts = [
                device.rdma_device,
                device.model if nic_model else None,
                ",".join(device.if_names) or None,
                port.link_layer.value if port and port.link_layer else None,
                f"{port.speed_gbps} Gb/s" if port and port.speed_gbps else None,
                f"rail {device.rail}" if device.rail is not None else None,
            ]
        case Fpga():
            parts = [device.model or "FPGA"]
    return "  ".join(part for part in parts if part)


def pcie_tree(
    inventory: Inventory, holders: Mapping[DeviceName, str], labels: Mapping[DeviceName, str] | None = None
) -> Tree:
    """Draw the node's PCIe tree: NUMA node → root → switches → devices, each with the claim that holds it.

    Args:
        inventory: The node.
        holders: Device name → the holder's name, for the devices that are held.
        labels: Device name → what stands before it, such as its name in the matrix.
    """
    styles = {
        holder: _HOLDER_STYLES[i % len(_HOLDER_STYLES)] for i, holder in enumerate(dict.fromkeys(holders.values()))
    }
    tree = Tree(_title(inventory), guide_style="dim")
    branches: dict[tuple[str, ...], Tree] = {(): tree}
    for device in sorted(inventory.devices(), key=_place):
        branch = tree
        levels = _levels(device)
        for depth in range(1, len(levels) + 1):
            key = levels[:depth]
            if key not in branches:
                branches[key] = branch.add(Text(key[-1], style="dim"))
            branch = branches[key]
        line = Text(f"{device.name}", style="bold")
        if labels and device.name in labels:
            line = Text.assemble((f"{labels[device.name]}  ", "not bold"), line)
        line.append(f"  {device_summary(device, nic_model=True)}", style="not bold")
        holder = holders.get(device.name)
        if holder is not None:
            line.append(f"  ◀ {holder}", style=styles[holder])
        branch.add(line)
    return tree


def _title(inventory: Inventory) -> Text:
    """Return the tree's title: ``node: 8 GPUs, 8 RDMA NICs with 64 VFs``."""
    vfs = sum(len(nic.vfs) for nic in inventory.nics)
    nics = plural(len(inventory.nics), "RDMA NIC") + (f" with {plural(vfs, 'VF')}" if vfs else "")
    fpgas = [plural(len(inventory.fpgas), "FPGA")] if inventory.fpgas else []
    return Text.assemble((inventory.node, "bold"), ": ", ", ".join([plural(len(inventory.gpus), "GPU"), nics, *fpgas]))


def in_tree_order(distances: DistanceMatrix) -> DistanceMatrix:
    """Return the matrix with the devices of each type in the order of the PCIe tree."""
    types = list(dict.fromkeys(row.device.type for row in distances.rows))
    places = [(types.index(row.device.type), _place(row.device)) for row in distances.rows]
    order = sorted(range(len(places)), key=places.__getitem__)
    return DistanceMatrix(
        rows=tuple(
            replace(distances.rows[at], distances=tuple(distances.rows[at].distances[to] for to in order))
            for at in order
        )
    )


def distance_matrix(distances: DistanceMatrix, screen: Console) -> Iterator[RenderableType]:
    """Draw the matrix of ``nvidia-smi topo -m``, with its devices and what its terms mean.

    Args:
        distances: The matrix, in the order in which it is shown.
        screen: Where a matrix that is wider comes in several blocks of columns; never in a file.
    """
    if not distances.rows:
        return
    width = screen.width if screen.is_terminal else requested_width()
    labels = distances.labels
    texts = [[str(cell) for cell in row.distances] for row in distances.rows]
    cell_width = max(len(text) for text in (*labels, *(text for row in texts for text in row))) + _GAP
    a_block = len(labels) if width is None else max((width - 2 * cell_width) // cell_width, 1)
    for start in range(0, len(labels), a_block):
        columns = slice(start, start + a_block)
        # Plain lines: for hundreds of devices a table of rich's takes minutes.
        lines = [("", *labels[columns], "NUMA")]
        for row, cells in zip(distances.rows, texts, strict=True):
            lines.append((row.label, *cells[columns], "N/A" if row.numa_node is None else str(row.numa_node)))
        yield _lines("".join(cell.ljust(cell_width) for cell in line) for line in lines)
    yield _lines(f"{row.label + ':':<{cell_width + 1}}{row.device.name}  {_known_as(row)}" for row in distances.rows)
    shown = {cell.level.name for row in distances.rows for cell in row.distances}
    legend = table()
    for term, meaning in LEGEND.items():
        if term.rstrip("#") in shown:
            legend.add_row(term, f"= {meaning}")
    yield legend


def _lines(lines: Iterable[str]) -> Text:
    return Text("\n".join(line.rstrip() for line in lines), no_wrap=True, overflow="ignore")


def _known_as(row: DistanceRow) -> str:
    """Return the name by which other programs know the device: that of the RDMA device, or none."""
    return (row.device.rdma_device if isinstance(row.device, RdmaFunction) else None) or ""


def _levels(device: Device) -> tuple[str, ...]:
    path = device.pcie
    levels = ["NUMA node unknown" if path.numa_node is None else f"NUMA node {path.numa_node}"]
    # The devices of a cloud's virtual switch may sit on a root bus each: there the switch is what groups them.
    if path.root is not None and not (path.switches and is_virtual_switch(path.switches[0])):
        levels.append(f"PCIe root {path.root}")
        if path.root_port is not None and path.switches:
            levels.append(f"root port {path.root_port}")
    levels.extend(f"{'virtual ' if is_virtual_switch(switch) else ''}PCIe switch {switch}" for switch in path.switches)
    return tuple(levels)


def _place(device: Device) -> tuple[object, ...]:
    """Return a sort key: NUMA node by NUMA node, in the order of the PCIe tree."""
    numa = device.pcie.numa_node
    return (numa is None, numa or 0, _levels(device), pci_order(device.address))
