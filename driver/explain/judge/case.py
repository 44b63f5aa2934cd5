"""What is asked about: a pod's claims that are to be allocated together, and what each node says to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from driver.allocator.demands import ClaimDemand
from driver.explain.explanation import Finding
from driver.explain.known.cluster import ClaimState, NodeState, PodState
from driver.explain.known.extended import Extended
from driver.explain.reasons import Reason

__all__ = ["Case", "NodeVerdict"]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeVerdict:
    """What one node says.

    Attributes:
        node: The node.
        placement: Why the pod cannot be on it, whatever its devices (cordoned, taints, affinity); None where it can.
        devices: Why the devices do not do; None where they do. Known also where ``placement`` is not None.
        lacks: How many devices are missing to what is asked for, by the step that decides; 0 where the devices do.
            The smaller, the nearer a miss.
        left: Per demand (all alternatives of all requests of all claims, in order) how many devices are left after
            each :class:`~driver.explain.explanation.Step`, in the order of the steps; empty where nobody looked.
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
        """Whether it is not known if the pod could be there: there was no time, or it is a device plugin's matter."""
        if self.placement is not None:
            return self.placement.reason is Reason.EXTENDED_RESOURCE_NOT_EVALUATED
        if self.devices is None:
            return False
        return self.devices.reason is Reason.SEARCH_LIMIT and not self.left
