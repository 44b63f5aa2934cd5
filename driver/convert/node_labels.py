"""Finds what a pod says of nodes by labels that other systems write, and that may be gone together with them.

Sources: NVIDIA/k8s-device-plugin, internal/lm/resource.go (a product with ``-SHARED``, or ``-MIG-`` and a profile);
NVIDIA's GPU Operator (``gpu.present``, ``gpu.deploy.*``) and its MIG manager (``mig.config``); Project-HAMi/HAMi,
README.md (``gpu=on``); Tencent Cloud, product 457, document 65734 (``qgpu-device-enable=enable``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from driver.api.pod_templates import PodSpec, Steps, field_path
from driver.convert.findings import Finding, Outcome
from driver.objects.node_labels import NODE_LABELS

__all__ = ["node_label_findings"]

_PRODUCT: Final = "nvidia.com/gpu.product"
_WRITERS: Final = (
    ("nvidia.com/gpu.present", "the GPU Operator"),
    ("nvidia.com/gpu.deploy.", "the GPU Operator"),
    ("nvidia.com/mig.config.state", "NVIDIA's MIG manager"),
    ("nvidia.com/mig.config", "an administrator, or the GPU Operator,"),
    ("nvidia.com/", "GPU Feature Discovery"),
    ("node.koordinator.sh/", "Koordinator"),
    ("amd.com/", "AMD's node labeller"),
    ("tke.cloud.tencent.com/", "TKE"),
)
"""Who writes labels that begin so; the first line counts. Those of Node Feature Discovery
(``feature.node.kubernetes.io``) are its own."""

_SWITCHES: Final = {
    ("gpu", "on"): "HAMi's device plugin",
    ("qgpu-device-enable", "enable"): "TKE's qgpu-manager",
}
"""What runs on the nodes that have a label of no domain."""

_MOST: Final = 64
"""Of each: labels of the selector, terms of the affinity, expressions of a term."""
_EXCLUDING: Final = ("NotIn", "DoesNotExist")
"""Operators that a node without the label meets."""
_REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def node_label_findings(pod: PodSpec) -> Iterator[Finding]:
    """Yield a note for each such label that a pod requires of its node.

    Args:
        pod: A pod that asks for devices, as it was written.
    """
    for steps, label, values in _required(pod.spec):
        if text := _text(label, values):
            yield Finding(
                dialect="",
                field=field_path((*pod.steps, *steps)),
                value=", ".join(values),
                outcome=Outcome.NOTED,
                text=f"is required of the node: {text}",
            )


def _text(label: str, values: Sequence[str]) -> str:
    """Return what is to be said of a label, one of whose values a pod requires; empty for nothing."""
    if runs := next((_SWITCHES[label, value] for value in values if (label, value) in _SWITCHES), ""):
        return (
            f"{runs} runs on nodes with this label, and a node loses it when it moves to Rootport. Take it out: the"
            " claim finds a node"
        )
    writer = next((who for beginning, who in _WRITERS if label.startswith(beginning)), "")
    if not writer:
        return ""
    if label == _PRODUCT and values and all(value.endswith("-SHARED") or "-MIG-" in value for value in values):
        return (
            f"{writer} writes this value for a GPU that is shared or partitioned, and no node of Rootport has it. Take"
            " it out, and select the GPU by rootport.dev/model in the claim"
        )
    if label in NODE_LABELS:
        return (
            f"{writer} writes this label, and so does Rootport where its component node-labels is installed"
            " (docs/operator/compatibility.md); a claim can select the GPU itself by its attributes"
        )
    return (
        f"{writer} writes this label and Rootport does not. Label the nodes, or select the GPU by its attributes in the"
        " claim"
    )


def _required(spec: Mapping[str, Any]) -> Iterator[tuple[Steps, str, tuple[str, ...]]]:
    """Yield the labels with where they stand and what their values may be."""
    selector = spec.get("nodeSelector")
    for label, value in islice(selector.items(), _MOST) if isinstance(selector, Mapping) else ():
        if isinstance(label, str):
            yield ("nodeSelector", label), label, (value,) if isinstance(value, str) else ()
    terms: Any = spec
    for step in _REQUIRED:
        terms = terms.get(step) if isinstance(terms, Mapping) else None
    for index, term in enumerate(_some(terms)):
        expressions = term.get("matchExpressions") if isinstance(term, Mapping) else None
        for place, expression in enumerate(_some(expressions)):
            if not isinstance(expression, Mapping) or expression.get("operator") in _EXCLUDING:
                continue
            if isinstance(label := expression.get("key"), str):
                values = tuple(value for value in _some(expression.get("values")) if isinstance(value, str))
                yield (*_REQUIRED, index, "matchExpressions", place, "key"), label, values


def _some(value: object) -> Sequence[Any]:
    return value[:_MOST] if isinstance(value, list) else ()
