"""Makes an explanation JSON for programs: ``rootport explain -o json`` and the controller's ``…/explain``.

The shape is part of Rootport's API, ``rootport.dev/v1alpha1``: docs/user/explain.md has each field. Reasons, steps
and kinds of changes are codes that stay; texts are for people and may change. Lists are always there, if empty; of
texts and references only those that say something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from driver.api import API_VERSION
from driver.explain.explanation import Explanation, Finding, FunnelStep, NodeGroup, ObjectRef, Proposal, RequestFunnel
from driver.explain.tell.summary import summary

__all__ = ["KIND", "list_to_wire", "to_wire"]

KIND: Final = "Explanation"


def to_wire(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON types, with ``apiVersion`` and ``kind``."""
    return _filled(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "subject": _reference(explanation.subject),
            "pod": explanation.pod and _reference(explanation.pod),
            "claims": [_reference(claim) for claim in explanation.claims],
            "fits": explanation.fits,
            "known": explanation.is_known,
            "reason": explanation.reason.value,
            "summary": summary(explanation),
            "findings": [_finding(finding) for finding in explanation.findings],
            "nodes": {
                "total": explanation.nodes,
                "fitting": explanation.nodes_fitting,
                "unknown": explanation.nodes_unknown,
            },
            "requests": [_request(request) for request in explanation.requests],
            "nodeGroups": [_group(group) for group in explanation.groups],
            "proposals": [_proposal(proposal) for proposal in explanation.proposals],
            "schedulerMessage": explanation.scheduler_message,
            "notes": list(explanation.notes),
        }
    )


def list_to_wire(
    explanations: Sequence[Explanation], *, not_explained: Sequence[ObjectRef], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the explanations of all that is pending, as JSON types.

    Args:
        explanations: The answers.
        not_explained: What is pending as well, and there was no time for.
        notes: What is to be known of all of them; the answers' own notes are without these.
    """
    common = set(notes)
    return {
        "apiVersion": API_VERSION,
        "kind": f"{KIND}List",
        "items": [
            to_wire(replace(each, notes=tuple(n for n in each.notes if n not in common))) for each in explanations
        ],
        "notExplained": [_reference(ref) for ref in not_explained],
        "notes": list(notes),
    }


def _reference(ref: ObjectRef) -> dict[str, Any]:
    return _filled({"kind": ref.kind, "namespace": ref.namespace, "name": ref.name, "uid": ref.uid})


def _finding(finding: Finding) -> dict[str, Any]:
    return _filled(
        {
            "reason": finding.reason.value,
            "message": finding.message,
            "claim": finding.claim and _reference(finding.claim),
            "request": finding.request,
            "nodes": finding.nodes,
            "driverFault": finding.driver_fault,
        }
    )


def _request(request: RequestFunnel) -> dict[str, Any]:
    return _filled(
        {
            "claim": _reference(request.claim),
            "request": request.request,
            "deviceClassName": request.device_class,
            "need": request.need,
            "steps": [_step(step) for step in request.steps],
        }
    )


def _step(step: FunnelStep) -> dict[str, Any]:
    return _filled(
        {
            "step": step.step.value,
            "left": step.left,
            "best": step.best,
            "bestNode": step.best_node,
            "details": list(step.details),
        }
    )


def _group(group: NodeGroup) -> dict[str, Any]:
    return _filled(
        {
            "reason": group.reason.value,
            "count": group.count,
            "examples": list(group.examples),
            "message": group.message,
            "lacks": group.lacks,
        }
    )


def _proposal(proposal: Proposal) -> dict[str, Any]:
    patches = [
        {"claim": _reference(patch.claim), "operations": [dict(operation) for operation in patch.operations]}
        for patch in proposal.patches
    ]
    return _filled(
        {
            "kind": proposal.kind.value,
            "text": proposal.text,
            "node": proposal.node,
            "verified": proposal.verified,
            "cost": proposal.cost,
            "patches": patches,
            "ends": [_reference(claim) for claim in proposal.ends],
            "pods": [_reference(pod) for pod in proposal.pods],
            "commands": list(proposal.commands),
        }
    )


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value; a count of 0, False and an empty list are values."""
    return {name: value for name, value in fields.items() if value is not None and value != ""}
