"""Explains why pods of a simulation have no node, or cannot start, with explain's words and reason codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from driver.budget import Budget
from driver.explain.explainer import Explainer
from driver.explain.explanation import ChangeKind, Explanation, Proposal
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.reasons import Reason
from driver.lint import Severity, lint_claim, unrecorded
from driver.lint.published import published_devices
from driver.simulation.cluster import cluster_state
from driver.simulation.options import OptionHints
from driver.simulation.run import PodOutcome, Simulation

__all__ = ["EXPLAIN_S", "Answer", "answers"]

EXPLAIN_S: Final = 20.0
"""CPU seconds for all explanations of a simulation together."""
_ONE_S: Final = 5.0
_NO_NODE: Final = "no node fits"
_OF_WHAT_IS_PUBLISHED: Final = frozenset(
    {
        Reason.ATTRIBUTE_MISSING,
        Reason.CAPACITY_TOO_LARGE,
        Reason.CAPACITY_UNKNOWN,
        Reason.CLASS_SELECTS_TOO_FEW,
        Reason.CONSTRAINT_NOT_SATISFIABLE,
        Reason.REQUESTS_COMPETE,
        Reason.SEARCH_LIMIT,
        Reason.SELECTOR_FAILS,
        Reason.SELECTOR_SELECTS_TOO_FEW,
    }
)
"""Reasons that may hold whatever is in use, so that devices which are described better could refute them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why a pod has no node, or cannot start on it.

    Attributes:
        reason: The code, of :class:`~driver.explain.reasons.Reason`; empty if there was no time to find one.
        message: The same in words.
        nearest_miss: The smallest change that would make it fit; empty where none is known.
        unrecorded: What the nodes' sources do not record and could refute the answer, as a clause; empty where it is
            certain.
        same_as: ``namespace/name`` of the pod for which it was found: one that asks for the same.
    """

    reason: str
    message: str
    nearest_miss: str = ""
    unrecorded: str = ""
    same_as: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the answer is certain."""
        return not self.unrecorded


def answers(
    simulation: Simulation, *, budget: Budget | None = None, progress: Callable[[], None] = lambda: None
) -> dict[str, Answer]:
    """Return the answers by pod, for those that have no node or whose claims cannot be prepared.

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
    state = cluster_state(simulation)
    explainer = Explainer(state)
    gaps = _Gaps(simulation, state)
    options = OptionHints(simulation)
    specs = {
        outcome.key: outcome.claim.spec.model_dump_json() for outcome in simulation.outcomes if outcome.node is None
    }
    known: dict[object, tuple[str, Answer]] = {}
    for pod in waiting:
        kind = _kind(pod, specs)
        earlier = known.get(kind)
        if earlier is None:
            explained = _explained(explainer, pod, budget)
            if isinstance(explained, Answer):
                answer = explained
            else:
                answer = _answer(explained, options.hint(explained, specs), gaps.because(explained, budget))
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
    """Return a key that is equal for pods that ask for the same, and have the same already."""
    if pod.reason is not None:
        return pod.pod.key  # the answer names what is this pod's own
    return repr(pod.pod.state.containers), *[specs.get(key) or key for key in pod.pod.claim_keys]


def _explained(explainer: Explainer, pod: PodOutcome, budget: Budget) -> Explanation | Answer:
    """Explain why a pod has no node; return the answer itself if no explanation says more."""
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


def _answer(explanation: Explanation, option: str, because: str) -> Answer:
    # Where it may fit as it is, no change to the claim is proposed.
    proposals = (proposal for proposal in explanation.proposals if proposal.kind is not ChangeKind.REPAIR_DRIVER)
    miss = option if because else option or next(map(_miss, proposals), "")
    message = explanation.findings[0].message
    return Answer(reason=explanation.reason, message=message, nearest_miss=miss, unrecorded=because)


class _Gaps:
    """Knows what the nodes' sources do not record, and, by the linter's rule, which answers depend on it."""

    def __init__(self, simulation: Simulation, state: ClusterState) -> None:
        self._state = state
        self._unrecorded = unrecorded(simulation.inventories)
        self._claims = {outcome.key: outcome.claim for outcome in simulation.outcomes}
        self._vocabulary: Vocabulary | None = None

    def because(self, explanation: Explanation, budget: Budget) -> str:
        """Return the clause that says what is not recorded and could refute the explanation; empty where all is."""
        first = explanation.findings[0]
        if first.reason not in _OF_WHAT_IS_PUBLISHED or first.claim is None:
            return ""
        claim = self._claims.get(f"{first.claim.namespace}/{first.claim.name}")
        if claim is None:
            return ""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary.of(published_devices(self._state), self._state.classes)
        with budget.part(_ONE_S).in_force():
            found = lint_claim(claim, state=self._state, vocabulary=self._vocabulary)
        clauses = [self._unrecorded.because(item) for item in found if item.severity is Severity.ERROR]
        return " and ".join(dict.fromkeys(clauses)) if all(clauses) else ""


def _miss(proposal: Proposal) -> str:
    where = f"; it fits on node {proposal.node} then" if proposal.node else ""
    return f"{proposal.text.rstrip('.')}{where if proposal.verified else ' (not tried)'}"
