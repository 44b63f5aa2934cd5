"""What spares the search from trying what cannot succeed.

Nothing here changes which answer is found, only how soon. In the common case, where the first try succeeds, none of it
is computed.

- *Alike*: devices that every demand selects alike, with the same values for all attributes that constraints look at,
  the same capacities and the same counters. Where one of them failed, another one fails as well.
- *Failed before*: the same request with the same devices left (up to alike ones) and the same state of constraints.
- *Hopeless*: more is asked for than there is, see :mod:`driver.allocator.bounds`.

A request whose search may end in an error instead (a selector that fails on some device; all devices under a
constraint) and everything behind it is not looked at for hopelessness: kube-scheduler would report the error.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from driver.allocator.bounds import ENDLESS, PendingRequest, is_hopeless
from driver.allocator.candidates import Candidates, RequestCandidates
from driver.allocator.demands import Constraint
from driver.allocator.state import SearchState
from driver.allocator.view import Candidate
from driver.budget import check

__all__ = ["Shortcuts", "is_short"]

_WINDOW: Final = 64
"""How many requests ahead are looked at; a pod's claims hardly ever have more."""


def is_short(requests: Sequence[RequestCandidates], constraints: Sequence[Sequence[Constraint]]) -> bool:
    """Whether some request has too few candidates to begin with."""
    for request in requests:
        if _may_end_in_error(request, constraints):
            return False
        if all(len(candidates.items) < candidates.need for candidates in request.alternatives):
            return True
    return False


def _may_end_in_error(request: RequestCandidates, constraints: Sequence[Sequence[Constraint]]) -> bool:
    for candidates in request.alternatives:
        if candidates.may_fail:
            return True
        demand = candidates.demand
        if demand.count is None and any(constraint.applies_to(demand) for constraint in constraints[request.claim]):
            return True
    return False


