"""Ranks reasons: first the one of the nearest miss that blames the claim least.

See docs/design/explain.md, "Which reason comes first". A node is the nearer, the less has to happen before it fits, and
what time or others can change comes before what only the claim's author can.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from driver.explain.judge.case import NodeVerdict
from driver.explain.reasons import Reason

__all__ = ["PLACEMENT_REASONS", "ranked_groups", "reason_of"]

_IN_USE: Final = 0
_NODE_DOWN: Final = 1
_TO_REPAIR: Final = 2
_NODE_TAINT: Final = 3
_NOT_WANTED: Final = 4
_NEVER: Final = 5
_NOTHING_THERE: Final = 6
_NEITHER: Final = 7

# Within a tier, in this order where nodes lack as much.
_TIERS: Final = {
    Reason.COUNTERS_IN_USE: _IN_USE,
    Reason.CONSTRAINT_IN_USE: _IN_USE,
    Reason.CAPACITY_IN_USE: _IN_USE,
    Reason.DEVICES_IN_USE: _IN_USE,
    Reason.DEVICE_TAINTED: _TO_REPAIR,
    Reason.POOL_INCOMPLETE: _TO_REPAIR,
    Reason.POOL_INVALID: _TO_REPAIR,
    Reason.PLUGIN_NOT_READY: _TO_REPAIR,
    Reason.FEATURE_OFF: _TO_REPAIR,
    Reason.SEARCH_LIMIT: _NEVER,
    Reason.REQUESTS_COMPETE: _NEVER,
    Reason.CONSTRAINT_NOT_SATISFIABLE: _NEVER,
    Reason.ATTRIBUTE_MISSING: _NEVER,
    Reason.TOO_MANY_DEVICES: _NEVER,
    Reason.CAPACITY_TOO_LARGE: _NEVER,
    Reason.CAPACITY_UNKNOWN: _NEVER,
    Reason.SELECTOR_FAILS: _NEVER,
    Reason.SELECTOR_SELECTS_TOO_FEW: _NEVER,
    Reason.CLASS_SELECTS_TOO_FEW: _NEVER,
    Reason.NO_DEVICES_PUBLISHED: _NOTHING_THERE,
}
_ORDER: Final = {reason: place for place, reason in enumerate(_TIERS)}
_PLACEMENT_TIERS: Final = {
    Reason.EXTENDED_RESOURCE_NOT_EVALUATED: _IN_USE,
    Reason.EXTENDED_RESOURCE_MISSING: _NOT_WANTED,
    Reason.NODE_UNSCHEDULABLE: _NODE_DOWN,
    Reason.NODE_NOT_READY: _NODE_DOWN,
    Reason.NODE_TAINTED: _NODE_TAINT,
    Reason.NODE_AFFINITY: _NOT_WANTED,
    Reason.CLAIM_ELSEWHERE: _NOT_WANTED,
}
PLACEMENT_REASONS: Final = frozenset(_PLACEMENT_TIERS)
"""Why the pod cannot be on a node, whatever its devices."""


def reason_of(verdict: NodeVerdict) -> Reason:
    """Return what decides on a node that does not fit: that the pod cannot be there, else its devices."""
    decides = verdict.placement or verdict.devices
    return decides.reason if decides is not None else Reason.FITS


def ranked_groups(verdicts: Sequence[NodeVerdict], *, examples: int) -> list[tuple[Reason, int, list[NodeVerdict]]]:
    """Return the nodes that do not fit, by reason: (reason, how many nodes, the nearest of them).

    The reason to be shown first comes first. Nodes on which the pod cannot be come first where their devices would
    serve.

    Args:
        verdicts: The verdicts of all nodes.
        examples: How many nodes of each reason, at most.
    """
    groups: dict[Reason, list[NodeVerdict]] = {}
    for verdict in verdicts:
        if verdict.placement is not None or verdict.devices is not None:
            groups.setdefault(reason_of(verdict), []).append(verdict)
    ranked = []
    for reason, nodes in groups.items():
        nearest = heapq.nsmallest(examples, nodes, key=_nearness)
        ranked.append(((*_nearness(nearest[0])[:2], _order(reason)), reason, len(nodes), nearest))
    ranked.sort(key=lambda item: item[0])
    return [item[1:] for item in ranked]


def _nearness(verdict: NodeVerdict) -> tuple[int, int, str]:
    name = verdict.node.node.metadata.name
    if verdict.placement is not None:
        if verdict.devices is None:
            return (_PLACEMENT_TIERS.get(verdict.placement.reason, _NOT_WANTED), 0, name)
        return (_NEITHER, verdict.lacks, name)
    return (_TIERS.get(reason_of(verdict), _NEVER), _depth(verdict), name)


def _depth(verdict: NodeVerdict) -> int:
    """Return how far a node is from a fit: the devices it lacks if they are in use, else also the step it came to."""
    reason = reason_of(verdict)
    tier = _TIERS.get(reason, _NEVER)
    return verdict.lacks if tier == _IN_USE else _order(reason) * 1000 + min(verdict.lacks, 999)


def _order(reason: Reason) -> int:
    return _ORDER.get(reason, len(_ORDER))
