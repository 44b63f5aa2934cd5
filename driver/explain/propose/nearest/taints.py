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
from driver.explain.propose.nearest.bench import Bench, Wish
from driver.explain.propose.nearest.edits import put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.tell.taint_texts import unhealthy_text
from driver.explain.texts import taint_text

__all__ = ["without_taints"]

_NODES: Final = 4
_MOST: Final = 4
"""So many different taints are tried by themselves; there are hardly ever more than one."""
_RULE: Final = "DeviceTaintRule "


def without_taints(bench: Bench) -> Iterator[Option]:
    """For each taint that refuses a request on a node near a fit, and for all of them together."""
    found: dict[DeviceTaint, list[DeviceId]] = {}
    nodes: dict[int, NodeVerdict] = {}
    wishes: dict[DeviceTaint, dict[int, Wish]] = {}
    for alike in bench.kinds():
        wish = alike[0]
        for verdict in bench.nearest(_NODES, _taken_out(bench, wish)):
            for device in bench.selected(bench.view(verdict), wish.demand):
                for taint in refusing_taints(device.device.taints, wish.demand.tolerations):
                    nodes.setdefault(id(verdict), verdict)
                    plain = taint.model_copy(update={"time_added": None})
                    devices = found.setdefault(plain, [])
                    if device.id not in devices:
                        devices.append(device.id)
                    wishes.setdefault(plain, {}).update((item.place, item) for item in alike)
    taints = list(found)[:_MOST]
    for taint in taints:
        changes = _changes(list(wishes[taint].values()), [taint])
        near = tuple(nodes.values())[:_NODES]
        yield replace(_gone(bench, taint, found[taint], changes), nodes=near)
        text = f"tolerate the device taint {taint_text(taint)}"
        yield Option(effort=Effort.GIVE_UP, text=text, changes=changes, nodes=near)
    if len(taints) > 1:
        touched = {wish.place: wish for taint in taints for wish in wishes[taint].values()}
        yield Option(
            effort=Effort.GIVE_UP,
            cost=len(taints),
            text=f"tolerate the device taints {', '.join(map(taint_text, taints))}",
            changes=_changes(list(touched.values()), taints),
        )


def _taken_out(bench: Bench, wish: Wish) -> Callable[[NodeVerdict], int]:
    """The fewer devices are left because of taints, the smaller."""
    return lambda item: bench.after(item, wish, Step.TAINTS) - bench.after(item, wish, Step.SIZE)


def _gone(bench: Bench, taint: DeviceTaint, devices: list[DeviceId], changes: tuple[Change, ...]) -> Option:
    """Tried like the toleration: a taint that is gone and one that is tolerated let the same devices in."""
    sources = {bench.state.taint_source(device, taint) for device in devices}
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
        text=_repair(bench, taint, devices[0], which, sources),
        changes=changes,
        kind=ChangeKind.CHANGE_DEVICE_TAINT,
    )


def _repair(bench: Bench, taint: DeviceTaint, device: DeviceId, which: str, sources: set[str]) -> str:
    if len(sources) > 1 or not bench.state.is_unhealthy(device, taint):
        return f"repair device {which}: tainted with {taint_text(taint)} by {' and '.join(sorted(sources))}"
    why = unhealthy_text(bench.state, device, taint)
    return f"repair device {which}: {why}; Rootport takes the taint {taint_text(taint)} off once it is well"


def _changes(wishes: list[Wish], taints: list[DeviceTaint]) -> tuple[Change, ...]:
    more = [
        DeviceToleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
        if taint.value
        else DeviceToleration(key=taint.key, operator="Exists", effect=taint.effect)
        for taint in taints
    ]
    return tuple(
        Change(
            place=wish.claim,
            operations=(
                put([item.to_wire() for item in (*wish.demand.tolerations, *more)], *wish.path, "tolerations"),
            ),
        )
        for wish in wishes
    )
