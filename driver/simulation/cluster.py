"""Turns a simulation into the objects that a cluster's API server would hold, for ``--out`` and for explain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from driver.api.resource_v1 import API_VERSION, ResourceSlice
from driver.explain.known.cluster import EXTENDED_CLAIM, Kind, PodClaim
from driver.explain.known.state import ClusterState
from driver.explain.reasons import Reason
from driver.simulation.plugin import NOT_PREPARED
from driver.simulation.run import PodOutcome, Simulation, node_named

__all__ = ["cluster_state", "objects_of", "slice_json"]

_CANNOT_PREPARE: Final = "FailedPrepareDynamicResources"


def cluster_state(simulation: Simulation) -> ClusterState:
    """Return what explain knows of such a cluster: the same as it reads from the objects."""
    state = ClusterState()
    for item in simulation.slices:
        state.publish(item)
    for kind, wire in objects_of(simulation):
        state.put(kind, wire)
    return state


def objects_of(simulation: Simulation) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Return all objects but ResourceSlices, with their kinds."""
    for inventory in simulation.inventories:
        yield Kind.NODE, _node(inventory.node)
    for device_class in simulation.classes:
        yield Kind.CLASS, {"apiVersion": API_VERSION, "kind": Kind.CLASS.value} | device_class.to_wire()
    for template in simulation.templates.values():
        yield Kind.TEMPLATE, _template(template.to_wire())
    for outcome in simulation.outcomes:
        yield Kind.CLAIM, {"apiVersion": API_VERSION, "kind": Kind.CLAIM.value} | outcome.claim.to_wire()
    problems = {outcome.key: outcome.problem for outcome in simulation.outcomes if outcome.problem is not None}
    for pod in simulation.pods:
        yield Kind.POD, _pod(pod)
        if pod.reason is Reason.PREPARE_FAILS:
            yield Kind.EVENT, _event(pod, pod.problem)
        for key in pod.pod.claim_keys:
            if pod.node is not None and key in problems:
                yield Kind.EVENT, _event(pod, problems[key])
                break


def slice_json(item: ResourceSlice, known: dict[tuple[int, int], str]) -> str:
    """Return a slice as JSON, with each device on a line.

    Args:
        item: The slice.
        known: What the devices of slices that share them (``is``) were written as; nodes of one kind do. It holds only
            as long as the slices do.
    """
    spec = item.spec
    key = id(spec.devices), id(spec.shared_counters)
    contents = known.get(key)
    if contents is None:
        wire = item.to_wire()["spec"]
        lists = {name: wire[name] for name in ("sharedCounters", "devices") if name in wire}
        contents = known[key] = "".join(
            f',\n"{name}": [\n' + ",\n".join(map(json.dumps, values)) + "\n]" for name, values in lists.items()
        )
    bare = item.model_copy(update={"spec": spec.model_copy(update={"devices": (), "shared_counters": ()})}).to_wire()
    head = json.dumps(bare.pop("spec"))
    return f'{json.dumps(bare)[:-1]},\n"spec": {head[:-1]}{contents}}}}}'


def _node(name: str) -> dict[str, Any]:
    metadata = node_named(name).metadata.to_wire()
    ready = {"type": "Ready", "status": "True", "reason": "Simulated"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"conditions": [ready]}}


def _template(claim: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.TEMPLATE.value,
        "metadata": claim["metadata"],
        "spec": {"spec": claim.get("spec", {})},
    }


def _pod(outcome: PodOutcome) -> dict[str, Any]:
    state = outcome.pod.state
    claims = [_pod_claim(entry) for entry in state.claims if entry.name != EXTENDED_CLAIM]
    spec: dict[str, Any] = ({"resourceClaims": claims} if claims else {}) | dict(outcome.pod.containers)
    made = [
        {"name": entry.name} | ({"resourceClaimName": entry.claim} if entry.claim else {})
        for entry in state.claims
        if entry.template and (entry.claim or entry.needs_none)
    ]
    status: dict[str, Any] = {"phase": "Pending"} | ({"resourceClaimStatuses": made} if made else {})
    extended = next((entry.claim for entry in state.claims if entry.name == EXTENDED_CLAIM), "")
    if extended:
        status["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    if node := outcome.node or state.node:
        spec["nodeName"] = node
        names = _container_names(outcome.pod.containers.get("containers")) or ["simulated"]
        status["containerStatuses"] = [
            {"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}} for name in names
        ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": state.name, "namespace": state.namespace, "uid": state.uid},
        "spec": spec,
        "status": status,
    }


def _pod_claim(entry: PodClaim) -> dict[str, str]:
    if entry.template:
        return {"name": entry.name, "resourceClaimTemplateName": entry.template}
    return {"name": entry.name, "resourceClaimName": entry.claim}


def _container_names(containers: object) -> Sequence[str]:
    """Return the containers' names; the list is not validated."""
    if not isinstance(containers, list):
        return ()
    names = [item.get("name") for item in containers if isinstance(item, dict)]
    return [name for name in names if isinstance(name, str)]


def _event(pod: PodOutcome, problem: str) -> dict[str, Any]:
    """Return the Event that the kubelet would write."""
    state = pod.pod.state
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{state.name}.prepare", "namespace": state.namespace},
        "involvedObject": {"kind": "Pod", "namespace": state.namespace, "name": state.name, "uid": state.uid},
        "reason": _CANNOT_PREPARE,
        "message": f"Failed to prepare dynamic resources: {problem.removeprefix(NOT_PREPARED)}",
        "type": "Warning",
    }
