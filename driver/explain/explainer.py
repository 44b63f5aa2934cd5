"""Why is a claim pending? The answer, from what is known of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from driver.allocator.demands import ClaimDemand
from driver.budget import Budget, SpentError, check, is_spent, share
from driver.errors import InputError
from driver.explain.explanation import Explanation, Finding, NodeGroup, ObjectRef, Proposal, RequestFunnel
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.checks import (
    DEFAULT_SCHEDULER,
    check_claim,
    check_extended,
    check_parameters,
    check_pod_claim,
    prepare_problem,
)
from driver.explain.judge.doubts import with_doubts, with_missing_kinds
from driver.explain.judge.look import Judgement
from driver.explain.judge.node_verdicts import DRIVERS_FAULT, NodeVerdicts
from driver.explain.judge.trial import Trial
from driver.explain.judge.verdicts import Verdicts
from driver.explain.known.cluster import ClaimState, Kind, NodeState, PodState
from driver.explain.known.extended import Extended, extended_of, for_pod, note_of_claim
from driver.explain.known.near_names import not_there
from driver.explain.known.state import ClusterState
from driver.explain.propose.proposals import proposals
from driver.explain.reasons import Reason
from driver.explain.tell.conclusion import conclude
from driver.explain.tell.messages import judgement_text
from driver.explain.tell.ranking import ranked_groups
from driver.explain.tell.requests import request_funnels
from driver.objects.extended_resources import MAX_POD_RESOURCES
from driver.wording import plural

__all__ = ["MAX_CPU_S", "Explainer"]

MAX_CPU_S: Final = 20.0
"""How long an explanation may take where nobody else waits."""
_JUDGING: Final = 0.6
_TELLING: Final = 0.5
"""Parts of what is left of the budget, for the nodes and for what is told of them; the rest is for proposals."""
_EXAMPLES: Final = 5
_NAMES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What the nodes are asked.

    Attributes:
        subject: What was asked for.
        pod: The pod that wants the claims.
        claims: In the pod's order.
        before: What keeps the pod from being looked at at all.
        beside: What may be in the way besides; it decides where nothing else is wrong.
        extended: What the pod asks for of extended resources.
    """

    subject: ObjectRef
    pod: PodState | None
    claims: Sequence[ClaimState]
    before: Sequence[Finding]
    beside: Sequence[Finding]
    extended: Extended = field(default_factory=Extended)


