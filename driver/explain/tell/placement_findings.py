"""Tells apart what kube-scheduler allocates and what Rootport's placement does: the devices of managed nodes.

The nodes have been judged as placement judges them, by devices without the taint of managed nodes. What is left to say
is who has to act where there is room, and whether anybody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from driver.explain.explanation import ChangeKind, Finding, Proposal
from driver.explain.judge.case import Case, NodeVerdict
from driver.explain.judge.managed_claims import asks_rootport, claim_refusal, parts_of, tolerating_request
from driver.explain.known.cluster import EXTENDED_CLAIM
from driver.explain.known.placing import LEASE, age_text
from driver.explain.known.reading import PLACEMENT_SAYS
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.model.managed_nodes import GATE, TAINT
from driver.wording import listed

__all__ = ["placement_repair", "with_placement"]

_SOON_S: Final = 30.0
"""The controller mostly needs some milliseconds."""
_FITTING: Final = frozenset({Reason.FITS, Reason.SCHEDULER_SAYS_OTHERWISE})
_LOG: Final = "kubectl -n rootport-system logs -l app.kubernetes.io/component=controller --prefix"
_UNGATE: Final = (
    "kubectl -n {namespace} patch pod {name} --type=json"
    """ -p '[{{"op": "remove", "path": "/spec/schedulingGates"}}]'"""
)
_PODS: Final = "kubectl -n rootport-system get pods -l app.kubernetes.io/component=controller"


def with_placement(
    state: ClusterState, case: Case, findings: tuple[Finding, ...], verdicts: Sequence[NodeVerdict], *, fits: bool
) -> tuple[tuple[Finding, ...], bool]:
    """Return the findings and whether it fits, with what placement has to do with it.

    Args:
        state: The cluster.
        case: The case; nothing keeps it from being tried.
        findings: Its findings, the deciding one first.
        verdicts: The verdicts of all nodes.
        fits: Whether there is room, whoever gives it.
    """
    gated = _is_gated(case)
    by_placement = _is_for_placement(case)
    managed = [item for item in verdicts if by_placement and state.is_tainted(_name(item))]
    if not managed and not gated:
        return findings, fits
    beside = tuple(_tolerated(case)) if managed else ()
    problem = state.placing.problem(state.clock() if state.clock else None) if state.placing is not None else ""
    room = [item for item in verdicts if item.fits]
    if not fits:
        if problem:
            beside += (_not_running(case, problem, "and that does not run either"),)
        elif gated:
            beside += (_held(case),)
        return (*findings, *beside), False
    room_by_placement = [item for item in managed if item.fits]
    has_others = len(room_by_placement) < len(room)
    if has_others and not gated:
        return (*_by_two(findings, room_by_placement, room), *beside), True
    rest = tuple(item for item in findings if item.reason not in _FITTING)
    where = _where(room_by_placement) if room_by_placement else ""
    if where and (refusal := _refusal(case)):
        if not has_others:
            return (_not_served(refusal, where), *beside, *rest), False
        where = ""
    if problem:
        return (_not_running(case, problem, _room(case, where)), *beside, *rest), False
    if beside:
        # kube-scheduler allocates it, once no gate of placement holds it.
        return ((_waiting(state, case, own=True), *beside, *rest) if gated else (*findings, *beside)), True
    if where and (why := _says(state, case)):
        return (_otherwise(why, where), *rest), True
    return (_waiting(state, case, where), *rest), True


def _by_two(
    findings: Sequence[Finding], by_placement: Sequence[NodeVerdict], room: Sequence[NodeVerdict]
) -> tuple[Finding, ...]:
    """Return the findings with both who may act, where managed nodes and others have room."""
    if not by_placement:
        return tuple(findings)
    others = [item for item in room if item not in by_placement]
    count = f"node {_name(others[0])}" if len(others) == 1 else f"{len(others)} nodes, such as {_name(others[0])}"
    message = (
        f"all devices are free on {count}: kube-scheduler has not come to it yet; and {_where(by_placement)}, where"
        " Rootport's placement allocates"
    )
    return tuple(replace(item, message=message) if item.reason is Reason.FITS else item for item in findings)


def _is_gated(case: Case) -> bool:
    """Whether the pod is held until its claims are placed."""
    return case.pod is not None and GATE in case.pod.gates


def placement_repair(state: ClusterState, case: Case, verdicts: Sequence[NodeVerdict]) -> tuple[Proposal, ...]:
    """Return what helps where no controller places."""
    repair = Proposal(
        kind=ChangeKind.REPAIR_DRIVER,
        text="have a controller of Rootport lead that runs with --placement: claims wait as long as none does",
        verified=False,
        commands=(_PODS, _LOG),
    )
    others = [_name(item) for item in verdicts if item.fits and not state.is_tainted(_name(item))]
    if case.pod is None or not _is_gated(case) or not others:
        return (repair,)
    ungate = Proposal(
        kind=ChangeKind.CHANGE_POD,
        text=f"remove the gate of pod {case.pod.key}, so that kube-scheduler places it on a node that is not managed",
        node=others[0],
        commands=(_UNGATE.format(namespace=case.pod.namespace, name=case.pod.name),),
    )
    return (ungate, repair)


def _is_for_placement(case: Case) -> bool:
    """Whether some claim may be for devices of Rootport; what is allocated already needs no placement."""
    return any(asks_rootport(demand) for claim in case.demands for demand in parts_of(claim))


def _refusal(case: Case) -> str:
    """Return why placement does not serve the pod, as a clause; empty where it does."""
    pod = case.pod
    # kube-scheduler makes the claim for them when it allocates the devices.
    if any(claim.name == EXTENDED_CLAIM or claim.is_extended for claim in case.claims):
        return "the pod asks for extended resources, and placement serves ResourceClaims alone"
    for claim, demand in zip(case.claims, case.demands, strict=True):
        if why := claim_refusal(claim.key, demand):
            return why
    if pod is not None and pod.needs.not_evaluated:
        return f"placement does not evaluate what the pod has: {listed(pod.needs.not_evaluated)}"
    return ""


def _tolerated(case: Case) -> list[Finding]:
    """Return a finding for the first claim that tolerates the taint of managed nodes."""
    for claim, demand in zip(case.claims, case.demands, strict=True):
        request = tolerating_request(demand)
        if request is not None:
            message = (
                f"claim {claim.key}, request {request}, tolerates the taint {TAINT} of managed nodes: kube-scheduler"
                " and Rootport's placement may both allocate devices there, and the one that comes second fails; take"
                " the toleration away, or name the keys that are meant instead of all"
            )
            return [Finding(reason=Reason.MANAGED_TAINT_TOLERATED, message=message, claim=claim.ref, request=request)]
    return []


def _where(room: Sequence[NodeVerdict]) -> str:
    name = _name(room[0])
    return f"on managed node {name}" if len(room) == 1 else f"on {len(room)} managed nodes, such as {name}"


def _name(verdict: NodeVerdict) -> str:
    return verdict.node.node.metadata.name


def _room(case: Case, where: str) -> str:
    if where:
        return f"and all devices are free {where}"
    return "and nodes that are not managed have room" if case.claims else "and its claims are allocated"


def _not_running(case: Case, problem: str, although: str) -> Finding:
    held = f"; its gate {GATE} stays until one does" if _is_gated(case) else ""
    what = f"pod {case.pod.key}" if case.pod is not None else f"claim {case.claims[0].key}"
    message = f"{what} waits for Rootport's placement, {although}: {problem}{held}"
    return Finding(reason=Reason.PLACEMENT_NOT_RUNNING, message=message, driver_fault=True)


def _not_served(refusal: str, where: str) -> Finding:
    message = f"all devices are free {where} alone, whose devices Rootport's placement allocates; but {refusal}"
    return Finding(reason=Reason.DEVICES_MANAGED, message=message)


def _held(case: Case) -> Finding:
    key = case.pod.key if case.pod is not None else ""
    message = (
        f"pod {key} has the scheduling gate {GATE}: Rootport's controller takes it away when it has allocated the"
        " claims, or when no managed node would do and others might"
    )
    return Finding(reason=Reason.SCHEDULING_GATED, message=message)


def _says(state: ClusterState, case: Case) -> str:
    """Return why placement finds no node for the pod; empty where it is not known to say so."""
    if case.pod is not None and (why := state.why_not_placed(case.pod.uid)):
        return why
    return next((claim.not_placed for claim in case.claims if claim.not_placed), "")


def _otherwise(why: str, where: str) -> Finding:
    message = f"all devices are free {where}; what the pod lacks is something else, {PLACEMENT_SAYS}{why.rstrip('.')}"
    return Finding(reason=Reason.PLACEMENT_SAYS_OTHERWISE, message=message)


def _waiting(state: ClusterState, case: Case, where: str = "", *, own: bool = False) -> Finding:
    """Return the finding for what the controller does next; ``own`` where a claim tolerates the taint by itself."""
    pod = case.pod
    if where:
        message = f"all devices are free {where}: Rootport's controller allocates them, and has not yet"
        if pod is not None:
            message += (
                "; whether CPU, memory, ports and other pods leave room there is not looked at here: see `rootport"
                f" place --dry-run --pod {pod.key}`"
            )
    elif own:
        message = f"kube-scheduler allocates the claims: Rootport's controller takes the gate {GATE} away next"
    elif case.claims:
        message = f"nodes that are not managed have room: Rootport's controller takes the gate {GATE} away next"
    else:
        message = f"all claims are allocated: Rootport's controller takes the gate {GATE} away next"
    if pod is not None and pod.created is not None and state.clock is not None:
        age = state.clock() - pod.created
        message += f"; the pod was created {age_text(age)} ago"
        if age.total_seconds() > _SOON_S:
            message += f", which is long: see the controller's log ({_LOG})"
    if state.placing is None:
        message += (
            f"; whether a controller places is not known, for the Lease {LEASE} was not read (kubectl -n"
            f" rootport-system get lease {LEASE} -o json)"
        )
    said = next((claim.placed for claim in case.claims if claim.placed), "")
    if said:
        message += f"; an allocation that is not there, or not any more, was for {said}"
    return Finding(reason=Reason.WAITING_FOR_PLACEMENT, message=message.rstrip("."))
