"""Finds what is to be asked of the nodes about a claim or a pod; or the answer, where no node has to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from driver.allocator.demands import ClaimDemand
from driver.budget import check
from driver.errors import InputError
from driver.explain.explanation import Explanation, Finding, ObjectRef
from driver.explain.judge.case import Case
from driver.explain.judge.checks import (
    DEFAULT_SCHEDULER,
    check_claim,
    check_extended,
    check_parameters,
    check_pod_claim,
    check_prepared,
    prepare_problem,
)
from driver.explain.known.cluster import EXTENDED_CLAIM, ClaimState, Kind, PodState
from driver.explain.known.extended import Extended, extended_of
from driver.explain.known.near_names import not_there
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.model.managed_nodes import GATE
from driver.objects.extended_resources import MAX_POD_RESOURCES
from driver.wording import listed

__all__ = ["Question", "case_of", "question_about"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be asked of the nodes.

    Attributes:
        subject: The object to explain.
        pod: The pod that waits for the claims; None where none does.
        claims: The claims, in the pod's order.
        before: What keeps kube-scheduler from trying the pod at all.
        beside: What may be in the way besides; it decides where nothing else is wrong.
        extended: The extended resources that the pod asks for.
    """

    subject: ObjectRef
    pod: PodState | None
    claims: Sequence[ClaimState]
    before: Sequence[Finding]
    beside: Sequence[Finding]
    extended: Extended = field(default_factory=Extended)


def question_about(state: ClusterState, subject: ObjectRef) -> Explanation | Question:
    """Return what is to be asked about an object; the answer itself, where no node has to be asked for it.

    Raises:
        InputError: There is no such object, or it is of another kind.
    """
    key = f"{subject.namespace}/{subject.name}"
    if subject.kind == "ResourceClaim":
        claim = state.claim(key)
        return _of_claim(state, claim) if claim is not None else _left_out(state, Kind.CLAIM, key, subject)
    if subject.kind == "Pod":
        pod = state.pod(key)
        return _of_pod(state, pod.ref, pod) if pod is not None else _left_out(state, Kind.POD, key, subject)
    raise InputError(f"{subject}: cannot be explained", hint="ask about a ResourceClaim or a Pod")


def _left_out(state: ClusterState, kind: Kind, key: str, subject: ObjectRef) -> Explanation:
    """Explain an object that is there and could not be read.

    Raises:
        InputError: It is not there.
    """
    why = state.left_out.why(kind, key)
    if not why:
        raise not_there(state, kind, key)
    finding = Finding(reason=Reason.OBJECT_UNREADABLE, message=f"{subject} could not be read: {why}")
    return Explanation(subject=subject, findings=(finding,), notes=tuple(state.notes))


def _of_claim(state: ClusterState, claim: ClaimState) -> Explanation | Question:
    ref = claim.ref
    all_pods = state.pods_of(claim.key)
    pods = [pod for pod in all_pods if not pod.ended]
    if claim.allocated and not claim.deleting:
        return _of_allocated(state, ref, claim, pods)
    waiting = [pod for pod in pods if not pod.node and not pod.deleting] or [pod for pod in pods if not pod.node]
    if waiting:
        return _of_pod(state, ref, waiting[0])
    past = f" any more, for pod {all_pods[0].key} has ended" if all_pods and not pods else ""
    message = f"no pod uses claim {claim.key}{past}: it is allocated when kube-scheduler places a pod that does"
    if (other := state.pod_with_more_claims(claim.namespace)) is not None:
        message += f"; but pod {other.key} names more claims than Rootport looks at, and this may be one of them"
    finding = Finding(reason=Reason.WAITING_FOR_POD, message=message, claim=ref)
    return Question(subject=ref, pod=None, claims=[claim], before=[], beside=[finding])