class Explainer:
    """Explains claims and pods of one cluster.

    What nodes say is remembered: asked again, only those are judged whose devices, taints or holdings changed.

    Args:
        state: The cluster; may change between two explanations, not during one.
        proposals: Look for changes that would make it fit; costs the most time.
    """

    def __init__(self, state: ClusterState, *, proposals: bool = True) -> None:
        self._state = state
        self._proposals = proposals
        self._trial = Trial(state)
        self._verdicts = Verdicts(state, self._trial)
        self._node_verdicts = NodeVerdicts(state, self._verdicts)

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
                found = self._question(subject)
                answer = found if isinstance(found, Explanation) else self._evaluate(found)
                return with_missing_kinds(self._state, answer)
            except SpentError:
                return _not_known(subject)

    def look(self, subject: ObjectRef, *, budget: Budget) -> bool:
        """Look at nodes, as many as there is time for: :meth:`explain` will not have to look at these again.

        Args:
            subject: The object.
            budget: How long it may take.

        Returns:
            Whether there is nothing left to look at.

        Raises:
            InputError: As :meth:`explain`.
        """
        with budget.in_force():
            try:
                found = self._question(subject)
                if isinstance(found, Explanation):
                    return True
                case, _ = self._case(found)
                if _is_complete(case):
                    self._node_verdicts.judge(case)
            except SpentError:
                return False
            return not _is_complete(case) or not self._verdicts.unfinished

    def _question(self, subject: ObjectRef) -> Explanation | _Question:
        """What is to be asked; the answer, where no node has to be asked for it."""
        state = self._state
        key = f"{subject.namespace}/{subject.name}"
        if subject.kind == "ResourceClaim":
            claim = state.claim(key)
            return self._claim(claim) if claim is not None else self._unread(Kind.CLAIM, key, subject)
        if subject.kind == "Pod":
            pod = state.pod(key)
            return self._pod(pod.ref, pod) if pod is not None else self._unread(Kind.POD, key, subject)
        raise InputError(f"{subject}: cannot be explained", hint="ask about a ResourceClaim or a Pod")

    def _unread(self, kind: Kind, key: str, subject: ObjectRef) -> Explanation:
        """Of what is there and was left out.

        Raises:
            InputError: It is not there.
        """
        why = self._state.left_out.why(kind, key)
        if not why:
            raise not_there(self._state, kind, key)
        finding = Finding(reason=Reason.OBJECT_UNREADABLE, message=f"{subject} could not be read: {why}")
        return Explanation(subject=subject, findings=(finding,), notes=tuple(self._state.notes))

    def _claim(self, claim: ClaimState) -> Explanation | _Question:
        ref = claim.ref
        all_pods = self._state.pods_of(claim.key)
        pods = [pod for pod in all_pods if not pod.ended]
        if claim.allocated and not claim.deleting:
            return self._allocated(ref, claim, pods)
        waiting = [pod for pod in pods if not pod.node and not pod.deleting] or [pod for pod in pods if not pod.node]
        if waiting:
            return self._pod(ref, waiting[0])
        past = f" any more, for pod {all_pods[0].key} has ended" if all_pods and not pods else ""
        message = f"no pod uses claim {claim.key}{past}: it is allocated when kube-scheduler places a pod that does"
        if (other := self._state.pod_with_more_claims(claim.namespace)) is not None:
            message += f"; but pod {other.key} names more claims than Rootport looks at, and this may be one of them"
        finding = Finding(reason=Reason.WAITING_FOR_POD, message=message, claim=ref)
        return _Question(subject=ref, pod=None, claims=[claim], before=[], beside=[finding])

    def _allocated(self, ref: ObjectRef, claim: ClaimState, pods: Sequence[PodState]) -> Explanation:
        """Of a claim that has its devices: who uses it, and whether the node can prepare it."""
        findings = [
            Finding(
                reason=Reason.PREPARE_FAILS,
                message=f"claim {claim.key} is allocated, and pod {pod.key} is on node {pod.node}, which cannot prepare"
                f" it: {problem}",
                claim=ref,
            )
            for pod in pods
            if (problem := prepare_problem(self._state, pod))
        ]
        held = [f"{item.device.device} of pool {item.device.pool}" for item in claim.holds]
        more = f" and {len(held) - _NAMES} more" if len(held) > _NAMES else ""
        what = f" ({', '.join(held[:_NAMES])}{more})" if held else ""
        message = f"claim {claim.key} has its devices{what}"
        allocated = Finding(reason=Reason.ALLOCATED, message=message, claim=ref)
        pod = next(iter(pods), None)
        return Explanation(
            subject=ref,
            claims=(ref,),
            pod=pod.ref if pod is not None else None,
            fits=not findings,
            findings=(*findings, allocated),
            scheduler_message=pod.scheduler_message if pod is not None and not pod.node else "",
            notes=tuple(self._state.notes),
        )

    def _pod(self, subject: ObjectRef, pod: PodState) -> Explanation | _Question:
        state = self._state
        if pod.ended:
            return self._ended(subject, pod)
        before: list[Finding] = []
        beside: list[Finding] = []
        claims: list[ClaimState] = []
        for entry in pod.claims:
            check()
            found = check_pod_claim(state, pod, entry)
            if isinstance(found, Finding):
                before.append(found)
            elif found is not None:
                claims.append(found)
        if pod.has_more_claims:
            message = f"pod {pod.key} names more than {len(pod.claims)} claims, which are as many as Rootport looks at"
            before.append(Finding(reason=Reason.SEARCH_LIMIT, message=message))
        if pod.node:
            return self._placed(subject, pod, claims, before)
        if pod.has_more_resources:
            message = (
                f"the containers of pod {pod.key} name more than {MAX_POD_RESOURCES} resources, which are as many as"
                " Rootport looks at"
            )
            before.append(Finding(reason=Reason.SEARCH_LIMIT, message=message))
        extended = extended_of(pod, state.classes)
        before += check_extended(state, pod, extended)
        if extended.claim is not None:
            claims.append(extended.claim)
        if pod.gates:
            gates = ", ".join(pod.gates)
            before.append(
                Finding(
                    reason=Reason.SCHEDULING_GATED,
                    message=f"pod {pod.key} has scheduling gates ({gates}): no scheduler looks at it until whoever set"
                    " them takes them away",
                )
            )
        if pod.scheduler != DEFAULT_SCHEDULER:
            beside.append(
                Finding(
                    reason=Reason.OTHER_SCHEDULER,
                    message=f"pod {pod.key} is for scheduler {pod.scheduler}: if none of that name runs, or it knows no"
                    " claims, the pod waits for ever",
                )
            )
        return _Question(subject=subject, pod=pod, claims=claims, before=before, beside=beside, extended=extended)

    def _ended(self, subject: ObjectRef, pod: PodState) -> Explanation:
        """A pod that waits for nothing any more, whatever has become of its claims."""
        message = f"pod {pod.key} has ended ({pod.phase}) and waits for nothing"
        if pod.node:
            message += f"; it was on node {pod.node}"
        found = Finding(reason=Reason.POD_ENDED, message=message)
        return Explanation(subject=subject, pod=pod.ref, fits=True, findings=(found,), notes=tuple(self._state.notes))

    def _placed(
        self, subject: ObjectRef, pod: PodState, claims: Sequence[ClaimState], before: Sequence[Finding]
    ) -> Explanation:
        """A pod that has a node: whatever it waits for, it is not the scheduler."""
        findings = list(before)
        problem = prepare_problem(self._state, pod)
        if problem:
            message = f"pod {pod.key} is on node {pod.node}, which cannot prepare its claims: {problem}"
            findings.insert(0, Finding(reason=Reason.PREPARE_FAILS, message=message))
        is_well = not findings
        if is_well:
            what = "with all claims that it needs" if claims else "and names no ResourceClaim"
            where = "runs on" if pod.phase == "Running" else "was placed on"
            message = f"pod {pod.key} {where} node {pod.node}, {what}"
            if pod.waiting:
                message += f"; its containers wait: {pod.waiting}"
            findings.append(Finding(reason=Reason.ALLOCATED if claims else Reason.NO_CLAIM, message=message))
        return Explanation(
            subject=subject,
            claims=tuple(claim.ref for claim in claims),
            pod=pod.ref,
            fits=is_well,
            findings=tuple(findings),
            notes=tuple(self._state.notes),
        )

    def _case(self, question: _Question) -> tuple[Case, list[Finding]]:
        """The claims that are to be allocated, and what is wrong with them."""
        state = self._state
        wanted: list[ClaimState] = []
        demands: list[ClaimDemand] = []
        allocated: list[ClaimState] = []
        wrong: list[Finding] = []
        for claim in question.claims:
            check()
            found = check_claim(state, claim, question.pod)
            if found is None:
                allocated.append(claim)
                continue
            wanted.append(claim)
            if isinstance(found, Finding):
                wrong.append(found)
            else:
                demands.append(found)
            parameters = check_parameters(state, claim)
            if parameters is not None:
                wrong.append(parameters)
        case = Case(
            pod=question.pod,
            claims=tuple(wanted),
            demands=tuple(demands),
            allocated=tuple(allocated),
            extended=question.extended,
        )
        return case, wrong

    def _evaluate(self, question: _Question) -> Explanation:
        """Look at the claims, then at the nodes."""
        state, pod = self._state, question.pod
        case, wrong = self._case(question)
        verdicts: list[NodeVerdict] = []
        judged: dict[str, Judgement] = {}
        complete = _is_complete(case)
        if complete:
            with share(_JUDGING):
                verdicts, judged = self._node_verdicts.of(case, self._node_verdicts.judge(case))
        with share(_TELLING):
            groups = self._groups(case, verdicts, judged)
        of_nodes = [finding for _, finding in groups]
        before = [*question.before, *wrong]
        findings, fits = conclude(case, before, question.beside, of_nodes, verdicts, judged.values())
        if not before:
            findings, fits = with_doubts(state, case, findings, verdicts, fits=fits)
        requests: tuple[RequestFunnel, ...] = ()
        if complete:
            with share(_TELLING):
                requests = request_funnels(state, self._verdicts, case, verdicts)
        suggested: tuple[Proposal, ...] = ()
        if self._proposals and not fits:
            suggested = for_pod(proposals(state, case, verdicts), question.extended)
        not_told = _not_looked_at(verdicts) + _cut_short()
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
            notes=(*state.notes, *note_of_claim(question.extended), *not_told),
            is_cut=bool(not_told),
        )

    def _groups(
        self, case: Case, verdicts: Sequence[NodeVerdict], judged: dict[str, Judgement]
    ) -> list[tuple[NodeGroup, Finding]]:
        """The nodes by reason, each with what is told of them."""
        groups = []
        for reason, count, nodes in ranked_groups(verdicts, examples=_EXAMPLES):
            first = nodes[0]
            name = first.node.node.metadata.name
            claim: ObjectRef | None = None
            request = ""
            if first.placement is not None:
                message = first.placement.message
                if first.devices is None and case.claims:
                    message += "; its devices are suitable"
                lacks = None
            else:
                judgement = judged[name]
                message = self._told(case, first, judgement, reason)
                claim, request = case.claims[judgement.claim].ref, judgement.request
                lacks = judgement.lacks if not judgement.skipped else None
            if count > 1:
                message += f" (the nearest of {count} nodes)" if lacks else f" (and {count - 1} more like it)"
            names = tuple(verdict.node.node.metadata.name for verdict in nodes)
            group = NodeGroup(reason=reason, count=count, examples=names, message=message, lacks=lacks)
            finding = Finding(
                reason=reason,
                message=message,
                claim=claim,
                request=request,
                nodes=count,
                driver_fault=reason in DRIVERS_FAULT,
            )
            groups.append((group, finding))
        return groups

    def _told(self, case: Case, verdict: NodeVerdict, judgement: Judgement, reason: Reason) -> str:
        """What is told of a node; a few words, where there is no time to look at it closely."""
        try:
            return self._closely_told(case, verdict.node, judgement, reason)
        except SpentError:
            return verdict.devices.message if verdict.devices is not None else ""

    def _closely_told(self, case: Case, node: NodeState, judgement: Judgement, reason: Reason) -> str:
        state, name = self._state, node.node.metadata.name
        specs = [claim.claim for claim in case.claims if claim.claim is not None]
        if reason is not judgement.reason:
            # What is known of the node's inventory says more than that there are no devices.
            who = f"claim {case.claims[judgement.claim].key}, request {judgement.request}"
            if reason is Reason.PLUGIN_NOT_READY:
                why = f"where Rootport's plugin has trouble: {state.inventory_problem(name)}"
            else:
                why = f"where Rootport publishes less than there is: {state.inventory_remark(name)}"
            return f"{who}: no device of its class on node {name}, {why}"
        return judgement_text(
            state,
            self._verdicts,
            case,
            node,
            judgement,
            lambda: self._trial.fits(node, specs, ended=state.held_on(name)),
        )


def _is_complete(case: Case) -> bool:
    """Whether all claims can be read, so that nodes can be asked."""
    return len(case.demands) == len(case.claims) and all(item.claim is not None for item in case.claims)


def _not_known(subject: ObjectRef) -> Explanation:
    """Where there was no time to come to the nodes."""
    message = f"{subject}: to read what it asks for takes longer than one explanation may take: nothing is known of it"
    return Explanation(subject=subject, findings=(Finding(reason=Reason.SEARCH_LIMIT, message=message),), is_cut=True)


def _cut_short() -> list[str]:
    """A note, where the time was over before all was told."""
    note = "the time for one explanation was over: details, or changes that would help, may be missing"
    return [note] if is_spent() else []


def _not_looked_at(verdicts: Sequence[NodeVerdict]) -> list[str]:
    """A note on the nodes of which nothing is known."""
    unknown = sum(verdict.is_unknown and verdict.placement is None for verdict in verdicts)
    if not unknown:
        return []
    were = "was" if unknown == 1 else "were"
    note = (
        f"{unknown} of {plural(len(verdicts), 'node')} {were} not looked at, and what is said here is of the others:"
        " the claims have selectors, alternatives or constraints that take very long"
    )
    return [note]
