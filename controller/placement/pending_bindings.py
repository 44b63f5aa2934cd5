"""What this controller has allocated for pods that are not bound yet."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from driver.allocator.ledger import holdings
from driver.explain.known.state import ClusterState
from driver.placement.decision import Decision, Placement
from driver.placement.score import Score

__all__ = ["PendingBinding", "PendingBindings", "assume_claims", "restored_binding"]


@dataclass(slots=True)
class PendingBinding:
    """An allocation for a pod that is not bound yet.

    Attributes:
        decision: What was decided, with what was chosen.
        node: Where.
        claims: The versions of the claims with their allocations, by key.
    """

    decision: Decision
    node: str
    claims: dict[str, int] = field(default_factory=dict)

    @property
    def pod_uid(self) -> str:
        """The pod's UID."""
        return self.decision.pod_uid


class PendingBindings:
    """Pending bindings by the pod's UID. Not thread-safe."""

    def __init__(self) -> None:
        self._bindings: dict[str, PendingBinding] = {}
        self._of_claim: dict[str, str] = {}

    def __iter__(self) -> Iterator[PendingBinding]:
        return iter(self._bindings.values())

    def add(self, binding: PendingBinding) -> None:
        """Take note of a pending binding."""
        self._bindings[binding.pod_uid] = binding
        self._of_claim.update(dict.fromkeys(binding.claims, binding.pod_uid))

    def get(self, pod_uid: str) -> PendingBinding | None:
        """Return a pod's pending binding; None if it has none."""
        return self._bindings.get(pod_uid)

    def of_claim(self, key: str) -> PendingBinding | None:
        """Return the pending binding with this claim; None if there is none."""
        return self._bindings.get(self._of_claim.get(key, ""))

    def drop(self, pod_uid: str) -> PendingBinding | None:
        """Forget a pod's pending binding, and return it."""
        binding = self._bindings.pop(pod_uid, None)
        if binding is not None:
            for key in binding.claims:
                if self._of_claim.get(key) == pod_uid:
                    del self._of_claim[key]
        return binding


def assume_claims(state: ClusterState, decision: Decision, keys: Container[str]) -> None:
    """Let the devices of these claims count as in use until the state shows it, though the pod is not placed."""
    results = decision.chosen.results if decision.chosen is not None else ()
    for claim, result in zip(decision.claims, results, strict=True):
        if claim.key in keys:
            holds = tuple(holdings(result))
            state.assume(replace(claim, claim=None, allocated=True, holds=holds, available_on=result.node_selector))


def restored_binding(pod: str, pod_uid: str, node: str, claims: dict[str, int]) -> PendingBinding:
    """Return the binding of a pod whose claims an earlier process has allocated: its place on the node counts."""
    placement = Placement(node=node, results=(), score=Score((), ()))
    decision = Decision(pod=pod, pod_uid=pod_uid, claims=(), chosen=placement, runner_up=None, why="")
    return PendingBinding(decision=decision, node=node, claims=claims)
