"""A cluster of many equal machines, as the API server would list it: nodes, real slices, and claims that hold a part.

The machine is an Azure ND H100 v5 (8 GPUs, 8 NICs) as Rootport lays it out. Each GPU has a UUID of its own, as real
ones do. Nothing is random: the same arguments give the same objects.
"""

from __future__ import annotations

import copy
import json
import random
import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import yaml

from driver import DRIVER_NAME
from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.explain.known.cluster import Kind
from driver.layout.slices import resource_slices
from tests.support.paths import REPO

__all__ = ["classes", "node_objects", "pending_claim", "pending_pairs", "pending_pod"]

TOPOLOGY: Final = REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml"

Json = dict[str, Any]
_SPACE: Final = uuid.UUID("6f1d7c1e-2a34-4a3f-9a63-3f5f0d4c9a10")
_WITHOUT_MIG: Final = GpuPolicies.model_validate(
    {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": ["gpu", "gpu-ratio"]}]}
)
_STAND_IN: Final = "stand-in-for-the-node"
# How four neighbouring nodes are used: of their 32 GPUs 20 are in use, of their 32 NICs 18, in all 59 %. A number is a
# claim of as many GPUs with a NIC each; "share" stands for two claims that have a part each of one GPU, and no NIC.
_USE: Final = (("8",), ("1", "1", "2", "share"), ("4", "share"), ("1",))


@lru_cache(maxsize=2)
def _layout(*, mig: bool) -> tuple[Json, ...]:
    inventory = read_topology(TOPOLOGY, node=_STAND_IN, hardware=HardwareFacts(gpu_model="H100"))
    slices = resource_slices(inventory, policies=DEFAULT_POLICIES if mig else _WITHOUT_MIG)
    return tuple(item.to_wire() for item in slices)


def classes() -> Iterator[tuple[Kind, Json]]:
    """Rootport's DeviceClasses."""
    with (REPO / "resourceclasses" / "device-classes.yaml").open() as file:
        for document in yaml.safe_load_all(file):
            if document is not None and document["kind"] == "DeviceClass":
                yield Kind.CLASS, document


def node_objects(number: int, *, mig: bool = False, mixed: bool = False) -> list[tuple[Kind, Json]]:
    """A Node, its slices, and the claims that hold 60 % of its devices (on average of four nodes with one another).

    Args:
        number: Which node.
        mig: Its GPUs are published in partitions as well.
        mixed: Hardly any two nodes are used in the same way: which devices the claims hold differs from node to node.
    """
    name = f"gpu-{number:05}"
    slices = [_slice(item, name) for item in _layout(mig=mig)]
    devices = [device["name"] for item in slices for device in item["spec"].get("devices", ())]
    gpus = [device for device in devices if device.startswith("gpu-") and device.count("-") == 4]
    nics = [device for device in devices if device.startswith("rdma-")]
    if mixed:
        places = random.Random(number)
        places.shuffle(gpus)
        places.shuffle(nics)
    claims: list[Json] = []
    for use in _USE[number % len(_USE)]:
        key = f"{name}-{len(claims)}"
        if use == "share":
            gpu = gpus.pop(0)
            claims += [_share(f"{key}-{half}", name, gpu) for half in ("a", "b")]
        else:
            pairs = [(gpus.pop(0), nics.pop(0)) for _ in range(int(use))]
            claims.append(_pairs(key, name, pairs))
    return [
        (Kind.NODE, _node(name)),
        *((Kind.SLICE, item) for item in slices),
        *((Kind.CLAIM, item) for item in claims),
    ]


def pending_claim(name: str, *, count: int = 4, model: str = "H100", memory: str = "", same: str = "") -> Json:
    """A claim for GPUs and as many NICs, as the API server stores it.

    Args:
        name: Its name, in the namespace ml.
        count: How many GPUs, and how many NICs.
        model: What the GPUs' model has in it.
        memory: How much memory of each GPU; all of it if not given.
        same: The attribute that all of them are to share.
    """
    gpu = _request("gpu", "gpu.rootport.dev", count, f'device.attributes["rootport.dev"].model.contains("{model}")')
    if memory:
        gpu["exactly"]["capacity"] = {"requests": {"memory": memory}}
    nic = _request("nic", "rdma.rootport.dev", count, 'device.attributes["rootport.dev"].linkType == "infiniband"')
    constraints = [{"matchAttribute": same}] if same else []
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ml", "name": name, "uid": str(uuid.uuid5(_SPACE, name)), "resourceVersion": "1"},
        "spec": {"devices": {"requests": [gpu, nic], "constraints": constraints}},
    }


