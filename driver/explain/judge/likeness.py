"""Recognizes nodes with the same judgement: those that differ only in names, and in attributes that are not asked for.

Of thousands of nodes most are of a few kinds, and used in a few ways. The judgement of one of them holds for all, and
to recognize that they are alike is much less work than to judge each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from driver.allocator.constraints import column
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.errors import AllocationError
from driver.budget import check
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState

__all__ = ["Likeness"]


class Likeness:
    """Recognizes alike nodes for one case.

    Args:
        state: The cluster.
        demands: The demands of the case.
    """

    def __init__(self, state: ClusterState, demands: Sequence[ClaimDemand]) -> None:
        self._state = state
        parts = [
            part for claim in demands for request in claim.requests for demand in request.alternatives
            for part in (demand, replace(demand, selectors=()))
        ]  # fmt: skip
        # Of those that select alike one is enough.
        self._selecting: tuple[Demand, ...] = tuple(
            {(part.class_selectors, part.selectors): part for part in parts}.values()
        )
        self._attributes = tuple(
            sorted({constraint.attribute for claim in demands for constraint in claim.constraints})
        )

    def of(self, node: NodeState) -> tuple[object, ...] | None:
        """Return a key that is equal for nodes with the same judgement, errors apart; None for a node by itself."""
        state = self._state
        try:
            view = state.index.view(node.node)
        except AllocationError:
            return None
        ledger, selections, lists = state.ledger, state.selections, state.features.list_type_attributes
        key: list[object] = []
        for pool in view.pools:
            if pool.shape is None:
                return None
            key += (pool.shape, ledger.use(pool.id))
            for part in pool.slices:
                check()
                key += [selections.of(demand, part) for demand in self._selecting]
                key += [column(part, attribute, lists=lists) for attribute in self._attributes]
        return tuple(key)
