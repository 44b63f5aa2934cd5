"""Draws one node as a tree for a terminal: NUMA node, root, switch, device, and who has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text
from rich.tree import Tree

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import Condition, Device, DeviceAllocation, OwnAttribute
from driver.cli.amounts import gibibytes, gibibytes_of, rate
from driver.model.pci import PciAddress, is_virtual_switch
from driver.status.cluster import name_order
from driver.status.overview import DeviceOverview, NodeOverview, device_overview, is_offered
from driver.wording import plural

__all__ = ["node_tree"]

_SILENT: Final = "NodeSilent"
_STATES: Final = {"Healthy": "green", "Unhealthy": "bold red", "Unknown": "yellow"}
_MODES: Final = {"shared": "shared", "ratio": "shared by percent", "mig": "MIG"}
# For these the device's state is enough: it is not watched, or nothing is heard of its node, which stands at the top.
_STATE_SAYS: Final = ("NotWatched", _SILENT)
_NAMES: Final = {"gpu": "GPU", "rdma": "RDMA NIC", "rdma-vf": "VF", "fpga": "FPGA"}


def node_tree(node: NodeOverview, devices: Sequence[Device]) -> Tree:
    """Draw a node as a tree.

    Args:
        node: The node in a few words.
        devices: Its Device objects. Idle virtual functions are counted, not shown.
    """
    tree = Tree(_title(node), guide_style="dim")
    for message in _silence(devices):
        tree.add(Text(message, style="bold red"))
    branches: dict[tuple[str, ...], Tree] = {(): tree}
    models = _models(node)
    vfs: defaultdict[str, list[Device]] = defaultdict(list)
    for device in devices:
        if device.spec.parent is not None:
            vfs[device.spec.parent].append(device)
    whole = [device for device in devices if device.spec.parent is None]
    for device in sorted(whole, key=lambda item: (_levels(item), item.spec.pci_bus_id)):
        levels = _levels(device)
        for depth in range(1, len(levels) + 1):
            key = levels[:depth]
            if key not in branches:
                branches[key] = branches[key[:-1]].add(Text(key[-1], style="dim"))
        branch = branches[levels].add(_line(device, models))
        functions = vfs[device.spec.device_name]
        _add_details(branch, device, functions)
        _add_functions(branch, functions, models)
    return tree


def _title(node: NodeOverview) -> Text:
    models = _models(node)
    parts = []
    for type_, name in _NAMES.items():
        count = sum(device.type == type_ for device in node.devices)
        # What all of them are stands once, at the top.
        model = f" ({min(models[type_])})" if len(models[type_]) == 1 and "" not in models[type_] else ""
        parts += [plural(count, name) + model] if count else []
    title = Text.assemble((node.name, "bold"), ": ", ", ".join(parts) or "no devices")
    if node.state != "Ready":
        title.append(f"; {node.state}: {node.reason}", style="bold red")
    if node.managed:
        title.append("; managed: Rootport's placement allocates its devices")
    return title


def _silence(devices: Sequence[Device]) -> Sequence[str]:
    """Return the note on a node of which the controller hears nothing; it stands once, not at each device."""
    conditions = [condition for device in devices if device.status for condition in device.status.conditions]
    # A device that was not watched before has been Unknown for longer.
    last = max((item for item in conditions if item.reason == _SILENT), key=_since, default=None)
    return [f"{last.message} (since {last.last_transition_time})"] if last is not None else []


def _since(condition: Condition) -> str:
    return condition.last_transition_time


def _models(node: NodeOverview) -> defaultdict[str, set[str]]:
    """Return the models, by type of device."""
    models: defaultdict[str, set[str]] = defaultdict(set)
    for device in node.devices:
        models[device.type].add(device.model)
    return models


def _levels(device: Device) -> tuple[str, ...]:
    spec = device.spec
    levels = ["NUMA node unknown" if spec.numa_node is None else f"NUMA node {spec.numa_node}"]
    switch = PciAddress(spec.pcie_switch) if spec.pcie_switch is not None else None
    is_virtual = switch is not None and is_virtual_switch(switch)
    # The devices of a cloud's virtual switch may sit on a root bus each: there the switch is what groups them.
    if spec.pcie_root is not None and not is_virtual:
        levels.append(f"PCIe root {spec.pcie_root}")
    if switch is not None:
        levels.append(f"{'virtual ' if is_virtual else ''}PCIe switch {switch}")
    return tuple(levels)


def _line(device: Device, models: Mapping[str, Collection[str]]) -> Text:
    """Return a device's line, such as ``gpu-0  Healthy  shared: 50% core, 40/79.6Gi given``."""
    spec, shown = device.spec, device_overview(device)
    line = Text(shown.name, style="bold")
    about = [spec.model if len(models[spec.type]) > 1 else None, spec.rdma_device]
    line.append("".join(f"  {part}" for part in about if part), style="not bold")
    line.append(f"  {shown.state}", style=f"not bold {_STATES[shown.state]}")
    if shown.reason and shown.state != "Healthy" and not shown.has_rival:
        line.append(f" ({shown.reason})", style=f"not bold {_STATES[shown.state]}")
    if shown.has_rival:
        line.append("  another system gives it out: see the NodeInventory", style="not bold yellow")
    if spec.attributes:
        line.append(f"  {', '.join(map(_attribute, spec.attributes))}", style="not bold cyan")
    if not shown.offered:
        line.append("  not on offer", style="not bold yellow")
    if use := _use(shown):
        line.append(f"  {use}", style="not bold" if shown.mode else "not bold dim")
    return line


