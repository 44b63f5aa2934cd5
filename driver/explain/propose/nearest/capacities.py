"""Ask for less of a capacity: for the largest part that is free, or that there is at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator.demands import Demand
from driver.allocator.identity import PoolId
from driver.allocator.taints import refusing_taints
from driver.allocator.view import CounterKey, PooledDevice
from driver.api.quantity import Quantity
from driver.api.resource_v1 import CapacityRequestPolicy, DeviceCapacity
from driver.explain.explanation import Step
from driver.explain.judge.case import NodeVerdict
from driver.explain.propose.nearest.edits import drop, put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch

__all__ = ["smaller_capacities"]

_NODES: Final = 256
"""On so many nodes the largest free part is looked for."""
_TRIED: Final = 3
"""On so many of those with the largest parts it is tried."""
_NANO: Final = 10**9


@dataclass(frozen=True, slots=True)
class _Part:
    """What a request could have of a device: how much of what it asks for, and the amounts to ask for instead."""

    share: float
    amounts: Mapping[str, Quantity]


def smaller_capacities(search: ProposalSearch) -> Iterator[Option]:
    """Yield, for each request and for all of one kind, the largest amounts that its number of devices still has."""
    groups: defaultdict[object, list[DemandEntry]] = defaultdict(list)
    for entry in search.entries:
        if not entry.demand.admin:
            groups[entry.demand.kind].append(entry)
    for entries in groups.values():
        parts = _parts(search, entries[0])
        for some in [*([entry] for entry in entries), *([entries] if len(entries) > 1 else [])]:
            option = _option(some, parts)
            if option is not None:
                yield option


def _parts(search: ProposalSearch, entry: DemandEntry) -> list[tuple[NodeVerdict, list[_Part]]]:
    """Return for each node the free parts of its devices, the largest first."""
    found: list[tuple[NodeVerdict, list[_Part]]] = []
    known: dict[object, _Part | None] = {}
    # As many as possible of those where nothing but the amount is in the way: which has most left, no verdict tells.
    nodes = [item for item in search.open if search.after(item, entry, Step.IN_USE) >= entry.need][:_NODES]
    for verdict in nodes or search.nearest(_NODES, lambda item: -search.after(item, entry, Step.SELECTOR)):
        parts = [
            part
            for device in _usable(search, verdict, entry.demand)
            if (part := _known_part(search, device, entry.demand, known)) is not None
        ]
        if parts:
            found.append((verdict, sorted(parts, key=lambda part: -part.share)))
    return found


def _usable(search: ProposalSearch, verdict: NodeVerdict, demand: Demand) -> Iterator[PooledDevice]:
    """Yield the devices that only a smaller amount may keep from the demand."""
    ledger, view = search.state.ledger, search.view(verdict)
    free: dict[PoolId, dict[CounterKey, int]] = {}
    for device in search.selected(view, demand):
        if ledger.is_whole(device.id) or refusing_taints(device.device.taints, demand.tolerations):
            continue
        if device.counters and not ledger.is_shared(device.id):
            free = free or {pool.id: ledger.free_counters(pool) for pool in view.pools}
            left = free.get(device.id.pool_id, {})
            if any(left.get(key, 0) < amount for key, amount in device.counters.items()):
                continue
        yield device


def _known_part(
    search: ProposalSearch, device: PooledDevice, demand: Demand, known: dict[object, _Part | None]
) -> _Part | None:
    """Return the free part of a device; the same for devices of the same capacities that are used alike."""
    key = (id(device.device.capacity), device.shareable, frozenset(search.state.ledger.consumed(device.id).items()))
    if key not in known:
        known[key] = _part(search, device, demand)
    return known[key]


def _part(search: ProposalSearch, device: PooledDevice, demand: Demand) -> _Part | None:
    wanted = dict(demand.capacity)
    if not wanted.keys() <= device.device.capacity.keys():
        return None
    used = search.state.ledger.consumed(device.id)
    share, amounts = 1.0, {}
    for name, capacity in device.device.capacity.items():
        if name not in wanted and not device.shareable:
            continue
        policy = capacity.request_policy
        asked = wanted.get(name) or (policy.default if policy is not None else None) or capacity.value
        left = capacity.value.nano - used.get(name, 0)
        amount = _largest(asked, min(left, asked.nano), capacity)
        if amount is None:
            return None
        if amount.nano < asked.nano:
            amounts[name] = amount
            share = min(share, amount.nano / asked.nano)
    return _Part(share, amounts)


def _largest(asked: Quantity, room: int, capacity: DeviceCapacity) -> Quantity | None:
    """Return the largest amount within ``room`` (nano-units) that the policy has; rounded up it fits as well."""
    policy = capacity.request_policy
    if policy is None:
        return _quantity(room, capacity.value) if room > 0 else None
    amounts = [policy.default] if policy.default is not None and policy.default.nano <= room else []
    amounts += [item for item in policy.valid_values if item.nano <= room]
    in_range = _in_range(policy, room, capacity.value)
    if in_range is not None:
        amounts.append(in_range)
    if not amounts and not policy.valid_values and policy.valid_range is None:
        return _quantity(room, capacity.value) if room > 0 else None
    # An amount above what is asked for would not be less.
    return max((item for item in amounts if item <= asked), default=None)


def _in_range(policy: CapacityRequestPolicy, room: int, whole: Quantity) -> Quantity | None:
    valid = policy.valid_range
    if valid is None:
        return None
    low = valid.min.nano if valid.min is not None else 0
    room = min(room, valid.max.nano) if valid.max is not None else room
    if room < low or room <= 0:
        return None
    if valid.step is not None and valid.step.nano >= _NANO:
        room = low + (room - low) // valid.step.nano * valid.step.nano
    return _quantity(room, whole) if room > 0 else None


def _quantity(nano: int, like: Quantity) -> Quantity:
    """Return whole units, written as the device's own amount is."""
    if nano % _NANO:
        return Quantity.from_nano(nano, like.format)
    return Quantity.of(nano // _NANO, binary=like.format == "BinarySI")


def _option(
    entries: Sequence[DemandEntry], parts_of_nodes: Sequence[tuple[NodeVerdict, Sequence[_Part]]]
) -> Option | None:
    """Return the best option that the nodes have for all of ``entries`` together."""
    need = sum(entry.need for entry in entries)
    best: _Part | None = None
    near: list[NodeVerdict] = []
    for verdict, parts in parts_of_nodes:
        # Shares of one device may serve several requests; whether they do is the allocator's to say.
        taken = parts[: max(1, min(need, len(parts)))] if len(entries) > 1 else parts[:need]
        if len(taken) < need and len(entries) == 1:
            continue
        names = {name for part in taken for name in part.amounts}
        amounts = {name: min(part.amounts[name] for part in taken if name in part.amounts) for name in names}
        share = min(part.share for part in taken)
        if amounts and (best is None or share > best.share):
            best = _Part(share, amounts)
            near = [verdict, *near]
    if best is None:
        return None
    demand = entries[0].demand
    asked = dict(demand.capacity)
    changes = []
    for entry in entries:
        if entry.demand.capacity:
            operations = tuple(
                # Nothing of a capacity is what it has by default who does not name it.
                put(str(amount), *entry.path, "capacity", "requests", name)
                if amount.nano
                else drop(*entry.path, "capacity", "requests", name)
                for name, amount in sorted(best.amounts.items())
            )
        else:
            written = {name: str(amount) for name, amount in sorted(best.amounts.items())}
            operations = (put({"requests": written}, *entry.path, "capacity"),)
        changes.append(Change(place=entry.claim, operations=operations))
    shown = ", ".join(
        f"{name} {amount}" if amount.nano else f"no {name}" for name, amount in sorted(best.amounts.items())
    )
    instead = ", ".join(str(asked[name]) for name in sorted(best.amounts) if name in asked)
    names_of = ", ".join(entry.demand.name for entry in entries)
    which = f"request {names_of}" if len(entries) == 1 else f"each of the requests {names_of}"
    text = f"ask for {shown} in {which} instead of {instead or 'the whole device'}"
    return Option(
        effort=Effort.LESS if best.share * 2 >= 1 else Effort.GIVE_UP,
        cost=max(1, round(100 * (1 - best.share))),
        text=text,
        changes=tuple(changes),
        nodes=tuple(near[:_TRIED]),
    )
