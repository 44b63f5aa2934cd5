"""What a policy is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from driver.placement.outlook import Outlook
from driver.placement.score import Term
from driver.placement.shapes import NodeShape, PodShape

__all__ = ["Choice", "Key", "Policy"]

Key = tuple[float, ...]


class Choice(NamedTuple):
    """The best place on a node.

    Attributes:
        key: Compared with those of other nodes; lower is better.
        gpus: Their indexes on the node.
    """

    key: Key
    gpus: tuple[int, ...]


class Policy(Protocol):
    """Rates nodes for a pod. What it says depends on its arguments alone."""

    @property
    def name(self) -> str:
        """As users choose it."""

    @property
    def orders_gpus(self) -> bool:
        """Whether it matters which GPUs of a node a pod gets; otherwise it gets the first ones, as upstream."""

    @property
    def prefers_full(self) -> bool:
        """Whether, of GPUs that are as good otherwise, one that is in use comes before one that is free."""

    def choose(self, node: NodeShape, pod: PodShape, outlook: Outlook) -> Choice | None:
        """Return the best place on the node, or None if the pod does not fit there."""

    def terms(self, node: NodeShape, pod: PodShape, choice: Choice, outlook: Outlook) -> tuple[Term, ...]:
        """Tell how the key of a choice came about: first a term for each part of it, as far as there are any."""
