"""A simulation's result for a person (tables and trees) and for a program (plain data)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from driver import DRIVER_NAME
from driver.cli.render import console, device_summary, pcie_tree, plural, table
from driver.cli.simulation_files import cdi_path
from driver.layout import attributes, left_out_notes
from driver.model.devices import Device, DeviceName, DeviceType
from driver.simulation import Outcome, Simulation

__all__ = ["print_report", "summary"]

_ROWS_SHOWN: Final = 40
_TREES_SHOWN: Final = 4
_WIDE: Final = 120  # characters
_TYPE_NAMES: Final = {
    DeviceType.GPU.value: "GPUS",
    DeviceType.RDMA.value: "RDMA NICS",
    DeviceType.RDMA_VF.value: "RDMA VFS",
    DeviceType.FPGA.value: "FPGAS",
}


def summary(simulation: Simulation) -> dict[str, Any]:
    """The result as JSON types: one entry a node, one a claim."""
    held = _held(simulation)
    nodes = [
        {
            "name": inventory.node,
            "devices": sum(1 for _ in inventory.devices()),
            "allocated": dict(sorted(held[inventory.node].items())),
        }
        for inventory in simulation.inventories
    ]
    claims = [_claim_summary(outcome) for outcome in simulation.outcomes]
    return {"nodes": nodes, "claims": claims, "notes": _notes(simulation)}


def _claim_summary(outcome: Outcome) -> dict[str, Any]:
    meta, allocation = outcome.claim.metadata, outcome.claim.status.allocation
    data: dict[str, Any] = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "node": outcome.node}
    if outcome.problem is not None:
        data["problem"] = outcome.problem
    if allocation is not None:
        data["devices"] = [
            {"request": result.request, "driver": result.driver, "pool": result.pool, "device": result.device}
            for result in allocation.devices.results
        ]
    if outcome.plan is not None and outcome.plan.spec is not None and outcome.node is not None:
        data["cdi"] = cdi_path(outcome.node, outcome.plan.spec.file_name)
        if outcome.plan.notes:
            data["notes"] = list(outcome.plan.notes)
    return data


def print_report(simulation: Simulation, out: Path | None) -> None:
    """What went where, the nodes' PCIe trees with their holders, and what does not fit."""
    screen = console()
    _print_nodes(screen, simulation)
    if simulation.outcomes:
        _print_claims(screen, simulation)
        _print_trees(screen, simulation)
        _print_problems(screen, simulation)
    _print_notes(screen, simulation)
    placed = sum(outcome.node is not None for outcome in simulation.outcomes)
    screen.print(f"\n{placed} of {plural(len(simulation.outcomes), 'claim')} allocated", style="bold")
    if out is not None:
        screen.print(f"ResourceSlices, claims and CDI specs are in {out}/", soft_wrap=True)


def _print_nodes(screen: Console, simulation: Simulation) -> None:
    held = _held(simulation)
    published = _published(simulation)
    types = [type_ for type_ in _TYPE_NAMES if any(type_ in of_node for of_node in published.values())]
    grid = table("NODE", *(f"FREE {_TYPE_NAMES[type_]}" for type_ in types))
    for inventory in simulation.inventories[:_ROWS_SHOWN]:
        cells = []
        for type_ in types:
            names = published[inventory.node][type_]
            cells.append(f"{sum(name not in held[inventory.node] for name in names)} of {len(names)}" if names else "-")
        grid.add_row(inventory.node, *cells)
    screen.print(grid)
    _print_rest(screen, len(simulation.inventories) - _ROWS_SHOWN, "node")


