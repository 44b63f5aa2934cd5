"""Recognizes nodes with the same judgement: those that differ only in names, and in attributes that are not asked for.

Of thousands of nodes most are of a few kinds, and used in a few ways. The judgement of one of them holds for all, and
to recognize that they are alike is much less work than to judge each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from driver.allocator.constraints import column
from driver.allocator.demands import ClaimDemand, Demand
from driver.allocator.errors import AllocationError
from driver.allocator.features import Features
from driver.allocator.ledger import Ledger
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.api.resource_v1 import Node
from driver.budget import check

__all__ = ["KnownDevices", "Likeness"]


class KnownDevices(Protocol):
    """The devices of a cluster, and what of them is in use."""

    @property
    def index(self) -> PoolIndex:
        """All devices."""

    @property
    def ledger(self) -> Ledger:
        """What is in use."""

    @property
    def features(self) -> Features:
        """The feature gates."""

    @property
    def selections(self) -> Selections:
        """The answers of selectors; ask for it each time."""


class Likeness:
    """Recognizes alike nodes for one case.

    Args:
        known: The cluster's devices.
        demands: The demands of the case.
    """

    def __init__(self, known: KnownDevices, demands: Sequence[ClaimDemand]) -> None:
        self._known = known
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

    def of(self, node: Node) -> tuple[object, ...] | None:
        """Return a key that is equal for nodes with the same judgement, errors apart; None for a node by itself."""
        known = self._known
        try:
            view = known.index.view(node)
        except AllocationError:
            return None
        ledger, selections, lists = known.ledger, known.selections, known.features.list_type_attributes
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