class Shortcuts:
    """Of one search.

    Args:
        requests: Of all claims, in order.
        state: What is taken.
    """

    def __init__(self, requests: Sequence[RequestCandidates], state: SearchState) -> None:
        self._requests = requests
        self._state = state
        self._any_failed = False
        self._dead: set[object] = set()
        self._classes: _Classes | None = None
        self._horizon: int | None = None
        self._pending_masks: dict[int, int] = {}
        self._ahead: dict[int, tuple[int, ...]] = {}
        self._held_by: dict[int, tuple[int, ...]] = {}

    def alike(self, item: Candidate) -> object:
        """Return a key that is equal for two devices if nothing distinguishes them."""
        position = item.position
        return ("taken", position) if position in self._state.owners else self._known_classes().of[position]

    def is_hopeless(self, place: int) -> bool:
        """Whether the requests from ``place`` on certainly cannot be served as things stand."""
        if not self._any_failed:
            return False  # nothing went wrong yet
        return self._situation(place) in self._dead or is_hopeless(self._state, self._pending(place))

    def failed(self, place: int) -> None:
        """Remember that the requests from ``place`` on cannot be served as things stand."""
        if place == 0:
            return  # that was all
        self._any_failed = True
        self._dead.add(self._situation(place))

    def _known_classes(self) -> _Classes:
        if self._classes is None:
            self._classes = _Classes(self._requests, self._state)
        return self._classes

    def _known_horizon(self) -> int:
        """Return the place of the first request whose search may end in an error."""
        if self._horizon is None:
            self._horizon = next(
                (
                    place
                    for place, request in enumerate(self._requests)
                    if _may_end_in_error(request, self._state.constraints)
                ),
                len(self._requests),
            )
        return self._horizon

    def _situation(self, place: int) -> object:
        """Return a key that is equal for situations in which the requests from ``place`` on have the same prospects."""
        state, classes = self._state, self._known_classes()
        claim = self._requests[place].claim
        coming = self._coming(place)
        taken = []
        for position, owners in state.owners.items():
            number = classes.of.get(position)
            if number is not None and (classes.masks[number] & coming or classes.has_counters[number]):
                who = tuple(sorted((owner if owner == claim else -1, admin) for owner, admin in owners))
                taken.append((number, who, state.used(position)))
        held = sum(item.claim == claim for item in state.taken)
        states = tuple(state.states[claim][number] for number in self._constraints_ahead(place))
        return (place, held, states, tuple(sorted(taken)))

    def _constraints_ahead(self, place: int) -> tuple[int, ...]:
        """Return which constraints of the claim at ``place`` apply to something that is still to be served."""
        if place not in self._ahead:
            claim = self._requests[place].claim
            self._ahead[place] = tuple(
                sorted(
                    {
                        number
                        for request in self._requests[place:]
                        if request.claim == claim
                        for candidates in request.alternatives
                        for number in self._state.applying(claim, candidates.demand)
                    }
                )
            )
        return self._ahead[place]

    def _coming(self, place: int) -> int:
        """Return which demands are still to be served from ``place`` on, as a bit mask."""
        if place not in self._pending_masks:
            mask = 0
            for request in self._requests[place:]:
                for candidates in request.alternatives:
                    mask |= self._known_classes().bits[id(candidates.items)]
            self._pending_masks[place] = mask
        return self._pending_masks[place]

    def _pending(self, place: int) -> list[PendingRequest]:
        classes, state = self._known_classes(), self._state
        taken: defaultdict[int, list[int]] = defaultdict(list)
        for position in state.owners:
            number = classes.of.get(position)
            if number is not None:
                taken[number].append(position)
        rooms = classes.rooms(state, taken)
        pending = []
        # Most requests are like others: of the same kind, and held by constraints that hold nothing else yet.
        known: dict[object, dict[int, int]] = {}
        merged: dict[object, dict[int, int]] = {}
        for request in self._requests[place : min(place + _WINDOW, self._known_horizon())]:
            claim = request.claim
            supplies = []
            for candidates in request.alternatives:
                applying = state.applying(claim, candidates.demand)
                key = (claim, id(candidates.items), state.demanded(claim, applying))
                supply = known.get(key)
                if supply is None:
                    supply = known[key] = self._supply(classes, claim, candidates, applying, taken)
                supplies.append(supply)
            usable = supplies[0] if len(supplies) == 1 else merged.get(tuple(map(id, supplies)))
            if usable is None:
                usable = merged[tuple(map(id, supplies))] = _most(supplies)
            held = self._held(request)
            pending.append(PendingRequest(request, held, tuple(supplies), usable, rooms, classes.representatives))
        return pending

    def _held(self, request: RequestCandidates) -> tuple[int, ...]:
        """Return the places of the constraints that hold for a request with each of its alternatives."""
        known = self._held_by.get(id(request))
        if known is None:
            applying = [
                set() if candidates.demand.admin else set(self._state.applying(request.claim, candidates.demand))
                for candidates in request.alternatives
            ]
            known = tuple(sorted(set.intersection(*applying))) if request.least > 0 else ()
            self._held_by[id(request)] = known
        return known

    def _supply(
        self,
        classes: _Classes,
        claim: int,
        candidates: Candidates,
        applying: Sequence[int],
        taken: Mapping[int, Sequence[int]],
    ) -> dict[int, int]:
        """Return how many devices of each class can still be taken for a demand."""
        state, demand = self._state, candidates.demand
        supply: dict[int, int] = {}
        for number, items in classes.members[id(candidates.items)].items():
            sample = next(iter(items.values()))
            if sample.refused or not state.allowed(claim, applying, sample):
                continue
            free = len(items)
            for position in taken.get(number, ()):
                item = items.get(position)
                if item is not None and not (state.is_free(claim, demand, item) and state.has_room(item)):
                    free -= 1
            if free:
                supply[number] = free
        return supply


