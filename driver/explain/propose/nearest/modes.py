"""Ask for the same share of a GPU in the other way: memory in bytes or in percent (docs/design/layout.md).

A GPU has shares of one way at a time, so where all GPUs in use have those of the other one, there may be room in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.explain.propose.nearest.edits import put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch
from driver.layout.attributes import CORE, MEMORY, MEMORY_RATIO

__all__ = ["other_modes"]

_BYTES: Final = f"gpu.{DRIVER_NAME}"
_PERCENT: Final = f"gpu-ratio.{DRIVER_NAME}"
_NODES: Final = 16
_MIB: Final = 1 << 20


def other_modes(search: ProposalSearch) -> Iterator[Option]:
    """Yield an option for each kind of request for a share of a GPU, in all requests of that kind."""
    groups: defaultdict[object, list[DemandEntry]] = defaultdict(list)
    for entry in search.entries:
        if entry.demand.capacity and entry.demand.device_class in {_BYTES, _PERCENT}:
            groups[entry.demand.kind].append(entry)
    for entries in groups.values():
        memory = _memory(search, entries[0])
        option = _other(entries, memory) if memory else None
        if option is not None:
            yield option


def _memory(search: ProposalSearch, entry: DemandEntry) -> int:
    """Return the bytes of the smallest GPU near a fit; 0 where none has them, or one of the classes is not there."""
    by_bytes = search.state.classes.get(_BYTES)
    if by_bytes is None or _PERCENT not in search.state.classes:
        return 0
    selectors = tuple(item.cel.expression for item in by_bytes.spec.selectors if item.cel is not None)
    demand = replace(entry.demand, class_selectors=selectors)
    amounts = [
        device.device.capacity[MEMORY].value.ceil()
        for verdict in search.nearest(_NODES)
        for device in search.of_class(search.view(verdict), demand)
        if MEMORY in device.device.capacity
    ]
    return min(amounts, default=0)


def _other(entries: list[DemandEntry], memory: int) -> Option | None:
    asked = dict(entries[0].demand.capacity)
    amounts = {CORE: str(asked[CORE])} if CORE in asked else {}
    if entries[0].demand.device_class == _BYTES:
        to, wanted, name = _PERCENT, asked.get(MEMORY), MEMORY_RATIO
        amount = Quantity.of(-(-100 * wanted.ceil() // memory)) if wanted is not None else None
    else:
        to, wanted, name = _BYTES, asked.get(MEMORY_RATIO), MEMORY
        bytes_ = memory * wanted.ceil() // 100 if wanted is not None else 0
        amount = Quantity.of(-(-bytes_ // _MIB) * _MIB, binary=True) if wanted is not None else None
    if asked.keys() - {CORE, MEMORY if to == _PERCENT else MEMORY_RATIO} or (amount is None and not amounts):
        return None
    if amount is not None:
        amounts[name] = str(amount)
    shown = ", ".join(f"{key} {value}" for key, value in sorted(amounts.items()))
    names = ", ".join(entry.demand.name for entry in entries)
    return Option(
        effort=Effort.LOOSER,
        text=f"ask for class {to} with {shown} instead of {entries[0].demand.device_class} in request {names}:"
        " a GPU has shares of one kind at a time",
        changes=tuple(
            Change(
                place=entry.claim,
                operations=(
                    put(to, *entry.path, "deviceClassName"),
                    put({"requests": amounts}, *entry.path, "capacity"),
                ),
            )
            for entry in entries
        ),
    )
