"""A cluster of a few nodes with H100s, in which each GPU is published as a test says, and pods that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from driver import DRIVER_NAME
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.api.resource_v1 import AllocationResult
from driver.explain.judge.waiting import waiting_pod
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName, Gpu
from driver.model.inventory import Inventory
from driver.modes.demand import DemandRound, PodWish
from driver.modes.free_node import free_node
from driver.modes.hypothesis import Waiting
from driver.modes.memory import DemandMemory
from driver.modes.rule import Layout
from driver.modes.supply import InventoryGpus
from tests.support.explain_cluster import classes
from tests.support.mig_machines import dgx_h100

__all__ = ["Json", "World", "gpu_request", "mig_request", "names", "ratio_request"]

Json = dict[str, Any]
Wishes = Mapping[str, Mapping[DeviceName, frozenset[DeviceName]]]


def gpu_request(name: str = "gpu", *, count: int = 1, core: int | None = None) -> Json:
    """A request for whole GPUs, or for a share of one by its compute."""
    wanted: Json = {"deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": count}
    if core is not None:
        wanted["capacity"] = {"requests": {"core": str(core), "memory": "1Gi"}}
    return {"name": name, "exactly": wanted}


def ratio_request(name: str = "share", *, percent: int, selector: str = "") -> Json:
    """A request for a share of a GPU by percent."""
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {
        "name": name,
        "exactly": {
            "deviceClassName": "gpu-ratio.rootport.dev",
            "selectors": selectors,
            "allocationMode": "ExactCount",
            "count": 1,
            "capacity": {"requests": {"core": str(percent), "memoryRatio": str(percent)}},
        },
    }


def mig_request(profile: str, name: str = "mig", *, count: int = 1, selector: str = "") -> Json:
    """A request for partitions of a profile."""
    expression = f'device.attributes["rootport.dev"].profile == "{profile}"' + (f" && {selector}" if selector else "")
    return {
        "name": name,
        "exactly": {
            "deviceClassName": "mig.rootport.dev",
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": [{"cel": {"expression": expression}}],
        },
    }


def names(gpu: Gpu, *kinds: str) -> frozenset[DeviceName]:
    """The devices of a GPU: ``gpu``, ``gpu-ratio``, or the end of a partition's name such as ``3g-40gb-0``."""
    card = gpu.name.removeprefix("gpu-")
    return frozenset(DeviceName(f"{kind}-{card}" if kind.startswith("gpu") else f"mig-{card}-{kind}") for kind in kinds)


