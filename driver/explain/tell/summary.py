"""Writes an explanation in a few sentences: for an Event's note, an annotation, a log line."""

from __future__ import annotations

from typing import Final

from driver.explain.explanation import Explanation, NodeGroup, Proposal
from driver.explain.reasons import UNKNOWN_REASONS, Reason
from driver.wording import plural

__all__ = ["NOTE_BYTES", "short_answer", "shortened", "summary"]

NOTE_BYTES: Final = 1024
"""The most that an Event's note may have (k8s.io/api/events/v1, ``Event.note``)."""

_ELLIPSIS: Final = "…"
_GROUPS: Final = 3
_LEAST_SHARE: Final = 60  # bytes: of a shorter text nothing is left but the code


def summary(explanation: Explanation, *, max_bytes: int = NOTE_BYTES) -> str:
    """Write what kind of nodes refuse why, then the nearest miss: one line of printable text.

    Args:
        explanation: The answer.
        max_bytes: Of UTF-8, at least 64: a longer text is cut, the refusals before the nearest miss.
    """
    miss = _nearest_miss(explanation.proposals)
    miss = shortened(miss, max_bytes // 2)
    room = max_bytes - len(miss.encode()) - (1 if miss else 0)
    text = shortened(_refusals(explanation, room), room)
    return f"{text} {miss}".strip()


def short_answer(explanation: Explanation, *, most: int) -> str:
    """Write what decides, in so many characters: one line beside the reason's code, for a table."""
    is_of_nodes = explanation.nodes_decide and explanation.reason not in UNKNOWN_REASONS
    line = _line(_nodes(explanation) if is_of_nodes else explanation.findings[0].message)
    return line if len(line) <= most else f"{line[: max(0, most - len(_ELLIPSIS))].rstrip()}{_ELLIPSIS}"


def shortened(text: str, max_bytes: int) -> str:
    """Return the text on one line, without control characters; a longer one is cut, with an ellipsis."""
    encoded = _line(text).encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    kept = encoded[: max(0, max_bytes - len(_ELLIPSIS.encode()))].decode("utf-8", "ignore")
    return kept.rstrip() + _ELLIPSIS


def _nodes(explanation: Explanation) -> str:
    """Write ``0 of 3 nodes fit, gpu-1 lacks 1 device; 1 NodeUnschedulable``: the deciding reason stands beside it."""
    first, *others = sorted(explanation.groups, key=lambda group: group.reason is not explanation.reason)
    nearest = f", {_nearest(first, first.examples[0])}" if first.lacks and first.examples else ""
    counts = [f"{group.count} {group.reason}" for group in others]
    return "; ".join([f"{_fitting(0, explanation.nodes)}{nearest}", *counts])


def _nearest(group: NodeGroup, node: str) -> str:
    if group.reason is Reason.SELECTOR_FAILS:
        return f"on {node} a selector ends with an error"
    return f"{node} lacks {plural(group.lacks or 0, 'device')}"


def _fitting(count: int, nodes: int) -> str:
    return f"{count} of {plural(nodes, 'node')} {'fits' if nodes == 1 else 'fit'}"


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _refusals(explanation: Explanation, room: int) -> str:
    first = explanation.findings[0]
    if not explanation.nodes_decide:
        return f"{first.reason}: {_sentence(first.message)}"
    sure = "" if explanation.is_known else ", as far as is known"
    fitting = f"{_fitting(explanation.nodes_fitting, explanation.nodes)}{sure}:"
    if explanation.reason is Reason.SEARCH_LIMIT and explanation.nodes_unknown:
        looked = explanation.nodes - explanation.nodes_unknown
        fitting = f"{explanation.nodes_fitting} of the {looked} nodes fit that were looked at, of {explanation.nodes}:"
    shown = explanation.groups[:_GROUPS]
    hidden = sum(group.count for group in explanation.groups[_GROUPS:])
    rest = [f"{hidden} for other reasons"] if hidden else []
    # Each kind of node has its say: a long message may not push the others out.
    share = max(_LEAST_SHARE, (room - len(fitting) - sum(map(len, rest)) - 4) // len(shown) - 2)
    return f"{fitting} {_sentence('; '.join([*(shortened(_group(group), share) for group in shown), *rest]))}"


def _group(group: NodeGroup) -> str:
    where = group.examples[0] if group.examples else ""
    return f"{group.count} {group.reason} ({where}: {group.message})" if where else f"{group.count} {group.reason}"


def _nearest_miss(proposals: tuple[Proposal, ...]) -> str:
    if not proposals:
        return ""
    nearest = proposals[0]
    node = f", then it fits on node {nearest.node}" if nearest.node and nearest.verified else ""
    return "Nearest miss: " + _sentence(nearest.text.rstrip(".") + node)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", _ELLIPSIS)) else f"{text}."
