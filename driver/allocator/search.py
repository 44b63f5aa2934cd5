"""Finds the first way to serve all claims on a node.

The order in which combinations are tried is that of kube-scheduler (allocateOne in
k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating/allocator_incubating.go): claim after claim,
request after request, alternative after alternative; for a request, combinations of devices in the node's order. The
first combination that serves everything is the answer, so that an answer here is what a cluster would do.

What is tried differs: nothing is tried that cannot succeed. Within a request, a device that stands for one which
failed (:meth:`Shortcuts.alike`), or that leaves too few for the rest, is passed over; between requests, a situation
that is hopeless by count or failed before (:class:`Shortcuts`) ends the branch. None of this may skip over a device
whose selector fails, since there the search has to stop with an error: a request with such devices is searched plainly.

Steps are kept on a list and not on Python's stack, so that no number of devices is too deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from driver.allocator.candidates import MAX_RESULTS, Candidates, RequestCandidates, Scene
from driver.allocator.demands import Constraint
from driver.allocator.errors import AllAtOnceError, SearchLimitError
from driver.allocator.shortcuts import Shortcuts, is_short
from driver.allocator.state import Refusal, SearchState, Taken
from driver.allocator.view import Candidate
from driver.budget import check

__all__ = ["search"]

_Steps = Iterator["_Steps | None"]
"""Each item is what to try next after one more choice; None says that everything is served."""


def search(
    scene: Scene,
    requests: Sequence[RequestCandidates],
    constraints: Sequence[tuple[Constraint, ...]],
    *,
    max_steps: int,
) -> list[Taken] | None:
    """Return the first way to serve ``requests``; None if there is none.

    Args:
        scene: The node.
        requests: Of all claims, in order.
        constraints: Of each claim.
        max_steps: After so many steps the search gives up.

    Raises:
        AllAtOnceError: There is none, and somewhere on the way all devices of a kind together broke a constraint.
        AllocationError: On the way, a selector failed, or the search gave up.
    """
    if is_short(requests, constraints):
        return None
    if len({part.demand.admin for request in requests for part in request.alternatives}) > 1:
        # Admin access takes a device from no claim, but kube-scheduler keeps it from the pod's other claims, so that it
        # chooses as if it did, and finds nothing where only sharing helps. Do as it does as long as that works.
        with suppress(AllAtOnceError):
            taken = _Search(requests, SearchState(scene, constraints, admin_blocks=True), max_steps).run()
            if taken is not None:
                return taken
    return _Search(requests, SearchState(scene, constraints), max_steps).run()


class _Search:
    def __init__(self, requests: Sequence[RequestCandidates], state: SearchState, max_steps: int) -> None:
        self._max_steps = max_steps
        self._requests = requests
        self._state = state
        self._shortcuts: Shortcuts | None = None
        self._broken: AllAtOnceError | None = None
        # What the rest of a request's claim takes at least, behind it.
        self._least_after = [0] * len(requests)
        for place in range(len(requests) - 2, -1, -1):
            behind = requests[place + 1]
            if behind.claim == requests[place].claim:
                self._least_after[place] = self._least_after[place + 1] + behind.least

    def run(self) -> list[Taken] | None:
        steps: list[_Steps] = [self._serve(0)]
        tried = 0
        while steps:
            for following in steps[-1]:
                if following is None:
                    return self._state.taken
                tried += 1
                check()
                if tried > self._max_steps:
                    raise SearchLimitError(
                        f"{self._requests[0].who}: gave up after {self._max_steps} steps of the search for devices",
                        hint="ask for fewer devices at once, or narrow the requests' selectors",
                    )
                steps.append(following)
                break
            else:
                steps.pop()
        if self._broken is not None:
            raise self._broken
        return None

    def _serve(self, place: int) -> _Steps:
        """Serve the request at ``place`` and all behind it."""
        if place == len(self._requests):
            yield None
            return
        if self._shortcuts is not None and self._shortcuts.is_hopeless(place):
            return
        request = self._requests[place]
        held = sum([taken.claim == request.claim for taken in self._state.taken])
        for candidates in request.alternatives:
            if held + candidates.need + self._least_after[place] > MAX_RESULTS:
                continue
            if candidates.demand.count is None:
                yield from self._take_all(place, candidates)
            elif candidates.need == 0:
                yield self._serve(place + 1)
            else:
                usable = self._state.usable(request.claim, candidates.demand, candidates.items)
                yield self._take_some(place, candidates, usable, candidates.need)
        self._known_shortcuts().failed(place)

    def _take_some(self, place: int, candidates: Candidates, usable: Sequence[Candidate], need: int) -> _Steps:
        """Take ``need`` of the usable candidates."""
        state, claim, demand = self._state, self._requests[place].claim, candidates.demand
        seen: set[object] = set()
        failed: Candidate | None = None
        for index, item in enumerate(usable):
            if item.failure is not None:
                raise item.failure
            if not candidates.may_fail:
                if len(usable) - index < need:
                    return
                if failed is not None:
                    shortcuts = self._known_shortcuts()
                    seen.add(shortcuts.alike(failed))
                    if shortcuts.alike(item) in seen:
                        continue
            if state.take(claim, demand, item) is None:
                if need == 1:
                    yield self._serve(place + 1)
                else:
                    rest = self._rest(claim, candidates, usable[index + 1 :], need - 1)
                    if rest is not None:
                        yield self._take_some(place, candidates, rest, need - 1)
                state.undo()
            failed = item

    def _known_shortcuts(self) -> Shortcuts:
        if self._shortcuts is None:  # most searches succeed at the first try
            self._shortcuts = Shortcuts(self._requests, self._state)
        return self._shortcuts

    def _rest(
        self, claim: int, candidates: Candidates, rest: Sequence[Candidate], need: int
    ) -> Sequence[Candidate] | None:
        """Return what constraints leave of ``rest`` for the same request; None where that is not enough."""
        state = self._state
        applying = state.applying(claim, candidates.demand)
        if candidates.may_fail or not applying or state.taken[-1].before == state.states[claim]:
            return rest
        left = state.only_allowed(claim, applying, rest)
        if len(left) < need:
            return None
        # Devices that are to differ in an attribute need a value each.
        for place in applying:
            constraint = state.constraints[claim][place]
            if constraint.distinct:
                values: set[tuple[str, int | bool | str]] = set()
                for item in left:
                    values |= state.values(item, constraint.attribute) or set()
                if len(values) < need:
                    return None
        return left

    def _take_all(self, place: int, candidates: Candidates) -> _Steps:
        """Take every candidate: there is but one way."""
        state, request = self._state, self._requests[place]
        before = len(state.taken)
        served = bool(candidates.items)
        for item in candidates.items:
            refusal = Refusal.IN_USE if item.refused else state.take(request.claim, candidates.demand, item)
            if refusal is None:
                continue
            served = False
            if refusal is Refusal.CONSTRAINT and self._broken is None:
                self._broken = AllAtOnceError(
                    f"{request.who}, request {candidates.demand.name}: asks for all devices, but device"
                    f" {item.device.id} breaks a constraint of the claim",
                    hint="narrow the request's selectors, or leave the request out of the constraint",
                )
            break
        if served:
            yield self._serve(place + 1)
        while len(state.taken) > before:
            state.undo()
