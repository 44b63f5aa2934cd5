"""Decides whether a pod could be on a node, apart from its devices.

Sources: k8s.io/kubernetes v1.36.3, pkg/scheduler/framework/plugins: nodeunschedulable, tainttoleration (NoSchedule and
NoExecute refuse), nodeaffinity (terms that cannot be parsed match nothing), and dynamicresources (a claim that is
allocated already binds the pod to its nodes). What tolerates a taint: :mod:`driver.allocator.taints`.

A node that is not ready keeps pods away by the taints that kube-controller-manager gives it; they are looked at first,
because what is wrong then is the node.

Of extended resources (noderesources and dynamicresources, v1.37.2) only what a node has in all is known, not what other
pods have of it: so a node may have too little for sure, or it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from driver.allocator.errors import AllocationError
from driver.allocator.node_selection import matches_node
from driver.allocator.taints import refusing_taints
from driver.api.resource_v1 import Node, NodeSelector
from driver.explain.explanation import Finding
from driver.explain.known.cluster import ClaimState, NodeState, NodeTaint, PodState, PodToleration
from driver.explain.known.extended import Extended, amounts_text
from driver.explain.reasons import Reason
from driver.explain.texts import taint_text
from driver.wording import listed

__all__ = ["affinity", "node_refusal"]

_LABELS_SHOWN: Final = 3
_CORDONED: Final = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def node_refusal(
    pod: PodState | None, node: NodeState, allocated: Sequence[ClaimState], extended: Extended | None = None
) -> Finding | None:
    """Return why ``pod`` cannot be on ``node``; None where it can.

    Args:
        pod: The pod; None for a claim that no pod uses. What taints its pod would tolerate is not known then, so only
            a node that is cordoned or not ready refuses.
        node: The node.
        allocated: The pod's claims that are allocated already.
        extended: What the pod asks for of extended resources; None for nothing.
    """
    tolerations = pod.tolerations if pod is not None else ()
    return (
        _readiness(node, tolerations)
        or _cordon(node, tolerations)
        or (_taints(node, tolerations) or affinity(pod, node) if pod is not None else None)
        or _elsewhere(node, allocated)
        or (_extended(node, extended) if extended is not None and extended.amounts else None)
    )


def _readiness(node: NodeState, tolerations: Sequence[PodToleration]) -> Finding | None:
    refusing = next((taint for taint in refusing_taints(node.taints, tolerations) if taint.key in _NOT_READY), None)
    if refusing is None:
        return None
    name = node.node.metadata.name
    why = f": {node.not_ready}" if node.not_ready else f", says its taint {refusing.key}"
    return Finding(reason=Reason.NODE_NOT_READY, message=f"node {name} is not ready{why}", nodes=1)


def _cordon(node: NodeState, tolerations: Sequence[PodToleration]) -> Finding | None:
    if not node.unschedulable or not refusing_taints((_CORDONED,), tolerations):
        return None
    name = node.node.metadata.name
    return Finding(reason=Reason.NODE_UNSCHEDULABLE, message=f"node {name} is cordoned (kubectl cordon)", nodes=1)


def _taints(node: NodeState, tolerations: Sequence[PodToleration]) -> Finding | None:
    untolerated = refusing_taints(node.taints, tolerations)
    if not untolerated:
        return None
    name, shown = node.node.metadata.name, ", ".join(taint_text(taint) for taint in untolerated)
    if all(taint.key == _CORDONED.key for taint in untolerated):
        return Finding(reason=Reason.NODE_UNSCHEDULABLE, message=f"node {name} has the taint {shown}", nodes=1)
    plural = "s" if len(untolerated) > 1 else ""
    message = f"node {name} has the taint{plural} {shown}, which the pod does not tolerate"
    return Finding(reason=Reason.NODE_TAINTED, message=message, nodes=1)


def affinity(pod: PodState, node: NodeState) -> Finding | None:
    """Return why the pod's node selector or required node affinity leaves ``node`` out; None where it does not."""
    name, labels = node.node.metadata.name, node.node.metadata.labels
    # One more than is shown, for every node keeps its message, and a pod's author writes the selector.
    all_wrong = ((key, value) for key, value in pod.node_selector.items() if labels.get(key) != value)
    wrong = dict(islice(all_wrong, _LABELS_SHOWN + 1))
    if wrong:
        shown = list(wrong.items())[:_LABELS_SHOWN]
        wanted = ", ".join(f"{key}={value}" for key, value in shown) + (" and more" if len(wrong) > len(shown) else "")
        has = ", ".join(f"{key}={labels[key]}" for key, _ in shown if key in labels)
        there = f"; it has {has}" if has else ""
        message = f"the pod's nodeSelector wants {wanted}, which node {name} does not have{there}"
        return Finding(reason=Reason.NODE_AFFINITY, message=message, nodes=1)
    if pod.affinity is not None and not _matches(node.node, pod.affinity):
        message = f"the pod's required node affinity leaves node {name} out"
        return Finding(reason=Reason.NODE_AFFINITY, message=message, nodes=1)
    return None


def _extended(node: NodeState, extended: Extended) -> Finding | None:
    """Return that a device plugin has too little, or that it is not known whether what it has is in use."""
    name = node.node.metadata.name
    of_plugin: list[str] = []
    for resource, amount in extended.amounts.items():
        there = None if node.extended is None else node.extended.get(resource, 0)
        if resource in extended.classes and not there:
            continue  # kube-scheduler makes a claim of it
        if there is not None and there < amount:
            message = f"node {name} has {resource}: {there}, which is less than the {amount} that the pod asks for"
            return Finding(reason=Reason.EXTENDED_RESOURCE_MISSING, message=message, nodes=1)
        of_plugin.append(resource)
    if not of_plugin:
        return None
    message = f"node {name} does not say whether it has {' and '.join(of_plugin)}"
    if node.extended is not None:
        amounts = {resource: node.extended.get(resource, 0) for resource in of_plugin}
        message = f"node {name} has {amounts_text(amounts)} from a device plugin; how much is in use is not looked at"
    return Finding(reason=Reason.EXTENDED_RESOURCE_NOT_EVALUATED, message=message, nodes=1)


def _elsewhere(node: NodeState, allocated: Sequence[ClaimState]) -> Finding | None:
    for claim in allocated:
        if claim.available_on is not None and not _usable(node.node, claim.available_on):
            ref = claim.ref
            message = f"{ref} is allocated{_where(claim.available_on)}, not on node {node.node.metadata.name}"
            return Finding(reason=Reason.CLAIM_ELSEWHERE, message=message, claim=ref, nodes=1)
    return None


def _where(selector: NodeSelector) -> str:
    """Write `` on node n1`` where the selector names nodes."""
    names = [
        value
        for term in selector.node_selector_terms
        for requirement in (*term.match_fields, *term.match_expressions)
        if requirement.key in {"metadata.name", "kubernetes.io/hostname"} and requirement.operator == "In"
        for value in requirement.values
    ]
    return f" on node {listed(names)}" if names else " for other nodes"


def _matches(node: Node, selector: NodeSelector) -> bool:
    """Match term by term, because an invalid one does not spoil the others (LazyErrorNodeSelector)."""
    return any(_usable(node, NodeSelector(node_selector_terms=(term,))) for term in selector.node_selector_terms)


def _usable(node: Node, selector: NodeSelector) -> bool:
    try:
        return matches_node(node, node_name=None, all_nodes=None, selector=selector)
    except AllocationError:
        return False
