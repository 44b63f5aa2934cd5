"""Why pods of a simulation have no node, or cannot start: in the words and reason codes of explain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, Proposal
from driver.explain.reasons import Reason
from driver.simulation.cluster import cluster_state
from driver.simulation.run import PodOutcome, Simulation
from driver.simulation.untold import Untold

__all__ = ["EXPLAIN_S", "Answer", "answers"]

EXPLAIN_S: Final = 20.0
"""CPU seconds for all explanations of a simulation together."""
_ONE_S: Final = 5.0
_NO_NODE: Final = "no node fits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a pod has no node, or cannot start on it.

    Attributes:
        reason: The code, of :class:`~driver.explain.reasons.Reason`; empty where nobody looked.
        message: The same in words.
        nearest_miss: The smallest change that would make it fit; empty where none is known.
        same_as: ``namespace/name`` of the pod for which it was found: one that asks for the same.
    """

    reason: str
    message: str
    nearest_miss: str = ""
    same_as: str = ""


def answers(
    simulation: Simulation, *, budget: Budget | None = None, progress: Callable[[], None] = lambda: None
) -> dict[str, Answer]:
    """By pod, for those that have no node or whose claims cannot be prepared.

    It is explained how the cluster is at the end, with all that other pods were given. Pods that ask for the same share
    an answer.

    Args:
        simulation: The result.
        budget: How long it may take; :data:`EXPLAIN_S` if not given. Of pods for which there is no time the answer says
            so.
        progress: Called for each pod without a node.
    """
    found = _not_prepared(simulation)
    waiting = [pod for pod in simulation.pods if pod.node is None]
    if not waiting:
        return found
    budget = budget or Budget(EXPLAIN_S)
    explainer = Explainer(cluster_state(simulation))
    untold = Untold(simulation)
    specs = {
        outcome.key: outcome.claim.spec.model_dump_json() for outcome in simulation.outcomes if outcome.node is None
    }
    known: dict[object, tuple[str, Answer]] = {}
    for pod in waiting:
        kind = _kind(pod, specs)
        earlier = known.get(kind)
        if earlier is None:
            explained = _explained(explainer, pod, budget)
            answer = explained if isinstance(explained, Answer) else _answer(explained, untold.option(explained, specs))
            if answer.reason:
                known[kind] = pod.pod.key, answer
        else:
            answer = replace(earlier[1], same_as=earlier[0])
        found[pod.pod.key] = answer
        progress()
    return found


def _not_prepared(simulation: Simulation) -> dict[str, Answer]:
    found = {
        pod.pod.key: Answer(reason=pod.reason, message=pod.problem)
        for pod in simulation.pods
        if pod.node is not None and pod.reason is not None
    }
    for outcome in simulation.outcomes:
        if outcome.problem is not None:
            for pod in outcome.pods:
                found.setdefault(pod, Answer(reason=Reason.PREPARE_FAILS, message=outcome.problem))
    return found


def _kind(pod: PodOutcome, specs: Mapping[str, str]) -> object:
    """Equal for pods that ask for the same, and have the same already."""
    if pod.reason is not None:
        return pod.pod.key  # the answer names what is this pod's own
    return repr(pod.pod.state.containers), *[specs.get(key) or key for key in pod.pod.claim_keys]


def _explained(explainer: Explainer, pod: PodOutcome, budget: Budget) -> Explanation | Answer:
    """Why a pod has no node; the answer itself, where no explanation says more."""
    if pod.problem and pod.reason is not None:
        return Answer(reason=pod.reason, message=pod.problem)
    no_time = Answer(reason="", message=f"{pod.problem or _NO_NODE}; there was no time to find out why")
    if budget.is_spent:
        return no_time
    explanation = explainer.explain(pod.pod.state.ref, budget=budget.part(_ONE_S))
    if explanation.reason is Reason.SEARCH_LIMIT and budget.left_s <= 0:
        return no_time  # it is what came before that took the time
    if explanation.fits:
        # The allocator has the last word, and says why where it is more than "no".
        return Answer(reason="", message=pod.problem or _NO_NODE)
    return explanation


def _answer(explanation: Explanation, option: str) -> Answer:
    return Answer(
        reason=explanation.reason,
        message=explanation.findings[0].message,
        nearest_miss=option or next(map(_miss, explanation.proposals), ""),
    )


def _miss(proposal: Proposal) -> str:
    where = f"; it fits on node {proposal.node} then" if proposal.node else ""
    return f"{proposal.text.rstrip('.')}{where if proposal.verified else ' (not tried)'}"
