"""A cluster of simulated nodes, some of them managed, and pods that Rootport's controller and kube-scheduler place."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import (
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    JsonObject,
)
from driver.model.inventory import Inventory
from driver.model.managed_nodes import ENABLED, LABEL, MANAGED, TAINT
from tests.support.cluster.control_plane import ControlPlane
from tests.support.mig_machines import dgx_h100
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

__all__ = ["PlacedCluster", "given_twice"]

QUICK: Final = "tests.support.quick_controller"
SPACE: Final = "team"
# Beats that do not come must not matter here: a test may stop the API server.
_OPTIONS: Final = ("--fresh-for=600", "--grace-period=1200", "--gpu-layout=one", "--log-level=debug")
_AMOUNTS: Final = {"cpu": "64", "memory": "512Gi", "pods": "1000"}


def given_twice(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each device that two claims have, or of which more than all is consumed, as a sentence."""
    holders: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    core: Counter[tuple[str, str]] = Counter()
    shared: set[tuple[str, str]] = set()
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            device = (result["pool"], result["device"])
            holders[device].append(claim["metadata"]["name"])
            if result.get("shareID"):
                shared.add(device)
                consumed = {name.rpartition("/")[2]: amount for name, amount in result["consumedCapacity"].items()}
                core[device] += int(consumed.get("core", "100"))
    whole = [f"{device}: {names}" for device, names in holders.items() if len(names) > 1 and device not in shared]
    return whole + [f"{device}: {percent} %" for device, percent in core.items() if percent > 100]


