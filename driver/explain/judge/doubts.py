"""Checks whether objects that were left out could change an answer: then it is not certain, and has a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.explain.explanation import Finding
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.wording import plural

__all__ = ["unread", "with_doubts"]

_COULD_REFUSE: Final = {
    Kind.CLAIM: "may have devices that look free",
    Kind.TAINT_RULE: "may taint devices that look free of taints",
}
_COULD_HELP: Final = {
    Kind.SLICE: "may have devices that are not counted here",
    Kind.NODE: "may have room",
}
_CLASSES: Final = {Kind.CLASS: "may stand behind an extended resource of the pod"}


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


def _why(state: ClusterState, effects: dict[Kind, str]) -> str:
    """Write which objects of these kinds were left out, and what they may do; empty where none was.

    Why an object could not be read stands in the notes: of others' objects not everybody may know it.
    """
    return "; ".join(f"{found} and {effect}" for kind, effect in effects.items() if (found := unread(state, kind)))


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
