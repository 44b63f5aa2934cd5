"""Shows a simulation's result to a person (tables and trees) and to a program (plain data)."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from driver.api.device_policies import DevicePolicies
from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import Device, DeviceRequestAllocationResult
from driver.cli.gpu_usage import NodeUsage, Use, free_of, left_of, left_text, mode_of, policy_of, share_text, usage
from driver.cli.grid import print_grid
from driver.cli.nic_usage import nic_left, nic_left_text
from driver.cli.render import console, device_summary, pcie_tree, print_trimmed
from driver.cli.simulation_files import cdi_path
from driver.cli.simulation_why import print_why
from driver.explain.reasons import Reason
from driver.layout.attributes import SHARING_STRATEGY
from driver.layout.device_rules import gpu_policy, node_rules
from driver.layout.left_out import left_out_notes
from driver.model.devices import DeviceName, DeviceType
from driver.model.inventory import Inventory
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, RdmaVfPool, whole_device
from driver.simulation import INTERFACES_ASSUMED, Answer, ClaimOutcome, Fragmented, PodOutcome, Simulation
from driver.wording import plural

__all__ = ["notes_of", "plan_notes", "print_report", "summary"]

_ROWS_SHOWN: Final = 40
_TREES_SHOWN: Final = 4
_TYPE_NAMES: Final = {
    DeviceType.GPU.value: "GPUS",
    DeviceType.RDMA.value: "RDMA NICS",
    DeviceType.RDMA_VF.value: "RDMA VFS",
    DeviceType.FPGA.value: "FPGAS",
}


def summary(simulation: Simulation, why: Mapping[str, Answer]) -> dict[str, Any]:
    """Return the result as JSON types: an entry for each node, claim and pod of the files.

    Args:
        simulation: The result.
        why: Why pods have no node or cannot start, by their ``namespace/name``.
    """
    used = usage(simulation)
    published = _published(simulation)
    return {
        "nodes": [_node_summary(inventory.node, used, published) for inventory in simulation.inventories],
        "claims": [_claim_summary(outcome, why) for outcome in simulation.outcomes],
        "pods": [_pod_summary(pod, why) for pod in simulation.pods if not pod.pod.is_assumed],
        "notes": [
            *notes_of(simulation.inventories, simulation.policies, simulation.device_policies),
            *plan_notes(simulation),
        ],
    } | ({} if simulation.fragmentation is None else {"placement": _placement_summary(simulation.fragmentation)})


def _placement_summary(found: Fragmented) -> dict[str, Any]:
    """Return thousandths of GPUs, as the trace that policies are measured with counts them."""
    return {
        "policy": found.policy,
        "free": found.free,
        "unusable": round(sum(found.unusable.values()), 1),
        "unusableByNode": {node: round(part, 1) for node, part in found.unusable.items() if part},
    }


def _fragmentation_text(found: Fragmented) -> str:
    """Say how much of what is left free such pods as were placed could not use."""
    if not found.free:
        return f"Placed by policy {found.policy}; no GPU is free"
    unusable = sum(found.unusable.values())
    return (
        f"Placed by policy {found.policy}. Of the {found.free / 1000:,.1f} GPUs that are left free, pods such as these"
        f" could not use {unusable / 1000:,.1f} on average (fragmentation: {100 * unusable / found.free:.0f} %)"
    )


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
        "allocated": {device: claims[device] for device in sorted(claims)},
    }
    strategies = _strategies(published[name])
    shared = {
        gpu.name: {"mode": mode_of(uses), "left": left_of(gpu, uses), "strategy": strategies.get(uses[0].device.name)}
        for gpu, uses in node.shared_gpus()
    }
    shared_nics = {nic.name: {"mode": "shared", "left": nic_left(nic, results)} for nic, results in node.shared_nics()}
    return data | ({"sharedGpus": shared} if shared else {}) | ({"sharedNics": shared_nics} if shared_nics else {})


def _claim_summary(outcome: ClaimOutcome, why: Mapping[str, Answer]) -> dict[str, Any]:
    meta, allocation = outcome.claim.metadata, outcome.claim.status.allocation
    data: dict[str, Any] = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "node": outcome.node}
    if not outcome.done:
        answer = next((why[pod] for pod in outcome.pods if pod in why), None)
        data |= _answer_summary(answer) if answer is not None else {}
    if allocation is not None:
        data["devices"] = [_result_summary(result) for result in allocation.devices.results]
    if outcome.plan is not None and outcome.plan.spec is not None and outcome.node is not None:
        data["cdi"] = cdi_path(outcome.node, outcome.plan.spec.file_name)
        if outcome.plan.notes:
            data["notes"] = list(outcome.plan.notes)
    return data


def _pod_summary(outcome: PodOutcome, why: Mapping[str, Answer]) -> dict[str, Any]:
    state = outcome.pod.state
    claims = [entry.claim for entry in state.claims if entry.claim]
    data: dict[str, Any] = {
        "namespace": state.namespace, "name": state.name, "node": outcome.node, "claims": claims
    }  # fmt: skip
    return data | (_answer_summary(why[outcome.pod.key]) if outcome.pod.key in why else {})


def _answer_summary(answer: Answer) -> dict[str, Any]:
    texts = {
        "reason": str(answer.reason),
        "message": answer.message,
        "nearestMiss": answer.nearest_miss,
        "unrecorded": answer.unrecorded,
        "sameAs": answer.same_as,
    }
    return {name: text for name, text in texts.items() if text} | ({} if answer.is_known else {"known": False})


def _result_summary(result: DeviceRequestAllocationResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "request": result.request, "driver": result.driver, "pool": result.pool, "device": result.device
    }  # fmt: skip
    if result.share_id is not None:
        data["shareID"] = result.share_id
    if result.consumed_capacity:
        data["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed_capacity.items()}
    return data


def print_report(simulation: Simulation, why: Mapping[str, Answer], out: Path | None) -> None:
    """Print what was placed where, the nodes' PCIe trees with their holders, and what does not fit."""
    screen = console()
    used = usage(simulation)
    _print_nodes(screen, simulation, used)
    if simulation.outcomes:
        _print_shared(screen, used, _published(simulation))
        _print_shared_nics(screen, used)
        _print_claims(screen, simulation, used, why)
        _print_trees(screen, simulation, used)
    print_why(screen, simulation, why, out)
    placed = sum(outcome.node is not None for outcome in simulation.outcomes)
    text = f"{placed} of {plural(len(simulation.outcomes), 'claim')} allocated"
    unprepared = sum(outcome.problem is not None for outcome in simulation.outcomes)
    if unprepared:
        text += f", {unprepared} cannot be prepared"
    unknown = {pod.pod.key for pod in simulation.pods if _is_unknown(pod, why)}
    pods = [pod for pod in simulation.pods if not pod.pod.is_assumed]
    if pods:
        at_a_node = sum(pod.node is not None and pod.pod.key not in unknown for pod in pods)
        text += f", {at_a_node} of {plural(len(pods), 'pod')} placed"
    if unknown:
        text += f", not known of {len(unknown)} whether {'it fits' if len(unknown) == 1 else 'they fit'}"
    screen.print(f"\n{text}", style="bold", soft_wrap=True)
    if simulation.fragmentation is not None:
        screen.print(_fragmentation_text(simulation.fragmentation), soft_wrap=True)
    if out is not None:
        screen.print(f"Nodes, ResourceSlices, pods, claims and CDI specs are in {out}/", soft_wrap=True)


