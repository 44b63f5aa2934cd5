"""A simulation's result for a person (tables and trees) and for a program (plain data)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from driver.api.resource_v1 import Device, DeviceRequestAllocationResult
from driver.cli.gpu_usage import NodeUsage, free_of, left_of, left_text, mode_text, share_text, usage
from driver.cli.nic_usage import nic_left, nic_left_text, nic_mode_text
from driver.cli.render import console, device_summary, pcie_tree, plural, table
from driver.cli.simulation_files import cdi_path
from driver.layout import left_out_notes
from driver.model.devices import DeviceName, DeviceType
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, RdmaVfPool, whole_device
from driver.simulation import Outcome, Simulation

__all__ = ["print_report", "summary"]

_ROWS_SHOWN: Final = 40
_TREES_SHOWN: Final = 4
_WIDE: Final = 120  # characters
_PARTS: Final = (GpuRatio, MigPartition, RdmaVfPool)
_TYPE_NAMES: Final = {
    DeviceType.GPU.value: "GPUS",
    DeviceType.RDMA.value: "RDMA NICS",
    DeviceType.RDMA_VF.value: "RDMA VFS",
    DeviceType.FPGA.value: "FPGAS",
}


def summary(simulation: Simulation) -> dict[str, Any]:
    """The result as JSON types: one entry a node, one a claim."""
    used = usage(simulation)
    published = _published(simulation)
    nodes = [_node_summary(inventory.node, used, published) for inventory in simulation.inventories]
    claims = [_claim_summary(outcome) for outcome in simulation.outcomes]
    return {"nodes": nodes, "claims": claims, "notes": _notes(simulation)}


def _node_summary(
    name: str, used: Mapping[str, NodeUsage], published: Mapping[str, list[tuple[Device, ...]]]
) -> dict[str, Any]:
    node = used[name]
    claims: defaultdict[str, list[str]] = defaultdict(list)
    for uses in node.uses.values():
        for use in uses:
            claims[use.device.name].append(use.claim)
    free = free_of(node, published[name])
    data: dict[str, Any] = {
        "name": name,
        "devices": sum(
            not isinstance(device, GpuRatio | MigPartition | RdmaVfPool) for device in node.devices.values()
        ),
        "free": {kind: {"free": count, "total": total} for kind, (count, total) in free.items()},
        "allocated": {device: ", ".join(claims[device]) for device in sorted(claims)},
    }
    shared = {
        gpu.name: {"mode": uses[0].device.type.value, "left": left_of(gpu, uses)} for gpu, uses in node.shared_gpus()
    }
    shared_nics = {nic.name: {"left": nic_left(nic, results)} for nic, results in node.shared_nics()}
    return data | ({"sharedGpus": shared} if shared else {}) | ({"sharedNics": shared_nics} if shared_nics else {})


def _claim_summary(outcome: Outcome) -> dict[str, Any]:
    meta, allocation = outcome.claim.metadata, outcome.claim.status.allocation
    data: dict[str, Any] = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "node": outcome.node}
    if outcome.problem is not None:
        data["problem"] = outcome.problem
    if allocation is not None:
        data["devices"] = [_result_summary(result) for result in allocation.devices.results]
    if outcome.plan is not None and outcome.plan.spec is not None and outcome.node is not None:
        data["cdi"] = cdi_path(outcome.node, outcome.plan.spec.file_name)
        if outcome.plan.notes:
            data["notes"] = list(outcome.plan.notes)
    return data


def _result_summary(result: DeviceRequestAllocationResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "request": result.request, "driver": result.driver, "pool": result.pool, "device": result.device
    }  # fmt: skip
    if result.share_id is not None:
        data["shareID"] = result.share_id
    if result.consumed_capacity:
        data["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity.items()}
    return data


def print_report(simulation: Simulation, out: Path | None) -> None:
    """What went where, the nodes' PCIe trees with their holders, and what does not fit."""
    screen = console()
    used = usage(simulation)
    _print_nodes(screen, simulation, used)
    if simulation.outcomes:
        _print_shared(screen, used)
        _print_shared_nics(screen, used)
        _print_claims(screen, simulation, used)
        _print_trees(screen, simulation, used)
        _print_problems(screen, simulation)
    _print_notes(screen, simulation)
    placed = sum(outcome.node is not None for outcome in simulation.outcomes)
    screen.print(f"\n{placed} of {plural(len(simulation.outcomes), 'claim')} allocated", style="bold")
    if out is not None:
        screen.print(f"ResourceSlices, claims and CDI specs are in {out}/", soft_wrap=True)


