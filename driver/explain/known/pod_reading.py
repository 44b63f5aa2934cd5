"""Reads pods, and the Events about claims that a kubelet could not prepare for them, from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import NodeSelector
from driver.explain.known.cluster import (
    EXTENDED_CLAIM,
    ContainerRequests,
    PodClaim,
    PodState,
    PodToleration,
    PrepareFailure,
)
from driver.explain.known.needs_reading import read_needs
from driver.explain.known.placing import read_time
from driver.explain.known.reading import Json, model, text
from driver.objects.extended_resources import MAX_POD_RESOURCES, is_extended

__all__ = ["MAX_POD_CLAIMS", "read_pod", "read_prepare_failure"]

MAX_POD_CLAIMS: Final = 256
"""How many claims of a pod are looked at. The API server takes tens of thousands; each is remembered by its name."""

_MOST_ASKED: Final = 2**31
"""More of an extended resource than any node has."""
_PREPARE_FAILED: Final = "FailedPrepareDynamicResources"
_PREPARE_FAILED_TEXT: Final = "Failed to prepare dynamic resources: "


def read_pod(wire: Json) -> PodState:
    """Read a Pod."""
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    scheduled: Json = next((item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"), {})
    entries = spec.get("resourceClaims") or ()
    made = {text(item["name"]): item for item in status.get("resourceClaimStatuses") or ()}
    containers, has_more_resources = _containers(spec)
    return PodState(
        namespace=text(metadata.get("namespace")),
        name=text(metadata["name"]),
        uid=text(metadata.get("uid")),
        claims=(*(_pod_claim(item, made) for item in entries[:MAX_POD_CLAIMS]), *_extended_claim(status)),
        has_more_claims=len(entries) > MAX_POD_CLAIMS,
        node=text(spec.get("nodeName")),
        node_selector={text(key): text(value) for key, value in sorted((spec.get("nodeSelector") or {}).items())},
        affinity=None if required is None else model(NodeSelector, required),
        tolerations=tuple(
            PodToleration(
                key=text(item.get("key")),
                operator=text(item.get("operator")) or "Equal",
                value=text(item.get("value")),
                effect=text(item.get("effect")),
            )
            for item in spec.get("tolerations") or ()
        ),
        gates=tuple(text(item["name"]) for item in spec.get("schedulingGates") or ()),
        scheduler=text(spec.get("schedulerName")) or "default-scheduler",
        phase=text(status.get("phase")),
        deleting=bool(metadata.get("deletionTimestamp")),
        scheduler_message=text(scheduled.get("message")) if scheduled.get("status") == "False" else "",
        waiting=_waiting(status),
        containers=containers,
        has_more_resources=has_more_resources,
        created=read_time(metadata.get("creationTimestamp")),
        needs=read_needs(wire),
        group=text((spec.get("schedulingGroup") or {}).get("podGroupName")),
    )


def _extended_claim(status: Json) -> tuple[PodClaim, ...]:
    """Return the claim that kube-scheduler has made of the pod's extended resources, once it has."""
    name = text((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return (PodClaim(name=EXTENDED_CLAIM, claim=name),) if name else ()


def _containers(spec: Json) -> tuple[tuple[ContainerRequests, ...], bool]:
    """Return the containers that ask for extended resources; none, and True, if there are more than are evaluated."""
    before = spec.get("initContainers") or ()
    found: list[ContainerRequests] = []
    left = MAX_POD_RESOURCES
    for place, container in enumerate((*before, *(spec.get("containers") or ()))):
        resources = container.get("resources") or {}
        # What is limited and not requested is requested as well: so the API server stores it.
        lists: tuple[Json, ...] = (resources.get("limits") or {}, resources.get("requests") or {})
        if max(map(len, lists)) > MAX_POD_RESOURCES:
            return (), True
        requests = {**lists[0], **lists[1]}
        asked = {
            text(name): (index, min(amount, _MOST_ASKED))
            for index, name in enumerate(sorted(requests))
            if is_extended(name) and (amount := Quantity(str(requests[name])).ceil()) > 0
        }
        left -= len(asked)
        if left < 0:
            return (), True
        if asked:
            is_first = place < len(before) and container.get("restartPolicy") != "Always"
            found.append(ContainerRequests(place=place, is_first=is_first, asked=asked))
    return tuple(found), False


def _pod_claim(wire: Json, made: Mapping[str, Json]) -> PodClaim:
    name = text(wire["name"])
    if wire.get("resourceClaimTemplateName") is None:
        return PodClaim(name=name, claim=text(wire.get("resourceClaimName")))
    status = made.get(name)
    # Set without a name: "no ResourceClaim was needed" (k8s.io/api v0.36.3, core/v1, PodResourceClaimStatus).
    claim = text(status.get("resourceClaimName")) if status is not None else ""
    return PodClaim(
        name=name,
        claim=claim,
        template=text(wire["resourceClaimTemplateName"]),
        needs_none=status is not None and not claim,
    )


def _waiting(status: Json) -> str:
    """Write why containers wait: ``main: ContainerCreating; side: ErrImagePull: …``."""
    texts = []
    for item in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (item.get("state") or {}).get("waiting")
        if waiting:
            parts = (item.get("name"), waiting.get("reason"), waiting.get("message"))
            texts.append(": ".join(text(part) for part in parts if part))
    return "; ".join(texts)


def read_prepare_failure(wire: Json) -> PrepareFailure | None:
    """Read an Event in which a kubelet reports that it cannot prepare a pod's claims; None for all others.

    Source of the reason and its text: k8s.io/kubernetes v1.36.3, pkg/kubelet/kuberuntime/kuberuntime_manager.go.
    """
    if wire.get("reason") != _PREPARE_FAILED:
        return None
    times = (wire.get("lastTimestamp"), (wire.get("series") or {}).get("lastObservedTime"), wire.get("eventTime"))
    return PrepareFailure(
        pod_uid=text((wire.get("involvedObject") or {}).get("uid")),
        when=max(text(time) for time in times),
        message=text(wire.get("message")).removeprefix(_PREPARE_FAILED_TEXT),
    )