def _is_unknown(pod: PodOutcome, why: Mapping[str, Answer]) -> bool:
    if pod.reason is Reason.EXTENDED_RESOURCE_NOT_EVALUATED:
        return True
    return pod.node is None and pod.pod.key in why and not why[pod.pod.key].is_known


def _print_nodes(screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage]) -> None:
    published = _published(simulation)
    shown = simulation.inventories[:_ROWS_SHOWN]
    free = {node.node: free_of(used[node.node], published[node.node]) for node in shown}
    types = [type_ for type_ in _TYPE_NAMES if any(type_ in of_node for of_node in free.values())]
    rows = [
        (node, *("{} of {}".format(*counts[type_]) if type_ in counts else "-" for type_ in types))
        for node, counts in free.items()
    ]
    print_grid(screen, ("NODE", *(f"FREE {_TYPE_NAMES[type_]}" for type_ in types)), rows)
    _print_rest(screen, len(simulation.inventories) - len(shown), "more node")


def _print_shared(
    screen: Console, used: Mapping[str, NodeUsage], published: Mapping[str, list[tuple[Device, ...]]]
) -> None:
    shared = [(name, gpu, uses) for name, node in used.items() for gpu, uses in node.shared_gpus()]
    if not shared:
        return
    rows = [
        (
            gpu.name,
            name,
            _mode_text(uses, _strategies(published[name])),
            str(len(uses)),
            left_text(gpu, uses),
        )
        for name, gpu, uses in shared[:_ROWS_SHOWN]
    ]
    screen.print()
    print_grid(screen, ("SHARED GPU", "NODE", "MODE", "CLAIMS", "LEFT"), rows, optional=("CLAIMS",))
    _print_rest(screen, len(shared) - _ROWS_SHOWN, "more shared GPU")


