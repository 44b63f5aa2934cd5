"""Checks claims, classes and pods before they meet a scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from driver.api.pod_templates import PodSpec
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.budget import SpentError
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import Vocabulary
from driver.lint.constants import wrong_constants
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.kinds import kinds_of
from driver.lint.mistakes import claim_mistakes, class_mistakes
from driver.lint.parameters import claim_parameters, class_parameters, unfit_class_parameters, unfit_parameters
from driver.lint.parts import parts_of
from driver.lint.pods import KnownClaims, pod_findings
from driver.lint.published import published, published_devices
from driver.lint.selectors import fails_for_others, unguarded, unknown_names
from driver.lint.shape import shape
from driver.lint.unrecorded import NOTHING, Unrecorded

__all__ = ["lint_claim", "lint_class", "lint_pod"]

# What makes asking the published devices pointless, because the answer would be about the same mistake.
_FATAL: Final = frozenset(
    {LintCode.UNKNOWN_CLASS, LintCode.SELECTOR_INVALID, LintCode.SELECTOR_FAILS, LintCode.COMPARISON_OF_TYPES}
)
_ORDER: Final = (Severity.ERROR, Severity.WARNING, Severity.NOTE)
_MOST: Final = 100
_MOST_SEEN: Final = 1000


def lint_claim(
    claim: ResourceClaim,
    *,
    classes: Mapping[str, DeviceClass] | None = None,
    state: ClusterState | None = None,
    vocabulary: Vocabulary | None = None,
    classes_are_all: bool = True,
    unrecorded: Unrecorded = NOTHING,
) -> tuple[LintFinding, ...]:
    """Find everything that is wrong with a claim, or likely to be.

    Returns:
        At most a hundred findings, errors first. Where the budget in force (:mod:`driver.budget`) is spent, those that
        were found before, and one that says so.

    Args:
        claim: Valid for the API server, with its defaults; of a template the claim that is made of it.
        classes: The DeviceClasses by name; None for those of ``state``, or, without it, none known: then Rootport's
            own are known by their names.
        state: What is published; None to check what needs no devices.
        vocabulary: Of the same, where the caller has it: it takes a while for a large cluster.
        classes_are_all: Whether ``classes`` are all that the cluster has; else one that is not among them is a note.
        unrecorded: What the source of ``state`` does not say of its devices: what follows from that is a warning.
    """
    if classes is None and state is not None:
        classes = state.classes
    if vocabulary is None:
        vocabulary = Vocabulary() if state is None else Vocabulary.of(published_devices(state), classes or ())
    found = _claim_findings(claim, classes, state, vocabulary, classes_are_all=classes_are_all)
    return _finished(unrecorded.weakened(found))


def lint_class(device_class: DeviceClass) -> tuple[LintFinding, ...]:
    """Find everything that is wrong with a DeviceClass; as :func:`lint_claim`."""
    return _finished(_class_findings(device_class))


def _class_findings(device_class: DeviceClass) -> Iterator[LintFinding]:
    kinds, parameters = kinds_of(device_class), class_parameters(device_class)
    yield from class_mistakes(device_class, parameters)
    yield from unfit_class_parameters(parameters.entries, kinds)
    yield from fails_for_others(device_class)
    yield from wrong_constants("spec.selectors", device_class.spec.selectors, kinds)


def lint_pod(pod: PodSpec, namespace: str, known: KnownClaims) -> tuple[LintFinding, ...]:
    """Find claims that a pod or pod template names wrongly or does not use, and devices asked of device plugins.

    Args:
        pod: The pod's or template's spec, as somebody wrote it.
        namespace: The object's namespace.
        known: What the same files define: what is not there may be on the cluster.
    """
    return _finished(pod_findings(pod, namespace, known))


def _claim_findings(
    claim: ResourceClaim,
    classes: Mapping[str, DeviceClass] | None,
    state: ClusterState | None,
    vocabulary: Vocabulary,
    *,
    classes_are_all: bool,
) -> Iterator[LintFinding]:
    parts = tuple(parts_of(claim, classes))
    is_fatal = False
    found_at: set[str] = set()
    constants = (wrong_constants(f"{part.path}.selectors", part.spec.selectors, part.kinds) for part in parts)
    parameters = claim_parameters(claim)
    mistakes = claim_mistakes(claim, parameters, parts, classes, are_all=classes_are_all)
    for finding in chain(mistakes, chain.from_iterable(constants)):
        is_fatal = is_fatal or (finding.code in _FATAL and finding.severity is not Severity.WARNING)
        if finding.code is LintCode.CAPACITY_INVALID:
            found_at.add(finding.path)
        yield finding
    for part in parts:
        if part.kinds:
            for finding in unknown_names(part, vocabulary):
                if finding.severity is Severity.ERROR:
                    found_at.add(finding.path)
                yield finding
            yield from unguarded(part)
    yield from unfit_parameters(claim, parameters.entries, parts, classes, state)
    yield from shape(claim, parts, vocabulary)
    if state is not None and classes is not None and not is_fatal:
        # That no device has a name which there is not, or an amount that is none, is no second mistake.
        found = published(claim, parts, state, classes, vocabulary)
        yield from (finding for finding in found if finding.path not in found_at)


def _finished(found: Iterator[LintFinding]) -> tuple[LintFinding, ...]:
    """Return the findings in order, as far as the budget allows."""
    findings: dict[LintFinding, None] = {}
    last: LintFinding | None = None
    try:
        for finding in found:
            findings[finding] = None
            if len(findings) >= _MOST_SEEN:
                last = _not_checked(
                    f"after {_MOST_SEEN:,} findings the rest of it was not looked at", "mend these first"
                )
                break
    except SpentError:
        last = _not_checked(
            "not all of it was looked at: that takes longer than there was time",
            "lint fewer objects at once, or write its selectors simpler",
        )
    ordered = sorted(findings, key=lambda finding: _ORDER.index(finding.severity))
    if last is None and len(ordered) > _MOST:
        last = replace(
            _not_checked(
                f"{len(ordered) - _MOST + 1} more findings, none of them worse, are not shown", "mend these first"
            ),
            severity=Severity.NOTE,
        )
    return tuple(ordered) if last is None else (*ordered[: _MOST - 1], last)


def _not_checked(message: str, hint: str) -> LintFinding:
    """Return the finding that something was left out."""
    return LintFinding(code=LintCode.NOT_LOOKED_AT, severity=Severity.WARNING, path="spec", message=message, hint=hint)
