"""A case: a pod's claims that are to be allocated together; and the judgement and the verdict of a node on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand
from driver.explain.explanation import Finding
from driver.explain.known.cluster import ClaimState, NodeState, PodState
from driver.explain.known.extended import Extended
from driver.explain.reasons import Reason

__all__ = ["SKIPPED", "Case", "Judgement", "NodeVerdict"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Claims that kube-scheduler would allocate together.

    Attributes:
        pod: The pod that wants them; None where no pod uses the claim: then every node would do.
        claims: Those that are not allocated yet, in the pod's order; each has its ``claim``.
        demands: What they ask for, one each.
        allocated: The pod's claims that are allocated already; they decide on which nodes the pod can be.
        extended: What the pod asks for of extended resources.
    """

    pod: PodState | None
    claims: tuple[ClaimState, ...]
    demands: tuple[ClaimDemand, ...]
    allocated: tuple[ClaimState, ...] = ()
    extended: Extended = field(default_factory=Extended)

    @property
    def is_complete(self) -> bool:
        """Whether all claims can be read, so that nodes can be judged."""
        return len(self.demands) == len(self.claims) and all(item.claim is not None for item in self.claims)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """Whether a node's devices would serve the claims.

    Attributes:
        reason: Why they would not; None where they would.
        claim: The place of the claim that decides.
        request: The name of the request, or of the alternative, that decides; empty where none does.
        lacks: How many devices are missing at the step that decides.
        left: Per demand, how many devices are left after each step; empty where the node was skipped.
        problem: The allocator's error, where there is one.
        stops: Whether kube-scheduler ends with an error when it comes to this node, whatever it finds on others.
        skipped: Whether the node was not evaluated, or not to the end, for lack of time.
    """

    reason: Reason | None
    claim: int = 0
    request: str = ""
    lacks: int = 0
    left: tuple[tuple[int, ...], ...]
    problem: str = ""
    stops: bool = False
    skipped: bool = False


SKIPPED: Final = Judgement(
    reason=Reason.SEARCH_LIMIT,
    lacks=MAX_RESULTS,
    left=(),
    problem="what came before took as long as one explanation may take, for the claims have selectors, alternatives or"
    " constraints that take very long",
    skipped=True,
)
"""The judgement of a node for which no time was left."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeVerdict:
    """Whether the pod could be on one node with all its devices.

    Attributes:
        node: The node.
        placement: Why the pod cannot be on it, whatever its devices (cordoned, taints, affinity); None where it can.
        devices: Why its devices would not serve; None where they would. Known also where ``placement`` is not None.
        lacks: How many devices are missing at the step that decides; 0 where the devices would serve. The smaller, the
            nearer a miss.
        left: Per demand (all alternatives of all requests of all claims, in order) how many devices are left after
            each :class:`~driver.explain.explanation.Step`, in the order of the steps; empty where the node was not
            evaluated.
    """

    node: NodeState
    placement: Finding | None
    devices: Finding | None
    lacks: int
    left: tuple[tuple[int, ...], ...]

    @property
    def fits(self) -> bool:
        """Whether the pod could be there with all its devices."""
        return self.placement is None and self.devices is None

    @property
    def is_unknown(self) -> bool:
        """Whether it is not known if the pod could be there, for lack of time or because a device plugin decides."""
        if self.placement is not None:
            return self.placement.reason is Reason.EXTENDED_RESOURCE_NOT_EVALUATED
        if self.devices is None:
            return False
        return self.devices.reason is Reason.SEARCH_LIMIT and not self.left
