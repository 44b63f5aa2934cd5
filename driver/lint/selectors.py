"""What a claim's selectors read, and whether the devices of its class have that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from driver import DRIVER_NAME
from driver.api.resource_v1 import Device, DeviceAttribute, DeviceClass
from driver.cel import CelCompileError, CelEvaluationError, Terms, compile_selector, compile_terms
from driver.explain.vocabulary import Vocabulary, suggest
from driver.layout.attributes import TYPE
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import ATTRIBUTES, CAPACITIES, OFTEN_ABSENT, attributes_of
from driver.lint.parts import Part
from driver.model.devices import DeviceType

__all__ = ["fails_for_others", "unguarded", "unknown_names"]

_ANOTHER_DRIVER: Final = "another.example"


def unknown_names(part: Part, vocabulary: Vocabulary) -> Iterator[LintFinding]:
    """Attributes and capacities that no device of the class has: a typo, or those of another kind of device.

    Args:
        part: A request whose class selects Rootport's devices.
        vocabulary: Of what is published, if that is known: it may be newer than this program.
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
                if read.part == "attributes" and read.name not in attributes and read.name not in vocabulary.attributes:
                    code, known, anywhere = LintCode.UNKNOWN_ATTRIBUTE, attributes, ATTRIBUTES
                elif read.part == "capacity" and read.name not in capacities and read.name not in vocabulary.capacities:
                    code, known, anywhere = LintCode.UNKNOWN_CAPACITY, capacities, CAPACITIES
                else:
                    continue
                yield _unknown(code, path, read.name, known, anywhere, severity)
    requests = part.spec.capacity.requests if part.spec.capacity is not None else {}
    for name in requests:
        # Compared with the name that the device has, which for our own is the short one (consumable_capacity.go).
        full = name if "/" in name else f"{DRIVER_NAME}/{name}"
        path = f"{part.path}.capacity.requests[{name}]"
        if full not in capacities and full not in vocabulary.capacities:
            yield _unknown(LintCode.UNKNOWN_CAPACITY, path, full, capacities, CAPACITIES, Severity.ERROR)
        elif "/" in name and full in capacities:
            yield LintFinding(
                code=LintCode.UNKNOWN_CAPACITY,
                severity=Severity.ERROR,
                path=path,
                message=f"the devices have this capacity as {full.partition('/')[2]}, without the domain",
                hint=f"write {full.partition('/')[2]}",
            )


def unguarded(part: Part) -> Iterator[LintFinding]:
    """Reads of attributes that many devices lack, without asking for them first.

    kube-scheduler takes a selector that ends with an error as a failure of the whole pod: it does not look at further
    devices or nodes.
    """
    blank = _blank(part)
    for place, terms in _terms(part):
        told: set[str] = set()
        if _is_guarded(terms, blank):
            return  # later selectors are not asked
        for term in terms.terms:
            lacking = [read.name for read in term.reads or () if read.name in OFTEN_ABSENT]
            if lacking and _fails(term.text, blank):
                told.update(lacking)
        for name in sorted(told):
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
    """Selectors of a class that read attributes without asking for the driver first.

    A class is asked about the devices of all drivers, so one such class keeps every claim that names it from being
    allocated where another driver publishes devices.
    """
    foreign = Device(name="any")
    for place, selector in enumerate(device_class.spec.selectors):
        if selector.cel is None:
            continue
        expression = selector.cel.expression
        try:
            if not compile_selector(expression).matches(_ANOTHER_DRIVER, foreign):
                return  # later selectors are not asked
        except CelCompileError:
            return  # told elsewhere
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
        try:
            yield place, compile_terms(selector.cel.expression)
        except CelCompileError:
            continue  # told elsewhere


def _blank(part: Part) -> Device:
    """A device of the class that has nothing but its type."""
    return Device(name="any", attributes={TYPE: DeviceAttribute(string_value=min(part.kinds).value)})


def _is_guarded(terms: Terms, blank: Device) -> bool:
    """Whether the expression is false for a device without attributes: ``false && an error`` is, in any order."""
    return any(_is_false(term.text, blank) for term in terms.terms)


def _is_false(text: str, device: Device) -> bool:
    try:
        return not compile_selector(text).matches(DRIVER_NAME, device)
    except CelEvaluationError:
        return False


def _fails(text: str, device: Device) -> bool:
    try:
        compile_selector(text).matches(DRIVER_NAME, device)
    except CelEvaluationError:
        return True
    return False


def _unknown(
    code: LintCode,
    path: str,
    name: str,
    of_kind: frozenset[str],
    anywhere: Mapping[DeviceType, frozenset[str]],
    severity: Severity,
) -> LintFinding:
    what = "attribute" if code is LintCode.UNKNOWN_ATTRIBUTE else "capacity"
    others = sorted(kind.value for kind, names in anywhere.items() if name in names)
    if others:
        message = f"devices of this class have no {what} {name}"
        return LintFinding(
            code=code, severity=severity, path=path, message=message, hint=f"{', '.join(others)} devices have it"
        )
    meant = suggest(name, of_kind)
    if meant is not None and path.endswith("]"):
        meant = meant.partition("/")[2]  # requests name capacities without the domain
    known = ", ".join(sorted(of_kind)) or "none"
    hint = f"did you mean {meant}?" if meant else f"there are: {known}"
    return LintFinding(code=code, severity=severity, path=path, message=f"there is no {what} {name}", hint=hint)
