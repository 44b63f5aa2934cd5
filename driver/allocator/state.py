"""Books what one search takes in its course, with exact undo.

Source of what keeps a device from being taken: allocateDevice in k8s.io/dynamic-resource-allocation v0.37.2,
structured/internal/incubating/allocator_incubating.go. Where upstream errs, this follows the API's words: admin access
does not take a device from other claims, unless the caller asks for upstream's way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import Enum
from itertools import chain
from typing import NamedTuple

from driver.allocator.candidates import Scene
from driver.allocator.constraints import column, extend
from driver.allocator.demands import Constraint, Demand
from driver.allocator.eligibility import FreeCounters
from driver.allocator.view import Candidate, Values

__all__ = ["Refusal", "SearchState", "Taken"]


class Refusal(Enum):
    """Why a candidate cannot be taken now."""

    IN_USE = "in use"
    COUNTERS = "counters"
    CONSTRAINT = "constraint"
    CAPACITY = "capacity"


class Taken(NamedTuple):
    """A candidate that was taken, and what undoes it.

    Attributes:
        claim: The claim's place.
        demand: The demand that it is for.
        candidate: The candidate.
        charged: Whether its counters were charged for it.
        before: The states of the claim's constraints before.
    """

    claim: int
    demand: Demand
    candidate: Candidate
    charged: bool
    before: tuple[Values | None, ...]


class SearchState:
    """Devices, capacity, counters and constraints during one search.

    Args:
        scene: The node.
        constraints: Of each claim.
        admin_blocks: Whether a device that one claim got by admin access is kept from the pod's other claims.
    """

    def __init__(
        self, scene: Scene, constraints: Sequence[tuple[Constraint, ...]], *, admin_blocks: bool = False
    ) -> None:
        self.constraints = constraints
        self.states: list[tuple[Values | None, ...]] = [(None,) * len(of_claim) for of_claim in constraints]
        self.taken: list[Taken] = []
        self.owners: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        """By position: (claim, admin access) of each time that the device was taken."""
        self._admin_blocks = admin_blocks
        self._lists = scene.features.list_type_attributes
        self._ledger = scene.ledger
        self._view = scene.view
        self._used: defaultdict[int, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._counters = FreeCounters(scene.view, scene.ledger)
        self._columns: dict[str, tuple[Values | None, ...]] = {}
        self._applying: list[dict[str, tuple[int, ...]]] = [{} for _ in constraints]

    def applying(self, claim: int, demand: Demand) -> tuple[int, ...]:
        """Return the places of the constraints that apply to ``demand``."""
        known = self._applying[claim].get(demand.name)
        if known is None:
            constraints = self.constraints[claim]
            known = tuple([place for place, constraint in enumerate(constraints) if constraint.applies_to(demand)])
            self._applying[claim][demand.name] = known
        return known

    def values(self, candidate: Candidate, attribute: str) -> Values | None:
        """Return the candidate's values for an attribute."""
        return self._column(attribute)[candidate.position]

    def usable(self, claim: int, demand: Demand, items: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates that can be taken now, or that fail; taking some of them frees no other one."""
        if self.owners:
            items = [item for item in items if self.is_free(claim, demand, item) and self.has_room(item)]
        return self.only_allowed(claim, self.applying(claim, demand), items)

    def is_free(self, claim: int, demand: Demand, candidate: Candidate) -> bool:
        """Whether the device was not taken in a way that keeps it from ``demand``."""
        if candidate.device.shareable:
            return True
        owners = self.owners.get(candidate.position)
        return not owners or all(
            owner != claim and (demand.admin or (admin and not self._admin_blocks)) for owner, admin in owners
        )

    def has_room(self, candidate: Candidate) -> bool:
        """Whether what was taken of a shared device in this search leaves enough of it for the candidate."""
        used = self._used.get(candidate.position)
        if not candidate.consumed or used is None:
            return True
        left = self.left(candidate)
        return all(used[name] + amount.nano <= left[name] for name, amount in candidate.consumed.items())

    def left(self, candidate: Candidate) -> dict[str, int]:
        """Return what allocated claims left of the device's capacities, in nano-units."""
        device = candidate.device
        consumed = self._ledger.consumed(device.id)
        return {name: capacity.value.nano - consumed.get(name, 0) for name, capacity in device.device.capacity.items()}

    def allowed(self, claim: int, places: Sequence[int], candidate: Candidate) -> bool:
        """Whether the constraints at ``places`` let the candidate in, as things stand."""
        states, constraints = self.states[claim], self.constraints[claim]
        for place in places:
            constraint = constraints[place]
            if (
                extend(constraint, states[place], self.values(candidate, constraint.attribute), lists=self._lists)
                is None
            ):
                return False
        return True

    def only_allowed(self, claim: int, places: Sequence[int], items: Sequence[Candidate]) -> Sequence[Candidate]:
        """Return the candidates that the constraints at ``places`` let in, as things stand, or that fail."""
        for place in places:
            constraint, state = self.constraints[claim][place], self.states[claim][place]
            values = self._column(constraint.attribute)
            # Of a node's devices many have equal values.
            refused = {
                value
                for value in {values[item.position] for item in items}
                if extend(constraint, state, value, lists=self._lists) is None
            }
            if refused:
                items = [item for item in items if item.failure is not None or values[item.position] not in refused]
        return items

    def demanded(self, claim: int, places: Sequence[int]) -> object:
        """Return a key that is equal for constraints of a claim that now let the same devices in."""
        states, constraints = self.states[claim], self.constraints[claim]
        return frozenset(
            [(constraints[place].attribute, constraints[place].distinct, states[place]) for place in places]
        )

    def take(self, claim: int, demand: Demand, candidate: Candidate) -> Refusal | None:
        """Take a candidate; :meth:`undo` gives it back.

        Returns:
            Why it cannot be taken; None where it was.
        """
        device = candidate.device
        if not self.is_free(claim, demand, candidate):
            return Refusal.IN_USE
        charged = bool(device.counters) and not (
            device.shareable and (self._ledger.is_shared(device.id) or self.owners.get(candidate.position))
        )
        if charged and self._counters.lacking(device):
            return Refusal.COUNTERS
        states = self._extended(claim, self.applying(claim, demand), candidate)
        if states is None:
            return Refusal.CONSTRAINT
        if not self.has_room(candidate):
            return Refusal.CAPACITY
        self.taken.append(Taken(claim, demand, candidate, charged, self.states[claim]))
        self.states[claim] = states
        self.owners[candidate.position].append((claim, demand.admin))
        self._book(candidate, 1, charged=charged)
        return None

    def undo(self) -> None:
        """Give back what was taken last."""
        last = self.taken.pop()
        self.states[last.claim] = last.before
        owners = self.owners[last.candidate.position]
        owners.pop()
        if not owners:
            del self.owners[last.candidate.position]
        self._book(last.candidate, -1, charged=last.charged)

    def signature(self, candidate: Candidate) -> tuple[object, ...]:
        """Return a key that is equal for two free devices with the same capacities and counters left."""
        device = candidate.device
        counters = (device.id.pool_id, *sorted(device.counters.items())) if device.counters else ()
        if not device.shareable:
            return (counters,)
        capacity = tuple(sorted((name, amount.value.nano) for name, amount in device.device.capacity.items()))
        consumed = tuple(sorted(self._ledger.consumed(device.id).items()))
        return (counters, capacity, consumed, self._ledger.is_shared(device.id))

    def used(self, position: int) -> tuple[tuple[str, int], ...]:
        """Return what this search has taken of a shared device's capacities, in nano-units."""
        return tuple(sorted(item for item in self._used.get(position, {}).items() if item[1]))

    def _column(self, attribute: str) -> tuple[Values | None, ...]:
        """Return the values of all devices of the node for an attribute."""
        known = self._columns.get(attribute)
        if known is None:
            parts = [column(part, attribute, lists=self._lists) for part in self._view.slices]
            known = self._columns[attribute] = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        return known

    def _extended(self, claim: int, places: Sequence[int], candidate: Candidate) -> tuple[Values | None, ...] | None:
        if not places:
            return self.states[claim]
        states = list(self.states[claim])
        for place in places:
            constraint = self.constraints[claim][place]
            values = self.values(candidate, constraint.attribute)
            extended = extend(constraint, states[place], values, lists=self._lists)
            if extended is None:
                return None
            states[place] = extended
        return tuple(states)

    def _book(self, candidate: Candidate, sign: int, *, charged: bool) -> None:
        used = self._used[candidate.position] if candidate.consumed else {}
        for name, consumed in candidate.consumed.items():
            used[name] += sign * consumed.nano
        if charged:
            self._counters.charge(candidate.device, sign)