class PlacedCluster:
    """Nodes with H100s, and pods whose claims come from templates.

    Args:
        plane: With Rootport's manifests and the component placement; scheduler and controller-manager run.
        folder: For the controllers' logs.
    """

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.nodes = Nodes(plane.kubeconfig)
        self.api: KubernetesApi = self.nodes.api
        self.kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")
        self.controllers: list[Controller] = []
        self._names: list[str] = []
        self._stop = threading.Event()
        self.twice: list[str] = []
        self._watch = threading.Thread(target=self._look_for_twice, daemon=True)

    def __enter__(self) -> Self:
        labels = {LABEL: ENABLED}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE, "labels": labels}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}}
        for body in (namespace, account):
            self.plane.kubectl("apply", "--filename=-", input=json.dumps(body))
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()
        for controller in self.controllers:
            controller.kill()
        self.plane.kubectl("delete", "pods", "--all", f"--namespace={SPACE}", "--force", "--grace-period=0")
        for claim in self.claims():
            self._drop(claim["metadata"]["name"])
        self.plane.kubectl("delete", "resourceclaimtemplates", "--all", f"--namespace={SPACE}")
        self.nodes.clear()
        assert not self.twice, self.twice

    def add_node(
        self, name: str, *, gpus: int = 2, managed: bool = True, amounts: Mapping[str, str] = _AMOUNTS
    ) -> None:
        """Add a node."""
        self.nodes.add(_inventory(name, gpus))
        if managed:
            self.manage(name)
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        self.api.merge_patch(NODES, name, {"status": status}, subresource="status")
        self.api.merge_patch(NODES, name, {"spec": {"taints": None}})
        self._names.append(name)

    def manage(self, name: str, *, managed: bool = True) -> None:
        """Set or remove a node's label."""
        labels = {LABEL: MANAGED if managed else None, "kubernetes.io/hostname": name}
        self.api.merge_patch(NODES, name, {"metadata": {"labels": labels}})

    def controller(
        self, *options: str, policy: str = "first-fit", module: str = QUICK, settled: bool = True
    ) -> Controller:
        """Start a controller; wait until it places, unless another one leads."""
        identity = f"controller-{len(self.controllers)}"
        log = self.folder / f"{identity}.log"
        chosen = (*_OPTIONS, f"--placement={policy}", *options)
        made = Controller(self.kubeconfig, log, *chosen, identity=identity, module=module)
        self.controllers.append(made)
        if settled:
            eventually("placement begins", lambda: made.logged("placement begins"), timeout_s=60)
            eventually("taints", lambda: all(self.is_tainted(name) for name in self._names if self.is_labelled(name)))
        return made

    def is_labelled(self, name: str) -> bool:
        return self.api.get(NODES, name)["metadata"].get("labels", {}).get(LABEL) == MANAGED

    def is_tainted(self, name: str) -> bool:
        """Whether all devices of a node have the taint; False where it has none."""
        devices = [device for item in self.nodes.slices(name) for device in item["spec"].get("devices", ())]
        return bool(devices) and all(any(t["key"] == TAINT for t in device.get("taints", ())) for device in devices)

    def template(self, name: str, *, count: int = 1, core: int | None = None, mig: str = "") -> None:
        """Add a template of a claim for GPUs, for a share of one, or for a partition of this profile."""
        exactly: JsonObject = {"deviceClassName": "gpu.rootport.dev", "count": count}
        if core is not None:
            exactly["capacity"] = {"requests": {"core": str(core), "memory": "1Gi"}}
        if mig:
            expression = f'device.attributes["rootport.dev"].profile == "{mig}"'
            exactly |= {"deviceClassName": "mig.rootport.dev", "selectors": [{"cel": {"expression": expression}}]}
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
        self.api.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": name, "namespace": SPACE}, "spec": spec})

    def claim(self, name: str, *, count: int = 1) -> None:
        """Add a claim that no pod owns."""
        exactly = {"deviceClassName": "gpu.rootport.dev", "count": count}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        self.api.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": SPACE}, "spec": spec})

    def pod(self, name: str, *templates: str, claims: tuple[str, ...] = (), cpu: str = "1", **spec: Any) -> None:
        """Create a pod with claims of these templates, and with these claims."""
        named = [{"name": f"c{index}", "resourceClaimTemplateName": item} for index, item in enumerate(templates)]
        named += [{"name": item, "resourceClaimName": item} for item in claims]
        container = {
            "name": "main",
            "image": "none",
            "resources": {
                "requests": {"cpu": cpu, "memory": "1Gi"},
                "claims": [{"name": item["name"]} for item in named],
            },
        }
        body = {
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"containers": [container], "resourceClaims": named},
        }
        body["spec"] |= spec
        self.api.create(PODS, body)

    def claims(self) -> list[JsonObject]:
        """All claims."""
        return list(self.api.list(RESOURCE_CLAIMS, namespace=SPACE).items)

    def claims_of(self, pod: str) -> list[JsonObject]:
        """The claims that were made for a pod."""
        return [
            claim
            for claim in self.claims()
            if any(owner["name"] == pod for owner in claim["metadata"].get("ownerReferences", ()))
        ]

    def node_of(self, pod: str) -> str:
        """Where a pod is bound; empty while it is not."""
        return str(self.api.get(PODS, pod, namespace=SPACE)["spec"].get("nodeName", ""))

    def bound(self) -> dict[str, str]:
        """The nodes of all pods that have one."""
        items = self.api.list(PODS, namespace=SPACE).items
        return {item["metadata"]["name"]: item["spec"]["nodeName"] for item in items if item["spec"].get("nodeName")}

    def wait_bound(self, *pods: str, timeout_s: float = 40) -> dict[str, str]:
        """Wait until these pods are bound; return where."""
        eventually(f"{pods} are bound", lambda: set(pods) <= set(self.bound()), timeout_s=timeout_s)
        found = self.bound()
        return {pod: found[pod] for pod in pods}

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once, as kubelet would in the end."""
        command = ("delete", "pod", name, f"--namespace={SPACE}", "--force", "--grace-period=0", "--wait=false")
        self.plane.kubectl(*command)

    def _look_for_twice(self) -> None:
        api = KubernetesApi.connect(kubeconfig=self.plane.kubeconfig)
        while not self._stop.wait(0.1):
            try:
                found = given_twice(api.list(RESOURCE_CLAIMS).items)
            except ApiServerError:
                continue
            self.twice += [item for item in found if item not in self.twice]

    def _drop(self, name: str) -> None:
        free = {"status": {"reservedFor": None, "allocation": None}}
        try:
            self.api.merge_patch(RESOURCE_CLAIMS, name, free, namespace=SPACE, subresource="status")
            self.api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace=SPACE)
            self.api.delete(RESOURCE_CLAIMS, name, namespace=SPACE)
        except ApiServerError:
            return  # it went with its pod


def _inventory(name: str, gpus: int) -> Inventory:
    whole = dgx_h100(name)
    return replace(whole, gpus=tuple(replace(gpu, uuid=f"{gpu.uuid}-{name}") for gpu in whole.gpus[:gpus]))