def _print_claims(screen: Console, simulation: Simulation) -> None:
    by_node = {inventory.node: inventory for inventory in simulation.inventories}
    # On a narrow terminal the table keeps what the trees below it do not say.
    wide = screen.width >= _WIDE
    grid = table("CLAIM", "REQUEST", "NODE", "DEVICE", "NUMA", *(("SWITCH", "WHAT") if wide else ()))
    for outcome in simulation.outcomes[:_ROWS_SHOWN]:
        allocation = outcome.claim.status.allocation
        if outcome.node is None or allocation is None:
            grid.add_row(_name(outcome), "", Text("no node fits", style="red"))
            continue
        devices: Mapping[str, Device] = {device.name: device for device in by_node[outcome.node].devices()}
        claim = _name(outcome)
        if not allocation.devices.results:
            grid.add_row(claim, "", outcome.node, "asks for no device")
        for result in allocation.devices.results:
            device = devices.get(result.device)
            if device is None:
                grid.add_row(claim, result.request, outcome.node, result.device)
            else:
                path = device.pcie
                grid.add_row(
                    claim,
                    result.request,
                    outcome.node,
                    result.device,
                    "-" if path.numa_node is None else str(path.numa_node),
                    *((path.switch or "-", device_summary(device)) if wide else ()),
                )
            claim = ""
    screen.print()
    screen.print(grid)
    _print_rest(screen, len(simulation.outcomes) - _ROWS_SHOWN, "claim")


def _print_trees(screen: Console, simulation: Simulation) -> None:
    held = _held(simulation)
    busy = [inventory for inventory in simulation.inventories if held[inventory.node]]
    for inventory in busy[:_TREES_SHOWN]:
        screen.print()
        screen.print(pcie_tree(inventory, held[inventory.node]))
    _print_rest(screen, len(busy) - _TREES_SHOWN, "node with claims")


def _print_problems(screen: Console, simulation: Simulation) -> None:
    failed = [outcome for outcome in simulation.outcomes if not outcome.done]
    if failed:
        screen.print()
    for outcome in failed[:_ROWS_SHOWN]:
        screen.print(f"{_name(outcome)}: {outcome.problem or 'no node fits'}", style="red", soft_wrap=True)
    _print_rest(screen, len(failed) - _ROWS_SHOWN, "claim that cannot start")


def _print_notes(screen: Console, simulation: Simulation) -> None:
    notes = _notes(simulation)
    if notes:
        screen.print()
    for note in notes:
        screen.print(f"note: {note}", style="dim", soft_wrap=True)


def _notes(simulation: Simulation) -> list[str]:
    notes = Counter(note for node in simulation.inventories for note in (*node.notes, *left_out_notes(node)))
    lines = [f"{note} ({times} nodes)" if times > 1 else note for note, times in notes.items()]
    assumed = sum(bool(outcome.plan and outcome.plan.notes) for outcome in simulation.outcomes)
    if assumed:
        lines.append(
            f"Topology files do not number device nodes: the CDI specs of {plural(assumed, 'claim')} take the devices' "
            "indices, as a node usually does."
        )
    return lines


def _print_rest(screen: Console, count: int, what: str) -> None:
    if count > 0:
        screen.print(f"... and {plural(count, what, what)} more; -o json shows all", style="dim")


def _held(simulation: Simulation) -> Mapping[str, dict[DeviceName, str]]:
    """Node → device → the claims that hold it."""
    held: defaultdict[str, dict[DeviceName, str]] = defaultdict(dict)
    for outcome in simulation.outcomes:
        allocation = outcome.claim.status.allocation
        if outcome.node is None or allocation is None:
            continue
        for result in allocation.devices.results:
            if result.driver == DRIVER_NAME:
                device = DeviceName(result.device)
                before = held[outcome.node].get(device)
                held[outcome.node][device] = f"{before}, {_name(outcome)}" if before else _name(outcome)
    return held


def _published(simulation: Simulation) -> Mapping[str, Mapping[str, list[str]]]:
    """Node → type → the names of the devices that the node publishes."""
    published: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for resource_slice in simulation.slices:
        for device in resource_slice.spec.devices:
            type_ = device.attributes[attributes.TYPE].string_value or ""
            published[resource_slice.spec.pool.name][type_].append(device.name)
    return published


def _name(outcome: Outcome) -> str:
    return f"{outcome.claim.metadata.namespace}/{outcome.claim.metadata.name}"
