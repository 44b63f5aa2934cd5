"""Counts what a request selects among the devices that are published, whichever of them are in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from driver.allocator.capacity import consumption
from driver.allocator.demands import Demand
from driver.allocator.errors import CapacityError
from driver.allocator.pools import NodeView, PooledDevice, SliceDevices
from driver.allocator.selection import SelectionFailure
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device
from driver.budget import check
from driver.cel import CelCompileError, CelLimitError, TermAnswer, compile_terms
from driver.explain.known.state import ClusterState

__all__ = ["Selected", "select"]


@dataclass(slots=True)
class Selected:
    """The devices that a request finds.

    Attributes:
        best: How many devices it selects on the node that has the most.
        sized: How many of them can give the capacities that it asks for, likewise.
        of_class: How many its class selects there are in all.
        failure: The first device on which a selector fails.
        stopped: Why the answer for some device is not known.
        refused: By selector and term, the first that refuses devices of the class: how many, and the last answer.
        largest: The most that a selected device has of each capacity, by name.
    """

    best: int = 0
    sized: int = 0
    of_class: int = 0
    failure: tuple[PooledDevice, SelectionFailure] | None = None
    stopped: CelLimitError | None = None
    refused: dict[tuple[int, str], tuple[int, TermAnswer]] = field(default_factory=dict)
    largest: dict[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Counts:
    """The devices that a request finds in one slice: see :class:`Selected`."""

    selected: int
    sized: int
    refused: Mapping[tuple[int, str], tuple[int, TermAnswer]]


def select(demand: Demand, views: Sequence[NodeView], state: ClusterState) -> Selected:
    """Ask the selectors of a request about all devices of some nodes.

    Raises:
        SpentError: The budget in force is spent.
    """
    seen = Selected()
    # Nodes that publish the very same devices share them.
    known: dict[tuple[str, int], _Counts] = {}
    for view in views:
        best = sized = 0
        for part in view.slices:
            key = (part.driver, id(part.source))
            counts = known.get(key)
            if counts is None:
                check()
                counts = known[key] = _count(demand, part, state, seen)
                if seen.stopped is not None:
                    return seen
            best += counts.selected
            sized += counts.sized
            seen.of_class += counts.selected
            for term, (count, answer) in counts.refused.items():
                seen.of_class += count
                seen.refused[term] = (seen.refused[term][0] + count if term in seen.refused else count, answer)
        seen.best, seen.sized = max(seen.best, best), max(seen.sized, sized)
    return seen


def _count(demand: Demand, part: SliceDevices, state: ClusterState, seen: Selected) -> _Counts:
    """Return the counts of a slice; the first failure and the largest capacities go into ``seen``."""
    selected = state.selections.of(demand, part)
    for place, failed in selected:
        if failed is not None and isinstance(failed.error, CelLimitError):
            seen.stopped = failed.error
        elif failed is not None and seen.failure is None:
            seen.failure = (part.devices[place], failed)
    chosen = {place for place, _ in selected}
    sized = 0
    refused: dict[tuple[int, str], tuple[int, TermAnswer]] = {}
    for place, device in enumerate(part.source):
        check()
        if place in chosen:
            with suppress(CapacityError):
                sized += not demand.capacity or consumption(demand, device) is not None
            for name, capacity in device.capacity.items():
                seen.largest[name] = max(seen.largest.get(name, capacity.value), capacity.value)
        elif (refusal := _refusal(demand, part.driver, device)) is not None:
            term = (refusal[0], refusal[1].text)
            refused[term] = (refused[term][0] + 1 if term in refused else 1, refusal[1])
    return _Counts(len(selected), sized, refused)


def _refusal(demand: Demand, driver: str, device: Device) -> tuple[int, TermAnswer] | None:
    """Return the selector of the request, and its term, that refuses a device of the class; None if none does."""
    try:
        for expression in demand.class_selectors:
            if compile_terms(expression, stored=True).first_false(driver, device) is not None:
                return None
        for index, expression in enumerate(demand.selectors):
            answer = compile_terms(expression, stored=True).first_false(driver, device)
            if answer is not None:
                return (index, answer) if answer.is_known else None
    except CelCompileError:
        return None
    return None
