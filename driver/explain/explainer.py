"""Explains why a claim or a pod is pending, from what is known of a cluster.

An answer is made in one direction: the nodes are evaluated (``judge``), the verdicts are put into words (``tell``), and
changes are tried (``propose``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from driver.budget import Budget, SpentError, is_spent, share
from driver.explain.explanation import Explanation, Finding, ObjectRef, Proposal, RequestFunnel
from driver.explain.judge.case import Judgement, NodeVerdict
from driver.explain.judge.device_judge import DeviceJudge
from driver.explain.judge.doubts import with_doubts, with_missing_kinds
from driver.explain.judge.evaluation import Evaluations
from driver.explain.judge.node_judge import NodeJudge
from driver.explain.judge.question import Question, case_of, question_about
from driver.explain.judge.trial import Trial
from driver.explain.known.extended import for_pod, note_of_claim
from driver.explain.known.state import ClusterState
from driver.explain.propose.proposals import proposals
from driver.explain.reasons import Reason
from driver.explain.tell.conclusion import conclude
from driver.explain.tell.groups import node_groups
from driver.explain.tell.placement_findings import placement_repair, with_placement
from driver.explain.tell.requests import request_funnels
from driver.wording import plural

__all__ = ["MAX_CPU_S", "Explainer"]

MAX_CPU_S: Final = 20.0
"""How long an explanation may take where nobody else waits."""
_JUDGING: Final = 0.6
_TELLING: Final = 0.5
"""Parts of what is left of the budget, for the nodes and for the texts about them; proposals have what remains."""


class Explainer:
    """Explains claims and pods of one cluster.

    Judgements are remembered: asked again, only those nodes are judged whose devices, taints or holdings changed.

    Args:
        state: The cluster; may change between two explanations, not during one.
        proposals: Whether to search for changes that would make it fit; that costs the most time.
    """

    def __init__(self, state: ClusterState, *, proposals: bool = True) -> None:
        self._state = state
        self._proposals = proposals
        self._trial = Trial(state)
        self._evaluations = Evaluations(state)
        self._device_judge = DeviceJudge(state, self._trial, self._evaluations)
        self._node_judge = NodeJudge(state, self._device_judge)

    def explain(self, subject: ObjectRef, *, budget: Budget | None = None) -> Explanation:
        """Explain a ResourceClaim or a Pod.

        Args:
            subject: The object.
            budget: How long it may take; :data:`MAX_CPU_S` if not given. What there is no time for is left out, and the
                explanation says so.

        Raises:
            InputError: There is no such object, or it is of another kind.
        """
        with (budget or Budget(MAX_CPU_S)).in_force():
            try:
                found = question_about(self._state, subject)
                answer = found if isinstance(found, Explanation) else self._answer(found)
                return with_missing_kinds(self._state, answer)
            except SpentError:
                return _not_known(subject)

    def judge_nodes(self, subject: ObjectRef, *, budget: Budget) -> bool:
        """Judge as many nodes as there is time for; :meth:`explain` will not have to judge these again.

        Args:
            subject: The object.
            budget: How long it may take.

        Returns:
            Whether no node is left to be judged.

        Raises:
            InputError: As :meth:`explain`.
        """
        with budget.in_force():
            try:
                found = question_about(self._state, subject)
                if isinstance(found, Explanation):
                    return True
                case, _ = case_of(self._state, found)
                if case.is_complete:
                    self._node_judge.judge(case)
            except SpentError:
                return False
            return not case.is_complete or not self._device_judge.unfinished

    def _answer(self, question: Question) -> Explanation:
        """Judge the nodes, put the verdicts into words, and search for changes that would help."""
        state, pod = self._state, question.pod
        case, wrong = case_of(state, question)
        verdicts: list[NodeVerdict] = []
        judged: dict[str, Judgement] = {}
        complete = case.is_complete
        if complete:
            with share(_JUDGING):
                verdicts, judged = self._node_judge.verdicts(case, self._node_judge.judge(case))
        with share(_TELLING):
            groups = node_groups(state, self._evaluations, self._trial, case, verdicts, judged)
        of_nodes = [finding for _, finding in groups]
        before = [*question.before, *wrong]
        findings, fits = conclude(case, before, question.beside, of_nodes, verdicts, judged.values())
        if not before:
            findings, fits = with_doubts(state, case, findings, verdicts, fits=fits)
            findings, fits = with_placement(state, case, findings, verdicts, fits=fits)
        requests: tuple[RequestFunnel, ...] = ()
        if complete:
            with share(_TELLING):
                requests = request_funnels(state, self._evaluations, case, verdicts)
        suggested: tuple[Proposal, ...] = ()
        if findings[0].reason is Reason.PLACEMENT_NOT_RUNNING:
            suggested = placement_repair(state, case, verdicts)
        elif self._proposals and not fits and findings[0].reason is not Reason.DEVICES_MANAGED:
            suggested = for_pod(proposals(state, case, verdicts, self._evaluations), question.extended)
        cuts = _not_judged(verdicts) + _cut_short()
        return Explanation(
            subject=question.subject,
            claims=tuple(claim.ref for claim in question.claims),
            pod=pod.ref if pod is not None else None,
            fits=fits,
            findings=findings,
            nodes=len(state.nodes) if complete else 0,
            nodes_fitting=sum(verdict.fits for verdict in verdicts),
            nodes_unknown=sum(verdict.is_unknown for verdict in verdicts),
            requests=requests,
            groups=tuple(group for group, _ in groups),
            proposals=suggested,
            scheduler_message=pod.scheduler_message if pod is not None else "",
            notes=(*state.notes, *note_of_claim(question.extended), *cuts),
            is_cut=bool(cuts),
        )


def _not_known(subject: ObjectRef) -> Explanation:
    """Return the answer where there was no time to come to the nodes."""
    message = f"{subject}: to read what it asks for takes longer than one explanation may take: nothing is known of it"
    return Explanation(subject=subject, findings=(Finding(reason=Reason.SEARCH_LIMIT, message=message),), is_cut=True)


def _cut_short() -> list[str]:
    """Return a note, where the time was over before everything was written."""
    note = "the time for one explanation was over: details, or changes that would help, may be missing"
    return [note] if is_spent() else []


def _not_judged(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """Return a note on the nodes of which nothing is known."""
    unknown = sum(verdict.is_unknown and verdict.placement is None for verdict in verdicts)
    if not unknown:
        return []
    were = "was" if unknown == 1 else "were"
    note = (
        f"{unknown} of {plural(len(verdicts), 'node')} {were} not looked at, and what is said here is of the others:"
        " the claims have selectors, alternatives or constraints that take very long"
    )
    return [note]