def _of_allocated(state: ClusterState, ref: ObjectRef, claim: ClaimState, pods: Sequence[PodState]) -> Explanation:
    """Explain a claim that has its devices: who uses it, and whether the node can prepare it."""
    findings = [
        Finding(
            reason=Reason.PREPARE_FAILS,
            message=f"claim {claim.key} is allocated, and pod {pod.key} is on node {pod.node}, which cannot prepare"
            f" it: {problem}",
            claim=ref,
        )
        for pod in pods
        if (problem := prepare_problem(state, pod))
    ]
    if any(not pod.node for pod in pods) and (unprepared := check_prepared(claim)) is not None:
        findings.append(unprepared)
    held = [f"{item.device.device} of pool {item.device.pool}" for item in claim.holds]
    what = f" ({listed(held)})" if held else ""
    message = f"claim {claim.key} has its devices{what}"
    if claim.placed:
        message += f"; placed by Rootport: {claim.placed.rstrip('.')}"
    if claim.last_rungs:
        groups = f"group {claim.last_rungs[0]}" if len(claim.last_rungs) == 1 else f"groups {listed(claim.last_rungs)}"
        message += (
            f"; the GPUs and NICs of {groups} are not aligned: nothing nearer was left on the node when the claim was"
            " allocated, so that they are on the last rung of its ladder"
        )
    allocated = Finding(reason=Reason.ALLOCATED, message=message, claim=ref)
    pod = next(iter(pods), None)
    return Explanation(
        subject=ref,
        claims=(ref,),
        pod=pod.ref if pod is not None else None,
        fits=not findings,
        findings=(*findings, allocated),
        scheduler_message=pod.scheduler_message if pod is not None and not pod.node else "",
        notes=tuple(state.notes),
    )


def _of_pod(state: ClusterState, subject: ObjectRef, pod: PodState) -> Explanation | Question:
    if pod.ended:
        return _of_ended(state, subject, pod)
    before: list[Finding] = []
    beside: list[Finding] = []
    claims: list[ClaimState] = []
    made = state.extended_claim(pod)
    for entry in pod.claims:
        check()
        if entry.name == EXTENDED_CLAIM and not pod.node:
            continue  # the scheduler looks for the claim itself, and makes another one where it is gone
        found = check_pod_claim(state, pod, entry)
        if isinstance(found, Finding):
            before.append(found)
        elif found is not None:
            claims.append(found)
    if pod.has_more_claims:
        message = f"pod {pod.key} names more than {len(pod.claims)} claims, which are as many as Rootport looks at"
        before.append(Finding(reason=Reason.SEARCH_LIMIT, message=message))
    if pod.node:
        return _of_placed(state, subject, pod, claims, before)
    if pod.has_more_resources:
        message = (
            f"the containers of pod {pod.key} name more than {MAX_POD_RESOURCES} resources, which are as many as"
            " Rootport looks at"
        )
        before.append(Finding(reason=Reason.SEARCH_LIMIT, message=message))
    extended = extended_of(pod, state.classes, is_made=made is not None)
    before += check_extended(state, pod, extended)
    claims += [claim for claim in (made, extended.claim) if claim is not None]
    before += [finding for claim in claims if (finding := check_prepared(claim)) is not None]
    # The gate of placement keeps nobody from judging the nodes: the controller does so too, and then takes it away.
    if any(gate != GATE for gate in pod.gates):
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
    return Question(subject=subject, pod=pod, claims=claims, before=before, beside=beside, extended=extended)


def _of_ended(state: ClusterState, subject: ObjectRef, pod: PodState) -> Explanation:
    """Explain a pod that waits for nothing any more, whatever became of its claims."""
    message = f"pod {pod.key} has ended ({pod.phase}) and waits for nothing"
    if pod.node:
        message += f"; it was on node {pod.node}"
    found = Finding(reason=Reason.POD_ENDED, message=message)
    return Explanation(subject=subject, pod=pod.ref, fits=True, findings=(found,), notes=tuple(state.notes))


def _of_placed(
    state: ClusterState, subject: ObjectRef, pod: PodState, claims: Sequence[ClaimState], before: Sequence[Finding]
) -> Explanation:
    """Explain a pod that has a node: whatever it waits for, it is not the scheduler."""
    findings = list(before)
    problem = prepare_problem(state, pod)
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
        notes=tuple(state.notes),
    )


def case_of(state: ClusterState, question: Question) -> tuple[Case, list[Finding]]:
    """Return the claims that are to be allocated, and what is wrong with them."""
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
