"""A cluster as the pages' readers have it: Rootport is installed, and what the pages name exists."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, Final

import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES, NODES, PODS, RESOURCE_CLAIMS, Resource
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import MANIFESTS, install
from tests.support.observed_cluster import inventory_object, small_cluster
from tests.support.paths import REPO

__all__ = ["furnish"]

_NAMESPACES: Final = ("default", "ml", "batch", "team-a")
_NODES: Final = ("gpu-node-1", "gpu-node-2", "gpu-node-3", "gpu-node-7", "gpu-node-10", "node-1", "n1")
_CLAIMS: Final = ("default/half-gpu-x7k2p", "ml/train-0-gpus", "ml/train-0-gpus-x7k2p")
_STATUSES: Final = {"Node": NODES, "Pod": PODS, "ResourceClaim": RESOURCE_CLAIMS}


def furnish(plane: ControlPlane) -> None:
    """Install Rootport, and make what the pages name: before its admission policies, which keep such objects to it."""
    plane.kubectl("apply", "--server-side", f"--filename={MANIFESTS / 'crd'}")
    plane.wait_for_crds()
    found = [*_own(), *_of_examples()]
    # Namespaces before what is in them, and accounts before pods: no controller-manager makes them here.
    for kinds in (("Namespace",), ("ServiceAccount", "DeviceClass", "Node"), ()):
        chosen = [item for item in found if (item["kind"] in kinds if kinds else True)]
        text = yaml.safe_dump_all([_without_status(item) for item in chosen])
        plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=text)
    with KubernetesApi.connect(kubeconfig=plane.kubeconfig) as api:
        for item in found:
            if (resource := _STATUSES.get(item["kind"])) is not None:
                _finish(api, resource, item)
        devices, inventories = small_cluster()
        for device in devices:
            _apply(api, DEVICES, json.loads(json.dumps(device.to_wire())))
        n1 = copy.deepcopy(json.loads(json.dumps(devices[0].to_wire())))
        n1["metadata"] = {"name": "n1.gpu-0000-10-00-0"}
        n1["spec"] |= {"nodeName": "n1", "deviceName": "gpu-0000-10-00-0"}
        _apply(api, DEVICES, n1)
        for inventory in (*inventories, *map(inventory_object, ("node-1", "n1", "gpu-1"))):
            _apply(api, NODE_INVENTORIES, inventory)
    install(plane, "placement", workloads=True)


def _own() -> Iterator[dict[str, Any]]:
    for name in _NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for account in ("default", "ci"):
            if (name, account) != ("default", "ci"):  # a page makes this one
                yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": name}}
    for name in _NODES:
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": {"koordinator.sh/gpu": "800"}, "allocatable": {"koordinator.sh/gpu": "800"}},
        }
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    for full in _CLAIMS:
        namespace, name = full.split("/")
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"devices": {"requests": [request]}},
        }
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
    }
    for name in ("rootport-system",):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        yield {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "rootport-controller", "namespace": name},
            "spec": {"holderIdentity": "rootport-controller-0"},
        }


def _of_examples() -> Iterator[dict[str, Any]]:
    for path in sorted((REPO / "examples" / "explain").glob("*.yaml")):
        for item in yaml.safe_load(path.read_text())["items"]:
            if item["kind"] == "ResourceSlice":
                # The installed classes ask for the strategy; those of the example, which are replaced, do not.
                for device in item["spec"]["devices"]:
                    device["attributes"]["sharingStrategy"] = {"string": "timeSlicing"}
            if item["metadata"]["name"] == "train":
                # As the controller writes them of a claim that is pending.
                item["metadata"]["annotations"] = {"rootport.dev/pending-reason": "DevicesInUse"}
            yield item


def _without_status(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: part for key, part in item["metadata"].items() if key != "uid"}
    return {key: part for key, part in item.items() if key != "status"} | {"metadata": metadata}


def _finish(api: KubernetesApi, resource: Resource, item: dict[str, Any]) -> None:
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
    if item["kind"] == "Node":
        # Admission taints a node that is not ready yet.
        api.merge_patch(resource, name, {"spec": {"taints": item.get("spec", {}).get("taints")}})
    if "status" in item:
        api.merge_patch(resource, name, {"status": item["status"]}, namespace=namespace, subresource="status")


def _apply(api: KubernetesApi, resource: Resource, item: dict[str, Any]) -> None:
    name = item["metadata"]["name"]
    metadata = {"name": name, "labels": item["metadata"].get("labels", {})}
    api.apply(resource, {"metadata": metadata, "spec": item["spec"]}, field_manager="test")
    status = {"metadata": {"name": name}, "status": item["status"]}
    api.apply(resource, status, field_manager="test", subresource="status")
