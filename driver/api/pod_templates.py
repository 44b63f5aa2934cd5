"""Pods and pod templates in objects of any kind: Deployment, Job, CronJob, and what operators add to these.

They are looked for by their form, so that the kinds of operators (JobSet, PyTorchJob, RayCluster) count as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from driver.api.validation.errors import shown

__all__ = [
    "CONTAINER_LISTS",
    "PodSpec",
    "Resources",
    "Steps",
    "containers",
    "field_path",
    "no_such_claim",
    "pod_specs",
    "resources_of",
]

Steps: TypeAlias = tuple[str | int, ...]
Resources: TypeAlias = Mapping[str, tuple[Any, Steps]]
"""How much of each resource, by its name, and the field that holds it."""

_MAX_DEPTH: Final = 64
_LONGEST_NAME: Final = 253 + 1 + 63
"""Of what Kubernetes has a name for: a DNS subdomain, a slash and a label's name."""
_NONE: Final[tuple[Any, ...]] = (None, [])
CONTAINER_LISTS: Final = ("initContainers", "containers")
"""The fields of a pod's spec that list its containers, in the order in which they start."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod's spec, as it was written.

    Attributes:
        steps: Where it stands in the object.
        spec: Plain data.
        metadata: The pod's, which stands beside a field ``spec``; empty where there is none.
    """

    steps: Steps
    spec: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metadata_steps(self) -> Steps | None:
        """Where its metadata stands in the object; None where it has no place for any."""
        return (*self.steps[:-1], "metadata") if self.steps and self.steps[-1] == "spec" else None

    @property
    def asks_for_devices(self) -> bool:
        """Whether it has claims, or resources that device plugins or drivers give."""
        if self.spec.get("resourceClaims") not in _NONE:
            return True
        return any(
            isinstance(container.get("resources"), Mapping)
            and (
                container["resources"].get("claims") not in _NONE
                or any("/" in name for name in resources_of(container, steps))
            )
            for steps, container in containers(self)
        )


def pod_specs(data: Mapping[str, Any]) -> Iterator[PodSpec]:
    """Yield the pods of an object: mappings with a list of containers."""
    pending: list[tuple[Steps, Any, Any]] = [((), data, None)]
    while pending:
        steps, value, metadata = pending.pop()
        if len(steps) > _MAX_DEPTH:
            continue
        if isinstance(value, Mapping):
            found = value.get("containers")
            if isinstance(found, list) and found and all(isinstance(item, Mapping) for item in found):
                yield PodSpec(steps, value, metadata if isinstance(metadata, Mapping) else {})
                continue
            pending.extend(
                ((*steps, key), item, value.get("metadata") if key == "spec" else None)
                for key, item in reversed(list(value.items()))
                if isinstance(key, str)
            )
        elif isinstance(value, list):
            pending.extend(((*steps, index), item, None) for index, item in reversed(list(enumerate(value))))


def containers(pod: PodSpec) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """Yield init containers and containers, each with its field."""
    for name in CONTAINER_LISTS:
        listed = pod.spec.get(name)
        for index, container in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(container, Mapping):
                yield (*pod.steps, name, index), container


def resources_of(container: Mapping[str, Any], steps: Steps) -> Resources:
    """Return the resources that a container requests; a limit counts where there is no request."""
    resources = container.get("resources")
    found: dict[str, tuple[Any, Steps]] = {}
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        for name, amount in amounts.items() if isinstance(amounts, Mapping) else ():
            if isinstance(name, str):
                found[name] = (amount, (*steps, "resources", kind, name))
    return found


def field_path(steps: Steps) -> str:
    """Return a field as Kubernetes writes it, ``containers[0].resources.limits[nvidia.com/gpu]``; long names cut."""
    path = ""
    for step in steps:
        if isinstance(step, str) and len(step) > _LONGEST_NAME:
            path += f"[{step[:_LONGEST_NAME]}…]"
        else:
            path += f"[{step}]" if isinstance(step, int) or "/" in step or "." in step else f".{step}"
    return path.lstrip(".")


def no_such_claim(name: str) -> str:
    """Return the message for a container that names a claim which the pod's ``resourceClaims`` lack."""
    return f"the pod's resourceClaims have no {shown(name)}: the API server refuses the pod"
