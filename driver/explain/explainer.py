"""Why is a claim pending? The answer, from what is known of a cluster."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Final

from driver.allocator.demands import ClaimDemand
from driver.errors import InputError
from driver.explain.case import Case, NodeVerdict
from driver.explain.checks import (
    DEFAULT_SCHEDULER,
    check_claim,
    check_parameters,
    check_pod_claim,
)
from driver.explain.cluster import ClaimState, NodeState, PodState
from driver.explain.conclusion import conclude
from driver.explain.explanation import Explanation, Finding, NodeGroup, ObjectRef, Proposal
from driver.explain.look import Judgement
from driver.explain.messages import judgement_text
from driver.explain.node_verdicts import DRIVERS_FAULT, NodeVerdicts
from driver.explain.proposals import proposals
from driver.explain.ranking import ranked_groups
from driver.explain.reasons import Reason
from driver.explain.requests import request_funnels
from driver.explain.state import ClusterState
from driver.explain.texts import plural
from driver.explain.trial import Trial
from driver.explain.verdicts import Verdicts

__all__ = ["Explainer"]

_EXAMPLES: Final = 5
_NAMES: Final = 3


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

    def explain(self, subject: ObjectRef) -> Explanation:
        """Explain a ResourceClaim or a Pod.

        Raises:
            InputError: There is no such object, or it is of another kind.
        """
        state = self._state
        key = f"{subject.namespace}/{subject.name}"
        if subject.kind == "ResourceClaim":
            claim = state.claim(key)
            if claim is None:
                raise _not_there("claim", key, state.claim_keys())
            return self._claim(claim)
        if subject.kind == "Pod":
            pod = state.pod(key)
            if pod is None:
                raise _not_there("pod", key, state.pod_keys())
            return self._pod(pod.ref, pod)
        raise InputError(f"{subject}: cannot be explained", hint="ask about a ResourceClaim or a Pod")

    def _claim(self, claim: ClaimState) -> Explanation:
        ref = claim.ref
        pods = [pod for pod in self._state.pods_of(claim.key) if not pod.ended]
        if claim.allocated and not claim.deleting:
            return self._allocated(ref, claim, pods)
        waiting = [pod for pod in pods if not pod.node and not pod.deleting] or [pod for pod in pods if not pod.node]
        if waiting:
            return self._pod(ref, waiting[0])
        finding = Finding(
            reason=Reason.WAITING_FOR_POD,
            message=f"no pod uses claim {claim.key}: it is allocated when kube-scheduler places a pod that does",
            claim=ref,
        )
        return self._evaluate(ref, None, [claim], [], [finding])

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
            if (problem := self._prepare_problem(pod))
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

    def _pod(self, subject: ObjectRef, pod: PodState) -> Explanation:
        state = self._state
        before: list[Finding] = []
        beside: list[Finding] = []
        claims: list[ClaimState] = []
        for entry in pod.claims:
            found = check_pod_claim(state, pod, entry)
            if isinstance(found, Finding):
                before.append(found)
            elif found is not None:
                claims.append(found)
        if pod.node:
            return self._placed(subject, pod, claims, before)
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
        return self._evaluate(subject, pod, claims, before, beside)

    def _placed(
        self, subject: ObjectRef, pod: PodState, claims: Sequence[ClaimState], before: Sequence[Finding]
    ) -> Explanation:
        """A pod that has a node: whatever it waits for, it is not the scheduler."""
        findings = list(before)
        problem = self._prepare_problem(pod)
        if problem:
            message = f"pod {pod.key} is on node {pod.node}, which cannot prepare its claims: {problem}"
            findings.insert(0, Finding(reason=Reason.PREPARE_FAILS, message=message))
        message = f"pod {pod.key} was placed on node {pod.node}, with all claims that it needs"
        if pod.waiting:
            message += f"; its containers wait: {pod.waiting}"
        if not findings:
            findings.append(Finding(reason=Reason.ALLOCATED, message=message))
        return Explanation(
            subject=subject,
            claims=tuple(claim.ref for claim in claims),
            pod=pod.ref,
            fits=findings[0].reason is Reason.ALLOCATED,
            findings=tuple(findings),
            notes=tuple(self._state.notes),
        )

    def _prepare_problem(self, pod: PodState) -> str:
        """What keeps a placed pod from starting, as far as its claims do; what a started one met before is past."""
        if not pod.node or not pod.waiting:
            return ""
        # Prepared, but the runtime does not find what was prepared: no event of the kubelet's says more.
        return pod.waiting if "CDI" in pod.waiting else self._state.prepare_problem(pod)

    def _evaluate(
        self,
        subject: ObjectRef,
        pod: PodState | None,
        claims: Sequence[ClaimState],
        before: list[Finding],
        beside: list[Finding],
    ) -> Explanation:
        """Look at the claims, then at the nodes.

        Args:
            subject: What was asked for.
            pod: The pod that wants the claims.
            claims: In the pod's order.
            before: What keeps the pod from being looked at at all.
            beside: What may be in the way besides; it decides where nothing else is wrong.
        """
        state = self._state
        wanted: list[ClaimState] = []
        demands: list[ClaimDemand] = []
        allocated: list[ClaimState] = []
        for claim in claims:
            found = check_claim(state, claim, pod)
            if found is None:
                allocated.append(claim)
                continue
            wanted.append(claim)
            if isinstance(found, Finding):
                before.append(found)
            else:
                demands.append(found)
            parameters = check_parameters(state, claim)
            if parameters is not None:
                before.append(parameters)
        case = Case(pod=pod, claims=tuple(wanted), demands=tuple(demands), allocated=tuple(allocated))
        complete = len(demands) == len(wanted) and all(item.claim is not None for item in wanted)
        verdicts: list[NodeVerdict] = []
        judged: dict[str, Judgement] = {}
        if complete:
            verdicts, judged = self._node_verdicts.of(case)
        groups = self._groups(case, verdicts, judged)
        of_nodes = [finding for _, finding in groups]
        findings, fits = conclude(case, before, beside, of_nodes, verdicts, judged.values())
        suggested: tuple[Proposal, ...] = ()
        if self._proposals and not fits:
            suggested = proposals(state, case, verdicts)
        return Explanation(
            subject=subject,
            claims=tuple(claim.ref for claim in claims),
            pod=pod.ref if pod is not None else None,
            fits=fits,
            findings=findings,
            nodes=len(state.nodes) if complete else 0,
            nodes_fitting=sum(verdict.fits for verdict in verdicts),
            requests=request_funnels(state, self._verdicts, case, verdicts) if complete else (),
            groups=tuple(group for group, _ in groups),
            proposals=suggested,
            scheduler_message=pod.scheduler_message if pod is not None else "",
            notes=(*state.notes, *_not_looked_at(judged.values())),
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
                    message += "; its devices would do"
                lacks = None
            else:
                judgement = judged[name]
                message = self._told(case, first.node, judgement, reason)
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

    def _told(self, case: Case, node: NodeState, judgement: Judgement, reason: Reason) -> str:
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


def _not_looked_at(judged: Collection[Judgement]) -> list[str]:
    """A note on the nodes of which nothing is known."""
    skipped = sum(judgement.skipped for judgement in judged)
    if not skipped:
        return []
    were = "was" if skipped == 1 else "were"
    note = (
        f"{skipped} of {plural(len(judged), 'node')} {were} not looked at, and what is said here is of the others: the"
        " claims have very many alternatives, selectors or constraints"
    )
    return [note]


def _not_there(what: str, key: str, known: Collection[str]) -> InputError:
    namespace, _, name = key.partition("/")
    near = difflib.get_close_matches(key, sorted(known), n=_NAMES, cutoff=0.6)
    near += [other for other in sorted(known) if other.partition("/")[2] == name and other not in near][:_NAMES]
    hint = f"did you mean {', '.join(near)}?" if near else f"look with: kubectl get {what}s -n {namespace or 'default'}"
    if what == "claim" and not near:
        hint = f"look with: kubectl get resourceclaims -n {namespace or 'default'}"
    return InputError(f"there is no {what} {key}", hint=hint)
