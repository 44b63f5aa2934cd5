"""Judges nodes for a case: by their devices, and by whether the pod could be there."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from driver import DRIVER_NAME
from driver.budget import SpentError, check
from driver.explain.explanation import Finding
from driver.explain.judge.case import SKIPPED, Case, Judgement, NodeVerdict
from driver.explain.judge.device_judge import DeviceJudge
from driver.explain.judge.placement import node_refusal
from driver.explain.known.cluster import NodeState
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.wording import plural

__all__ = ["DRIVERS_FAULT", "NodeJudge"]

_CASES: Final = 8
"""For how many cases the verdicts of all nodes are kept."""

_GATE_IS_OFF: Final = re.compile(r"feature gate \w+ is off")
_FOR_DEVICES: Final = frozenset({Reason.NO_DEVICES_PUBLISHED, Reason.CLASS_SELECTS_TOO_FEW})
DRIVERS_FAULT: Final = frozenset({Reason.POOL_INCOMPLETE, Reason.POOL_INVALID, Reason.PLUGIN_NOT_READY})
"""Reasons for which a driver has to act, not the claim's author."""


class NodeJudge:
    """Makes the verdicts of nodes, and remembers those of the last cases.

    Args:
        state: The cluster.
        device_judge: Judges the nodes' devices.
    """

    def __init__(self, state: ClusterState, device_judge: DeviceJudge) -> None:
        self._state = state
        self._device_judge = device_judge
        # The last verdicts, by case, then by the node's name: (the node, its judgement, the verdict).
        self._known: OrderedDict[object, dict[str, tuple[NodeState, Judgement, NodeVerdict]]] = OrderedDict()

    def judge(self, case: Case) -> list[Judgement]:
        """Judge the devices of each node, in the order of the nodes, as far as the budget in force goes."""
        specs = [claim.claim for claim in case.claims if claim.claim is not None]
        return self._device_judge.judge(list(self._state.nodes.values()), specs, case.demands)

    def verdicts(self, case: Case, judgements: Sequence[Judgement]) -> tuple[list[NodeVerdict], dict[str, Judgement]]:
        """Return the verdicts of the nodes, in their order, and the judgements of their devices, by the node's name.

        Args:
            case: The case.
            judgements: What :meth:`judge` returned.
        """
        known: dict[tuple[Reason, int, str, int], Finding] = {}
        before_by_node = self._verdicts_before(case)
        verdicts: list[NodeVerdict] = []
        judged: dict[str, Judgement] = {}
        for node, of_devices in zip(self._state.nodes.values(), judgements, strict=True):
            name, judgement = node.node.metadata.name, of_devices
            judged[name] = judgement
            before = before_by_node.get(name)
            if before is not None and before[0] is node and before[1] is judgement:
                verdicts.append(before[2])
                continue
            there: Finding | None = None
            try:
                check()
                there = node_refusal(case.pod, node, case.allocated, case.extended)
            except SpentError:
                # Nothing is known of the node then, whatever its judgement.
                judged[name] = judgement = SKIPPED
            devices: Finding | None = None
            if judgement.reason is not None:
                reason = judgement.reason
                if reason in _FOR_DEVICES and _has_none(judgement) and _is_ours(case, judgement):
                    reason = self._behind(name) or reason
                key = (reason, judgement.claim, judgement.request, judgement.lacks)
                found = known.get(key)
                if found is None:
                    found = known[key] = _brief(case, reason, judgement)
                devices = found
                if there is not None and _says_less(there, case, node):
                    there = None
            verdict = NodeVerdict(
                node=node,
                placement=there,
                devices=devices,
                lacks=judgement.lacks,
                left=judgement.left,
            )
            if judgement is not SKIPPED:
                before_by_node[name] = (node, judgement, verdict)
            verdicts.append(verdict)
        return verdicts, judged

    def _behind(self, node: str) -> Reason | None:
        """Return why a node has no device of a kind that Rootport publishes, if its inventory has the reason."""
        if self._state.inventory_problem(node):
            return Reason.PLUGIN_NOT_READY
        return Reason.FEATURE_OFF if _GATE_IS_OFF.search(self._state.inventory_remark(node)) else None

    def _verdicts_before(self, case: Case) -> dict[str, tuple[NodeState, Judgement, NodeVerdict]]:
        """Return the last verdicts on the very same case: same pod, same claims."""
        pod = case.pod
        of_pod = (
            (pod.uid, tuple(sorted(pod.node_selector.items())), repr(pod.affinity), pod.tolerations) if pod else None
        )
        extended = (tuple(case.extended.amounts.items()), tuple(case.extended.classes))
        key = (
            of_pod,
            extended,
            tuple((claim.key, claim.uid) for claim in case.claims),
            case.demands,
            tuple((claim.key, claim.uid, repr(claim.available_on)) for claim in case.allocated),
        )
        before_by_node = self._known.setdefault(key, {})
        self._known.move_to_end(key)
        while len(self._known) > _CASES:
            self._known.popitem(last=False)
        if len(before_by_node) > 2 * len(self._state.nodes):
            before_by_node.clear()
        return before_by_node


def _says_less(there: Finding, case: Case, node: NodeState) -> bool:
    """Whether a device plugin's resources make no difference, since the claims' devices would not serve anyway.

    They do where the plugin has what the claims would be made of otherwise.
    """
    if there.reason is not Reason.EXTENDED_RESOURCE_NOT_EVALUATED:
        return False
    return not any((node.extended or {}).get(resource) for resource in case.extended.classes)


def _is_ours(case: Case, judgement: Judgement) -> bool:
    """Whether the class of the request that decides is for devices of this driver."""
    return any(
        demand.name == judgement.request and any(DRIVER_NAME in text for text in demand.class_selectors)
        for request in case.demands[judgement.claim].requests
        for demand in request.alternatives
    )


def _has_none(judgement: Judgement) -> bool:
    """Whether there is a demand of whose class no device is there."""
    return any(row[1] == 0 for row in judgement.left)


def _brief(case: Case, reason: Reason, judgement: Judgement) -> Finding:
    """Return the verdict on a node's devices in a few words that many nodes can share."""
    claim = case.claims[judgement.claim] if case.claims else None
    who = f"claim {claim.key}" if claim is not None else "the pod"
    request = f", request {judgement.request}" if judgement.request else ""
    lacks = f" lacks {plural(judgement.lacks, 'device')}" if judgement.lacks and not judgement.skipped else ""
    if reason is Reason.SELECTOR_FAILS:
        lacks = ": a selector ends with an error"
    return Finding(
        reason=reason,
        message=f"{who}{request}{lacks}",
        claim=claim.ref if claim is not None else None,
        request=judgement.request,
        nodes=1,
        driver_fault=reason in DRIVERS_FAULT,
    )
