"""What a claim finds among the devices that are published, whatever of them is in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.capacity import consumption
from driver.allocator.demands import Demand, read_claim
from driver.allocator.errors import AllocationError, CapacityError
from driver.allocator.pools import NodeView, PooledDevice, SliceDevices
from driver.allocator.selection import SelectionFailure
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, DeviceClass, ResourceClaim
from driver.budget import check
from driver.cel import CelCompileError, CelLimitError, TermAnswer, compile_terms
from driver.cel.lexer import tokenize, unescape
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import OWN_ATTRIBUTES, OWN_CAPACITIES, Vocabulary
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.parts import Part, constraint_attribute
from driver.model.devices import DeviceType

__all__ = ["published", "published_devices"]

_VALUES_SHOWN: Final = 5
_MOST_TRIALS: Final = 1000
"""On how many nodes a claim may be tried before nothing is said of whether it fits."""
_MOST_FOR_CAUSE: Final = 20
"""On how many of them the cause is looked for, constraint by constraint."""


def published_devices(state: ClusterState) -> Iterator[tuple[str, Device]]:
    """All devices that some node can use, with their driver; those that several nodes publish alike, once."""
    seen: set[int] = set()
    for view in _views(state):
        for part in view.slices:
            if id(part.source) not in seen:
                seen.add(id(part.source))
                for device in part.source:
                    yield part.driver, device


def published(
    claim: ResourceClaim,
    parts: Sequence[Part],
    state: ClusterState,
    classes: Mapping[str, DeviceClass],
    vocabulary: Vocabulary,
) -> Iterator[LintFinding]:
    """Requests that select too few devices on every node, selectors that fail, claims that fit no empty node.

    Args:
        claim: The claim, with the API's defaults and without mistakes.
        parts: Its requests and alternatives.
        state: What is published.
        classes: The DeviceClasses by name.
        vocabulary: Of the same.

    Raises:
        SpentError: The budget in force is spent.
    """
    try:
        demand = read_claim(claim, classes, state.features)
    except AllocationError as error:
        yield _error(LintCode.NEVER_FITS, "spec.devices", error.message, error.hint or "")
        return
    views = list(_views(state))
    if not views or Kind.SLICE in state.missing:
        return
    of_name = {part.name: part for part in parts}
    names: set[str] = set()
    hopeless = False
    for request in demand.requests:
        findings: list[LintFinding] = []
        fitting = 0
        for alternative in request.alternatives:
            part = of_name[alternative.name]
            seen = _look(alternative, views, state)
            if seen.stopped is not None:
                yield _stopped(part, seen.stopped)
                return
            if seen.failure is not None:
                yield _fails(part, alternative, seen.failure)
            names |= _names(alternative, seen)
            needed = 1 if alternative.count is None else alternative.count
            if seen.best < needed and seen.failure is None:
                findings.append(_too_few(part, alternative, seen, vocabulary))
            elif seen.sized < needed and seen.failure is None:
                findings.append(_no_room(part, alternative, seen))
            else:
                fitting += 1
        # An alternative may find nothing here: that is what alternatives are for.
        if not fitting and findings:
            hopeless = True
            yield from findings
    if not hopeless:
        kinds = frozenset().union(*(part.kinds for part in parts))
        for finding in _together(claim, views, state):
            yield replace(finding, names=finding.names | names, kinds=kinds)


@dataclass(slots=True)
class _Seen:
    """What a request finds.

    Attributes:
        best: How many devices it selects on the node that has the most.
        sized: How many of them can give the capacities that it asks for, likewise.
        of_class: How many its class selects there are in all.
        failure: The first device on which a selector fails.
        stopped: Why the answer for some device is not known.
        refused: By selector and term, the first that refuses devices of the class: how many, and the last answer.
        largest: The most that a selected device has of the capacities that are asked for, by name.
    """

    best: int = 0
    sized: int = 0
    of_class: int = 0
    failure: tuple[PooledDevice, SelectionFailure] | None = None
    stopped: CelLimitError | None = None
    refused: dict[tuple[int, str], tuple[int, TermAnswer]] = field(default_factory=dict)
    largest: dict[str, Quantity] = field(default_factory=dict)


def _views(state: ClusterState) -> Iterator[NodeView]:
    for node in state.nodes.values():
        try:
            yield state.index.view(node.node)
        except AllocationError:
            continue  # a slice's node selector is invalid: its driver's fault


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a request finds in one slice: see :class:`_Seen`."""

    selected: int
    sized: int
    refused: Mapping[tuple[int, str], tuple[int, TermAnswer]]


