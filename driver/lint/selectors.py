"""Checks that the devices of a claim's classes have what its selectors read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from driver import DRIVER_NAME
from driver.api.policies import may_be_extra
from driver.api.resource_v1 import Device, DeviceAttribute, DeviceClass
from driver.budget import check
from driver.cel import CelEvaluationError, Terms
from driver.explain.known.vocabulary import CAPACITIES, OWN_CAPACITIES, Vocabulary, of_other_kinds, suggest
from driver.layout.attributes import TYPE
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import ATTRIBUTES, OFTEN_ABSENT, attributes_of
from driver.lint.parts import Part
from driver.lint.questions import ask, terms_of
from driver.model.devices import DeviceType

__all__ = ["fails_for_others", "unguarded", "unknown_names"]

_ANOTHER_DRIVER: Final = "another.example"


def unknown_names(part: Part, vocabulary: Vocabulary) -> Iterator[LintFinding]:
    """Find attributes and capacities that no device of the class has: a typo, or those of another kind of device.

    Args:
        part: A request whose class selects Rootport's devices.
        vocabulary: Of what is published, if that is known: it may be newer than this program.

    Raises:
        SpentError: The budget in force is spent.
    """
    attributes, capacities = attributes_of(part.kinds), frozenset().union(*(CAPACITIES[kind] for kind in part.kinds))
    blank, is_guarded = _blank(part), False
    for place, terms in _terms(part):
        path = f"{part.path}.selectors[{place}].cel.expression"
        # Who asks first whether it is there gets no error, and may mean devices of another version.
        is_guarded = is_guarded or _is_guarded(terms, blank)
        for term in terms.terms:
            severity = Severity.WARNING if is_guarded or not _fails(term.text, blank) else Severity.ERROR
            for read in term.reads or ():
                check()
                if read.part == "attributes" and read.name not in attributes and read.name not in vocabulary.attributes:
                    code, known, anywhere = LintCode.UNKNOWN_ATTRIBUTE, attributes, ATTRIBUTES
                    if may_be_extra(read.name):
                        known |= frozenset(filter(may_be_extra, vocabulary.attributes))
                    if may_be_extra(read.name) and not vocabulary.attributes:
                        yield _by_policy_alone(path, read.name, known)
                        continue
                elif read.part == "capacity" and _is_missing(read.name, capacities, vocabulary):
                    code, known, anywhere = LintCode.UNKNOWN_CAPACITY, capacities, CAPACITIES
                else:
                    continue
                of_policy = {read.name} if read.part == "attributes" and may_be_extra(read.name) else ()
                yield replace(_unknown(code, path, read.name, known, anywhere, severity), names=frozenset(of_policy))
    requests = part.spec.capacity.requests if part.spec.capacity is not None else {}
    for name in requests:
        check()
        # Compared with the name that the device has, which for our own is the short one (consumable_capacity.go).
        full = name if "/" in name else f"{DRIVER_NAME}/{name}"
        path = f"{part.path}.capacity.requests[{name}]"
        if _is_missing(full, capacities, vocabulary):
            yield _unknown(LintCode.UNKNOWN_CAPACITY, path, full, capacities, CAPACITIES, Severity.ERROR)
        elif "/" in name and full in capacities:
            yield LintFinding(
                code=LintCode.UNKNOWN_CAPACITY,
                severity=Severity.ERROR,
                path=path,
                message=f"the devices have this capacity as {full.partition('/')[2]}, without the domain",
                hint=f"write {full.partition('/')[2]}",
            )


def _is_missing(capacity: str, of_class: frozenset[str], vocabulary: Vocabulary) -> bool:
    """Whether devices of a class lack a capacity. Which kinds have Rootport's own is known without a cluster."""
    is_published = capacity in vocabulary.capacities and capacity not in OWN_CAPACITIES
    return capacity not in of_class and not is_published


