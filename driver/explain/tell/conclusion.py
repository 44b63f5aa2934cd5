"""Puts the findings in order, and concludes whether it fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from driver.explain.explanation import Finding
from driver.explain.judge.case import Case, Judgement, NodeVerdict
from driver.explain.known.cluster import PodState
from driver.explain.known.extended import amounts_text
from driver.explain.reasons import UNKNOWN_REASONS, Reason

__all__ = ["conclude", "nothing_known"]


def nothing_known() -> Finding:
    """Return the finding for a cluster without nodes."""
    return Finding(reason=Reason.NO_DEVICES_PUBLISHED, message="no node is known, so that nothing can be allocated")


def conclude(
    case: Case,
    before: Sequence[Finding],
    beside: Sequence[Finding],
    of_nodes: Sequence[Finding],
    verdicts: Sequence[NodeVerdict],
    judged: Iterable[Judgement],
) -> tuple[tuple[Finding, ...], bool]:
    """Return all findings, the deciding one first, and whether it fits.

    Args:
        case: The case.
        before: What keeps kube-scheduler from trying the pod at all.
        beside: What may be in the way besides; it decides where nothing else is wrong.
        of_nodes: The findings of the nodes that do not fit, the nearest first.
        verdicts: The verdicts of all nodes.
        judged: The judgements of the nodes' devices.
    """
    if before:
        return (*before, *beside, *of_nodes), False
    fitting = [verdict for verdict in verdicts if verdict.fits]
    if not fitting:
        if any(verdict.is_unknown for verdict in verdicts):
            # It is not known whether it fits: what the other nodes lack does not decide.
            of_nodes = sorted(of_nodes, key=lambda item: item.reason not in UNKNOWN_REASONS)
            if case.pod is not None and of_nodes[0].reason is Reason.EXTENDED_RESOURCE_NOT_EVALUATED:
                of_nodes = [_of_plugin(case, case.pod, of_nodes[0]), *of_nodes[1:]]
        return (*(of_nodes or [nothing_known()]), *beside), False
    stopping = {judgement.reason for judgement in judged if judgement.stops}
    stops = next((item for item in of_nodes if item.claim is not None and item.reason in stopping), None)
    if stops is not None:
        message = f"{stops.message}; because of this error kube-scheduler does not try the nodes with room"
        others = (item for item in of_nodes if item is not stops)
        return (replace(stops, message=message), *others, *beside), False
    node = fitting[0].node.node.metadata.name
    where = f"on node {node}" if len(fitting) == 1 else f"on {len(fitting)} nodes, such as {node}"
    if case.pod is not None and not case.claims and not case.allocated:
        return (_no_claim(case.pod, where), *beside), False
    what = "all devices are free" if case.claims else "all claims are allocated, and can be used"
    text = f"{what} {where}: kube-scheduler has not come to it yet"
    found = Finding(reason=Reason.FITS, message=text, nodes=len(fitting))
    scheduler_message = case.pod.scheduler_message if case.pod is not None else ""
    other: list[Finding] = []
    if scheduler_message and not _is_about_claims(scheduler_message):
        message = f"{what} {where}; what the pod lacks is something else, kube-scheduler says: {scheduler_message}"
        other.append(Finding(reason=Reason.SCHEDULER_SAYS_OTHERWISE, message=message))
    return (*other, *beside, found, *of_nodes), True


def _of_plugin(case: Case, pod: PodState, of_nodes: Finding) -> Finding:
    """Return the finding for a pod that depends on a device plugin's devices."""
    claims = "the devices of its claims are free, and it" if case.claims or case.allocated else "it"
    who = f"pod {pod.key} names no ResourceClaim; {claims}" if not pod.claims else f"pod {pod.key}: {claims}"
    amounts = case.extended.by_plugin_alone or case.extended.amounts
    message = (
        f"{who} asks for {amounts_text(amounts)} of a device plugin, which is not looked at here: {of_nodes.message}"
    )
    return replace(of_nodes, message=message)


def _no_claim(pod: PodState, where: str) -> Finding:
    needs = "needs" if pod.claims else "names"  # a template may be satisfied without a claim
    message = (
        f"pod {pod.key} {needs} no ResourceClaim and asks for no extended resource, so nothing of what it waits for is"
        f" looked at here; by its taints and labels it could be {where}"
    )
    return Finding(reason=Reason.NO_CLAIM, message=message)


def _is_about_claims(message: str) -> bool:
    """Whether kube-scheduler's message is (also) about devices: then it is merely old."""
    text = message.lower()
    return "claim" in text or "allocate" in text
