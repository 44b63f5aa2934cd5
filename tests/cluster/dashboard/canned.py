"""What the API answers in the tests, made by the real types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from driver.api.rootport_v1alpha1 import Device
from driver.explain.explanation import (
    ChangeKind,
    ClaimPatch,
    Explanation,
    Finding,
    FunnelStep,
    NodeGroup,
    ObjectRef,
    Proposal,
    RequestFunnel,
    Step,
)
from driver.explain.reasons import Reason
from driver.explain.tell.wire import to_wire
from driver.status.overview import DeviceOverview, NodeOverview, Usage

__all__ = ["cluster", "explained", "fpga", "gpu", "hgx_node", "nic", "node", "pending", "share_gpu"]

GIB: Final = 2**30
_MODEL: Final = "NVIDIA H100 80GB HBM3"


def gpu(index: int, how: str = "free", **changes: Any) -> DeviceOverview:
    """A GPU that is free, whole, shared, full, fragmented, mig, broken, degraded, hidden or unwatched."""
    total = 80 * GIB
    used = {"whole": total, "shared": 30 * GIB, "full": total, "fragmented": 40 * GIB, "mig": 20 * GIB}.get(how, 0)
    core = {"whole": 100, "shared": 40, "full": 100, "fragmented": 56, "mig": 28}.get(how, 0)
    mode = {"whole": "whole", "shared": "shared", "full": "shared", "fragmented": "mig", "mig": "mig"}.get(how, "")
    free = 10 * GIB if how == "fragmented" else total - used
    state = {"broken": "Unhealthy", "unwatched": "Unknown"}.get(how, "Healthy")
    fields: dict[str, Any] = {
        "name": f"gpu-{index}",
        "type": "gpu",
        "index": index,
        "model": _MODEL,
        "state": state,
        "reason": {"broken": "Xid79", "degraded": "ThermalSlowdown"}.get(how, ""),
        "mode": mode,
        "offered": how != "hidden",
        "core": Usage(used=core, total=100),
        "memory": Usage(used=used, total=total),
        "free_core": 0 if how == "broken" else 100 - core,
        "free_memory": 0 if how == "broken" else free,
        "free_profile": {"mig": "3g.40gb", "fragmented": "1g.10gb"}.get(how, ""),
        "holders": {"whole": 1, "shared": 2, "full": 4, "fragmented": 3, "mig": 2}.get(how, 0),
    }
    return DeviceOverview(**(fields | changes))


def nic(index: int, how: str = "free", **changes: Any) -> DeviceOverview:
    """A NIC that is free, used, vfs or down."""
    fields: dict[str, Any] = {
        "name": f"nic-{index}",
        "type": "rdma",
        "index": index,
        "model": "ConnectX-7",
        "state": "Unhealthy" if how == "down" else "Healthy",
        "reason": "LinkDown" if how == "down" else "",
        "mode": "whole" if how == "used" else "",
        "vfs": Usage(used=3, total=8) if how == "vfs" else None,
        "bandwidth": None if how == "vfs" else Usage(used=400 * 10**9 if how == "used" else 0, total=400 * 10**9),
        "holders": {"used": 1, "vfs": 3}.get(how, 0),
    }
    return DeviceOverview(**(fields | changes))


def fpga(index: int, **changes: Any) -> DeviceOverview:
    """An FPGA that is free."""
    return DeviceOverview(
        **(
            {"name": f"fpga-{index}", "type": "fpga", "index": index, "model": "Alveo U250", "state": "Healthy"}
            | changes
        )
    )


def node(name: str, gpus: str = "", nics: str = "", fpgas: int = 0, **changes: Any) -> dict[str, Any]:
    """A node by letters, one a device.

    GPUs: f free, w whole, s shared, a full, F fragmented, m mig, x broken, ! degraded, - hidden, ? unwatched. NICs: f
    free, u used, v vfs, d down.
    """
    ways = {"w": "whole", "s": "shared", "a": "full", "F": "fragmented", "m": "mig", "x": "broken", "!": "degraded"}
    ways |= {"-": "hidden", "?": "unwatched"}
    devices = [gpu(at, ways.get(letter, "free")) for at, letter in enumerate(gpus)]
    devices += [nic(at, {"u": "used", "v": "vfs", "d": "down"}.get(letter, "free")) for at, letter in enumerate(nics)]
    devices += [fpga(at) for at in range(fpgas)]
    return NodeOverview(name=name, devices=tuple(devices), **changes).to_wire()


def cluster(size: int) -> list[dict[str, Any]]:
    """Nodes of 8 GPUs and 8 NICs, like a busy cluster: mostly whole GPUs, some shares, a little trouble."""
    gpus = ("wwwwwwww", "wwwwffff", "ssmmwwff", "ffffffff", "wwwwwwww", "sasFmwww", "wwwwwwff", "wwwwwwww", "FFmssaaf")
    nics = ("uuuuuuuu", "uuuuffff", "ffffuuff", "ffffffff", "uuuuuuuu", "vvffuuuu", "uuuuuuff", "uuuuuuuu", "ffffffff")
    nodes = []
    for at in range(size):
        cards, links = gpus[at * 7 % 9], nics[at * 7 % 9]
        if at % 37 == 5:
            cards = cards[:3] + "x" + cards[4:]
        if at % 53 == 11:
            cards, links = "!" + cards[1:], links[:5] + "d" + links[6:]
        if at % 97 == 20:
            cards = cards[:6] + "--"
        changes: dict[str, Any] = {}
        if at % 211 == 45:
            changes = {"state": "Silent", "reason": "nothing heard of its plugin for 5 minutes"}
        nodes.append(node(f"gpu-{'abcd'[at % 4]}-{at:03d}", cards, links, **changes))
    return nodes


def hgx_node(name: str = "gpu-a-000") -> dict[str, Any]:
    """GET /nodes/NAME of 8 GPUs and 8 NICs at 4 switches on 2 NUMA nodes, with claims of each kind, and an FPGA."""
    devices = []
    for at in range(8):
        where = {
            "pcieSwitch": f"0000:{16 + at // 2:02x}:00.0",
            "pcieRoot": f"pci0000:{16 * (1 + at // 2):02x}",
            "numaNode": at // 4,
        }
        devices.append(_gpu_device(name, at, where))
        devices.append(_nic_device(name, at, where))
    devices.extend(_vf_device(name, number) for number in range(6))
    devices.append(
        _device(
            name,
            {"type": "fpga", "deviceName": "fpga-0", "index": 0, "model": "Alveo U250", "pciBusID": "0000:e1:00.0"}
            | {"pcieRoot": "pci0000:e0", "numaNode": 1},
            {"state": "Unknown"},
        )
    )
    return {"name": name, "state": "Ready", "devices": [device.to_wire() for device in devices]}


def share_gpu(details: dict[str, Any], device: str, claims: Sequence[str], *, core: int) -> None:
    """Give these claims, in this order, shares of a GPU of :func:`hgx_node`, each of ``core`` percent and 1 GiB."""
    (status,) = [item["status"] for item in details["devices"] if item["spec"]["deviceName"] == device]
    status["mode"] = "shared"
    status["allocated"] = {"core": core * len(claims), "memory": f"{len(claims)}Gi"}
    status["allocations"] = [
        _allocation(claim, device, f"{device}-{claim}", core=core, memory="1Gi", shareID=f"{device}-{claim}")
        for claim in claims
    ]


def _device(node_name: str, spec: dict[str, Any], status: dict[str, Any]) -> Device:
    return Device.model_validate(
        {
            "apiVersion": "rootport.dev/v1alpha1",
            "kind": "Device",
            "metadata": {"name": f"{node_name}.{spec['deviceName']}"},
            "spec": {"nodeName": node_name, **spec},
            "status": status,
        }
    )


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message} | {
        "lastTransitionTime": "2026-11-22T01:23:45Z"
    }


_HEALTHY: Final = _condition("Healthy", "True", "Healthy", "nothing is wrong with it")


def _allocation(claim: str, device: str, uid: str, **more: Any) -> dict[str, Any]:
    return {
        "namespace": "ml",
        "claim": claim,
        "uid": uid,
        "request": "gpus",
        "device": device,
        "shareID": "",
        "isolation": {"state": "enforced", "by": "device"},
        "pods": [{"name": f"{claim}-pod", "uid": f"pod-{uid}", "containers": ["trainer"]}],
    } | more


def _gpu_device(node_name: str, at: int, where: dict[str, Any]) -> Device:
    name = f"gpu-{at}"
    spec = {
        "type": "gpu",
        "deviceName": name,
        "index": at,
        "minor": at,
        "model": _MODEL,
        "memory": "80Gi",
        "uuid": f"GPU-5fd4f087-86f3-7a43-b711-4771313afc{at:02x}",
        "vendor": "nvidia",
        "architecture": "Hopper",
        "pciBusID": f"0000:{16 + at * 2 + 1:02x}:00.0",
        "devicePaths": [f"/dev/nvidia{at}"],
        "near": [
            {"name": f"nic-{at // 2 * 2}", "distance": "PIX"},
            {"name": f"nic-{at // 2 * 2 + 1}", "distance": "PIX"},
        ],
    } | where
    all_of_it = {"core": 100, "memory": "80Gi"}
    status: dict[str, Any] = {"state": "Healthy", "conditions": [_HEALTHY], "capacity": all_of_it}
    status |= {"allocatable": all_of_it, "largestFree": {**all_of_it, "profile": "7g.80gb"}}
    if at in (0, 1, 2):
        status |= {"mode": "whole", "allocated": all_of_it, "largestFree": None}
        claim, uid = ("llama-pretrain-worker-0", "c1") if at < 2 else ("eval-nightly", "c2")
        status["allocations"] = [_allocation(claim, name, uid, core=100, memory="80Gi")]
    elif at == 3:
        status |= {"mode": "shared", "allocated": {"core": 75, "memory": "56Gi"}}
        status["largestFree"] = {"core": 25, "memory": "24Gi"}
        shares = (("notebook-anna", 30, "24Gi"), ("notebook-ben", 25, "20Gi"), ("serve-embeddings", 20, "12Gi"))
        status["allocations"] = [
            _allocation(claim, name, f"s{number}", core=core, memory=memory, shareID=f"share-{number}", request="gpu")
            | {
                "isolation": {"state": "enforced", "by": "MPS"}
                if number
                else {"state": "advisory", "by": "time-slicing"}
            }
            for number, (claim, core, memory) in enumerate(shares)
        ]
    elif at == 4:
        status |= {"mode": "mig", "allocated": {"core": 42, "memory": "40Gi"}}
        status["largestFree"] = {"memory": "20Gi", "profile": "2g.20gb"}
        status["partitions"] = [
            {"device": "gpu-4-mig-1g.10gb-0".replace(".", "-"), "profile": "1g.10gb", "start": 0, "size": 1},
            {"device": "gpu-4-mig-2g-20gb-2", "profile": "2g.20gb", "start": 2, "size": 2},
        ]
        status["allocations"] = [
            _allocation(
                "small-a", "gpu-4-mig-1g-10gb-0", "m1", memory="10Gi", isolation={"state": "enforced", "by": "MIG"}
            ),
            _allocation(
                "small-b", "gpu-4-mig-2g-20gb-2", "m2", memory="20Gi", isolation={"state": "enforced", "by": "MIG"}
            ),
        ]
    elif at == 5:
        fault = "XID 79: the GPU has fallen off the bus. Drain the node and reset or replace the card."
        status |= {"state": "Unhealthy", "conditions": [_condition("Healthy", "False", "Xid79", fault)]}
        status |= {"allocatable": {"core": 0, "memory": "0"}, "largestFree": None}
    elif at == 6:
        hot = "the GPU slows down because it is hot (SW thermal slowdown). Look at the node's cooling."
        status["conditions"] = [_HEALTHY, _condition("Degraded", "True", "ThermalSlowdown", hot)]
    return _device(node_name, spec, status)


def _nic_device(node_name: str, at: int, where: dict[str, Any]) -> Device:
    name = f"nic-{at}"
    down = at == 7
    spec = {
        "type": "rdma",
        "deviceName": name,
        "index": at,
        "minor": at,
        "vendor": "nvidia",
        "model": "ConnectX-7",
        "rdmaDevice": f"mlx5_{at}",
        "ifNames": [f"eth{at}"],
        "linkType": "infiniband",
        "linkSpeedGbps": 400,
        "linkState": "down" if down else "active",
        "guid": f"a088:c203:00d5:3f{at:02x}",
        "pciBusID": f"0000:{16 + at * 2 + 2:02x}:00.0",
        "devicePaths": [f"/dev/infiniband/uverbs{at}"],
        "near": [
            {"name": f"gpu-{at // 2 * 2}", "distance": "PIX"},
            {"name": f"gpu-{at // 2 * 2 + 1}", "distance": "PIX"},
        ],
    } | where
    status: dict[str, Any] = {"state": "Healthy", "conditions": [_HEALTHY], "capacity": {"bandwidth": "400G"}}
    if at in (0, 1):
        status |= {"mode": "whole", "allocated": {"bandwidth": "400G"}}
        status["allocations"] = [_allocation("llama-pretrain-worker-0", name, "c1", request="nics")]
    elif at == 6:
        spec["leftOut"] = "a NIC with VFs is given by its VFs alone"
        status |= {"capacity": {"bandwidth": "400G", "vfs": 6}, "allocatable": {"bandwidth": "0", "vfs": 6}}
        status |= {"mode": "shared", "allocated": {"vfs": 2}, "largestFree": {"vfs": 4}}
        status["allocations"] = [
            _allocation("stream-ingest", "rdma-vfs-6", "v1", request="nic"),
            _allocation("notebook-anna", "rdma-vfs-6", "s0", request="nic"),
        ]
    elif down:
        gone = "port 1 is down. Look at the cable and at the switch's port."
        status |= {"state": "Unhealthy", "conditions": [_condition("Healthy", "False", "LinkDown", gone)]}
    return _device(node_name, spec, status)


def _vf_device(node_name: str, number: int) -> Device:
    spec = {
        "type": "rdma-vf",
        "deviceName": f"nic-6-vf-{number}",
        "index": number,
        "parent": "nic-6",
        "vendor": "nvidia",
        "pciBusID": f"0000:1e:00.{number + 1}",
        "numaNode": 1,
        "pcieRoot": "pci0000:40",
        "pcieSwitch": "0000:13:00.0",
    }
    status: dict[str, Any] = {"state": "Healthy", "conditions": [_HEALTHY]}
    if number in (0, 3):
        claim, uid = ("notebook-anna", "s0") if number else ("stream-ingest", "v1")
        status["allocations"] = [_allocation(claim, f"nic-6-vf-{number}", uid, request="nic")]
    return _device(node_name, spec, status)


def pending() -> list[dict[str, Any]]:
    """GET /claims/pending."""
    return [
        {
            "namespace": "ml",
            "name": "llama-finetune-gpus",
            "reason": "DevicesInUse",
            "message": "request gpus asks for 8 devices of class gpu.rootport.dev; the nearest node, gpu-a-004, has "
            "6 left. Claims of ml and vision have the others",
            "pods": ["llama-finetune-0"],
        },
        {
            "namespace": "vision",
            "name": "label-batch-x7k2p",
            "reason": "CapacityTooLarge",
            "message": "request gpu asks for 96Gi of memory; the largest device has 80Gi",
            "pods": ["label-batch-1", "label-batch-2"],
        },
        {"namespace": "dev", "name": "scratch", "pods": []},
    ]


def explained() -> dict[str, Any]:
    """GET /claims/ml/llama-finetune-gpus/explain."""
    claim = ObjectRef(kind="ResourceClaim", namespace="ml", name="llama-finetune-gpus", uid="u1")
    other = ObjectRef(kind="ResourceClaim", namespace="ml", name="eval-nightly", uid="u2")
    selector = (
        'device.attributes["rootport.dev"].model == "NVIDIA H100 80GB HBM3": false for 16, which have "NVIDIA A100"'
    )
    return to_wire(
        Explanation(
            subject=claim,
            claims=(claim,),
            pod=ObjectRef(kind="Pod", namespace="ml", name="llama-finetune-0"),
            findings=(
                Finding(
                    reason=Reason.DEVICES_IN_USE,
                    message="request gpus asks for 8 devices of class gpu.rootport.dev; the nearest node, gpu-a-004, "
                    "has 6 left of 8. Claims ml/eval-nightly and ml/notebook-anna have the others",
                    claim=claim,
                    request="gpus",
                    nodes=412,
                ),
            ),
            nodes=500,
            requests=(
                RequestFunnel(
                    claim=claim,
                    request="gpus",
                    device_class="gpu.rootport.dev",
                    need=8,
                    steps=(
                        FunnelStep(step=Step.PUBLISHED, left=8000, best=16, best_node="gpu-a-000"),
                        FunnelStep(step=Step.CLASS, left=4000, best=8, best_node="gpu-a-000"),
                        FunnelStep(step=Step.SELECTOR, left=3984, best=8, best_node="gpu-a-000", details=(selector,)),
                        FunnelStep(
                            step=Step.TAINTS,
                            left=3971,
                            best=8,
                            best_node="gpu-a-000",
                            details=("rootport.dev/unhealthy=Xid79:NoSchedule keeps 13 away",),
                        ),
                        FunnelStep(
                            step=Step.IN_USE,
                            left=981,
                            best=6,
                            best_node="gpu-a-004",
                            details=("2990 are allocated to 1204 claims",),
                        ),
                    ),
                ),
            ),
            groups=(
                NodeGroup(
                    reason=Reason.DEVICES_IN_USE,
                    count=412,
                    examples=("gpu-a-004", "gpu-b-001", "gpu-c-002"),
                    message="6 of 8 devices are left for request gpus",
                    lacks=2,
                ),
                NodeGroup(
                    reason=Reason.NODE_UNSCHEDULABLE, count=88, examples=("gpu-d-003",), message="the node is cordoned"
                ),
            ),
            proposals=(
                Proposal(
                    kind=ChangeKind.CHANGE_CLAIM,
                    text="ask for 6 devices in request gpus instead of 8",
                    node="gpu-a-004",
                    patches=(
                        ClaimPatch(
                            claim=claim,
                            operations=(
                                {"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 6},
                            ),
                        ),
                    ),
                ),
                Proposal(
                    kind=ChangeKind.END_CLAIMS,
                    text="end claim ml/eval-nightly, which has gpu-2 and gpu-3",
                    node="gpu-a-004",
                    ends=(other,),
                    pods=(ObjectRef(kind="Pod", namespace="ml", name="eval-nightly-0"),),
                    commands=("kubectl delete pod eval-nightly-0 -n ml",),
                ),
            ),
            scheduler_message="0/500 nodes are available: 500 cannot allocate all claims.",
            notes=("Feature gates are taken as Kubernetes 1.36 has them.",),
        )
    )
