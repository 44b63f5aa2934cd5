"""All that can be said of a claim or class before it meets a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.explain.state import ClusterState
from driver.explain.vocabulary import Vocabulary
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.lint.mistakes import claim_mistakes, class_mistakes
from driver.lint.parts import parts_of
from driver.lint.published import published, published_devices
from driver.lint.selectors import fails_for_others, unguarded, unknown_names
from driver.lint.shape import shape

__all__ = ["lint_claim", "lint_class"]

# What makes asking the published devices pointless, because the answer would be about the same mistake.
_FATAL: Final = frozenset({LintCode.UNKNOWN_CLASS, LintCode.SELECTOR_INVALID})
_MOST: Final = 100


def lint_claim(
    claim: ResourceClaim,
    *,
    classes: Mapping[str, DeviceClass] | None = None,
    state: ClusterState | None = None,
    vocabulary: Vocabulary | None = None,
) -> tuple[LintFinding, ...]:
    """Everything that is wrong with a claim, or likely to be, errors first; at most a hundred findings.

    Args:
        claim: Valid for the API server, with its defaults; of a template the claim that is made of it.
        classes: The DeviceClasses by name; None for those of ``state``, or, without it, none known: then Rootport's
            own are known by their names.
        state: What is published; None for what can be told without.
        vocabulary: Of the same, where the caller has it: it takes a while for a large cluster.
    """
    if classes is None and state is not None:
        classes = state.classes
    if vocabulary is None:
        vocabulary = Vocabulary() if state is None else Vocabulary.of(published_devices(state), classes or ())
    parts = tuple(parts_of(claim, classes))
    findings = list(claim_mistakes(claim, classes))
    for part in parts:
        if part.kinds:
            findings += unknown_names(part, vocabulary)
            findings += unguarded(part)
    findings += shape(claim, parts, vocabulary)
    if state is not None and classes is not None and not any(finding.code in _FATAL for finding in findings):
        findings += published(claim, parts, state, classes, vocabulary)
    return _sorted(findings)


def lint_class(device_class: DeviceClass) -> tuple[LintFinding, ...]:
    """Everything that is wrong with a DeviceClass."""
    return _sorted([*class_mistakes(device_class), *fails_for_others(device_class)])


def _sorted(findings: list[LintFinding]) -> tuple[LintFinding, ...]:
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda finding: finding.severity is not Severity.ERROR)[:_MOST])
