"""Finds what a pod says of nodes by labels that other systems write, and that may be gone together with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from driver.api.pod_templates import PodSpec, Steps, field_path
from driver.convert.findings import Finding, Outcome
from driver.objects.node_labels import NODE_LABELS

__all__ = ["node_label_findings"]

_WRITERS: Final = (
    ("nvidia.com/", "GPU Feature Discovery"),
    ("node.koordinator.sh/", "Koordinator"),
    ("amd.com/", "AMD's node labeller"),
    ("tke.cloud.tencent.com/", "TKE"),
)
"""Who writes labels of a domain. Those of Node Feature Discovery (``feature.node.kubernetes.io``) are its own."""

_MOST: Final = 64
"""Of each: labels of the selector, terms of the affinity, expressions of a term."""
_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def node_label_findings(pod: PodSpec) -> Iterator[Finding]:
    """Yield a note for each such label that a pod requires of its node.

    Args:
        pod: A pod that asks for devices, as it was written.
    """
    for steps, label, value in _required(pod.spec):
        writer = next((who for domain, who in _WRITERS if label.startswith(domain)), None)
        if writer is None:
            continue
        if label in NODE_LABELS:
            text = (
                "is required of the node: Rootport writes this label where its component node-labels is installed"
                " (docs/operator/compatibility.md); a claim can select the GPU itself by its attributes"
            )
        else:
            text = (
                f"is required of the node: {writer} writes this label and Rootport does not. Label the nodes, or select"
                " the GPU by its attributes in the claim"
            )
        yield Finding(
            dialect=writer,
            field=field_path((*pod.steps, *steps)),
            value=value,
            outcome=Outcome.NOTED,
            text=text,
        )


def _required(spec: Mapping[str, Any]) -> Iterator[tuple[Steps, str, str]]:
    """Yield the labels with where they stand and what their values have to be."""
    selector = spec.get("nodeSelector")
    for label, value in islice(selector.items(), _MOST) if isinstance(selector, Mapping) else ():
        if isinstance(label, str):
            yield ("nodeSelector", label), label, value if isinstance(value, str) else ""
    terms: Any = spec
    for step in _REQUIRED:
        terms = terms.get(step) if isinstance(terms, Mapping) else None
    for index, term in enumerate(_some(terms)):
        expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        for place, expression in enumerate(_some(expressions)):
            label = expression.get("key") if isinstance(expression, Mapping) else None
            if isinstance(label, str):
                values = ", ".join(value for value in _some(expression.get("values")) if isinstance(value, str))
                yield (*_REQUIRED, index, "matchExpressions", place, "key"), label, values


def _some(value: object) -> Sequence[Any]:
    return value[:_MOST] if isinstance(value, list) else ()