def _print_nodes(screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage]) -> None:
    published = _published(simulation)
    free = {
        inventory.node: free_of(used[inventory.node], published[inventory.node]) for inventory in simulation.inventories
    }
    types = [type_ for type_ in _TYPE_NAMES if any(type_ in of_node for of_node in free.values())]
    grid = table("NODE", *(f"FREE {_TYPE_NAMES[type_]}" for type_ in types))
    for inventory in simulation.inventories[:_ROWS_SHOWN]:
        counts = free[inventory.node]
        cells = ("{} of {}".format(*counts[type_]) if type_ in counts else "-" for type_ in types)
        grid.add_row(inventory.node, *cells)
    screen.print(grid)
    _print_rest(screen, len(simulation.inventories) - _ROWS_SHOWN, "node")


def _print_shared(screen: Console, used: Mapping[str, NodeUsage]) -> None:
    shared = [(name, gpu, uses) for name, node in used.items() for gpu, uses in node.shared_gpus()]
    if not shared:
        return
    grid = table("SHARED GPU", "NODE", "GIVEN AS", "LEFT")
    for name, gpu, uses in shared[:_ROWS_SHOWN]:
        grid.add_row(gpu.name, name, mode_text(uses), left_text(gpu, uses))
    screen.print()
    screen.print(grid)
    _print_rest(screen, len(shared) - _ROWS_SHOWN, "shared GPU")


def _print_shared_nics(screen: Console, used: Mapping[str, NodeUsage]) -> None:
    shared = [(name, nic, results) for name, node in used.items() for nic, results in node.shared_nics()]
    if not shared:
        return
    grid = table("SHARED NIC", "NODE", "GIVEN AS", "LEFT")
    for name, nic, results in shared[:_ROWS_SHOWN]:
        grid.add_row(nic.name, name, nic_mode_text(nic, results), nic_left_text(nic, results))
    screen.print()
    screen.print(grid)
    _print_rest(screen, len(shared) - _ROWS_SHOWN, "shared NIC")


def _print_claims(screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage]) -> None:
    # On a narrow terminal the table keeps what the other tables and the trees below it do not say.
    wide = screen.width >= _WIDE
    shares = any(True for node in used.values() for _ in itertools.chain(node.shared_gpus(), node.shared_nics()))
    shown = {
        "NODE": wide or not shares or len(simulation.inventories) > 1,
        "SHARE": shares,
        "NUMA": wide or not shares,
        "SWITCH": wide,
        "WHAT": wide and not shares,
    }
    columns = ("CLAIM", "REQUEST", "NODE", "DEVICE", "SHARE", "NUMA", "SWITCH", "WHAT")
    grid = table(*(name for name in columns if shown.get(name, True)))

    def add(**cells: str | Text) -> None:
        grid.add_row(*(cells.get(name.lower(), "") for name in columns if shown.get(name, True)))

    for outcome in simulation.outcomes[:_ROWS_SHOWN]:
        allocation = outcome.claim.status.allocation
        claim = _name(outcome)
        if outcome.node is None or allocation is None:
            add(claim=claim, **{"node" if shown["NODE"] else "device": Text("no node fits", style="red")})
            continue
        if not allocation.devices.results:
            add(claim=claim, node=outcome.node, device="asks for no device")
        for result in allocation.devices.results:
            device = used[outcome.node].devices.get(result.device)
            cells = {"claim": claim, "request": result.request, "node": outcome.node, "device": result.device}
            if device is not None:
                numa = device.pcie.numa_node
                cells |= {
                    "share": share_text(device, result, _vf(outcome, result)) or "-",
                    "numa": "-" if numa is None else str(numa),
                    "switch": device.pcie.switch or "-",
                    "what": _what(device),
                }
            add(**cells)
            claim = ""
    screen.print()
    screen.print(grid)
    _print_rest(screen, len(simulation.outcomes) - _ROWS_SHOWN, "claim")


def _vf(outcome: Outcome, result: DeviceRequestAllocationResult) -> DeviceName | None:
    """Which VF a claim was given of a pool."""
    prepared = outcome.plan.devices if outcome.plan is not None else ()
    uses = (item.nic_use for item in prepared if (item.device, item.share_id) == (result.device, result.share_id))
    return next((use.vf for use in uses if use is not None), None)


def _what(device: AllocatableDevice) -> str:
    return device_summary(whole_device(device))


def _print_trees(screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage]) -> None:
    busy = [inventory for inventory in simulation.inventories if used[inventory.node].uses]
    for inventory in busy[:_TREES_SHOWN]:
        screen.print()
        screen.print(pcie_tree(inventory, used[inventory.node].holders()))
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
    notes = Counter(
        note
        for node in simulation.inventories
        for note in (*node.notes, *left_out_notes(node, policies=simulation.policies))
    )
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


def _published(simulation: Simulation) -> Mapping[str, list[tuple[Device, ...]]]:
    """Node → the devices of each of its slices."""
    published: defaultdict[str, list[tuple[Device, ...]]] = defaultdict(list)
    for resource_slice in simulation.slices:
        published[resource_slice.spec.pool.name].append(resource_slice.spec.devices)
    return published


def _name(outcome: Outcome) -> str:
    return f"{outcome.claim.metadata.namespace}/{outcome.claim.metadata.name}"
