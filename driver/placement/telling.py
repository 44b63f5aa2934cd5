"""Says in a sentence why a pod goes to a node and not to the next best one, or why to none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from driver.placement.score import Score, Term
from driver.wording import plural

__all__ = ["figure_text", "term_text", "why_none", "why_only", "why_this"]

_REASONS_SHOWN: Final = 5


def why_this(node: str, score: Score, other: str, other_score: Score) -> str:
    """Return why a node was chosen.

    Args:
        node: Its name.
        score: Its score.
        other: The next best one.
        other_score: Its score.
    """
    # What decided is the first part of the keys that differs, and each has its term.
    pairs = enumerate(zip(score.key, other_score.key, strict=False))
    decided = next((at for at, (mine, theirs) in pairs if mine != theirs), None)
    if len(score.key) != len(other_score.key):
        return f"node {node} rather than {other}, which the policy does not rate"
    if decided is None:
        return f"node {node} rather than {other}, which is as good: the first by name is taken"
    if decided < min(len(score.terms), len(other_score.terms)):
        mine, theirs = score.terms[decided], other_score.terms[decided]
        if term_text(mine) != term_text(theirs):
            figures = f"{mine.name}: {term_text(mine)}, and {term_text(theirs)} on {other}; less is better"
            return f"node {node} rather than {other}; {figures}"
    return f"node {node} rather than {other}, by less than the figures show"


def why_only(node: str, reasons: Mapping[str, int], *, all_seen: bool, is_bound: bool) -> str:
    """Return why a node was chosen where no other is known that would do.

    Args:
        node: Its name.
        reasons: How many other nodes refuse the pod, by reason.
        all_seen: Whether all nodes were looked at.
        is_bound: Whether claims that are allocated leave the pod no other node.
    """
    if is_bound:
        return f"node {node} is where its other claims are allocated"
    if not all_seen:
        return f"node {node} is the first that would do; others were not looked at, for that takes very long"
    others = f": {_counted(reasons)}" if reasons else ""
    return f"node {node} is the only one that would do{others}"


def term_text(term: Term) -> str:
    """Write a figure with its unit: ``0.19 GPUs``, ``12.5 %``."""
    figure = figure_text(term.value)
    return f"{figure} {term.unit}" if term.unit else figure


def figure_text(value: float) -> str:
    """Write a figure: ``1,213``, ``12.5``, ``0.19``."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    text = text.rstrip("0").rstrip(".") if digits else text
    return "0" if text == "-0" else text


def why_none(reasons: Mapping[str, int], *, nodes: int, left_out: int) -> str:
    """Return why nothing fits, with how many nodes each reason holds for.

    Args:
        reasons: How many nodes refuse the pod, by reason.
        nodes: How many nodes there are to choose from.
        left_out: How many more there are, which are not managed.
    """
    others = f"; {plural(left_out, 'node')} {'is' if left_out == 1 else 'are'} not managed" if left_out else ""
    if not nodes:
        return f"no node is managed{others}" if left_out else "there is no node"
    return f"it fits on none of {nodes:,} {'node' if nodes == 1 else 'nodes'}: {_counted(reasons)}{others}"


def _counted(reasons: Mapping[str, int]) -> str:
    common = Counter(reasons).most_common()
    shown = [f"{reason} ({count:,})" for reason, count in common[:_REASONS_SHOWN]]
    rest = sum(count for _, count in common[_REASONS_SHOWN:])
    if rest:
        shown.append(f"other reasons ({rest:,})")
    return ", ".join(shown)
