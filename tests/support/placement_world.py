"""A cluster of managed nodes, each an Azure ND H100 v5 as Rootport lays it out, and pods that are to be placed on them.

Nothing is random: the same arguments give the same objects.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.api.resource_v1 import ResourceSlice
from driver.explain.known.cluster import Kind, PodState
from driver.explain.known.needs_reading import read_needs
from driver.explain.known.state import ClusterState
from driver.layout.slices import resource_slices
from driver.model.managed_nodes import LABEL, MANAGED, TAINT
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from driver.placement.decision import Decision
from driver.placement.placer import Placer
from tests.support.explain_cluster import classes
from tests.support.paths import REPO

__all__ = ["Json", "PlacementWorld", "gpus", "mig", "nics", "share"]

Json = dict[str, Any]

TOPOLOGY: Final = REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml"
_SPACE: Final = uuid.UUID("0c4b4e2e-59f4-4d0e-9d0b-6a1a9be7d2f4")
_STAND_IN: Final = "stand-in-for-the-node"


def gpus(count: int = 1, *, name: str = "gpu") -> Json:
    """A request for whole GPUs."""
    return _request(name, "gpu.rootport.dev", count)


def share(percent: int, *, name: str = "share") -> Json:
    """A request for a share of a GPU by its compute, with a little of its memory."""
    return _request(name, "gpu.rootport.dev", 1, capacity={"core": str(percent), "memory": "1Gi"})


def mig(profile: str, *, count: int = 1, name: str = "mig") -> Json:
    """A request for partitions of a profile."""
    return _request(name, "mig.rootport.dev", count, f'device.attributes["rootport.dev"].profile == "{profile}"')


def nics(count: int = 1, *, name: str = "nic") -> Json:
    """A request for whole NICs."""
    return _request(name, "rdma.rootport.dev", count)


def _request(name: str, class_: str, count: int, selector: str = "", capacity: Mapping[str, str] | None = None) -> Json:
    exactly: Json = {"deviceClassName": class_, "allocationMode": "ExactCount", "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        exactly["capacity"] = {"requests": dict(capacity)}
    return {"name": name, "exactly": exactly}


@lru_cache(maxsize=4)
def _slices(layout: Layout) -> tuple[str, ...]:
    inventory = read_topology(TOPOLOGY, node=_STAND_IN, hardware=HardwareFacts(gpu_model="H100"))
    only = free_node(layout, inventory, DEFAULT_POLICIES)
    return tuple(json.dumps(item.to_wire()) for item in resource_slices(inventory, only=only))


@lru_cache(maxsize=16)
def _read_slices(layout: Layout, node: str) -> tuple[ResourceSlice, ...]:
    texts = (text.replace(_STAND_IN, node) for text in _slices(layout))
    return tuple(ResourceSlice.model_validate_json(text) for text in texts)


class PlacementWorld:
    """The cluster, fed as the controller feeds its own: by objects as the API server stores them.

    Args:
        nodes: How many managed nodes there are at first; their names are ``n0000`` and so on.
        layout: How their GPUs are published.
        state: The cluster.
    """

    def __init__(
        self, nodes: int = 2, *, layout: Layout = Layout.ONE, state: ClusterState | None = None, **placer: Any
    ) -> None:
        self.layout = layout
        self.state = ClusterState() if state is None else state
        for kind, wire in classes():
            self.state.put(kind, wire)
        for number in range(nodes):
            self.add_node(f"n{number:04}")
        self.placer = Placer(self.state, **placer)
        self.decisions: dict[str, Decision] = {}
        self.bound: dict[str, Json] = {}
        self.nodes_of: dict[str, str] = {}

    def add_node(
        self,
        name: str,
        *,
        managed: bool = True,
        labels: Mapping[str, str] | None = None,
        spec: Json | None = None,
        allocatable: Mapping[str, str] | None = None,
    ) -> None:
        """Add a node, or change it."""
        own = {"kubernetes.io/hostname": name, **({LABEL: MANAGED} if managed else {}), **(labels or {})}
        amounts = {"cpu": "96", "memory": "1900Gi", "pods": "110", **(allocatable or {})}
        node = {"metadata": {"name": name, "labels": own}, "spec": spec or {}, "status": {"allocatable": amounts}}
        self.state.put(Kind.NODE, node)
        for number, text in enumerate(_slices(self.layout)):
            wire: Json = json.loads(text.replace(_STAND_IN, name))
            wire["metadata"]["name"] = f"{number:05}-rootport.dev-{name}"
            for device in wire["spec"].get("devices", ()):
                if "uuid" in device.get("attributes", {}):
                    device["attributes"]["uuid"] = {"string": f"GPU-{uuid.uuid5(_SPACE, name + device['name'])}"}
                if managed:
                    device["taints"] = [*device.get("taints", ()), {"key": TAINT, "effect": "NoSchedule"}]
            self.state.put(Kind.SLICE, wire)

    def pod(
        self,
        name: str,
        *claims: Sequence[Json],
        cpu: str = "0",
        memory: str = "0",
        spec: Json | None = None,
        labels: Mapping[str, str] | None = None,
        constraints: Sequence[Json] = (),
    ) -> PodState:
        """Let a pod wait that wants a claim for each list of requests."""
        entries = []
        for number, requests in enumerate(claims):
            claim = f"{name}-{number}"
            devices = {"requests": list(requests), "constraints": list(constraints)}
            metadata = {"namespace": "ml", "name": claim, "uid": f"uid-{claim}"}
            self.state.put(Kind.CLAIM, {"metadata": metadata, "spec": {"devices": devices}})
            entries.append({"name": f"c{number}", "resourceClaimName": claim})
        requests_of_pod = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value != "0"}
        wire: Json = {
            "metadata": {"namespace": "ml", "name": name, "uid": f"uid-{name}", "labels": dict(labels or {})},
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": requests_of_pod}}],
                "resourceClaims": entries,
                **(spec or {}),
            },
        }
        self.bound[f"ml/{name}"] = wire
        self.state.put(Kind.POD, wire)
        found = self.state.pod(f"ml/{name}")
        assert found is not None
        return found

    def place(self, name: str, *, avoid: Sequence[str] = ()) -> Decision:
        """Decide about a pod."""
        pod = self.state.pod(f"ml/{name}")
        assert pod is not None
        return self.placer.place(pod, avoid=dict.fromkeys(avoid, "kube-scheduler could not place it there"))

    def run(self, name: str) -> str:
        """Place a pod, write its claims, and bind it; its node, or an empty text where it fits nowhere."""
        decision = self.place(name)
        if decision.chosen is None:
            return ""
        self.placer.assume(decision)
        self.write(decision)
        self.bind(name, decision.chosen.node)
        return decision.chosen.node

    def write(self, decision: Decision) -> None:
        """Store a decision's claims as allocated."""
        assert decision.chosen is not None
        for claim, result in zip(decision.claims, decision.chosen.results, strict=True):
            metadata = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
            name, uid = decision.pod.partition("/")[2], decision.pod_uid
            status = {
                "allocation": result.to_wire(),
                "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
            }
            spec = claim.claim.spec.to_wire() if claim.claim is not None else {}
            self.state.put(Kind.CLAIM, {"metadata": metadata, "spec": spec, "status": status})
        self.decisions[decision.pod] = decision

    def bound_wire(self, name: str) -> Json:
        """A pod that runs, as the API server stores it."""
        return self._with_node(name, self.nodes_of[name])

    def requests(self, name: str) -> Mapping[str, int]:
        """What a pod requests, in the units of the scheduler."""
        return read_needs(self.bound[f"ml/{name}"]).requests

    def slices(self) -> list[ResourceSlice]:
        """What all nodes publish, without the taint of managed nodes."""
        found = [
            json.loads(text.replace(_STAND_IN, name)) for name in self.state.nodes for text in _slices(self.layout)
        ]
        return [ResourceSlice.model_validate(wire) for wire in found]

    def capacities(self) -> dict[tuple[str, str], int]:
        """What there is of each capacity of each device, in nano-units."""
        return {
            (f"{item.spec.driver}/{item.spec.pool.name}/{device.name}", name): capacity.value.nano
            for item in self.slices()
            for device in item.spec.devices
            for name, capacity in device.capacity.items()
        }

    def _with_node(self, name: str, node: str) -> Json:
        wire = copy.deepcopy(self.bound[f"ml/{name}"])
        wire["spec"]["nodeName"] = node
        return wire

    def bind(self, name: str, node: str) -> None:
        """Bind a pod, as informers show it: it is no pod that waits any more."""
        self.nodes_of[name] = node
        self.placer.put_bound_pod(f"ml/{name}", self._with_node(name, node))
        self.state.remove(Kind.POD, f"ml/{name}")

    def end(self, name: str) -> None:
        """Delete a pod and its claims."""
        self.placer.put_bound_pod(f"ml/{name}", None)
        self.state.remove(Kind.POD, f"ml/{name}")
        for entry in self.bound.pop(f"ml/{name}")["spec"]["resourceClaims"]:
            self.state.remove(Kind.CLAIM, f"ml/{entry['resourceClaimName']}")
        self.decisions.pop(f"ml/{name}", None)