def _attribute(attribute: OwnAttribute) -> str:
    """Return an attribute of the administrator's, such as ``role=storage``; its domain is the same for most."""
    value = next(iter(attribute.model_dump(exclude={"name"}, exclude_none=True).values()), "")
    return f"{attribute.name.rpartition('/')[2]}={str(value).lower() if isinstance(value, bool) else value}"


def _use(shown: DeviceOverview) -> str:
    """Return what is allocated of a device, or how much of it there is."""
    if not shown.mode:
        is_free = shown.offered and shown.state != "Unhealthy" and not shown.has_rival
        parts = ["free"] if is_free else []
        if shown.memory is not None:
            parts.append(gibibytes(shown.memory.total))
        if shown.bandwidth is not None:
            parts.append(rate(shown.bandwidth.total))
        if shown.vfs is not None:
            parts.append(plural(shown.vfs.total, "VF"))
        return ", ".join(parts)
    if shown.mode == "whole":
        return "whole"
    parts = []
    if shown.core is not None and shown.mode != "mig":
        parts.append(f"{shown.core.used}% core")
    if shown.memory is not None:
        parts.append(f"{gibibytes_of(shown.memory.used, shown.memory.total)} given")
        # That all the rest is left needs no words.
        left = shown.free_memory or 0
        if left < shown.memory.free and shown.state == "Healthy":
            parts.append(f"at most {gibibytes(left)} more" if left else "no room for more")
    if shown.free_profile:
        parts.append(f"room for {shown.free_profile}")
    parts += _nic_use(shown)
    mode = _MODES.get(shown.mode, shown.mode)
    return f"{mode}: {', '.join(parts)}" if parts else mode


def _nic_use(shown: DeviceOverview) -> Iterator[str]:
    """Yield what is allocated of a NIC."""
    if shown.vfs is not None:
        yield f"{shown.vfs.used} of {plural(shown.vfs.total, 'VF')} given"
    elif shown.bandwidth is not None:
        yield f"{rate(shown.bandwidth.used)} of {rate(shown.bandwidth.total)} given"
    elif shown.bandwidth_ratio is not None:
        yield f"{shown.bandwidth_ratio.used}% of its bandwidth given"