def unguarded(part: Part) -> Iterator[LintFinding]:
    """Find reads of attributes that many devices lack, without asking for them first.

    kube-scheduler takes a selector that ends with an error as a failure of the whole pod: it does not look at further
    devices or nodes.

    Raises:
        SpentError: The budget in force is spent.
    """
    blank = _blank(part)
    for place, terms in _terms(part):
        lacking_names: set[str] = set()
        if _is_guarded(terms, blank):
            return  # later selectors are not asked
        for term in terms.terms:
            lacking = [read.name for read in term.reads or () if read.name in OFTEN_ABSENT]
            if lacking and _fails(term.text, blank):
                lacking_names.update(lacking)
        for name in sorted(lacking_names):
            domain, _, short = name.partition("/")
            yield LintFinding(
                code=LintCode.UNGUARDED_ATTRIBUTE,
                severity=Severity.WARNING,
                path=f"{part.path}.selectors[{place}].cel.expression",
                message=(
                    f"{name} is absent on some machines, and a selector that reads an absent attribute is an error that"
                    " keeps the pod from every node"
                ),
                hint=f'begin with: "{short}" in device.attributes["{domain}"] &&',
            )


def fails_for_others(device_class: DeviceClass) -> Iterator[LintFinding]:
    """Find selectors of a class that read attributes without asking for the driver first.

    A class is asked about the devices of all drivers, so one such class keeps every claim that names it from being
    allocated where another driver publishes devices.

    Raises:
        SpentError: The budget in force is spent.
    """
    foreign = Device(name="any")
    for place, selector in enumerate(device_class.spec.selectors):
        if selector.cel is None:
            continue
        expression = selector.cel.expression
        try:
            if not ask(expression, _ANOTHER_DRIVER, foreign):
                return  # later selectors are not evaluated, or it is not known
        except CelEvaluationError as error:
            yield LintFinding(
                code=LintCode.UNGUARDED_ATTRIBUTE,
                severity=Severity.WARNING,
                path=f"spec.selectors[{place}].cel.expression",
                message=(
                    f"ends with an error for devices of other drivers ({error.problem}), and then kube-scheduler gives"
                    " up on the pod"
                ),
                hint=f'begin with: device.driver == "{DRIVER_NAME}" &&',
            )
            return


def _terms(part: Part) -> Iterator[tuple[int, Terms]]:
    for place, selector in enumerate(part.spec.selectors):
        if selector.cel is None:
            continue
        terms = terms_of(selector.cel.expression)
        if terms is not None:
            yield place, terms


def _blank(part: Part) -> Device:
    """Return a device of the class that has nothing but its type."""
    return Device(name="any", attributes={TYPE: DeviceAttribute(string_value=min(part.kinds).value)})


def _is_guarded(terms: Terms, blank: Device) -> bool:
    """Whether the expression is false for a device without attributes: ``false && an error`` is, in any order."""
    return any(_is_false(term.text, blank) for term in terms.terms)


def _is_false(text: str, device: Device) -> bool:
    try:
        return ask(text, DRIVER_NAME, device) is False
    except CelEvaluationError:
        return False


def _fails(text: str, device: Device) -> bool:
    try:
        ask(text, DRIVER_NAME, device)
    except CelEvaluationError:
        return True
    return False


def _by_policy_alone(path: str, name: str, of_kind: frozenset[str]) -> LintFinding:
    meant = suggest(name, of_kind)
    return LintFinding(
        code=LintCode.UNKNOWN_ATTRIBUTE,
        severity=Severity.WARNING,
        path=path,
        message=f"there is no attribute {name}, unless the administrator's policies publish it",
        hint=f"did you mean {meant}?" if meant else f"there are: {', '.join(sorted(of_kind)) or 'none'}",
    )


def _unknown(
    code: LintCode,
    path: str,
    name: str,
    of_kind: frozenset[str],
    anywhere: Mapping[DeviceType, frozenset[str]],
    severity: Severity,
) -> LintFinding:
    what = "attribute" if code is LintCode.UNKNOWN_ATTRIBUTE else "capacity"
    elsewhere = of_other_kinds(name, of_kind, anywhere)
    if elsewhere is not None:
        same, have_it = elsewhere
        message = f"devices of this class have no {what} {name}"
        spelled = "" if same == name else f"did you mean {_as_asked(same, path)}? "
        hint = f"{spelled}{have_it}"
        return LintFinding(code=code, severity=severity, path=path, message=message, hint=hint)
    meant = suggest(name, of_kind)
    known = ", ".join(sorted(of_kind)) or "none"
    hint = f"did you mean {_as_asked(meant, path)}?" if meant else f"there are: {known}"
    return LintFinding(code=code, severity=severity, path=path, message=f"there is no {what} {name}", hint=hint)


def _as_asked(name: str, path: str) -> str:
    """Return a full name as it is written in that field: requests name capacities without the domain."""
    return name.partition("/")[2] if path.endswith("]") else name