def _look(demand: Demand, views: Sequence[NodeView], state: ClusterState) -> _Seen:
    seen = _Seen()
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


def _count(demand: Demand, part: SliceDevices, state: ClusterState, seen: _Seen) -> _Counts:
    """The counts of a slice; the first failure and the largest capacities go into ``seen``."""
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
            for name, _ in demand.capacity:
                if name in device.capacity:
                    value = device.capacity[name].value
                    seen.largest[name] = max(seen.largest.get(name, value), value)
        elif (refusal := _refusal(demand, part.driver, device)) is not None:
            term = (refusal[0], refusal[1].text)
            refused[term] = (refused[term][0] + 1 if term in refused else 1, refusal[1])
    return _Counts(len(selected), sized, refused)


def _refusal(demand: Demand, driver: str, device: Device) -> tuple[int, TermAnswer] | None:
    """The selector of the request, and the term of it, that refuses a device of the class."""
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


def _fails(part: Part, demand: Demand, failure: tuple[PooledDevice, SelectionFailure]) -> LintFinding:
    device, failed = failure
    path = f"{part.path}.selectors[{failed.index}].cel.expression"
    owner = f"selector #{failed.index}"
    if failed.by_class:
        path, owner = f"{part.path}.deviceClassName", f"selector #{failed.index} of class {demand.device_class}"
    expression = (demand.class_selectors if failed.by_class else demand.selectors)[failed.index]
    answer = compile_terms(expression).first_false(device.id.driver, device.device)
    return _error(
        LintCode.SELECTOR_FAILS,
        path,
        f"{owner} fails for device {device.id}, and then kube-scheduler gives up on the pod: {failed.error.message}",
        "ask first whether the attribute is there, with has() or in",
        names=frozenset() if answer is None else _mentioned(answer.text),
    )


def _mentioned(text: str) -> frozenset[str]:
    """Full names of the attributes and capacities of Rootport's devices that a term mentions."""
    words = {unescape(token.text) if token.kind == "string" else token.text for token in tokenize(text)}
    return frozenset(name for name in OWN_ATTRIBUTES | OWN_CAPACITIES if name.partition("/")[2] in words)


def _stopped(part: Part, error: CelLimitError) -> LintFinding:
    return LintFinding(
        code=LintCode.NOT_LOOKED_AT,
        severity=Severity.WARNING,
        path=f"{part.path}.selectors",
        message=f"not looked at, what it finds: {error.message}",
        hint="write the selector simpler",
    )


def _too_few(part: Part, demand: Demand, seen: _Seen, vocabulary: Vocabulary) -> LintFinding:
    wanted = "all devices" if demand.count is None else f"{demand.count} device{'' if demand.count == 1 else 's'}"
    if not seen.refused:
        message = f"asks for {wanted} of class {demand.device_class}; "
        message += f"no node has more than {seen.best}" if seen.best else "no node has any"
        hint = f"ask for {seen.best}, or use several pods" if seen.best else ""
        path = f"{part.path}.count" if seen.best else part.path
        return _error(LintCode.SELECTS_TOO_FEW, path, message, hint, kinds=part.kinds)
    (index, text), (count, answer) = max(seen.refused.items(), key=lambda item: item[1][0])
    most = f"at most {seen.best} on a node" if seen.best else "none"
    values = ", ".join(f"{name} is {value}" for name, value in answer.values)
    message = (
        f"asks for {wanted}, and the selectors leave {most} of the {seen.of_class} of class {demand.device_class}:"
        f" {text} is false for {count}" + (f", such as where {values}" if values else "")
    )
    return _error(
        LintCode.SELECTS_TOO_FEW,
        f"{part.path}.selectors[{index}].cel.expression",
        message,
        _values_there(answer, vocabulary),
        names=_names(demand, seen),
        kinds=_types(answer.text) & part.kinds,
    )


def _types(text: str) -> frozenset[DeviceType]:
    """The types of devices that a term mentions."""
    texts = {unescape(token.text) for token in tokenize(text) if token.kind == "string"}
    return frozenset(kind for kind in DeviceType if kind.value in texts)