def pending_pairs(name: str, pairs: int) -> Json:
    """A claim for so many GPUs, each with a NIC under the same PCIe root."""
    claim = pending_claim(name, count=1)
    gpu, nic = claim["spec"]["devices"]["requests"]
    claim["spec"]["devices"] = {
        "requests": [request | {"name": f"{request['name']}-{n}"} for n in range(pairs) for request in (gpu, nic)],
        "constraints": [
            {"requests": [f"gpu-{n}", f"nic-{n}"], "matchAttribute": "rootport.dev/pcieSwitch"} for n in range(pairs)
        ],
    }
    return claim


def pending_pod(claim: str) -> Json:
    """A pod that uses a claim of the namespace ml, and is not placed."""
    name = f"{claim}-pod"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ml", "name": name, "uid": str(uuid.uuid5(_SPACE, name)), "resourceVersion": "1"},
        "spec": {
            "schedulerName": "default-scheduler",
            "resourceClaims": [{"name": "devices", "resourceClaimName": claim}],
        },
        "status": {"phase": "Pending"},
    }


def _request(name: str, device_class: str, count: int, expression: str) -> Json:
    return {
        "name": name,
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": [{"cel": {"expression": expression}}],
        },
    }


def _slice(template: Json, node: str) -> Json:
    item: Json = json.loads(json.dumps(template).replace(_STAND_IN, node))
    uid = str(uuid.uuid5(_SPACE, item["metadata"]["name"]))
    item["metadata"] |= {"uid": uid, "resourceVersion": "1"}
    for device in item["spec"].get("devices", ()):
        kind = device["attributes"]["type"]["string"]
        if kind in {"gpu", "gpu-ratio"}:
            # Both ways of giving a GPU name the same one.
            bus = device["attributes"]["resource.kubernetes.io/pciBusID"]["string"]
            device["attributes"]["uuid"] = {"string": f"GPU-{uuid.uuid5(_SPACE, node + bus)}"}
    return item


def _node(name: str) -> Json:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5",
        "topology.kubernetes.io/zone": "1",
    }
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": str(uuid.uuid5(_SPACE, name)), "labels": labels},
        "spec": {},
        "status": {"conditions": [condition]},
    }


def _pairs(name: str, node: str, pairs: list[tuple[str, str]]) -> Json:
    results = [
        {"request": request, "driver": DRIVER_NAME, "pool": node, "device": device}
        | ({"shareID": str(uuid.uuid5(_SPACE, name + device)), "consumedCapacity": _WHOLE} if request == "gpu" else {})
        for pair in pairs
        for request, device in zip(("gpu", "nic"), pair, strict=True)
    ]
    return _allocated(name, node, results)


_WHOLE: Final = {"core": "100", "memory": "80Gi"}


def _share(name: str, node: str, gpu: str) -> Json:
    consumed = {"core": "30", "memory": "16Gi"}
    result = {"request": "gpu", "driver": DRIVER_NAME, "pool": node, "device": gpu}
    share = {"shareID": str(uuid.uuid5(_SPACE, name + gpu)), "consumedCapacity": consumed}
    return _allocated(name, node, [result | share])


def _allocated(name: str, node: str, results: list[Json]) -> Json:
    claim = copy.deepcopy(pending_claim(name))
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    claim["metadata"]["namespace"] = "batch"
    claim["status"] = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": f"{name}-pod", "uid": str(uuid.uuid5(_SPACE, name + "pod"))}],
    }
    return claim
