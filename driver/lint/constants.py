"""Finds selectors that are wrong for any device: in their constants, or in the types that they compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from driver import DRIVER_NAME
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, DeviceSelector
from driver.cel import CelEvaluationError, Term
from driver.cel.comparisons import Comparison, ConstantType, comparisons, constant_amounts, is_all_evaluated
from driver.config import small_amount
from driver.explain.known.vocabulary import CAPACITIES
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import AttributeType, attribute_type, attributes_of, samples
from driver.lint.questions import ask, terms_of
from driver.model.devices import DeviceType

__all__ = ["wrong_constants"]

_EVER_EQUAL: Final[Mapping[AttributeType, frozenset[ConstantType]]] = {
    "string": frozenset({"string"}),
    "int": frozenset({"int", "double"}),
    "version": frozenset(),
}
_A: Final[Mapping[AttributeType, str]] = {"string": "a string", "int": "a whole number", "version": "a version"}
_OF_TYPES: Final = ("no such overload", "could not be converted to bool")
"""The beginnings of the messages of errors that types alone decide (:mod:`driver.cel`)."""
_CONSTANTS: Final[Mapping[ConstantType, str]] = {
    "string": "a string",
    "int": "a whole number",
    "bool": "true or false",
    "double": "a number",
    "bytes": "bytes",
    "null": "null",
}


def wrong_constants(
    path: str, selectors: Sequence[DeviceSelector], kinds: frozenset[DeviceType]
) -> Iterator[LintFinding]:
    """Find terms that end with an error for any device, or that compare what is never equal.

    Args:
        path: The field that holds the selectors.
        selectors: Of a class or a request.
        kinds: Which of Rootport's devices they are for; of another driver's devices, constants alone are checked.

    Raises:
        SpentError: The budget in force is spent.
    """
    for index, selector in enumerate(selectors):
        terms = None if selector.cel is None else terms_of(selector.cel.expression)
        for term in () if terms is None else terms.terms:
            for finding in _of_term(f"{path}[{index}].cel.expression", term, kinds):
                yield finding
                break  # one mistake of a term mostly has several consequences


def _of_term(path: str, term: Term, kinds: frozenset[DeviceType]) -> Iterator[LintFinding]:
    yield from _amounts(path, term, _capacities(kinds))
    if not kinds:
        return
    for comparison in comparisons(term.text):
        yield from _compared(path, term, comparison, kinds)
    problem, for_all = _failure(term, kinds)
    if problem:
        types = [
            f"{read.name} is {_A[attribute_type(read.name)]}"
            for read in term.reads or ()
            if read.part == "attributes" and read.name in attributes_of(kinds)
        ]
        yield LintFinding(
            code=LintCode.SELECTOR_FAILS,
            severity=Severity.ERROR if for_all else Severity.WARNING,
            path=path,
            message=(
                f"{term.text} {'ends with an error for every device' if for_all else 'may end with an error'}"
                f" ({problem}), and then kube-scheduler gives up on the pod"
            ),
            hint="; ".join(types),
        )


def _capacities(kinds: frozenset[DeviceType]) -> frozenset[str]:
    return frozenset().union(*(CAPACITIES[kind] for kind in kinds))


def _amounts(path: str, term: Term, capacities: frozenset[str]) -> Iterator[LintFinding]:
    for text in constant_amounts(term.text):
        try:
            amount = Quantity(text)
        except ValueError as error:
            for_all = is_all_evaluated(term.text)
            ends = "ends" if for_all else "may end"
            yield LintFinding(
                code=LintCode.SELECTOR_FAILS,
                severity=Severity.ERROR if for_all else Severity.WARNING,
                path=path,
                message=f"{error}; the selector {ends} with an error, and then kube-scheduler gives up on the pod",
                hint=_suffix(text),
            )
            continue
        for read in term.reads or ():
            meant = small_amount(read.id, amount) if read.part == "capacity" and read.name in capacities else None
            if meant is not None:
                message = f"compares {read.id} with {meant}"
                yield LintFinding(code=LintCode.SMALL_AMOUNT, severity=Severity.WARNING, path=path, message=message)


def _suffix(text: str) -> str:
    """Return what is meant by ``40GB`` or ``40 GiB``, which are no suffixes of Kubernetes."""
    shorter = text.strip().replace(" ", "").removesuffix("B").removesuffix("b")
    try:
        meant = f"{Quantity(shorter)}" if shorter != text else ""
    except ValueError:
        return ""
    is_decimal = meant[-1:] in ("M", "G", "T")
    return meant and f"did you mean {meant}{f', or {meant}i in powers of 1024' if is_decimal else ''}?"


def _compared(path: str, term: Term, comparison: Comparison, kinds: frozenset[DeviceType]) -> Iterator[LintFinding]:
    name = comparison.read.name
    if name not in attributes_of(kinds):
        return
    type_ = attribute_type(name)
    if comparison.types & _EVER_EQUAL[type_]:
        return
    is_fatal = comparison.is_all and comparison.operator != "!="
    what = "always true" if comparison.operator == "!=" else "never true"
    hint = f'{comparison.read}.compareTo(semver("9.0.0")) >= 0' if type_ == "version" else ""
    yield LintFinding(
        code=LintCode.COMPARISON_OF_TYPES,
        severity=Severity.ERROR if is_fatal else Severity.WARNING,
        path=path,
        message=(
            f"{term.text} is {what}: {name} is {_A[type_]}, and the constant is"
            f" {' or '.join(_CONSTANTS[constant] for constant in sorted(comparison.types))}"
        ),
        hint=f"compare versions as {hint}" if hint else "",
    )


def _failure(term: Term, kinds: frozenset[DeviceType]) -> tuple[str, bool]:
    """Return the error with which a term ends, and whether it does so for all devices; empty if it may have answers.

    Types are what Rootport publishes, the samples' values are not: an error of a value says nothing of other devices.
    """
    known = attributes_of(kinds) | _capacities(kinds)
    if any(read.domain and read.name not in known for read in term.reads or ()):
        return "", False  # a name that is not known is another finding
    problems: list[str] = []
    for device in (device for kind in sorted(kinds) for device in samples(kind)):
        problem = _problem(term.text, device)
        if problem is None or "no such key" in problem:
            return "", False
        problems.append(problem)
    if term.reads == ():
        return problems[-1], True
    of_types = [problem for problem in problems if any(words in problem for words in _OF_TYPES)]
    if not of_types:
        return "", False
    return of_types[-1], of_types == problems and is_all_evaluated(term.text)


def _problem(text: str, device: Device) -> str | None:
    try:
        ask(text, DRIVER_NAME, device)
    except CelEvaluationError as error:
        return error.problem
    return None