def _print_shared_nics(screen: Console, used: Mapping[str, NodeUsage]) -> None:
    shared = [(name, nic, results) for name, node in used.items() for nic, results in node.shared_nics()]
    if not shared:
        return
    rows = [
        (nic.name, name, "shared", str(len(results)), nic_left_text(nic, results))
        for name, nic, results in shared[:_ROWS_SHOWN]
    ]
    screen.print()
    print_grid(screen, ("SHARED NIC", "NODE", "MODE", "CLAIMS", "LEFT"), rows, optional=("CLAIMS",))
    _print_rest(screen, len(shared) - _ROWS_SHOWN, "more shared NIC")


def _print_claims(
    screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage], why: Mapping[str, Answer]
) -> None:
    shares = any(True for node in used.values() for _ in itertools.chain(node.shared_gpus(), node.shared_nics()))
    columns = ("CLAIM", "REQUEST", "NODE", "DEVICE", "SHARE", "NUMA", "SWITCH", "WHAT")
    rows: list[tuple[str | Text, ...]] = []

    def add(**cells: str | Text) -> None:
        rows.append(tuple([cells.get(name.lower(), "") for name in columns]))

    for outcome in simulation.outcomes[:_ROWS_SHOWN]:
        allocation = outcome.claim.status.allocation
        claim = outcome.key
        if outcome.node is None or allocation is None:
            answer = next((why[pod] for pod in outcome.pods if pod in why), None)
            reason = answer.reason if answer is not None else ""
            add(claim=claim, device=Text(reason or "no node fits", style="red"))
            continue
        if not allocation.devices.results:
            add(claim=claim, node=outcome.node, device="asks for no device")
        for result in allocation.devices.results:
            device = used[outcome.node].devices.get(result.device)
            cells = {"claim": claim, "request": result.request, "node": outcome.node, "device": result.device}
            if device is not None:
                numa = device.pcie.numa_node
                policy = policy_of(simulation, outcome.node, device)
                cells |= {
                    "share": share_text(device, result, _vf(outcome, result), policy) or "-",
                    "numa": "-" if numa is None else str(numa),
                    "switch": device.pcie.switch or "-",
                    "what": _what(device),
                }
            add(**cells)
            claim = ""
    shown = [at for at, name in enumerate(columns) if shares or name != "SHARE"]
    screen.print()
    # The trees below say what a device is and where; the node is left out last, and only where there is but one.
    optional = ("WHAT", "SWITCH", "NUMA", *(["NODE"] if len(simulation.inventories) == 1 else []), "REQUEST")
    titles = [columns[at] for at in shown]
    print_grid(screen, titles, [[row[at] for at in shown] for row in rows], optional=optional)
    _print_rest(screen, len(simulation.outcomes) - _ROWS_SHOWN, "more claim")