class World:
    """The cluster. GPUs are published whole until a test says otherwise."""

    def __init__(
        self,
        nodes: int = 1,
        gpus: int = 2,
        *,
        layout: Layout = Layout.ONE,
        policies: GpuPolicies = DEFAULT_POLICIES,
        state: ClusterState | None = None,
    ) -> None:
        self.layout = layout
        self.policies = policies
        self.state = ClusterState() if state is None else state
        self.inventories: dict[str, Inventory] = {}
        self.laid_out: list[str] = []
        self.results: dict[str, list[AllocationResult]] = {}
        self.only: dict[str, dict[DeviceName, frozenset[DeviceName]]] = {}
        self.closed: dict[str, frozenset[DeviceName]] = {}
        self.memory = DemandMemory(self.state, self.gpus_of)
        for kind, wire in classes():
            self.state.put(kind, wire)
        for number in range(1, nodes + 1):
            self.add_node(f"n{number}", gpus)

    def add_node(self, name: str, gpus: int, *, labels: Mapping[str, str] | None = None) -> None:
        whole = dgx_h100(name)
        # Each card has a UUID of its own, as real ones do.
        cards = tuple(replace(gpu, uuid=f"{gpu.uuid}-{name}") for gpu in whole.gpus[:gpus])
        self.inventories[name] = replace(whole, gpus=cards)
        self.state.put(Kind.NODE, {"kind": "Node", "metadata": {"name": name, "labels": dict(labels or {})}})
        self.only[name] = free_node(self.layout, self.inventories[name], self.policies)
        self.closed[name] = frozenset()
        self.publish_again(name)

    def remove_node(self, name: str) -> None:
        for item in resource_slices(self.inventories.pop(name), policies=self.policies, only=self.only.pop(name)):
            self.state.remove(Kind.SLICE, item.metadata.name)
        self.state.remove(Kind.NODE, name)

    def gpu(self, node: str, index: int) -> Gpu:
        return self.inventories[node].gpus[index]

    def publish(self, node: str, index: int, *kinds: str, closed: Sequence[str] = ()) -> None:
        """Publish these devices of a GPU; ``closed`` of them with the taint of a change."""
        gpu = self.gpu(node, index)
        self.only[node][gpu.name] = names(gpu, *kinds)
        self.closed[node] = frozenset(self.closed[node] - names(gpu, *kinds)) | names(gpu, *closed)
        self.publish_again(node)

    def carry_out(self, wishes: Wishes) -> None:
        """Publish what is wished, as if every change were over at once."""
        for node, of_gpus in wishes.items():
            for gpu, wanted in of_gpus.items():
                self.only[node][gpu] = wanted
            self.closed[node] = frozenset()
            self.publish_again(node)

    def hold(self, claim: str, node: str, index: int, *kinds: str, percent: int | None = None) -> None:
        """Let a claim have these devices, or a share of them."""
        share = {} if percent is None else {"shareID": claim, "consumedCapacity": {"core": str(percent)}}
        self.hold_names(claim, node, sorted(names(self.gpu(node, index), *kinds)), **share)

    def hold_names(self, claim: str, node: str, devices: Sequence[str], **share: Any) -> None:
        """Let a claim have devices of a node by their names."""
        results = [{"request": "r", "driver": DRIVER_NAME, "pool": node, "device": name, **share} for name in devices]
        allocation = {"devices": {"results": results}}
        self.results[claim] = [AllocationResult.model_validate(allocation)]
        self.state.put(Kind.CLAIM, self._claim(claim, [gpu_request()], "ml") | {"status": {"allocation": allocation}})

    def release(self, claim: str, namespace: str = "ml") -> None:
        self.results.pop(claim, None)
        self.state.remove(Kind.CLAIM, f"{namespace}/{claim}")

    def wait(
        self, pod: str, *requests: Json, namespace: str = "ml", constraints: Sequence[Json] = (), **spec: Any
    ) -> None:
        """Let a pod wait whose claim has these requests."""
        self.state.put(Kind.CLAIM, self._claim(pod, list(requests), namespace, constraints))
        self.state.put(
            Kind.POD,
            {
                "kind": "Pod",
                "metadata": {"namespace": namespace, "name": pod, "uid": f"uid-of-{pod}"},
                "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": pod}], **spec},
                "status": {"phase": "Pending"},
            },
        )

    def waiting(self, pod: str, namespace: str = "ml") -> Waiting:
        found = self.state.pod(f"{namespace}/{pod}")
        assert found is not None
        waiting = waiting_pod(self.state, found)
        assert waiting is not None
        return waiting

    def round(self) -> DemandRound:
        return DemandRound(self.memory, self.layout, [node.node for node in self.state.nodes.values()])

    def wishes(self, *pods: str, kept: Mapping[str, PodWish] | None = None) -> tuple[Wishes, dict[str, PodWish]]:
        """What a round wishes for these pods, in this order, and each pod's own wish."""
        own: dict[str, PodWish] = {}
        with self.round() as this:
            others = []
            for pod in pods:
                wish = this.keep(self.waiting(pod), kept[pod]) if kept is not None and pod in kept else None
                if wish is not None:
                    own[pod] = wish
                elif not this.fits(self.waiting(pod)):
                    others.append(pod)
            for pod in others:
                wish = this.find(self.waiting(pod))
                if wish is not None:
                    own[pod] = wish
            return this.wishes(), own

    def _claim(self, name: str, requests: list[Json], namespace: str, constraints: Sequence[Json] = ()) -> Json:
        return {
            "kind": "ResourceClaim",
            "metadata": {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"},
            "spec": {"devices": {"requests": requests, "constraints": list(constraints)}},
        }

    def publish_again(self, node: str) -> None:
        """Publish a node as :attr:`only` and :attr:`closed` have it."""
        for item in resource_slices(
            self.inventories[node], policies=self.policies, only=self.only[node], closed=self.closed[node]
        ):
            self.state.put(Kind.SLICE, item.to_wire())

    def gpus_of(self, node: str) -> InventoryGpus | None:
        inventory = self.inventories.get(node)
        if inventory is None:
            return None
        self.laid_out.append(node)
        return InventoryGpus(inventory=inventory, policies=self.policies, nic_policies=DEFAULT_NIC_POLICIES)
