"""Ask for the same part of a NIC in the other way: bandwidth in bits per second or in percent (docs/design/layout.md).

A NIC has one of these capacities, and a request for the other one never fits it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device
from driver.explain.propose.nearest.edits import put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import DemandEntry, ProposalSearch
from driver.layout.attributes import BANDWIDTH, BANDWIDTH_RATIO, LINK_SPEED

__all__ = ["other_bandwidths"]

_NODES: Final = 16
_ALL: Final = 100
_GIGA: Final = 10**9


def other_bandwidths(search: ProposalSearch) -> Iterator[Option]:
    """Yield an option for each kind of request for a part of a NIC, in all requests of that kind."""
    groups: defaultdict[object, list[DemandEntry]] = defaultdict(list)
    for entry in search.entries:
        if len({BANDWIDTH, BANDWIDTH_RATIO} & dict(entry.demand.capacity).keys()) == 1:
            groups[entry.demand.kind].append(entry)
    for entries in groups.values():
        demand = entries[0].demand
        devices = [
            device.device
            for verdict in search.nearest(_NODES)
            for device in search.of_class(search.view(verdict), demand)
        ]
        option = _other(entries, devices)
        if option is not None:
            yield option


def _other(entries: Sequence[DemandEntry], devices: Sequence[Device]) -> Option | None:
    asked = dict(entries[0].demand.capacity)
    if BANDWIDTH_RATIO in asked:
        of, to = BANDWIDTH_RATIO, BANDWIDTH
        speed = min((device.capacity[to].value.ceil() for device in devices if to in device.capacity), default=0)
        amount = Quantity.of(speed * asked[of].ceil() // _ALL)
    else:
        of, to = BANDWIDTH, BANDWIDTH_RATIO
        speed = min((_speed(device) for device in devices if to in device.capacity), default=0)
        # Of a NIC of unknown speed nobody knows how much a percentage is.
        amount = Quantity.of(min(-(-_ALL * asked[of].ceil() // speed), _ALL) if speed else 0)
    if amount < Quantity.of(1):
        return None
    amounts = {to if name == of else name: str(amount if name == of else value) for name, value in asked.items()}
    names = ", ".join(entry.demand.name for entry in entries)
    return Option(
        effort=Effort.LOOSER,
        text=f"ask for {to} {amount} instead of {of} {asked[of]} in request {names}: a NIC has one of the two",
        changes=tuple(
            Change(place=entry.claim, operations=(put({"requests": amounts}, *entry.path, "capacity"),))
            for entry in entries
        ),
    )


def _speed(device: Device) -> int:
    speed = device.attributes.get(LINK_SPEED)
    return (speed.int_value or 0) * _GIGA if speed is not None else 0
