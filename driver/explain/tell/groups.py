"""Groups the nodes that do not serve a case by reason, and writes what is so on the nearest of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from driver.budget import SpentError
from driver.explain.explanation import Finding, NodeGroup, ObjectRef
from driver.explain.judge.case import Case, Judgement, NodeVerdict
from driver.explain.judge.evaluation import Evaluations
from driver.explain.judge.node_judge import DRIVERS_FAULT
from driver.explain.judge.trial import Trial
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.explain.tell.messages import node_text
from driver.explain.tell.ranking import ranked_groups

__all__ = ["node_groups"]

_EXAMPLES: Final = 5


def node_groups(
    state: ClusterState,
    evaluations: Evaluations,
    trial: Trial,
    case: Case,
    verdicts: Sequence[NodeVerdict],
    judged: Mapping[str, Judgement],
) -> list[tuple[NodeGroup, Finding]]:
    """Return the nodes by reason, the most promising first, each group with a finding.

    Args:
        state: The cluster.
        evaluations: The evaluations of nodes.
        trial: Asked whether the claims would fit on a node if nothing were in use.
        case: The case.
        verdicts: The verdicts of all nodes.
        judged: The judgements of their devices, by the node's name.
    """
    groups = []
    for reason, count, nodes in ranked_groups(verdicts, examples=_EXAMPLES):
        first = nodes[0]
        claim: ObjectRef | None = None
        request = ""
        lacks = None
        if first.placement is not None:
            message = first.placement.message
            if first.devices is None and case.claims:
                message += "; its devices are suitable"
        else:
            judgement = judged[first.node.node.metadata.name]
            message = _text(state, evaluations, trial, case, first, judgement, reason)
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


def _text(
    state: ClusterState,
    evaluations: Evaluations,
    trial: Trial,
    case: Case,
    verdict: NodeVerdict,
    judgement: Judgement,
    reason: Reason,
) -> str:
    """Write why a node does not serve the case; a few words, where there is no time to evaluate it."""
    node = verdict.node
    specs = [claim.claim for claim in case.claims if claim.claim is not None]

    def fits_unused() -> bool:
        return trial.fits(node, specs, ended=state.held_on(node.node.metadata.name))

    try:
        return node_text(state, evaluations, case, node, judgement, reason, fits_unused)
    except SpentError:
        return verdict.devices.message if verdict.devices is not None else ""
