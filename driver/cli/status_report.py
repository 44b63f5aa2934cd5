"""Prints the state of a cluster as a table, and of a node as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import click

from driver.api.rootport_v1alpha1 import Device
from driver.cli.amounts import free_of_all, gibibytes, gibibytes_of
from driver.cli.columns import Cell, Columns
from driver.cli.node_tree import node_tree
from driver.cli.render import console
from driver.status.cluster import NodeTotals, is_healthy, name_order, node_totals
from driver.status.overview import NodeOverview
from driver.wording import listed, plural

__all__ = ["print_cluster", "print_node"]

_STATES: Final = {"Ready": None, "NotReady": "yellow", "Silent": "red"}
_FAULTS_SHOWN: Final = 20


def print_cluster(nodes: Sequence[NodeOverview], *, only_unhealthy: bool, is_selected: bool) -> None:
    """Print a line for each node, the sum, and what is wrong.

    Args:
        nodes: The nodes.
        only_unhealthy: Whether those without a fault were left out.
        is_selected: Whether the user asked for some devices only.
    """
    if not nodes:
        click.echo(_nothing(only_unhealthy=only_unhealthy, is_selected=is_selected))
        return
    lines = [*_table(nodes, console().width), *_managed(nodes), *_faults(nodes)]
    click.echo("\n".join(lines))


def print_node(node: NodeOverview, devices: Sequence[Device]) -> None:
    """Print the node's PCIe tree: each device with its state, what of it is allocated, and who has it."""
    screen = console()
    with screen.capture() as captured:
        screen.print(node_tree(node, devices))
    # Written here and not by rich, which takes a reader that has left (head, less) for a failure.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _nothing(*, only_unhealthy: bool, is_selected: bool) -> str:
    if is_selected:
        return "No device has these labels." if not only_unhealthy else "Nothing is wrong with these devices."
    if only_unhealthy:
        return "Every node is ready and no device is unhealthy."
    return "No node has told of any device yet: is the kubelet plugin running? (kubectl -n rootport-system get pods)"


def _table(nodes: Sequence[NodeOverview], width: int) -> Iterator[str]:
    figures = [node_totals(node) for node in nodes]
    whole = node_totals(*nodes)
    columns = {
        "FREE GPUS": [free_of_all(item.gpus.free, item.gpus.total) for item in (*figures, whole)],
        "FREE MEMORY": [_memory(item) for item in (*figures, whole)],
        "LARGEST": [gibibytes(item.largest) if item.memory.total else "-" for item in (*figures, whole)],
        "FREE NICS": [free_of_all(item.nics.free, item.nics.total) for item in (*figures, whole)],
        "FREE VFS": [free_of_all(item.vfs.free, item.vfs.total) for item in (*figures, whole)],
        "FREE FPGAS": [free_of_all(item.fpgas.free, item.fpgas.total) for item in (*figures, whole)],
        "UNHEALTHY": [str(len(item.unhealthy) or "-") for item in (*figures, whole)],
    }
    shown = {title: cells for title, cells in columns.items() if title == "UNHEALTHY" or set(cells) != {"-"}}
    rows = []
    for at, node in enumerate(nodes):
        *cells, unhealthy = (cells[at] for cells in shown.values())
        colour = "red" if figures[at].unhealthy else None
        state = Cell(node.state, _STATES[node.state], is_bold=node.state != "Ready")
        name = Cell(node.name, is_bold=not is_healthy(node))
        rows.append([name, state, *map(Cell, cells), Cell(unhealthy, colour, is_bold=colour is not None)])
    total = [f"{len(nodes)} nodes", "", *(cells[-1] for cells in shown.values())]
    rows += [[Cell(text, is_bold=True) for text in total]] if len(nodes) > 1 else []
    made = Columns(("NODE", "STATE", *shown), rows, flexible=[0], left=[1], width=width)
    yield from made.heading()
    for row in rows:
        yield from made.row(row)


def _memory(figures: NodeTotals) -> str:
    return gibibytes_of(figures.memory.free, figures.memory.total) if figures.memory.total else "-"


def _managed(nodes: Sequence[NodeOverview]) -> Iterator[str]:
    """Say where kube-scheduler allocates no device: there claims with room may wait for the controller."""
    names = [node.name for node in sorted(nodes, key=lambda node: name_order(node.name)) if node.managed]
    if names:
        yield ""
        which = "all nodes" if len(names) == len(nodes) > 1 else listed(names)
        yield f"Managed, so that Rootport's placement allocates their devices: {which}"


def _faults(nodes: Sequence[NodeOverview]) -> Iterator[str]:
    found = [(node.name, str(node.state), node.reason) for node in nodes if node.state != "Ready"]
    found += [(node, f"{device.name} is unhealthy", device.reason) for node, device in node_totals(*nodes).unhealthy]
    if not found:
        return
    found.sort(key=lambda fault: name_order(fault[0]))
    yield ""
    for node, what, reason in found[:_FAULTS_SHOWN]:
        yield f"{node}: {what}" + (f" ({reason})" if reason else "")
    if len(found) > _FAULTS_SHOWN:
        yield f"and {plural(len(found) - _FAULTS_SHOWN, 'more fault')}; all of them: rootport status -o json"
    yield click.style(f"`rootport status {found[0][0]}` tells more", dim=True)