def _no_room(part: Part, demand: Demand, seen: _Seen) -> LintFinding:
    """Selected, but too small, or not to be had in such amounts."""
    path = f"{part.path}.capacity.requests"
    names, kinds = _names(demand, seen), part.kinds
    for name, amount in demand.capacity:
        message = ""
        if name not in seen.largest:
            message = f"none of the devices that it selects has a capacity {name}"
        elif amount > seen.largest[name]:
            message = f"asks for {amount} of {name}; no device that it selects has more than {seen.largest[name]}"
        if message:
            return _error(LintCode.CAPACITY_UNAVAILABLE, f"{path}[{name}]", message, "", names=names, kinds=kinds)
    wanted = "all" if demand.count is None else demand.count
    message = f"at most {seen.sized} of the devices of a node can give these amounts, and {wanted} are asked for"
    hint = "the devices' request policies allow certain amounts"
    return _error(LintCode.CAPACITY_UNAVAILABLE, path, message, hint, names=names, kinds=kinds)


def _names(demand: Demand, seen: _Seen) -> frozenset[str]:
    """What decides how many devices a request finds: what its selectors refuse devices for, and what it asks of them.

    On some machine another term may decide than on most.
    """
    capacities = frozenset(name if "/" in name else f"{DRIVER_NAME}/{name}" for name, _ in demand.capacity)
    return capacities.union(*(_mentioned(text) for _, text in seen.refused))


def _values_there(answer: TermAnswer, vocabulary: Vocabulary) -> str:
    """What was meant, or the values that there are, where the term reads one attribute."""
    names = [name for name, _ in answer.values if name in vocabulary.attributes]
    if len(names) != 1:
        return ""
    texts = [unescape(token.text) for token in tokenize(answer.text) if token.kind == "string"]
    wanted = [text for text in texts if text not in names[0].split("/")]
    meant = vocabulary.suggest_value(names[0], wanted[0]) if len(wanted) == 1 else None
    if meant is not None:
        return f"did you mean {meant!r}?"
    values = vocabulary.values(names[0])
    shown = ", ".join(value for value, _ in values[:_VALUES_SHOWN])
    return f"there are: {shown}{', …' if len(values) > _VALUES_SHOWN else ''}"


def _together(claim: ResourceClaim, views: Sequence[NodeView], state: ClusterState) -> Iterator[LintFinding]:
    """Whether some node could give all of it if nothing were in use and no device tainted, and what prevents it."""
    trial = Trial(state)
    nodes = list(_unlike(views))
    if len(nodes) > _MOST_TRIALS or _fits_somewhere(claim, nodes, trial, state):
        return
    devices = claim.spec.devices
    for index, constraint in enumerate(devices.constraints):
        rest = (*devices.constraints[:index], *devices.constraints[index + 1 :])
        spec = claim.spec.model_copy(update={"devices": devices.model_copy(update={"constraints": rest})})
        if _fits_somewhere(claim.model_copy(update={"spec": spec}), nodes[:_MOST_FOR_CAUSE], trial, state):
            same = "the same" if constraint.match_attribute is not None else "different"
            message = (
                f"no node has devices with {same} {constraint_attribute(constraint)} for it, even with nothing in use;"
                " without this constraint the claim would fit"
            )
            names = frozenset({constraint_attribute(constraint)})
            yield _error(LintCode.NEVER_FITS, f"spec.devices.constraints[{index}]", message, "", names=names)
            return
    yield _error(
        LintCode.NEVER_FITS,
        "spec.devices",
        "each request finds devices, but no node can give all of them together, even with nothing in use",
        "rootport explain tells what each node lacks",
        names=frozenset(map(constraint_attribute, devices.constraints)),
    )


def _unlike(views: Sequence[NodeView]) -> Iterator[str]:
    """Names of nodes, those with the most devices first; of those that publish the very same devices, one."""
    seen: set[tuple[int, ...]] = set()
    for view in sorted(views, key=lambda view: -len(view.devices)):
        key = tuple(sorted(id(part.source) for part in view.slices))
        if key not in seen:
            seen.add(key)
            yield view.node.metadata.name


def _fits_somewhere(claim: ResourceClaim, nodes: Sequence[str], trial: Trial, state: ClusterState) -> bool:
    """Whether one of them could give it; True where nobody can tell, because of more than a lack of devices."""
    for name in nodes:
        check()
        fits = trial.fits(state.nodes[name], [claim], ended=state.held_on(name), tolerate_all_taints=True)
        if fits or trial.problem:
            return True
    return False


def _error(
    code: LintCode,
    path: str,
    message: str,
    hint: str,
    *,
    names: frozenset[str] = frozenset(),
    kinds: frozenset[DeviceType] = frozenset(),
) -> LintFinding:
    return LintFinding(
        code=code, severity=Severity.ERROR, path=path, message=message, hint=hint, names=names, kinds=kinds
    )
