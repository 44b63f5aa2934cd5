"""Tolerate the taints of devices, or have them gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from driver.allocator.identity import DeviceId
from driver.allocator.taints import refusing_taints
from driver.api.resource_v1 import DeviceTaint, DeviceToleration
from driver.explain.explanation import ChangeKind, Step
from driver.explain.judge.case import NodeVerdict
from driver.explain.propose.nearest.edits import put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch
from driver.explain.tell.taint_texts import rivals_text, unhealthy_text
from driver.explain.texts import taint_text

__all__ = ["without_taints"]

_NODES: Final = 4
_MOST: Final = 4
"""So many different taints are tried by themselves; there are hardly ever more than one."""
_RULE: Final = "DeviceTaintRule "


def without_taints(search: ProposalSearch) -> Iterator[Option]:
    """Yield options for each taint that refuses a request on a node near a fit, and for all of them together."""
    found: dict[DeviceTaint, list[DeviceId]] = {}
    nodes: dict[int, NodeVerdict] = {}
    entries: dict[DeviceTaint, dict[int, DemandEntry]] = {}
    for alike in search.kinds():
        entry = alike[0]
        for verdict in search.nearest(_NODES, _taken_out(search, entry)):
            for device in search.selected(search.view(verdict), entry.demand):
                for taint in refusing_taints(device.device.taints, entry.demand.tolerations):
                    nodes.setdefault(id(verdict), verdict)
                    plain = taint.model_copy(update={"time_added": None})
                    devices = found.setdefault(plain, [])
                    if device.id not in devices:
                        devices.append(device.id)
                    entries.setdefault(plain, {}).update((item.place, item) for item in alike)
    taints = list(found)[:_MOST]
    for taint in taints:
        changes = _changes(list(entries[taint].values()), [taint])
        near = tuple(nodes.values())[:_NODES]
        yield replace(_gone(search, taint, found[taint], changes), nodes=near)
        text = f"tolerate the device taint {taint_text(taint)}"
        yield Option(effort=Effort.GIVE_UP, text=text, changes=changes, nodes=near)
    if len(taints) > 1:
        touched = {entry.place: entry for taint in taints for entry in entries[taint].values()}
        yield Option(
            effort=Effort.GIVE_UP,
            cost=len(taints),
            text=f"tolerate the device taints {', '.join(map(taint_text, taints))}",
            changes=_changes(list(touched.values()), taints),
        )


def _taken_out(search: ProposalSearch, entry: DemandEntry) -> Callable[[NodeVerdict], int]:
    """Return a sort key that is the smaller, the fewer devices are left because of taints."""
    return lambda item: search.after(item, entry, Step.TAINTS) - search.after(item, entry, Step.SIZE)


def _gone(search: ProposalSearch, taint: DeviceTaint, devices: list[DeviceId], changes: tuple[Change, ...]) -> Option:
    """Return the option without the taint; it is tried as the toleration is, which lets the same devices in."""
    sources = {search.state.taint_source(device, taint) for device in devices}
    which = str(devices[0]) if len(devices) == 1 else f"{devices[0]} and {len(devices) - 1} more"
    rules = sorted(source.removeprefix(_RULE) for source in sources if source.startswith(_RULE))
    if len(rules) == len(sources):
        return Option(
            effort=Effort.OTHERS,
            cost=len(rules),
            text=f"delete {'the ' if len(rules) > 1 else ''}{_RULE}{', '.join(rules)}, which taints {which}"
            f" with {taint_text(taint)}",
            changes=changes,
            kind=ChangeKind.CHANGE_DEVICE_TAINT,
            commands=tuple(f"kubectl delete devicetaintrule {rule}" for rule in rules),
        )
    return Option(
        effort=Effort.OTHERS,
        cost=len(devices),
        text=_repair(search, taint, devices[0], which, sources),
        changes=changes,
        kind=ChangeKind.CHANGE_DEVICE_TAINT,
    )


def _repair(search: ProposalSearch, taint: DeviceTaint, device: DeviceId, which: str, sources: set[str]) -> str:
    if len(sources) == 1 and search.state.is_given_out_elsewhere(device, taint):
        why = rivals_text(search.state, device, taint)
        return f"keep the other system off device {which}: {why}; Rootport takes the taint {taint_text(taint)} off then"
    if len(sources) == 1 and search.state.has_default_route(device, taint):
        return (
            f"give out device {which} although the node's default route goes through it, with a policy of "
            "defaultRoute: allow in the DevicePolicies; a request that leaves its interface on the node can have "
            f"tolerations: [{{key: {taint.key}, operator: Exists}}] instead"
        )
    if len(sources) > 1 or not search.state.is_unhealthy(device, taint):
        return f"repair device {which}: tainted with {taint_text(taint)} by {' and '.join(sorted(sources))}"
    why = unhealthy_text(search.state, device, taint)
    return f"repair device {which}: {why}; Rootport takes the taint {taint_text(taint)} off once it is well"


def _changes(entries: list[DemandEntry], taints: list[DeviceTaint]) -> tuple[Change, ...]:
    more = [
        DeviceToleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
        if taint.value
        else DeviceToleration(key=taint.key, operator="Exists", effect=taint.effect)
        for taint in taints
    ]
    return tuple(
        Change(
            place=entry.claim,
            operations=(
                put([item.to_wire() for item in (*entry.demand.tolerations, *more)], *entry.path, "tolerations"),
            ),
        )
        for entry in entries
    )