def _vf(outcome: ClaimOutcome, result: DeviceRequestAllocationResult) -> DeviceName | None:
    """Return the VF of a pool that a claim has."""
    prepared = outcome.plan.devices if outcome.plan is not None else ()
    uses = (item.nic_use for item in prepared if (item.device, item.share_id) == (result.device, result.share_id))
    return next((use.vf for use in uses if use is not None), None)


def _what(device: AllocatableDevice) -> str:
    return device_summary(whole_device(device))


def _print_trees(screen: Console, simulation: Simulation, used: Mapping[str, NodeUsage]) -> None:
    busy = [inventory for inventory in simulation.inventories if used[inventory.node].uses]
    for inventory in busy[:_TREES_SHOWN]:
        screen.print()
        print_trimmed(screen, pcie_tree(inventory, used[inventory.node].holders()))
    _print_rest(screen, len(busy) - _TREES_SHOWN, "more node", " with claims")


def notes_of(inventories: Sequence[Inventory], policies: GpuPolicies, device_policies: DevicePolicies) -> list[str]:
    """Return what is not known, left out or assumed of the nodes: each once, and of how many nodes if not of all."""
    notes: Counter[str] = Counter()
    known: dict[object, tuple[str, ...]] = {}
    for node in inventories:
        # Nodes of one file share their hardware, and to look at it takes milliseconds.
        rules = tuple([gpu_policy(gpu, node.node, policies, device_policies) for gpu in node.gpus])
        of_devices = node_rules(node, device_policies)
        key = (id(node.gpus), id(node.nics), id(node.fpgas), node.source, rules, of_devices)
        if key not in known:
            known[key] = left_out_notes(node, policies=policies, device_policies=device_policies)
        notes.update((*node.notes, *known[key]))
    nodes = len(inventories)
    of_nodes = [note if times == nodes else f"{note} ({times} of {nodes} nodes)" for note, times in notes.items()]
    return [*policies.notes, *of_nodes]


def plan_notes(simulation: Simulation) -> list[str]:
    """Return notes on what is assumed in the CDI specs."""
    notes = [outcome.plan.notes for outcome in simulation.outcomes if outcome.plan and outcome.plan.notes]
    found = ["Topology files do not number device nodes: the CDI specs take the devices' indices, as nodes usually do."]
    moved = sum(INTERFACES_ASSUMED in of_claim for of_claim in notes)
    if moved:
        text = "Topology files name no network interfaces: each NIC is taken to have one, to be moved into the pod of"
        found.append(f"{text} {plural(moved, 'claim')}.")
    return found if notes else []


def _print_rest(screen: Console, count: int, what: str, what_else: str = "") -> None:
    if count > 0:
        screen.print(f"... and {plural(count, what)}{what_else}; -o json shows all", style="dim")


def _mode_text(uses: Sequence[Use], strategies: Mapping[str, str | None]) -> str:
    strategy = strategies.get(uses[0].device.name)
    return mode_of(uses) + ("" if strategy in (None, "timeSlicing") else f" by {strategy}")


def _strategies(published: Sequence[Sequence[Device]]) -> Mapping[str, str | None]:
    """Return how claims share each GPU, by the device's name."""
    return {
        device.name: device.attributes[SHARING_STRATEGY].string_value
        for devices in published
        for device in devices
        if SHARING_STRATEGY in device.attributes
    }


def _published(simulation: Simulation) -> Mapping[str, list[tuple[Device, ...]]]:
    """Return the devices of each of a node's slices, by node."""
    published: defaultdict[str, list[tuple[Device, ...]]] = defaultdict(list)
    for resource_slice in simulation.slices:
        published[resource_slice.spec.pool.name].append(resource_slice.spec.devices)
    return published
