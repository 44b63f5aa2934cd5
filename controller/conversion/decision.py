"""Decides what becomes of a pod that is being created in an opted-in namespace, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller.admission.envelope import AdmissionRequest, members_of
from controller.conversion.json_patch import Operation, json_patch
from driver.api.validation.errors import FieldError, shown
from driver.convert import Conversion, Finding, Outcome, Settings, convert

__all__ = ["PodDecision", "decide"]

_MAX_TEMPLATES: Final = 32
"""The most templates of one pod: each costs requests while the API server waits."""

_MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that mirrors a static one (k8s.io/api v0.37.2, core/v1, MirrorPodAnnotationKey): the kubelet
has started it already, and its file cannot name claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDecision:
    """What becomes of a pod.

    Attributes:
        outcome: As of the conversion.
        patch: The change to the pod; none where it stays as it is.
        templates: The templates that must be there before the pod is stored, in its namespace.
        notes: What a converted pod does not get of what it asked for, a line each.
        errors: Why it cannot be converted; only where the outcome is REFUSED.
    """

    outcome: Outcome
    patch: tuple[Operation, ...] = ()
    templates: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


_UNCHANGED: Final = PodDecision(outcome=Outcome.UNCHANGED)


def decide(request: AdmissionRequest, settings: Settings) -> PodDecision:
    """Decide about the pod of an admission request; other requests stay as they are.

    Args:
        request: The request.
        settings: How to convert.
    """
    pod = request.object
    if not _is_to_be_converted(request, pod):
        return _UNCHANGED
    # The namespace is the request's: the API server may ask before it writes that into the pod.
    asked = {**pod, "metadata": {**members_of(pod.get("metadata")), "namespace": request.namespace}}
    conversion = convert(asked, settings)
    errors = tuple(_error(finding) for finding in conversion.findings if finding.outcome is Outcome.REFUSED)
    if not errors and len(conversion.templates) > _MAX_TEMPLATES:
        text = (
            f"the pod needs {len(conversion.templates)} different claims: at most {_MAX_TEMPLATES} are created for one"
        )
        errors = (FieldError("spec.containers", text),)
    if errors:
        return PodDecision(outcome=Outcome.REFUSED, errors=errors)
    return PodDecision(
        outcome=conversion.outcome,
        patch=tuple(json_patch(asked, conversion.object)),
        templates=_placed(conversion, request.namespace),
        notes=tuple(f"{item.field}: {item.text}" for item in conversion.findings if item.outcome is Outcome.NOTED),
    )


def _is_to_be_converted(request: AdmissionRequest, pod: Mapping[str, Any]) -> bool:
    """Return whether it is a new pod; the manifests' matchConditions say the same, but can be edited."""
    return (
        request.operation == "CREATE"
        and not request.subresource
        and bool(request.namespace)
        and (pod.get("apiVersion"), pod.get("kind")) == ("v1", "Pod")
        and _MIRROR not in members_of(members_of(pod.get("metadata")).get("annotations"))
    )


def _placed(conversion: Conversion, namespace: str) -> tuple[Mapping[str, Any], ...]:
    return tuple({**item, "metadata": {**item["metadata"], "namespace": namespace}} for item in conversion.templates)


def _error(finding: Finding) -> FieldError:
    prefix = f"container {shown(finding.container)}: " if finding.container else ""
    return FieldError(finding.field, f"{prefix}{finding.text}")
