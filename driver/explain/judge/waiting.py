"""A pod that waits for devices, as :mod:`driver.modes.demand` takes it."""

from __future__ import annotations

from driver.explain.explanation import Explanation
from driver.explain.judge.placement import node_refusal
from driver.explain.judge.question import case_of, question_about
from driver.explain.known.cluster import PodState
from driver.explain.known.state import ClusterState
from driver.modes.hypothesis import Waiting

__all__ = ["waiting_pod"]


def waiting_pod(state: ClusterState, pod: PodState) -> Waiting | None:
    """Return what the pod waits for; None where other devices would not help it.

    That is so where kube-scheduler does not try it at all (a scheduling gate, a missing claim), where all its claims
    are allocated, or where one of them is wrong.

    Args:
        state: The cluster.
        pod: A pod of it that has no node.

    Raises:
        SpentError: The budget in force is spent.
    """
    question = question_about(state, pod.ref)
    if isinstance(question, Explanation) or question.before:
        return None
    case, wrong = case_of(state, question)
    claims = tuple(item.claim for item in case.claims if item.claim is not None)
    if wrong or not claims or not case.is_complete:
        return None

    def may_be_on(name: str) -> bool:
        node = state.nodes.get(name)
        return node is not None and node_refusal(pod, node, case.allocated, case.extended) is None

    allocated = tuple((claim.key, claim.uid, repr(claim.available_on)) for claim in case.allocated)
    return Waiting(
        uid=pod.uid,
        key=pod.key,
        claims=claims,
        demands=case.demands,
        may_be_on=may_be_on,
        places=(
            tuple(sorted(pod.node_selector.items())),
            repr(pod.affinity),
            pod.tolerations,
            allocated,
            tuple(case.extended.amounts.items()),
        ),
    )
