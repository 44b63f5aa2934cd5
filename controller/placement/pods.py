"""What is kept of pods for placement, and what of them decides whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.explain.known.needs_reading import NEEDS_METADATA, NEEDS_SPEC, kept_needs
from driver.explain.known.pod_reading import MAX_POD_CLAIMS
from driver.model.managed_nodes import GATE

__all__ = ["WaitingPod", "has_claims", "is_nominated", "is_to_nominate", "on_node", "read_waiting", "transform_pod"]

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "ownerReferences",
    *NEEDS_METADATA,
)
_SPEC: Final = (
    *NEEDS_SPEC,
    "nodeName",
    "nodeSelector",
    "priority",
    "resourceClaims",
    "schedulerName",
    "schedulingGates",
    "tolerations",
)
_STATUS: Final = ("phase", "nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
_OF_CONTAINERS: Final = ("initContainerStatuses", "containerStatuses")
_OF_CONTAINER: Final = ("name", "resources", "allocatedResources")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingPod:
    """A pod that has no node yet: one with claims, or one that waits for a node to be nominated.

    Attributes:
        key: ``namespace/name``.
        uid: Its UID.
        priority: Its priority.
        created: When it was created, as the API has it: texts of one length, in order of time.
        gates: Its scheduling gates.
        is_refused: kube-scheduler has said that it cannot be scheduled.
    """

    key: str
    uid: str
    priority: int = 0
    created: str = ""
    gates: tuple[str, ...] = ()
    is_refused: bool = False

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.key.partition("/")[0]


def transform_pod(wire: JsonObject) -> JsonObject | None:
    """Keep what decides where a pod can be, and what it takes of a node; None of one that has ended without claims.

    Pods without claims count as well: their CPU, memory and ports are taken.
    """
    spec, status = wire.get("spec") or {}, wire.get("status") or {}
    claims = spec.get("resourceClaims") or []
    has_place = spec.get("nodeName") or status.get("nominatedNodeName") or _is_gated(spec)
    if not claims and (not has_place or status.get("phase") in {"Succeeded", "Failed"}):
        return None
    spec["resourceClaims"] = claims[: MAX_POD_CLAIMS + 1]
    resources = {
        field: [{key: item[key] for key in _OF_CONTAINER if key in item} for item in status[field]]
        for field in _OF_CONTAINERS
        if status.get(field)
    }
    conditions = [item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"]
    return {
        "metadata": {key: wire["metadata"][key] for key in _METADATA if key in wire["metadata"]},
        "spec": {key: spec[key] for key in _SPEC if key in spec} | kept_needs(spec),
        "status": {key: status[key] for key in _STATUS if key in status}
        | resources
        | {
            "conditions": [
                {key: item.get(key) for key in ("type", "status", "reason", "message")} for item in conditions
            ]
        },
    }


def has_claims(wire: Mapping[str, Any]) -> bool:
    """Return whether a pod of :func:`transform_pod` has claims."""
    return bool(wire["spec"].get("resourceClaims"))


def is_to_nominate(wire: Mapping[str, Any]) -> bool:
    """Return whether a pod of :func:`transform_pod` has no claims, and our gate: a node is to be nominated for it."""
    return not has_claims(wire) and not wire["spec"].get("nodeName") and _is_gated(wire["spec"])


def is_nominated(wire: Mapping[str, Any]) -> bool:
    """Return whether a pod of :func:`transform_pod` has no claims, and a node that kube-scheduler tries first."""
    return not has_claims(wire) and not wire["spec"].get("nodeName") and bool(wire["status"].get("nominatedNodeName"))


def on_node(wire: Mapping[str, Any], node: str) -> Mapping[str, Any]:
    """Return a pod as if it had a node."""
    return {**wire, "spec": {**wire["spec"], "nodeName": node}}


def read_waiting(wire: Mapping[str, Any]) -> WaitingPod | None:
    """Read a pod of :func:`transform_pod`; None if it waits neither with claims nor with our gate.

    The scheduler may be any: who knows claims honours their allocation.
    """
    metadata, spec, status = wire["metadata"], wire["spec"], wire["status"]
    if (
        spec.get("nodeName")
        or not (has_claims(wire) or is_to_nominate(wire))
        or metadata.get("deletionTimestamp")
        or status.get("phase") in {"Succeeded", "Failed"}
    ):
        return None
    return WaitingPod(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        priority=int(spec.get("priority") or 0),
        created=str(metadata.get("creationTimestamp") or ""),
        gates=tuple(item["name"] for item in spec.get("schedulingGates") or ()),
        is_refused=any(
            item["status"] == "False" and item["reason"] == "Unschedulable" for item in status["conditions"]
        ),
    )


def _is_gated(spec: Mapping[str, Any]) -> bool:
    return any(item.get("name") == GATE for item in spec.get("schedulingGates") or ())
