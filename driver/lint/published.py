"""Checks claims against the devices that are published, whichever of them are in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.demands import Demand, read_claim
from driver.allocator.errors import AllocationError
from driver.allocator.pools import NodeView, PooledDevice
from driver.allocator.selection import SelectionFailure
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, DeviceClass, ResourceClaim
from driver.budget import check
from driver.cel import CelLimitError, TermAnswer, compile_terms
from driver.cel.lexer import tokenize, unescape
from driver.explain.judge.trial import Trial
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.known.strategies import missing_strategy
from driver.explain.known.vocabulary import OWN_ATTRIBUTES, OWN_CAPACITIES, Vocabulary
from driver.layout.attributes import BANDWIDTH, BANDWIDTH_RATIO
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.parts import Part, constraint_attribute
from driver.lint.selected import Selected, select
from driver.model.devices import DeviceType

__all__ = ["published", "published_devices"]

_VALUES_SHOWN: Final = 5
_MOST_TRIALS: Final = 1000
"""The most nodes on which a claim is tried; with more, nothing is said of whether it fits."""
_MOST_FOR_CAUSE: Final = 20
"""The most nodes on which the cause is searched, constraint by constraint."""


def published_devices(state: ClusterState) -> Iterator[tuple[str, Device]]:
    """Return all devices that some node can use, with their driver; those that several nodes publish alike, once."""
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
    """Find requests that select too few devices on every node, selectors that fail, claims that fit no empty node.

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
            seen = select(alternative, views, state)
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


def _views(state: ClusterState) -> Iterator[NodeView]:
    for node in state.nodes.values():
        try:
            yield state.index.view(node.node)
        except AllocationError:
            continue  # a slice's node selector is invalid: its driver's fault


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
    """Return the full names of Rootport's attributes and capacities that a term mentions."""
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


def _too_few(part: Part, demand: Demand, seen: Selected, vocabulary: Vocabulary) -> LintFinding:
    wanted = "all devices" if demand.count is None else f"{demand.count} device{'' if demand.count == 1 else 's'}"
    if not seen.refused:
        message = f"asks for {wanted} of class {demand.device_class}; "
        message += f"no node has more than {seen.best}" if seen.best else "no node has any"
        none = missing_strategy(demand.device_class, vocabulary) or ""
        hint = f"ask for {seen.best}, or use several pods" if seen.best else none
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
    """Return the types of devices that a term mentions."""
    texts = {unescape(token.text) for token in tokenize(text) if token.kind == "string"}
    return frozenset(kind for kind in DeviceType if kind.value in texts)


def _no_room(part: Part, demand: Demand, seen: Selected) -> LintFinding:
    """Return the finding for devices that are selected, but too small, or not given in such amounts."""
    path = f"{part.path}.capacity.requests"
    names, kinds = _names(demand, seen), part.kinds
    for name, amount in demand.capacity:
        message = ""
        if name not in seen.largest:
            message = f"none of the devices that it selects has a capacity {name}"
        elif amount > seen.largest[name]:
            message = f"asks for {amount} of {name}; no device that it selects has more than {seen.largest[name]}"
        if message:
            hint = _other_bandwidth(name, amount, seen.largest)
            return _error(LintCode.CAPACITY_UNAVAILABLE, f"{path}[{name}]", message, hint, names=names, kinds=kinds)
    wanted = "all" if demand.count is None else demand.count
    message = f"at most {seen.sized} of the devices of a node can give these amounts, and {wanted} are asked for"
    hint = "the devices' request policies allow certain amounts"
    return _error(LintCode.CAPACITY_UNAVAILABLE, path, message, hint, names=names, kinds=kinds)


def _other_bandwidth(name: str, amount: Quantity, largest: Mapping[str, Quantity]) -> str:
    """Return how to ask for a part of NICs that have their bandwidth in the other way; empty for anything else."""
    if name == BANDWIDTH_RATIO and BANDWIDTH in largest:
        part = Quantity.of(largest[BANDWIDTH].ceil() * amount.ceil() // 100)
        return f"ask for bandwidth {part}: that is {amount} percent of NICs of {largest[BANDWIDTH]}"
    if name == BANDWIDTH and BANDWIDTH_RATIO in largest:
        return "ask for bandwidthRatio, a percentage, which these NICs have instead"
    return ""


def _names(demand: Demand, seen: Selected) -> frozenset[str]:
    """Return the names that decide how many devices a request finds: in its selectors, and in its amounts.

    On some machine another term may decide than on most.
    """
    capacities = frozenset(name if "/" in name else f"{DRIVER_NAME}/{name}" for name, _ in demand.capacity)
    return capacities.union(*(_mentioned(text) for _, text in seen.refused))


def _values_there(answer: TermAnswer, vocabulary: Vocabulary) -> str:
    """Return the value that was meant, or those that there are, if the term reads one attribute."""
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
    """Find what keeps the claim from every node even with nothing in use and no device tainted."""
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
    """Return the names of nodes, those with the most devices first; one of those that publish the same devices."""
    seen: set[tuple[int, ...]] = set()
    for view in sorted(views, key=lambda view: -len(view.devices)):
        key = tuple(sorted(id(part.source) for part in view.slices))
        if key not in seen:
            seen.add(key)
            yield view.node.metadata.name


def _fits_somewhere(claim: ResourceClaim, nodes: Sequence[str], trial: Trial, state: ClusterState) -> bool:
    """Whether one of the nodes could give the claim; True if that is not known."""
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