def _most(supplies: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return, for each class, the most devices that any of the supplies has."""
    most: dict[int, int] = {}
    for supply in supplies:
        for number, count in supply.items():
            most[number] = max(count, most.get(number, 0))
    return most


class _Classes:
    """Which devices are alike.

    Attributes:
        of: The class of each device, by position.
        masks: Per class: which demands select its devices.
        has_counters: Per class: its devices consume shared counters.
        representatives: Per class: one of its devices.
        bits: The bit of a demand's candidates in the masks, by the id of their items.
        members: The candidates of a demand, by the id of their items, by class, by position.
    """

    def __init__(self, requests: Sequence[RequestCandidates], state: SearchState) -> None:
        found = {id(candidates.items): candidates for request in requests for candidates in request.alternatives}
        attributes = sorted({constraint.attribute for of_claim in state.constraints for constraint in of_claim})
        traits: defaultdict[int, list[object]] = defaultdict(list)
        masks: defaultdict[int, int] = defaultdict(int)
        items: dict[int, Candidate] = {}
        self.bits: dict[int, int] = {}
        for number, (identity, candidates) in enumerate(found.items()):
            self.bits[identity] = 1 << number
            for item in candidates.items:
                items[item.position] = item
                masks[item.position] |= 1 << number
                if item.failure is not None or item.refused or item.consumed:
                    amounts = tuple(sorted((name, amount.nano) for name, amount in item.consumed.items()))
                    traits[item.position].append((number, item.failure is not None, item.refused, amounts))
        check()
        numbers: dict[object, int] = {}
        self.of: dict[int, int] = {}
        self.masks: list[int] = []
        self.has_counters: list[bool] = []
        self.representatives: list[Candidate] = []
        for position, item in items.items():
            values = tuple(state.values(item, attribute) for attribute in attributes)
            signature = (masks[position], tuple(traits[position]), values, state.signature(item))
            number = numbers.setdefault(signature, len(numbers))
            self.of[position] = number
            if number == len(self.masks):
                self.masks.append(masks[position])
                self.has_counters.append(bool(item.device.counters))
                self.representatives.append(item)
        self._sizes = Counter(self.of.values())
        self.members: dict[int, dict[int, dict[int, Candidate]]] = {}
        for identity, candidates in found.items():
            by_class: dict[int, dict[int, Candidate]] = {}
            for item in candidates.items:
                by_class.setdefault(self.of[item.position], {})[item.position] = item
            self.members[identity] = by_class
        # Per class of shareable devices: the least that any demand takes of each capacity, and how often that fits.
        self._least = {
            number: self._least_amounts(number)
            for number, sample in enumerate(self.representatives)
            if sample.device.shareable
        }
        self._room = {
            number: _times(least, state.left(self.representatives[number])) for number, least in self._least.items()
        }

    def rooms(self, state: SearchState, taken: Mapping[int, Sequence[int]]) -> dict[int, int]:
        """Return how many demands there still is room for on the devices of each class of shareable devices, at most.

        A device of which every demand takes more than half has room for one, like a device that is not shareable.

        Args:
            state: What is taken.
            taken: By class: the positions of the devices that somebody took in this search.
        """
        rooms: dict[int, int] = {}
        for number, once in self._room.items():
            least, touched = self._least[number], taken.get(number, ())
            rooms[number] = once * (self._sizes[number] - len(touched))
            left = state.left(self.representatives[number]) if touched else {}
            for position in touched:
                used = dict(state.used(position))
                rooms[number] += _times(least, {name: left[name] - used.get(name, 0) for name in least})
        return rooms

    def _least_amounts(self, number: int) -> dict[str, int]:
        """Return the least amounts in nano-units, without capacities of which some demand takes nothing."""
        samples = [next(iter(found[number].values())) for found in self.members.values() if number in found]
        names = self.representatives[number].device.device.capacity
        least = {
            name: min(item.consumed[name].nano if name in item.consumed else 0 for item in samples) for name in names
        }
        return {name: amount for name, amount in least.items() if amount > 0}


def _times(least: Mapping[str, int], left: Mapping[str, int]) -> int:
    """Return how often there is enough left for ``least``."""
    return min((left[name] // amount for name, amount in least.items()), default=ENDLESS)
