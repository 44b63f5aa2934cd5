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
from driver.explain.propose.nearest.bench import Bench, Wish
from driver.explain.propose.nearest.edits import put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.layout.attributes import CORE, MEMORY, MEMORY_RATIO

__all__ = ["other_modes"]

_BYTES: Final = f"gpu.{DRIVER_NAME}"
_PERCENT: Final = f"gpu-ratio.{DRIVER_NAME}"
_NODES: Final = 16
_MIB: Final = 1 << 20


def other_modes(bench: Bench) -> Iterator[Option]:
    """For each kind of request for a share of a GPU, in all requests of that kind."""
    groups: defaultdict[object, list[Wish]] = defaultdict(list)
    for wish in bench.wishes:
        if wish.demand.capacity and wish.demand.device_class in {_BYTES, _PERCENT}:
            groups[wish.demand.kind].append(wish)
    for wishes in groups.values():
        memory = _memory(bench, wishes[0])
        option = _other(wishes, memory) if memory else None
        if option is not None:
            yield option


def _memory(bench: Bench, wish: Wish) -> int:
    """The bytes of the smallest GPU near a fit; 0 where none says, or one of the classes is not there."""
    by_bytes = bench.state.classes.get(_BYTES)
    if by_bytes is None or _PERCENT not in bench.state.classes:
        return 0
    selectors = tuple(item.cel.expression for item in by_bytes.spec.selectors if item.cel is not None)
    demand = replace(wish.demand, class_selectors=selectors)
    amounts = [
        device.device.capacity[MEMORY].value.ceil()
        for verdict in bench.nearest(_NODES)
        for device in bench.of_class(bench.view(verdict), demand)
        if MEMORY in device.device.capacity
    ]
    return min(amounts, default=0)


def _other(wishes: list[Wish], memory: int) -> Option | None:
    asked = dict(wishes[0].demand.capacity)
    amounts = {CORE: str(asked[CORE])} if CORE in asked else {}
    if wishes[0].demand.device_class == _BYTES:
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
    told = ", ".join(f"{key} {value}" for key, value in sorted(amounts.items()))
    names = ", ".join(wish.demand.name for wish in wishes)
    return Option(
        effort=Effort.LOOSER,
        text=f"ask for class {to} with {told} instead of {wishes[0].demand.device_class} in request {names}:"
        " a GPU has shares of one kind at a time",
        changes=tuple(
            Change(
                place=wish.claim,
                operations=(
                    put(to, *wish.path, "deviceClassName"),
                    put({"requests": amounts}, *wish.path, "capacity"),
                ),
            )
            for wish in wishes
        ),
    )