def _add_details(branch: Tree, device: Device, functions: Sequence[Device] = ()) -> None:
    """Return lines on what is wrong with a device and who has it; who has one of its functions stands there."""
    for condition in _troubles(device):
        style = "red" if condition.type == "Healthy" and condition.status == "False" else "yellow"
        branch.add(
            Text(f"{condition.reason}: {condition.message} (since {condition.last_transition_time})", style=style)
        )
    if device.spec.left_out:
        if is_offered(device):
            branch.add(Text(f"given in parts only: {device.spec.left_out}", style="dim"))
        else:
            branch.add(Text(f"not on offer: {device.spec.left_out}", style="yellow"))
    shown = {_what(allocation) for item in functions for allocation in (item.status.allocations if item.status else ())}
    for allocation in device.status.allocations if device.status else ():
        if _what(allocation) not in shown:
            for line in _holder(device, allocation):
                branch.add(line)


def _what(allocation: DeviceAllocation) -> tuple[str, ...]:
    """Return the identity of an allocation: a virtual function's stands at its NIC as well."""
    return allocation.uid, allocation.request, allocation.device, allocation.share_id or ""


def _troubles(device: Device) -> Iterator[Condition]:
    for condition in device.status.conditions if device.status else ():
        well = {"Healthy": "True", "Degraded": "False"}.get(condition.type)
        if well is not None and condition.status != well and condition.reason not in _STATE_SAYS:
            yield condition


def _holder(device: Device, allocation: DeviceAllocation) -> Iterator[Text]:
    """Return a line for each pod: ``◀ ml/train-0 (main)  50% core, 40Gi, enforced by MPS  claim train``."""
    parts = []
    if allocation.device != device.spec.device_name:
        parts.append(allocation.device)
    if not (device.status and device.status.mode == "whole"):
        parts += [f"{allocation.core}% core"] if allocation.core is not None else []
        parts += [_size(allocation.memory)] if allocation.memory is not None else []
        parts += [rate(allocation.bandwidth.ceil())] if allocation.bandwidth is not None else []
        parts += [f"{allocation.bandwidth_ratio}% of its bandwidth"] if allocation.bandwidth_ratio is not None else []
    if allocation.isolation is not None and allocation.isolation.by != "device":
        parts.append(f"{allocation.isolation.state} by {allocation.isolation.by}")
    claim = f"claim {allocation.claim}"
    for pod in allocation.pods:
        containers = f" ({', '.join(pod.containers)})" if pod.containers else ""
        yield _held(f"{allocation.namespace}/{pod.name}{containers}", parts, claim)
    if allocation.more_pods:
        yield _held(f"{allocation.namespace}: {plural(allocation.more_pods, 'more pod')}", parts, claim)
    for group in allocation.pod_groups:
        yield _held(f"{allocation.namespace}: PodGroup {group}", parts, claim)
    if not (allocation.pods or allocation.pod_groups):
        yield _held(f"{allocation.namespace}: no pod", parts, claim)


def _held(who: str, parts: Sequence[str], claim: str) -> Text:
    line = Text.assemble(("◀ ", "cyan"), (who, "cyan"))
    if parts:
        line.append(f"  {', '.join(parts)}")
    line.append(f"  {claim}", style="dim")
    return line


def _size(memory: Quantity) -> str:
    return gibibytes(memory.ceil())


def _add_functions(branch: Tree, functions: Sequence[Device], models: Mapping[str, Collection[str]]) -> None:
    """Return the virtual functions that are allocated, or that are not well."""
    idle = 0
    for function in sorted(functions, key=lambda item: name_order(item.spec.device_name)):
        status = function.status
        if status is None or not (status.allocations or status.state == "Unhealthy"):
            idle += 1
            continue
        _add_details(branch.add(_line(function, models)), function)
    if idle:
        branch.add(Text(f"{plural(idle, 'VF')} that nobody has", style="dim"))
