"""A cluster of simulated nodes whose GPUs change their modes for pods that the real kube-scheduler places."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from controller.demand.follower import DemandFollower
from controller.demand.turns import DemandPace
from controller.explanations.pending_claims import PendingClaim
from controller.explanations.pending_pods import Pace
from controller.explanations.service import Explanations
from controller.publisher import Publisher, PublisherOptions
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS
from driver.model.inventory import Inventory
from driver.modes.rule import Layout
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.pods import pod
from tests.support.mig_machines import dgx_h100
from tests.support.simulated_nodes import NAMESPACE, Nodes
from tests.support.waiting import eventually

__all__ = ["Leader", "ModesCluster"]

Json = dict[str, Any]


class Leader:
    """What a leading controller runs, in this process and with its own rights.

    Args:
        plane: The control plane.
        layout: The layout of GPUs.
        closed_s: How long a device is closed before it may leave.
        list_claims_every_s: How often claims are listed at most.
        pace: How often wishes are looked for.
    """

    def __init__(
        self,
        plane: ControlPlane,
        layout: Layout = Layout.ONE,
        *,
        closed_s: float = 2.0,
        list_claims_every_s: float = 1.0,
        pace: DemandPace | None = None,
    ) -> None:
        api = KubernetesApi.connect(kubeconfig=plane.service_account_kubeconfig(NAMESPACE, "rootport-controller"))
        explanations = self._explanations = Explanations(api, instance="test", all_names=False, pace=Pace())
        self.publisher = Publisher(
            api,
            PublisherOptions(
                fresh_for_s=600,
                grace_s=1200,
                gpu_layout=layout,
                closed_s=closed_s,
                list_claims_every_s=list_claims_every_s,
            ),
            explanations=explanations,
            demand=DemandFollower(
                explanations.handler,
                is_synced=explanations.is_synced,
                pace=pace or DemandPace(period_s=0.5, wait_s=0.5),
            ),
        )

    @property
    def pending(self) -> tuple[PendingClaim, ...]:
        """The list of pending claims."""
        return self._explanations.pending

    def __enter__(self) -> Self:
        self.publisher.start()
        return self

    def __exit__(self, *_: object) -> None:
        failure = self.publisher.failure
        assert self.publisher.stop(20)
        assert failure == ""


class ModesCluster:
    """Nodes with H100s, and pods with one claim each.

    Args:
        plane: The control plane, with Rootport's manifests and a scheduler.
        nodes: How many nodes.
        gpus: Of each.
    """

    def __init__(self, plane: ControlPlane, *, nodes: int, gpus: int) -> None:
        self._nodes = Nodes(plane.kubeconfig)
        self.api = self._nodes.api
        self.inventories = [_inventory(f"modes-{number}", gpus) for number in range(nodes)]
        self.created: dict[str, float] = {}
        # As kube-controller-manager makes it: pods are refused without.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        plane.kubectl("apply", "--namespace=default", "--filename=-", input=json.dumps(account))
        for inventory in self.inventories:
            self._add(inventory)

    def close(self) -> None:
        """Remove the pods, their claims and the nodes."""
        self.end(*self.created)
        self._nodes.clear()

    def published(self) -> dict[str, list[str]]:
        """The names of the devices of each node that can be allocated."""
        return {
            inventory.node: [
                device["name"]
                for item in self._nodes.slices(inventory.node)
                for device in item["spec"].get("devices", ())
                if not device.get("taints")
            ]
            for inventory in self.inventories
        }

    def wait_for_slices(self) -> None:
        """Wait until all nodes' slices are there."""
        eventually("slices of all nodes", lambda: all(self.published().values()), timeout_s=60)

    def run(self, name: str, request: Json) -> None:
        """Create a pod that has a claim with this request."""
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}},
        }
        self.api.create(RESOURCE_CLAIMS, body, namespace="default")
        self.created[name] = time.monotonic()
        self.api.create(PODS, pod(name, claim=name, command="true"), namespace="default")

    def placed(self, names: Sequence[str], *, timeout_s: float) -> dict[str, float]:
        """Wait until the pods have nodes; return for each how long it took since it was created, in seconds."""
        took: dict[str, float] = {}

        def all_placed() -> bool:
            now = time.monotonic()
            for item in self.api.list(PODS, namespace="default").items:
                name = item["metadata"]["name"]
                if name in names and item["spec"].get("nodeName"):
                    took.setdefault(name, now - self.created[name])
            return len(took) == len(names)

        eventually(f"all of {names} are placed", all_placed, timeout_s=timeout_s)
        return took

    def is_placed(self, name: str) -> bool:
        return bool(self.api.get(PODS, name, namespace="default")["spec"].get("nodeName"))

    def devices_of(self, name: str) -> list[str]:
        """The devices that a pod's claim has."""
        claim = self.api.get(RESOURCE_CLAIMS, name, namespace="default")
        results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        return [item["device"] for item in results]

    def end(self, *names: str) -> None:
        """Remove pods and their claims, as kubelet and kube-controller-manager would."""
        for name in names:
            self.api.delete(PODS, name, namespace="default")
            self.api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace="default")
            self.api.delete(RESOURCE_CLAIMS, name, namespace="default")
            self.created.pop(name, None)

    def _add(self, inventory: Inventory) -> None:
        self._nodes.add(inventory)
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
        status: Mapping[str, object] = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        self.api.merge_patch(NODES, inventory.node, {"status": status}, subresource="status")
        self.api.merge_patch(NODES, inventory.node, {"spec": {"taints": None}})


def _inventory(name: str, gpus: int) -> Inventory:
    whole = dgx_h100(name)
    return replace(whole, gpus=tuple(replace(gpu, uuid=f"{gpu.uuid}-{name}") for gpu in whole.gpus[:gpus]))
