"""Whether a node is one that a pod may be on: cordon, taints, node selector and affinity, where its claims are bound.

The rules are explain's (:mod:`driver.explain.judge.placement`). Answers are remembered by what pods ask for, since most
pods are of a few kinds, as long as the node stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from driver.allocator.taints import refusing_taints
from driver.budget import check
from driver.explain.judge.placement import affinity, node_refusal
from driver.explain.known.cluster import ClaimState, NodeState, PodState
from driver.explain.reasons import Reason
from driver.memo import Memo

__all__ = ["RulesOfPod", "StaticRules"]

_KINDS: Final = 64
_TEXTS: Final[Mapping[Reason, str]] = {
    Reason.NODE_NOT_READY: "not ready",
    Reason.NODE_UNSCHEDULABLE: "cordoned",
    Reason.NODE_TAINTED: "a taint that the pod does not tolerate",
    Reason.NODE_AFFINITY: "labels that the pod does not select",
    Reason.CLAIM_ELSEWHERE: "a claim of the pod is allocated elsewhere",
}

_Answers = dict[str, tuple[NodeState, str]]


class StaticRules:
    """Tells which nodes are for a pod, and remembers it."""

    def __init__(self) -> None:
        self._known: Memo[object, _Answers] = Memo(_KINDS)

    def of(self, pod: PodState, allocated: Sequence[ClaimState]) -> RulesOfPod:
        """Return the rules for one pod.

        Args:
            pod: The pod.
            allocated: Its claims that are allocated.
        """
        wants = (tuple(sorted(pod.node_selector.items())), repr(pod.affinity), pod.tolerations)
        bound = tuple((claim.key, repr(claim.available_on)) for claim in allocated if claim.available_on is not None)
        return RulesOfPod(pod, allocated, self._known.of((wants, bound), dict))


class RulesOfPod:
    """The rules for one pod.

    Args:
        pod: The pod.
        allocated: Its claims that are allocated.
        known: The answers so far.
    """

    def __init__(self, pod: PodState, allocated: Sequence[ClaimState], known: _Answers) -> None:
        self._pod = pod
        self._allocated = allocated
        self._known = known

    def refusal(self, name: str, node: NodeState) -> str:
        """Return why a node is not for the pod; empty where it is.

        Raises:
            SpentError: The budget in force is spent. What is known by then stays known.
        """
        known = self._known.get(name)
        if known is None or known[0] is not node:
            check()
            finding = node_refusal(self._pod, node, self._allocated)
            why = "" if finding is None else _TEXTS.get(finding.reason, finding.reason.value)
            known = self._known[name] = (node, why)
        return known[1]

    def admits(self, node: NodeState) -> tuple[bool, bool]:
        """Return whether node selector and affinity allow a node, and whether the pod tolerates the node's taints.

        Raises:
            SpentError: The budget in force is spent.
        """
        check()
        return affinity(self._pod, node) is None, not refusing_taints(node.taints, self._pod.tolerations)
