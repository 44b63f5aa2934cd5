"""Writes what is left of a device, who holds it, and in which mode its card is allocated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.capacity import consumption
from driver.allocator.identity import DeviceId
from driver.allocator.ledger import Ledger
from driver.allocator.pools import PooledDevice
from driver.budget import check
from driver.explain.judge.device_filter import FilteredDevices
from driver.explain.judge.evaluation import NodeEvaluation
from driver.explain.known.state import ClusterState
from driver.explain.texts import amount, holders_text
from driver.layout.attributes import TYPE
from driver.wording import plural

__all__ = [
    "Fragment",
    "counter_holders",
    "counters_text",
    "fragment_text",
    "held_by",
    "largest_fragment",
    "mode_of",
    "taken_by",
]

_MODES: Final = {
    "gpu": "in shares",
    "gpu-ratio": "in shares by percent",
    "mig": "in MIG partitions",
}


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """The free part of a shared device, compared with what a demand takes of it.

    Attributes:
        device: The device.
        part: The smallest part of what is needed that is free; 1 and more where it is enough.
        lacking: The capacities of which too little is free: (name, needed, free, whether it is asked for by name), in
            nano-units.
    """

    device: PooledDevice
    part: float
    lacking: tuple[tuple[str, int, int, bool], ...]


def largest_fragment(ledger: Ledger, filtered: FilteredDevices) -> Fragment | None:
    """Return the device that is nearest to enough, of those with too little room; None where there is none."""
    best: Fragment | None = None
    asked = {name for name, _ in filtered.demand.capacity}
    for device in filtered.no_room:
        needed = consumption(filtered.demand, device.device) or {}
        used = ledger.consumed(device.id)
        lacking, part = [], 1.0
        for name, quantity in needed.items():
            need, free = quantity.nano, device.device.capacity[name].value.nano - used.get(name, 0)
            if free < need:
                lacking.append((name, need, free, name in asked))
                part = min(part, free / need)
        if best is None or part > best.part:
            best = Fragment(device, part, tuple(lacking))
    return best


def fragment_text(fragment: Fragment, node: str) -> str:
    """Write ``the most that is free is on device gpu-… of node n1: 30Gi of memory, where 40Gi is asked for``."""
    parts = []
    for name, need, free, by_name in fragment.lacking:
        value = fragment.device.device.capacity[name].value
        there = f"{amount(free, value)} of {name}" if free > 0 else f"no {name}"
        why = "is asked for" if by_name else f"is taken by a request that names no {name}"
        parts.append(f"{there}, where {amount(need, value)} {why}")
    return f"the most that is free is on device {fragment.device.id.device} of node {node}: {', and '.join(parts)}"


def counter_holders(evaluation: NodeEvaluation, device: PooledDevice) -> list[PooledDevice]:
    """Return the devices in use that hold what ``device`` lacks of its pool's counters."""
    keys = set(evaluation.counters.lacking(device))
    pool = next(pool for pool in evaluation.scene.view.pools if pool.id == device.id.pool_id)
    ledger = evaluation.scene.ledger
    there = [item for part in (*pool.slices, *pool.elsewhere) for item in part.devices]
    return [
        item
        for item in there
        if not keys.isdisjoint(item.counters) and (ledger.is_whole(item.id) or ledger.is_shared(item.id))
    ]


def mode_of(ledger: Ledger, device: PooledDevice) -> str:
    """Write how the card of a device in use is allocated, such as ``in shares``."""
    attribute = device.device.attributes.get(TYPE)
    kind = attribute.string_value if attribute is not None else None
    used = ledger.consumed(device.id)
    if kind == "gpu":
        return "as a whole" if ledger.is_whole(device.id) or _has_all(used, device) else _MODES["gpu"]
    return _MODES.get(kind or "", f"as device {device.id.device}")


def _has_all(used: Mapping[str, int], device: PooledDevice) -> bool:
    """Whether so much is in use as a claim without amounts has: all memory, or all core where that is not known."""
    capacity = device.device.capacity
    name = "memory" if "memory" in capacity else "core"
    if name not in capacity:
        return False
    policy = capacity[name].request_policy
    most = policy.default if policy is not None and policy.default is not None else capacity[name].value
    return used.get(name, 0) >= most.nano


def counters_text(state: ClusterState, evaluation: NodeEvaluation, devices: Sequence[PooledDevice]) -> str:
    """Write in which mode the cards of ``devices`` are allocated, and who has them."""
    by_mode: dict[str, tuple[set[tuple[str, str]], dict[str, PooledDevice]]] = {}
    overdrawn = 0
    for device in devices:
        check()
        holders = counter_holders(evaluation, device)
        overdrawn += not holders
        for holder in holders:
            cards, items = by_mode.setdefault(mode_of(evaluation.scene.ledger, holder), (set(), {}))
            # A card is a counter set; many of the devices may be parts of it.
            common = {name for name, _ in device.counters.keys() & holder.counters.keys()} or {device.id.device}
            cards.update((device.id.pool, name) for name in common)
            items[holder.id.device] = holder
    texts = [
        f"{plural(len(cards), 'card')} {'is' if len(cards) == 1 else 'are'} given {mode}: to"
        f" {held_by(state, list(items.values()))}"
        for mode, (cards, items) in sorted(by_mode.items(), key=lambda item: (-len(item[1][0]), item[0]))
    ]
    if overdrawn:
        texts.append(f"for {plural(overdrawn, 'device')} the pool has too little of a shared counter")
    return "; ".join(texts)


def held_by(state: ClusterState, devices: Iterable[PooledDevice]) -> str:
    """Write who has the devices, or that it is not known."""
    return holders_text(state, devices) or "claims that are not known here"


def taken_by(state: ClusterState, evaluation: NodeEvaluation, devices: Iterable[PooledDevice]) -> str:
    """Write who has the devices, or what excludes them: a GPU in shares is taken in every other mode."""
    held: dict[DeviceId, PooledDevice] = {}
    for device in devices:
        check()
        by_counters = device.counters and not state.holders(device.id)
        for item in counter_holders(evaluation, device) if by_counters else [device]:
            held[item.id] = item
    return held_by(state, held.values())
