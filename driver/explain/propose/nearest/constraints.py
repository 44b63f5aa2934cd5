"""Loosen a constraint: let devices be farther apart, or leave the constraint out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from driver.api.resource_v1 import MAX_CONSTRAINTS
from driver.explain.propose.nearest.edits import drop, put
from driver.explain.propose.nearest.options import Change, Effort, Option
from driver.explain.propose.nearest.search import ProposalSearch
from driver.model.alignment import NUMA_NODE, PCIE_ROOT, PCIE_SWITCH

__all__ = ["looser_constraints"]

_WIDER: Final = (PCIE_SWITCH, PCIE_ROOT, NUMA_NODE)
"""Each takes in more devices than the one before it."""
_NODES: Final = 3

_Place = tuple[int, int]
"""A claim's and a constraint's."""


def looser_constraints(search: ProposalSearch) -> Iterator[Option]:
    """Yield for each constraint, and for all on one attribute at once, a wider attribute, then none."""
    groups: defaultdict[tuple[bool, str], list[_Place]] = defaultdict(list)
    for place, claim in enumerate(search.claims):
        for index, constraint in enumerate(claim.spec.devices.constraints[:MAX_CONSTRAINTS]):
            attribute = constraint.match_attribute or constraint.distinct_attribute
            if attribute:
                groups[constraint.match_attribute is None, attribute].append((place, index))
    nodes = search.nearest(_NODES)
    for (distinct, attribute), places in groups.items():
        if search.works(_without(places, attribute, distinct=distinct), nodes) is None:
            # Nothing that is done to these constraints is enough; something may be, beside another change.
            yield _without(places, attribute, distinct=distinct)
            continue
        for some in [*([place] for place in places), *([places] if len(places) > 1 else [])]:
            if not distinct and attribute in _WIDER:
                for steps, wider in enumerate(_WIDER[_WIDER.index(attribute) + 1 :], start=1):
                    yield _wider(some, attribute, wider, steps)
            yield _without(some, attribute, distinct=distinct)


def _wider(places: Sequence[_Place], attribute: str, wider: str, steps: int) -> Option:
    return Option(
        effort=Effort.LOOSER,
        cost=steps * len(places),
        text=f"match {wider} instead of {attribute} in {_which(places)}",
        changes=tuple(
            Change(place=claim, operations=(put(wider, "constraints", index, "matchAttribute"),))
            for claim, index in places
        ),
    )


def _without(places: Sequence[_Place], attribute: str, *, distinct: bool) -> Option:
    kind = "distinctAttribute" if distinct else "matchAttribute"
    return Option(
        effort=Effort.GIVE_UP,
        cost=2 * len(places),
        text=f"leave out {_which(places)} ({kind} {attribute})",
        changes=tuple(Change(place=claim, operations=(drop("constraints", index),)) for claim, index in places),
    )


def _which(places: Sequence[_Place]) -> str:
    numbers = ", ".join(str(index) for _, index in places)
    return f"constraint {numbers}" if len(places) == 1 else f"constraints {numbers}"
