"""Writes why a node does not serve a case: who asks for what, what there is, who has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.pools import PooledDevice, PoolState
from driver.budget import check
from driver.explain.judge.case import Case, Judgement
from driver.explain.judge.constraints import ConstraintProblem
from driver.explain.judge.device_filter import FilteredDevices
from driver.explain.judge.evaluation import Evaluations, NodeEvaluation, unusable_pool
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import attribute_text, kinds_with_capacity, suggest
from driver.explain.reasons import Reason
from driver.explain.tell.mode_texts import modes_text
from driver.explain.tell.selector_texts import error_text, refusals
from driver.explain.tell.taint_texts import taints_text
from driver.explain.tell.usage import counters_text, fragment_text, held_by, largest_fragment, taken_by
from driver.explain.texts import amount, device_names
from driver.layout.attributes import NVLINK_DOMAIN, NVLINK_OCTET, NVLINK_PAIR, NVLINK_QUAD, TYPE
from driver.wording import listed, plural, short

__all__ = ["node_text"]

_ABOUT_ALL: Final = frozenset({Reason.REQUESTS_COMPETE, Reason.SEARCH_LIMIT, Reason.TOO_MANY_DEVICES})
_LINKED: Final = f"{DRIVER_NAME}/{NVLINK_DOMAIN}"
_LINK_GROUPS: Final = frozenset(f"{DRIVER_NAME}/{name}" for name in (NVLINK_PAIR, NVLINK_QUAD, NVLINK_OCTET))


@dataclass(frozen=True, slots=True)
class _NodeText:
    """Writes why one node does not serve a case; its fields are the arguments of :func:`node_text`."""

    state: ClusterState
    evaluations: Evaluations
    case: Case
    node: NodeState
    judgement: Judgement
    fits_unused: Callable[[], bool]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.node.metadata.name

    def behind(self, reason: Reason) -> str:
        """Write that the node has no devices, and what its inventory says of that."""
        who = f"claim {self.case.claims[self.judgement.claim].key}, request {self.judgement.request}"
        if reason is Reason.PLUGIN_NOT_READY:
            why = f"where Rootport's plugin has trouble: {self.state.inventory_problem(self.name)}"
        else:
            why = f"where Rootport publishes less than there is: {self.state.inventory_remark(self.name)}"
        return f"{who}: no device of its class on node {self.name}, {why}"

    def text(self) -> str:
        judgement = self.judgement
        if judgement.reason is Reason.POOL_INVALID and not any(map(any, judgement.left)) and judgement.problem:
            return f"node {self.name}: what is published for it is invalid: {judgement.problem}"
        if judgement.skipped:
            return f"{self._claims()}: node {self.name} was not looked at to the end: {judgement.problem}"
        check()
        evaluation = self.evaluations.of(self.node, self.case.demands)
        filtered = evaluation.by_demand.get((judgement.claim, judgement.request))
        if judgement.reason in {Reason.CONSTRAINT_NOT_SATISFIABLE, Reason.CONSTRAINT_IN_USE, Reason.ATTRIBUTE_MISSING}:
            problem = self.evaluations.constraints.problem(self.case.demands, evaluation.by_demand)
            if problem is not None:
                return self._constraint(evaluation, problem)
        if filtered is None or judgement.reason in _ABOUT_ALL:
            return self._together(evaluation)
        devices = evaluation.scene.view.devices
        modes = modes_text(self.state, self.name, judgement.reason, filtered.demand, devices)
        return self._of_request(evaluation, filtered) + modes

    def _of_request(self, evaluation: NodeEvaluation, filtered: FilteredDevices) -> str:
        who = _asks(self.case, self.judgement.claim, _named(self.case.demands, self.judgement))
        there = f"on node {self.name},"
        demand = filtered.demand
        match self.judgement.reason:
            case Reason.NO_DEVICES_PUBLISHED:
                return f"{who}; no driver publishes devices on node {self.name}"
            case Reason.POOL_INCOMPLETE | Reason.POOL_INVALID:
                return f"{who}; {there} {self._pool(evaluation, demand)}"
            case Reason.CLASS_SELECTS_TOO_FEW:
                what = f"the class selects {filtered.of_class} of the {plural(filtered.published, 'device')}"
                return f"{who}; {there} {what}: {_reasons(refusals(evaluation, filtered, by_class=True))}"
            case Reason.SELECTOR_SELECTS_TOO_FEW:
                what = f"its selectors select {filtered.selected} of the class's {plural(filtered.of_class, 'device')}"
                return f"{who}; {there} {what}: {_reasons(refusals(evaluation, filtered, by_class=False))}"
            case Reason.SELECTOR_FAILS:
                return f"{who}; {error_text(evaluation, filtered)}"
            case Reason.CAPACITY_UNKNOWN:
                return f"{who}; {_unknown_capacity(filtered, there)}"
            case Reason.CAPACITY_TOO_LARGE:
                return f"{who}; {_too_large(filtered, there)}"
            case Reason.DEVICE_TAINTED:
                left = filtered.selected - len(filtered.size) - len(filtered.tainted)
                return f"{who}; {there} {left} of {filtered.selected - len(filtered.size)} are left: " + taints_text(
                    self.state, filtered.tainted, demand
                )
            case Reason.FEATURE_OFF:
                count = len(filtered.no_counters)
                return (
                    f"{who}; {there} {plural(count, 'suitable device')} {'needs' if count == 1 else 'need'} shared"
                    " counters, and the feature gate DRAPartitionableDevices is off on this cluster"
                )
        return f"{who}; {there} {self._in_use(evaluation, filtered)}"

    def _in_use(self, evaluation: NodeEvaluation, filtered: FilteredDevices) -> str:
        """Write the steps behind the taints: there are enough devices, but claims have them."""
        have = filtered.selected - len(filtered.size) - len(filtered.tainted)
        if have == 1 and filtered.in_use:
            return f"the only suitable device is in use by {held_by(self.state, filtered.in_use)}"
        free = f"{len(filtered.free)} of the" if filtered.free else "none of the"
        texts = ["the only suitable device is not free"]
        if have != 1:
            texts = [f"{free} {have} suitable devices {'are' if len(filtered.free) > 1 else 'is'} free"]
        if filtered.in_use:
            texts.append(
                f"{len(filtered.in_use)} {_is(len(filtered.in_use))} in use by {held_by(self.state, filtered.in_use)}"
            )
        fragment = largest_fragment(evaluation.scene.ledger, filtered)
        if fragment is not None:
            # Whose shares they are matters on that device; of the others only how many there are.
            texts.append(
                f"{len(filtered.no_room)} {_has(len(filtered.no_room))} too little left:"
                f" {fragment_text(fragment, self.name)}; it is shared by {held_by(self.state, [fragment.device])}"
            )
        if filtered.no_counters:
            texts.append(f"{counters_text(self.state, evaluation, filtered.no_counters)}")
        return "; ".join(texts)

    def _pool(self, evaluation: NodeEvaluation, demand: Demand) -> str:
        unusable = (pool for pool in evaluation.scene.view.pools if pool.state is not PoolState.USABLE)
        pool = unusable_pool(evaluation.scene, demand) or next(unusable, None)
        if pool is None:
            return self.judgement.problem
        what = "is published wrongly" if pool.state is PoolState.INVALID else "is not complete"
        return f"resource pool {pool.id.pool} of driver {pool.id.driver} {what}: {pool.reason}"

    def _together(self, evaluation: NodeEvaluation) -> str:
        claims = self._claims()
        if self.judgement.reason is Reason.TOO_MANY_DEVICES:
            claim = self.case.claims[self.judgement.claim]
            asked = MAX_RESULTS + self.judgement.lacks
            most = f"one claim can have {MAX_RESULTS} at most"
            return f"claim {claim.key} asks for {asked} devices on node {self.name}; {most}"
        if self.judgement.reason is Reason.SEARCH_LIMIT:
            return f"{claims}: on node {self.name}, there are too many combinations to try: {self.judgement.problem}"
        names = list(dict.fromkeys(request.name for demand in self.case.demands for request in demand.requests))
        # Several requests may have met the same device: whoever holds it has one of it.
        busy = {
            device.id: device
            for filtered in evaluation.by_demand.values()
            for device in (*filtered.in_use, *filtered.no_room)
        }.values()
        text = (
            f"each request of {claims} could have its devices on node {self.name}, but not all together: requests"
            f" {listed(names)} want the same devices, or constraints keep apart what is free"
        )
        if self.fits_unused():
            holders = f"; in use by {held_by(self.state, busy)}" if busy else ""
            return f"{text}; it would fit there if nothing were in use{holders}"
        return f"{text}; it would not fit there if nothing were in use either"

    def _claims(self) -> str:
        return listed([f"claim {claim.key}" for claim in self.case.claims])

    def _constraint(self, evaluation: NodeEvaluation, problem: ConstraintProblem) -> str:
        constraint = problem.constraint
        claim = self.case.claims[problem.claim]
        kind = "distinctAttribute" if constraint.distinct else "matchAttribute"
        where = f"on node {self.name},"
        text = f"claim {claim.key}: {kind} {constraint.attribute}: {where}"
        short_ones = "; ".join(
            f"request {name} needs {need}, of which {free} {_is(free)} free and {there} {_is(there)} there"
            for name, need, free, there in problem.short
        )
        if problem.reason is Reason.ATTRIBUTE_MISSING:
            if problem.kinds:
                return f"{text} the requests' devices have it with different types: {listed(list(problem.kinds))}"
            known = _attribute_names(problem.without)
            near = suggest(constraint.attribute, known)
            hint = f" (did you mean {near}?)" if near is not None and near != constraint.attribute else ""
            if constraint.attribute in _LINK_GROUPS and _LINKED in known:
                hint = f" (match {_LINKED} for GPUs that any links join)"
            names = listed([f"request {name}" for name, *_ in problem.short])
            return (
                f"{text} {plural(len(problem.without), 'device')} of {names} have no such attribute, such as"
                f" {device_names(problem.without[:1])}{hint}"
            )
        if constraint.distinct:
            names, need, free, there = problem.short[0]
            if problem.reason is Reason.CONSTRAINT_NOT_SATISFIABLE:
                return f"{text} the devices of {names} have {plural(there, 'different value')}, {need} are needed"
            held = taken_by(self.state, evaluation, problem.taken)
            return (
                f"{text} the free devices of {names} have {plural(free, 'different value')}, {need} are needed; the"
                f" others are in use by {held}"
            )
        if problem.reason is Reason.CONSTRAINT_NOT_SATISFIABLE:
            return f"{text} no value has enough devices, whatever is in use; the best is {problem.value}: {short_ones}"
        held = f"; in use by {taken_by(self.state, evaluation, problem.taken)}" if problem.taken else ""
        return f"{text} no value has enough free devices; the best is {problem.value}: {short_ones}{held}"


def node_text(
    state: ClusterState,
    evaluations: Evaluations,
    case: Case,
    node: NodeState,
    judgement: Judgement,
    reason: Reason,
    fits_unused: Callable[[], bool],
) -> str:
    """Write why ``node`` does not serve ``case``, for a person.

    Args:
        state: The cluster.
        evaluations: The evaluations of nodes.
        case: The case.
        node: The node.
        judgement: Its judgement.
        reason: The reason of its verdict: that of the judgement, or what the node's inventory says is behind it.
        fits_unused: Whether the claims would fit there if no claim held anything of the node.
    """
    text = _NodeText(state, evaluations, case, node, judgement, fits_unused)
    return text.text() if reason is judgement.reason else text.behind(reason)


def _asks(case: Case, place: int, demand: Demand) -> str:
    """Write ``claim ml/train, request gpus asks for 4 devices of class gpu.rootport.dev``, with capacities."""
    count = "all devices" if demand.count is None else plural(demand.count, "device")
    amounts = listed([f"{wanted} of {name}" for name, wanted in demand.capacity])
    each = f" with {amounts}{' each' if demand.count != 1 else ''}" if amounts else ""
    who = f"claim {case.claims[place].key}, request {demand.name}"
    return f"{who} asks for {count} of class {demand.device_class}{each}"


def _named(demands: Sequence[ClaimDemand], judgement: Judgement) -> Demand:
    return next(
        demand
        for request in demands[judgement.claim].requests
        for demand in request.alternatives
        if demand.name == judgement.request
    )


def _unknown_capacity(filtered: FilteredDevices, there: str) -> str:
    known: Counter[str] = Counter(name for device in filtered.size for name in device.device.capacity)
    wanted = [name for name, _ in filtered.demand.capacity if name not in known]
    is_own = all(device.id.driver == DRIVER_NAME for device in filtered.size)
    of_devices = [device.device.attributes.get(TYPE) for device in filtered.size]
    types = {attribute_text(value) for value in of_devices if value is not None}
    elsewhere = {name: kinds_with_capacity(name, known, types) if is_own else "" for name in wanted}
    near = [meant for name in wanted if not elsewhere[name] and (meant := suggest(name, known)) is not None]
    hint = "".join(f"; {text}" for text in dict.fromkeys(elsewhere.values()) if text)
    hint += f"; did you mean {listed(near)}?" if near else ""
    names = listed(sorted(known)) or "none"
    if len(filtered.size) == 1:
        return f"{there} the only suitable device has no capacity {listed(wanted)}; it has {names}{hint}"
    return (
        f"{there} none of the {len(filtered.size)} suitable devices has a capacity {listed(wanted)}; they have"
        f" {names}{hint}"
    )


def _too_large(filtered: FilteredDevices, there: str) -> str:
    have = len(filtered.size)
    texts = []
    for name, wanted in filtered.demand.capacity:
        values = [device.device.capacity[name].value for device in filtered.size if name in device.device.capacity]
        if values and max(values) < wanted:
            texts.append(f"the largest has {amount(max(values).nano, max(values))} of {name}")
        elif values and any(wanted > value for value in values):
            fits = sum(wanted <= value for value in values)
            texts.append(f"{fits} of {len(values)} have as much {name}")
    if not texts:
        policies = sorted(
            {_policy(device, name) for device in filtered.size for name, _ in filtered.demand.capacity} - {""}
        )
        texts.append(f"it is given in other amounts only ({listed(policies)})" if policies else "they have less")
    return f"{there} {plural(have, 'device')} {_is(have)} suitable but for the size: {listed(texts)}"


def _policy(device: PooledDevice, name: str) -> str:
    capacity = device.device.capacity.get(name)
    if capacity is None or capacity.request_policy is None:
        return ""
    valid = capacity.request_policy.valid_range
    if valid is not None:
        words = (("from", valid.min), ("to", valid.max), ("in steps of", valid.step))
        return f"{name}: {' '.join(f'{word} {value}' for word, value in words if value is not None)}"
    values = [str(value) for value in capacity.request_policy.valid_values]
    return f"{name}: {listed(values)}" if values else ""


def _attribute_names(devices: Sequence[PooledDevice]) -> set[str]:
    return {
        name if "/" in name else f"{device.id.driver}/{name}" for device in devices for name in device.device.attributes
    }


def _reasons(details: Sequence[str]) -> str:
    return short("; ".join(details[:2]), 400) if details else "none of the others matches"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"
