"""Checks whether objects that were not read could change an answer: then it is not certain, and has a note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from driver.explain.explanation import Explanation, Finding
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.wording import plural

__all__ = ["unread", "with_doubts", "with_missing_kinds"]

_COULD_REFUSE: Final = {
    Kind.CLAIM: "may have devices that look free",
    Kind.TAINT_RULE: "may taint devices that look free of taints",
}
_COULD_HELP: Final = {
    Kind.SLICE: "may have devices that are not counted here",
    Kind.NODE: "may have room",
}
_CLASSES: Final = {Kind.CLASS: "may stand behind an extended resource of the pod"}
_REFUTED_BY: Final = {
    Reason.CLAIM_MISSING: Kind.CLAIM,
    Reason.CLAIM_NOT_CREATED: Kind.CLAIM,
    Reason.DEVICE_CLASS_MISSING: Kind.CLASS,
    Reason.CLAIM_TEMPLATE_MISSING: Kind.TEMPLATE,
    Reason.WAITING_FOR_POD: Kind.POD,
}
"""What an object of the kind could refute, without any node being looked at."""


def with_doubts(
    state: ClusterState, case: Case, findings: tuple[Finding, ...], verdicts: Sequence[NodeVerdict], *, fits: bool
) -> tuple[tuple[Finding, ...], bool]:
    """Return the findings and whether it fits for certain, with what is not certain of them.

    Args:
        state: The cluster.
        case: The case.
        findings: Its findings, the deciding one first.
        verdicts: The verdicts of all nodes.
        fits: Whether it fits by the objects that were read.
    """
    if fits:
        if why := _why(state, _COULD_REFUSE):
            count = sum(verdict.fits for verdict in verdicts)
            message = f"as far as is known there is room on {plural(count, 'node')}; but {why}"
            return (Finding(reason=Reason.OBJECT_UNREADABLE, message=message), *findings), False
        return findings, True
    if any(verdict.fits for verdict in verdicts):
        return findings, False  # something else keeps it from nodes with room
    effects = _COULD_HELP | (_CLASSES if case.extended.by_plugin_alone else {})
    if why := _why(state, effects):
        return (*findings, Finding(reason=Reason.OBJECT_UNREADABLE, message=f"this is not certain: {why}")), False
    return findings, False


def with_missing_kinds(state: ClusterState, explanation: Explanation) -> Explanation:
    """Return the explanation, as not certain where a dump has no object at all of a kind that could refute it."""
    kind = _REFUTED_BY.get(explanation.reason)
    if kind is None or kind not in state.missing:
        return explanation
    finding = Finding(reason=Reason.OBJECT_UNREADABLE, message=f"this is not certain: no {kind.value} was dumped")
    return replace(explanation, fits=False, findings=(*explanation.findings, finding))


def _why(state: ClusterState, effects: dict[Kind, str]) -> str:
    """Write which objects of these kinds were not read, and what they may do; empty where all were.

    Why an object could not be read stands in the notes: of others' objects not everybody may know it.
    """
    texts = []
    for kind, effect in effects.items():
        if found := unread(state, kind):
            texts.append(f"{found} and {effect}")
        elif kind in state.missing:
            texts.append(f"no {kind.value} was dumped, and one {effect}")
    return "; ".join(texts)


def unread(state: ClusterState, kind: Kind) -> str:
    """Write which objects of a kind could not be read and may change an answer, as a clause; empty where none is."""
    count, first = state.left_out.mattering(kind)
    return f"{_named(kind, count, first)} could not be read" if count else ""


def _named(kind: Kind, count: int, first: str) -> str:
    if count == 1:
        return f"{_noun(kind, 1)} {first}" if first else f"a {_noun(kind, 1)}"
    return f"{count} {_noun(kind, count)}" + (f" such as {first}" if first else "")


def _noun(kind: Kind, count: int) -> str:
    name = kind.value
    if count == 1:
        return name
    return f"{name}es" if name.endswith("s") else f"{name}s"
