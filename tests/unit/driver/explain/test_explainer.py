"""Every reason that explain gives for a pending claim, on what the API server would store."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Final

import pytest
import yaml

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.allocator import Features
from driver.budget import Budget
from driver.errors import InputError
from driver.explain.explainer import Explainer
from driver.explain.explanation import Explanation, Finding, ObjectRef, Step
from driver.explain.reasons import Reason
from driver.layout.slices import resource_slices
from resourceclasses import device_classes_text
from tests.support.topologies import machine_file
from tests.unit.driver.explain.builders import (
    DRIVER,
    Json,
    allocated,
    claim_wire,
    class_wire,
    cluster,
    device_wire,
    exactly,
    held_wire,
    node_wire,
    pod_wire,
    slice_wire,
)

_GPU: Final = 'device.attributes["rootport.dev"]'
_SWITCH: Final = "rootport.dev/pcieSwitch"
CLASSES: Final[list[Json]] = list(yaml.safe_load_all(device_classes_text()))


def gpu(number: int, *, switch: str | None = "a", memory: str = "80Gi", **rest: object) -> Json:
    """A GPU as Rootport publishes it: shareable, a claim without amounts gets all of it."""
    attributes: Json = {"type": {"string": "gpu"}, "model": {"string": "H100"}, "index": {"int": number}}
    if switch is not None:
        attributes["pcieSwitch"] = {"string": switch}
    core = {"value": "100", "requestPolicy": {"default": "100", "validRange": {"min": "1", "max": "100", "step": "1"}}}
    sizes = {"min": "1Mi", "max": memory, "step": "1Mi"}
    return {
        "name": f"gpu-{number}",
        "attributes": attributes | {"sharingStrategy": {"string": "timeSlicing"}},
        "capacity": {
            "core": core,
            "memory": {"value": memory, "requestPolicy": {"default": memory, "validRange": sizes}},
        },
        "allowMultipleAllocations": True,
    } | rest


def nic(number: int, *, switch: str | None = "a") -> Json:
    attributes: Json = {"type": {"string": "rdma"}, "index": {"int": number}}
    if switch is not None:
        attributes["pcieSwitch"] = {"string": switch}
    return {"name": f"rdma-{number}", "attributes": attributes}


MACHINES: Final = [machine_file("aws-p4d.24xlarge"), machine_file("azure-nd-h100-v5")]


def explained(
    *objects: Json, subject: str = "train", kind: str = "ResourceClaim", features: Features | None = None
) -> Explanation:
    state = cluster(*CLASSES, *objects, features=features)
    return Explainer(state, proposals=False).explain(ObjectRef(kind=kind, namespace="ml", name=subject))


def wants(*requests: Json, **devices: object) -> tuple[Json, Json]:
    """A claim, and a pod that uses it."""
    return claim_wire("train", *requests, **devices), pod_wire("train-0", "train")


GPUS: Final = "gpu.rootport.dev"
NICS: Final = "rdma.rootport.dev"
WHOLE: Final = {"core": "100", "memory": "80Gi"}
FOUR: Final = (node_wire("n1"), slice_wire("n1", *(gpu(number) for number in range(4))))


def taint(effect: str = "NoSchedule") -> list[Json]:
    return [{"key": "rootport.dev/unhealthy", "value": "Xid79", "effect": effect}]


MODES: Final = (
    node_wire("n1"),
    slice_wire(
        "n1",
        gpu(0, consumesCounters=[{"counterSet": "s", "counters": {"gpu": {"value": "1"}}}]),
        *(
            {
                "name": name,
                "attributes": {"type": {"string": "mig"}},
                "consumesCounters": [{"counterSet": "s", "counters": {"gpu": {"value": "1"}}}],
            }
            for name in ("mig-0-1g", "mig-0-2g")
        ),
        pool={"name": "n1", "generation": 1, "resourceSliceCount": 2},
    ),
    {
        "kind": "ResourceSlice",
        "metadata": {"name": "n1-counters"},
        "spec": {
            "driver": "rootport.dev",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2},
            "sharedCounters": [{"name": "s", "counters": {"gpu": {"value": "1"}}}],
        },
    },
)

_PAIR: Final = (exactly("g", GPUS, count=2), exactly("n", NICS, count=2))
_SAME_SWITCH: Final = [{"matchAttribute": _SWITCH}]


# ruff: noqa: E501 - a table
def _starting() -> Json:
    waiting = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    return pod_wire("train-0", "train", nodeName="n1", status={"containerStatuses": [waiting]})


def _prepare_event(name: str, when: str, message: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "name": "train-0", "namespace": "ml", "uid": _starting()["metadata"]["uid"]},
        "reason": "FailedPrepareDynamicResources",
        "message": f"Failed to prepare dynamic resources: {message}",
        "lastTimestamp": when,
    }


CASES: Final[dict[str, tuple[Reason, tuple[Json, ...], tuple[str, ...]]]] = {
    "there is room": (Reason.FITS, (*FOUR, *wants(exactly("g", GPUS))), ("node n1",)),
    "no pod": (Reason.WAITING_FOR_POD, (*FOUR, claim_wire("train", exactly("g", GPUS))), ("no pod uses claim ml/train",)),
    "it is being deleted": (
        Reason.CLAIM_DELETED,
        (*FOUR, {**wants(exactly("g", GPUS))[0], "metadata": {"name": "train", "namespace": "ml", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, pod_wire("train-0", "train")),
        ("ml/train",),
    ),
    "a class is missing": (
        Reason.DEVICE_CLASS_MISSING,
        (*FOUR, *wants(exactly("g", "gpus.rootport.dev"))),
        ("DeviceClass gpus.rootport.dev", "did you mean gpu.rootport.dev?"),
    ),
    "too many devices": (Reason.TOO_MANY_DEVICES, (*FOUR, *wants(exactly("g", GPUS, count=33))), ("33", "32")),
    "all of too many devices": (
        Reason.TOO_MANY_DEVICES,
        (node_wire("n1"), slice_wire("n1", *(gpu(number) for number in range(40))), *wants(exactly("g", GPUS, count=None))),
        ("40 devices on node n1", "32"),
    ),
    "parameters": (
        Reason.PARAMETERS_INVALID,
        (
            *FOUR,
            *wants(
                exactly("g", GPUS),
                config=[
                    {"opaque": {"driver": "other.example.com", "parameters": {}}},
                    {"opaque": {"driver": "rootport.dev", "parameters": {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuConfig", "shareing": {}}}},
                ],
            ),
        ),
        ("spec.devices.config[1].opaque.parameters.shareing", "unknown field"),
    ),
    "a selector fails": (
        Reason.SELECTOR_FAILS,
        (*FOUR, *wants(exactly("g", GPUS, f'{_GPU}.modell == "H100"'))),
        ("rootport.dev/modell", "did you mean rootport.dev/model?", "gpu-0", "node n1"),
    ),
    "an attribute that other devices have": (
        Reason.SELECTOR_FAILS,
        (*FOUR, *wants(exactly("g", GPUS, f'{_GPU}.linkType == "infiniband"'))),
        ("which has no rootport.dev/linkType: ", "with has() or orValue())"),
    ),
    "a constant that is no quantity": (
        Reason.SELECTOR_FAILS,
        (*FOUR, *wants(exactly("g", GPUS, 'device.capacity["rootport.dev"].memory.isLessThan(quantity("40GB"))'))),
        (", '40GB' is not a quantity: write 40G or 40Gi: device.capacity", "(kube-scheduler stops at such an error)"),
    ),
    "no CEL at all": (
        Reason.SELECTOR_FAILS,
        (*FOUR, *wants(exactly("g", GPUS, "device.attributes["))),
        ("no valid CEL",),
    ),
    "nothing is published": (Reason.NO_DEVICES_PUBLISHED, (node_wire("n1"), *wants(exactly("g", GPUS))), ("publishes devices on node n1",)),
    "no node": (Reason.NO_DEVICES_PUBLISHED, wants(exactly("g", GPUS)), ("no node is known",)),
    "the class selects too few": (
        Reason.CLASS_SELECTS_TOO_FEW,
        (node_wire("n1"), slice_wire("n1", nic(0), nic(1)), *wants(exactly("g", GPUS))),
        ("selects 0 of the 2 devices", 'rootport.dev/type "rdma"'),
    ),
    "the selector selects too few": (
        Reason.SELECTOR_SELECTS_TOO_FEW,
        (*FOUR, *wants(exactly("g", GPUS, f'{_GPU}.type == "gpu" && {_GPU}.model == "H200"'))),
        (f'{_GPU}.model == "H200" is false for 4 devices', 'rootport.dev/model "H100"'),
    ),
    "a pool is incomplete": (
        Reason.POOL_INCOMPLETE,
        (node_wire("n1"), slice_wire("n1", gpu(0), pool={"name": "n1", "generation": 1, "resourceSliceCount": 2}), *wants(exactly("g", GPUS))),
        ("resource pool n1 of driver rootport.dev is not complete: 1 of 2 slices",),
    ),
    "a pool is invalid": (
        Reason.POOL_INVALID,
        (node_wire("n1"), slice_wire("n1", gpu(0), gpu(0)), *wants(exactly("g", GPUS))),
        ("published wrongly: device name gpu-0 is used twice",),
    ),
    "all devices, of a pool that is incomplete": (
        Reason.POOL_INCOMPLETE,
        (
            *FOUR,
            slice_wire("n1", gpu(9), driver="other.example.com", pool={"name": "x", "generation": 1, "resourceSliceCount": 2}),
            *wants(exactly("g", GPUS, count=None)),
        ),
        ("resource pool x of driver other.example.com is not complete",),
    ),
    "a capacity that is not there": (
        Reason.CAPACITY_UNKNOWN,
        (*FOUR, *wants(exactly("g", GPUS, capacity={"memroy": "10Gi"}))),
        ("none of the 4 suitable devices", "memroy", "did you mean memory?"),
    ),
    "a capacity of another class": (
        Reason.CAPACITY_UNKNOWN,
        (*FOUR, *wants(exactly("g", GPUS, capacity={"memoryRatio": "50"}))),
        ("has a capacity memoryRatio; they have core and memory; gpu-ratio devices have it",),
    ),
    "a capacity that is too large": (
        Reason.CAPACITY_TOO_LARGE,
        (*FOUR, *wants(exactly("g", GPUS, capacity={"memory": "100Gi"}))),
        ("100Gi of memory", "the largest has 80Gi of memory"),
    ),
    "a taint": (
        Reason.DEVICE_TAINTED,
        (node_wire("n1"), slice_wire("n1", gpu(0, taints=taint()), gpu(1)), *wants(exactly("g", GPUS, count=2))),
        ("gpu-0", "unhealthy", "rootport.dev/unhealthy=Xid79:NoSchedule", "set by Rootport", "1 of 2 are left"),
    ),
    "an unhealthy device": (
        Reason.DEVICE_TAINTED,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0, taints=[{"key": "example.com/service", "effect": "NoSchedule"}, *taint()]), gpu(1)),
            {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"faults": [{"device": "gpu-0", "reason": "Xid79", "effect": "NoSchedule", "since": "2026-01-01T00:00:00Z", "message": "Xid 79 (GPU has fallen off the bus): restart the node"}]}},
            *wants(exactly("g", GPUS, count=2)),
        ),
        ("1 device (gpu-0) is unhealthy, Xid79: Xid 79 (GPU has fallen off the bus): restart the node (taint rootport.dev/unhealthy=Xid79:NoSchedule, set by Rootport)",),
    ),
    "a node whose plugin can prepare nothing": (
        Reason.DEVICE_TAINTED,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0, taints=[{"key": "rootport.dev/cannot-prepare", "value": "Refused", "effect": "NoSchedule"}])),
            {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Refused", "message": "Registered: the kubelet refused the driver"}]}},
            *wants(exactly("g", GPUS)),
        ),
        ("1 device (gpu-0) is on node n1, whose plugin can prepare no claim: Ready: False, Refused: Registered: the kubelet refused the driver (taint rootport.dev/cannot-prepare=Refused:NoSchedule, set by Rootport)",),
    ),
    "a device that another system gives out as well": (
        Reason.DEVICE_TAINTED,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0, taints=[{"key": "rootport.dev/rival-plugin", "value": "DevicePlugin", "effect": "NoSchedule"}])),
            {"kind": "NodeInventory", "metadata": {"name": "n1"}, "status": {"rivals": [{"name": "nvidia.com/gpu", "kind": "DevicePlugin", "devices": ["gpu-0"], "message": "the Node has nvidia.com/gpu: 8 from a device plugin: kubectl label node n1 gpu-"}]}},
            *wants(exactly("g", GPUS)),
        ),
        ("1 device (gpu-0) is given out by another system as well, nvidia.com/gpu on node n1: the Node has nvidia.com/gpu: 8 from a device plugin: kubectl label node n1 gpu- (taint rootport.dev/rival-plugin=DevicePlugin:NoSchedule, set by Rootport)",),
    ),
    "a rival that is not reported any more": (
        Reason.DEVICE_TAINTED,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0, taints=[{"key": "rootport.dev/rival-plugin", "value": "DRADriver", "effect": "NoSchedule"}])),
            *wants(exactly("g", GPUS)),
        ),
        ("is given out by another system as well, a DRADriver on node n1 (taint",),
    ),
    "a taint of an administrator in the slice": (
        Reason.DEVICE_TAINTED,
        (node_wire("n1"), slice_wire("n1", gpu(0, taints=[{"key": "example.com/service", "effect": "NoSchedule"}])), *wants(exactly("g", GPUS))),
        ("the taint example.com/service:NoSchedule, set by an administrator, in its ResourceSlice",),
    ),
    "a taint of an administrator": (
        Reason.DEVICE_TAINTED,
        (
            *FOUR,
            {"kind": "DeviceTaintRule", "metadata": {"name": "service"}, "spec": {"deviceSelector": {"driver": "rootport.dev"}, "taint": {"key": "service", "effect": "NoExecute"}}},
            *wants(exactly("g", GPUS)),
        ),
        ("DeviceTaintRule service", "service:NoExecute", "4 devices"),
    ),
    "an attribute that devices lack": (
        Reason.ATTRIBUTE_MISSING,
        (node_wire("n1"), slice_wire("n1", gpu(0), gpu(1), nic(0, switch=None), nic(1, switch=None)), *wants(*_PAIR, constraints=_SAME_SWITCH)),
        (f"matchAttribute {_SWITCH}", "request n", "rdma-0"),
    ),
    "an attribute that nothing has": (
        Reason.ATTRIBUTE_MISSING,
        (*FOUR, *wants(exactly("g", GPUS, count=2), constraints=[{"matchAttribute": "rootport.dev/pcieSwich"}])),
        ("did you mean rootport.dev/pcieSwitch?",),
    ),
    "an attribute with two types": (
        Reason.ATTRIBUTE_MISSING,
        (node_wire("n1"), slice_wire("n1", gpu(0), {"name": "rdma-0", "attributes": {"type": {"string": "rdma"}, "pcieSwitch": {"int": 1}}}), *wants(exactly("g", GPUS), exactly("n", NICS), constraints=_SAME_SWITCH)),
        ("different types: string and int",),
    ),
    "a constraint that no devices meet": (
        Reason.CONSTRAINT_NOT_SATISFIABLE,
        (node_wire("n1"), slice_wire("n1", gpu(0), gpu(1, switch="b"), nic(0), nic(1, switch="b")), *wants(*_PAIR, constraints=_SAME_SWITCH)),
        (_SWITCH, "whatever is in use", "request g needs 2"),
    ),
    "a constraint that no devices meet, some of them in use": (
        Reason.CONSTRAINT_NOT_SATISFIABLE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0), gpu(1, switch="b"), nic(0), nic(1, switch="b")),
            held_wire("other", "gpu-0", consumed=WHOLE, user="o"),
            *wants(*_PAIR, constraints=_SAME_SWITCH),
        ),
        (_SWITCH, "whatever is in use"),
    ),
    "values that are to differ": (
        Reason.CONSTRAINT_NOT_SATISFIABLE,
        (*FOUR, *wants(exactly("g", GPUS, count=2), constraints=[{"distinctAttribute": _SWITCH}])),
        ("distinctAttribute", "1 different value, 2 are needed"),
    ),
    "values that are to differ, in use": (
        Reason.CONSTRAINT_IN_USE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0), gpu(1), gpu(2, switch="b")),
            held_wire("other", "gpu-2", consumed=WHOLE, user="o"),
            *wants(exactly("g", GPUS, count=2), constraints=[{"distinctAttribute": _SWITCH}]),
        ),
        ("claim ml/other (pod ml/o)", "2 are needed"),
    ),
    "devices in use": (
        Reason.DEVICES_IN_USE,
        (*FOUR, held_wire("other", "gpu-0", "gpu-1", consumed=WHOLE, user="o"), *wants(exactly("g", GPUS, count=3))),
        ("2 of the 4 suitable devices are free", "claim ml/other (pod ml/o, 2 devices)", "asks for 3 devices"),
    ),
    "whole devices in use": (
        Reason.DEVICES_IN_USE,
        (node_wire("n1"), slice_wire("n1", nic(0)), held_wire("other", "rdma-0", user="o"), *wants(exactly("n", NICS))),
        ("the only suitable device is in use by claim ml/other (pod ml/o)",),
    ),
    "all devices, one in use": (
        Reason.DEVICES_IN_USE,
        (node_wire("n1"), slice_wire("n1", nic(0), nic(1)), held_wire("other", "rdma-0", user="o"), *wants(exactly("n", NICS, count=None))),
        ("claim ml/other",),
    ),
    "a capacity in use": (
        Reason.CAPACITY_IN_USE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0)),
            held_wire("other", "gpu-0", consumed={"core": "30", "memory": "50Gi"}, user="o"),
            *wants(exactly("g", GPUS, capacity={"memory": "40Gi", "core": "30"})),
        ),
        ("30Gi of memory, where 40Gi is asked for", "gpu-0 of node n1", "claim ml/other (pod ml/o)"),
    ),
    "two capacities in use": (
        Reason.CAPACITY_IN_USE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0)),
            held_wire("other", "gpu-0", consumed={"core": "80", "memory": "60Gi"}, user="o"),
            *wants(exactly("g", GPUS, capacity={"memory": "40Gi", "core": "30"})),
        ),
        ("20 of core, where 30 is asked for, and 20Gi of memory, where 40Gi is asked for; it is shared by",),
    ),
    "a capacity that the request does not name": (
        Reason.CAPACITY_IN_USE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0)),
            held_wire("other", "gpu-0", consumed={"core": "30", "memory": "10Gi"}, user="o"),
            *wants(exactly("g", GPUS, capacity={"memory": "40Gi"})),
        ),
        ("70 of core, where 100 is taken by a request that names no core",),
    ),
    "the GPU in another mode": (
        Reason.COUNTERS_IN_USE,
        (*MODES, held_wire("other", "mig-0-1g", user="o"), *wants(exactly("g", GPUS))),
        ("given in MIG partitions", "claim ml/other (pod ml/o)"),
    ),
    "the GPU in shares": (
        Reason.COUNTERS_IN_USE,
        (*MODES, held_wire("other", "gpu-0", consumed={"core": "30", "memory": "10Gi"}, user="o"), *wants(exactly("m", "mig.rootport.dev"))),
        ("given in shares: to", "claim ml/other"),
    ),
    "the GPU as a whole": (
        Reason.COUNTERS_IN_USE,
        (*MODES, held_wire("other", "gpu-0", consumed=WHOLE, user="o"), *wants(exactly("m", "mig.rootport.dev"))),
        ("; 1 card is given as a whole", "claim ml/other"),
    ),
    "a constraint, in use": (
        Reason.CONSTRAINT_IN_USE,
        (
            node_wire("n1"),
            slice_wire("n1", gpu(0), gpu(1, switch="b"), nic(0), nic(1, switch="b")),
            held_wire("one", "gpu-0", consumed=WHOLE, user="o"),
            held_wire("two", "rdma-1", user="p"),
            *wants(exactly("g", GPUS), exactly("n", NICS), constraints=_SAME_SWITCH),
        ),
        (f"matchAttribute {_SWITCH}", "claim ml/", "no value has enough free devices"),
    ),
    "a constraint, in use by another mode of the GPU": (
        Reason.CONSTRAINT_IN_USE,
        (
            *MODES,
            held_wire("other", "mig-0-1g", user="o"),
            slice_wire("n1", nic(0), gpu(1, switch="b"), name="nics", pool={"name": "nics", "generation": 1, "resourceSliceCount": 1}),
            *wants(exactly("g", GPUS), exactly("n", NICS), constraints=_SAME_SWITCH),
        ),
        (f"matchAttribute {_SWITCH}", "in use by claim ml/other (pod ml/o)"),
    ),
    "requests compete": (
        Reason.REQUESTS_COMPETE,
        (node_wire("n1"), slice_wire("n1", nic(0), nic(1)), *wants(exactly("a", NICS), exactly("b", NICS, count=2))),
        ("requests a and b", "would not fit there if nothing were in use either"),
    ),
    "requests compete for what is left": (
        Reason.REQUESTS_COMPETE,
        (
            node_wire("n1"),
            slice_wire("n1", nic(0), nic(1), nic(2)),
            held_wire("other", "rdma-0", user="o"),
            *wants(exactly("a", NICS), exactly("b", NICS, count=2)),
        ),
        ("it would fit there if nothing were in use; in use by claim ml/other",),
    ),
    "requests that compete count a device in use once": (
        Reason.REQUESTS_COMPETE,
        (
            node_wire("n1"),
            slice_wire("n1", *[nic(number) for number in range(4)]),
            held_wire("other", "rdma-0", "rdma-1", user="o"),
            *wants(exactly("a", NICS), exactly("b", NICS, count=2)),
        ),
        ("in use by claim ml/other (pod ml/o, 2 devices)",),
    ),
    "two partitions of one GPU": (
        Reason.REQUESTS_COMPETE,
        (*MODES, *wants(exactly("g", GPUS), exactly("m", "mig.rootport.dev"))),
        ("requests g and m",),
    ),
    "a node that is cordoned": (
        Reason.NODE_UNSCHEDULABLE,
        (node_wire("n1", unschedulable=True), FOUR[1], *wants(exactly("g", GPUS))),
        ("node n1", "its devices are suitable"),
    ),
    "a node that is not ready": (
        Reason.NODE_NOT_READY,
        (node_wire("n1", ready="False", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), FOUR[1], *wants(exactly("g", GPUS))),
        ("node n1",),
    ),
    "a node with a taint": (
        Reason.NODE_TAINTED,
        (node_wire("n1", taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}]), FOUR[1], *wants(exactly("g", GPUS))),
        ("team=b:NoSchedule",),
    ),
    "a node that the pod does not want": (
        Reason.NODE_AFFINITY,
        (*FOUR, claim_wire("train", exactly("g", GPUS)), pod_wire("train-0", "train", nodeSelector={"zone": "b"})),
        ("zone",),
    ),
    "the plugin has trouble": (
        Reason.PLUGIN_NOT_READY,
        (
            node_wire("n1"),
            {
                "kind": "NodeInventory",
                "metadata": {"name": "n1"},
                "status": {"conditions": [{"type": "Published", "status": "False", "reason": "NodeSilent", "message": "no word for 5 minutes"}]},
            },
            *wants(exactly("g", GPUS)),
        ),
        ("NodeSilent", "node n1"),
    ),
    "a gate": (
        Reason.SCHEDULING_GATED,
        (*FOUR, claim_wire("train", exactly("g", GPUS)), pod_wire("train-0", "train", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])),
        ("kueue.x-k8s.io/admission",),
    ),
    "another scheduler": (
        Reason.OTHER_SCHEDULER,
        (*FOUR, claim_wire("train", exactly("g", GPUS)), pod_wire("train-0", "train", schedulerName="volcano")),
        ("volcano",),
    ),
    "the scheduler has another reason": (
        Reason.SCHEDULER_SAYS_OTHERWISE,
        (
            *FOUR,
            claim_wire("train", exactly("g", GPUS)),
            pod_wire("train-0", "train", status={"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
        ),
        ("Insufficient cpu",),
    ),
    "it has its devices": (Reason.ALLOCATED, (*FOUR, held_wire("train", "gpu-0", consumed=WHOLE, user="train-0")), ("gpu-0 of pool n1",)),
    "its pod starts": (
        Reason.ALLOCATED,
        (*FOUR, held_wire("train", "gpu-0", consumed=WHOLE, user="train-0"), _starting()),
        ("gpu-0 of pool n1",),
    ),
    "the kubelet could not prepare it": (
        Reason.PREPARE_FAILS,
        (
            *FOUR,
            held_wire("train", "gpu-0", consumed=WHOLE, user="train-0"),
            _starting(),
            _prepare_event("e1", "2026-01-01T10:00:00Z", "plugin not registered"),
            _prepare_event("e2", "2026-01-01T10:05:00Z", "GPU gpu-0 is in MIG mode"),
        ),
        ("node n1", "GPU gpu-0 is in MIG mode"),
    ),
    "the node cannot prepare it": (
        Reason.PREPARE_FAILS,
        (
            *FOUR,
            held_wire("train", "gpu-0", consumed=WHOLE, user="train-0"),
            pod_wire(
                "train-0",
                "train",
                nodeName="n1",
                status={"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CreateContainerError", "message": "no such CDI device"}}}]},
            ),
        ),
        ("node n1", "no such CDI device"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "is_told"), [("gpu-1/node", True), ("gpu-1/node-no-numa", True), ("gpu-1/numa", False)]
)
def test_a_claim_on_the_last_rung_of_its_ladder_is_told_as_not_aligned(request_: str, is_told: bool) -> None:
    claim = held_wire("train", "gpu-0", consumed=WHOLE, user="train-0")
    for result in claim["status"]["allocation"]["devices"]["results"]:
        result["request"] = request_
    (finding,) = explained(*FOUR, claim).findings
    assert finding.reason is Reason.ALLOCATED
    told = "the GPUs and NICs of group 1 are not aligned: nothing nearer was left on the node"
    assert (told in finding.message) is is_told


@pytest.mark.parametrize(("reason", "objects", "says"), CASES.values(), ids=CASES.keys())
def test_a_claim_that_hangs_is_told_why(reason: Reason, objects: tuple[Json, ...], says: tuple[str, ...]) -> None:
    explanation = explained(*objects)
    first = explanation.findings[0]
    assert first.reason is reason, explanation.findings
    for text in says:
        assert text in first.message
    assert not first.message.endswith(".") or reason is Reason.SCHEDULER_SAYS_OTHERWISE
    assert explanation.fits == (
        reason
        in {
            Reason.FITS,
            Reason.ALLOCATED,
            Reason.WAITING_FOR_POD,
            Reason.OTHER_SCHEDULER,
            Reason.SCHEDULER_SAYS_OTHERWISE,
        }
    )


POD_CASES: Final[dict[str, tuple[Reason, tuple[Json, ...], tuple[str, ...]]]] = {
    "the claim is not there": (
        Reason.CLAIM_MISSING,
        (*FOUR, claim_wire("trian", exactly("g", GPUS)), pod_wire("train", "nothing")),
        ("claim ml/nothing, which is not there", "trian"),
    ),
    "the template is not there": (Reason.CLAIM_TEMPLATE_MISSING, (*FOUR, pod_wire("train", template="gpus")), ("ml/gpus",)),
    "the claim is not made yet": (
        Reason.CLAIM_NOT_CREATED,
        (*FOUR, {"kind": "ResourceClaimTemplate", "metadata": {"name": "gpus", "namespace": "ml"}}, pod_wire("train", template="gpus")),
        ("template gpus", "kube-controller-manager"),
    ),
    "a claim is on another node": (
        Reason.CLAIM_ELSEWHERE,
        (
            *FOUR,
            node_wire("n2"),
            slice_wire("n2", nic(0)),
            held_wire("data", "rdma-0", node="n2", user="other"),
            pod_wire("train", "data", nodeSelector={"kubernetes.io/hostname": "n1"}),
        ),
        ("ml/data",),
    ),
    "a claim is in use by too many": (
        Reason.CLAIM_IN_USE,
        (
            *FOUR,
            {
                **held_wire("data", "gpu-0", consumed=WHOLE),
                "status": held_wire("data", "gpu-0", consumed=WHOLE)["status"]
                | {"reservedFor": [{"resource": "pods", "name": f"p{number}", "uid": str(number)} for number in range(256)]},
            },
            pod_wire("train", "data"),
        ),
        ("ml/data", "256"),
    ),
    "it was placed": (Reason.ALLOCATED, (*FOUR, held_wire("data", "gpu-0", user="train"), pod_wire("train", "data", nodeName="n1")), ("node n1",)),
}  # fmt: skip


def test_of_a_thousand_pods_of_a_group_that_hold_a_claim_elsewhere_the_first_are_named() -> None:
    held = held_wire("data", "rdma-0", node="n2")
    held["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": "u"}
    ]
    state = cluster(
        *CLASSES,
        *FOUR,
        node_wire("n2"),
        slice_wire("n2", nic(0)),
        held,
        *(
            pod_wire(f"worker-{number}", "data", node="n2", phase="Running", schedulingGroup={"podGroupName": "ring"})
            for number in range(1000)
        ),
        claim_wire("more", exactly("g", GPUS)),
        pod_wire("train", "data", "more", nodeSelector={"kubernetes.io/hostname": "n1"}),
    )
    found = Explainer(state).explain(ObjectRef(kind="Pod", namespace="ml", name="train"))
    (proposal,) = [item for item in found.proposals if item.pods]
    assert len(proposal.pods) == 1001, "not the pod that waits itself"
    assert f"and {len(proposal.pods) - 4} more, which hold claim ml/data on another node" in proposal.text
    assert len(proposal.text) < 300
    assert len(proposal.commands) == 16
    assert set(proposal.commands) < {pod.delete_command for pod in proposal.pods}


BINDING = {"bindingConditions": ["Prepared"], "bindingFailureConditions": ["PreparationFailed"]}


def _waits(status: str = "", **condition: str) -> Json:
    """A claim with a partition whose pod is bound once that is prepared; a condition of it, by its type."""
    allocation = allocated("n1", "mig-0", **BINDING) | {"allocationTimestamp": "2026-11-27T06:00:00Z"}
    claim = claim_wire("train", exactly("r", "any"), allocation=allocation, user="train")
    if status:
        entry = {"driver": DRIVER, "pool": "n1", "device": "mig-0"}
        claim["status"]["devices"] = [entry | {"conditions": [{"type": status, "status": "True", **condition}]}]
    return claim


@pytest.mark.parametrize("kind", ["Pod", "ResourceClaim"])
@pytest.mark.parametrize(
    ("claim", "reason", "says"),
    [
        (
            _waits(),
            Reason.WAITING_FOR_DEVICE_PREPARATION,
            ("ml/train", "2026-11-27T06:00:00Z", "device mig-0 of pool n1", "ten minutes"),
        ),
        (
            _waits("PreparationFailed", reason="MigDeviceNotCreated", message="NVML says no"),
            Reason.DEVICE_PREPARATION_FAILED,
            ("ml/train", "mig-0 of pool n1", "MigDeviceNotCreated: NVML says no", "looks for others"),
        ),
    ],
    ids=["waits", "has failed"],
)
def test_a_pod_whose_devices_are_not_prepared_is_told_so(
    kind: str, claim: Json, reason: Reason, says: tuple[str, ...]
) -> None:
    found = explained(*FOUR, claim, pod_wire("train", "train"), kind=kind)
    assert not found.fits
    assert found.findings[0].reason is reason, found.findings
    for text in says:
        assert text in found.findings[0].message


@pytest.mark.parametrize("kind", ["Pod", "ResourceClaim"])
def test_a_pod_whose_devices_are_prepared_or_that_has_a_node_waits_for_no_preparation(kind: str) -> None:
    for claim, node in ((_waits("Prepared"), ""), (_waits(), "n1")):
        found = explained(*FOUR, claim, pod_wire("train", "train", node=node), kind=kind)
        assert found.findings[0].reason is not Reason.WAITING_FOR_DEVICE_PREPARATION


@pytest.mark.parametrize(("reason", "objects", "says"), POD_CASES.values(), ids=POD_CASES.keys())
def test_a_pod_that_hangs_is_told_why(reason: Reason, objects: tuple[Json, ...], says: tuple[str, ...]) -> None:
    explanation = explained(*objects, kind="Pod")
    assert explanation.findings[0].reason is reason, explanation.findings
    for text in says:
        assert text in explanation.findings[0].message


@pytest.mark.parametrize(
    ("features", "objects", "says"),
    [
        (
            Features(consumable_capacity=False),
            wants(exactly("g", GPUS, capacity={"memory": "1Gi"})),
            "DRAConsumableCapacity",
        ),
        (Features(prioritized_list=False), wants({"name": "g"}), "DRAPrioritizedList"),
        (Features(admin_access=False), wants(exactly("g", GPUS, adminAccess=True)), "DRAAdminAccess"),
        (
            Features(consumable_capacity=False, device_binding_and_status=False),
            wants(exactly("g", GPUS), constraints=[{"distinctAttribute": _SWITCH}]),
            "distinctAttribute",
        ),
    ],
    ids=["capacity", "alternatives", "admin access", "distinct"],
)
def test_a_feature_that_is_off_is_named(features: Features, objects: tuple[Json, ...], says: str) -> None:
    explanation = explained(*FOUR, *objects, features=features)
    assert explanation.reason is Reason.FEATURE_OFF
    assert says in explanation.findings[0].message


def test_counters_that_the_api_server_dropped_are_told() -> None:
    """Slices of before the feature was switched off still have them."""
    device = gpu(0, consumesCounters=[{"counterSet": "s", "counters": {"gpu": {"value": "1"}}}])
    explanation = explained(
        node_wire("n1"),
        slice_wire("n1", device),
        *wants(exactly("g", GPUS)),
        features=Features(partitionable_devices=False),
    )
    assert explanation.reason is Reason.FEATURE_OFF
    assert "DRAPartitionableDevices" in explanation.findings[0].message


@pytest.mark.parametrize(
    "broken",
    [exactly("g", GPUS) | {"exactly": {"deviceClassName": GPUS, "allocationMode": "Some"}}, {"name": "g"}],
    ids=["a mode of a newer API", "a kind of request of a newer API"],
)
def test_a_claim_of_a_newer_api_is_told_as_invalid(broken: Json) -> None:
    explanation = explained(*FOUR, *wants(broken))
    assert explanation.reason is Reason.CLAIM_INVALID
    assert "ml/train" in explanation.findings[0].message
    assert not explanation.fits


def test_a_search_that_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.explain.judge.trial.MAX_STEPS", 1)
    # The first GPU is not near the NIC: the search has to turn back.
    explanation = explained(
        node_wire("n1"),
        slice_wire("n1", gpu(0), gpu(1, switch="b"), {**nic(5, switch="b")}),
        *wants(
            exactly("g", GPUS),
            exactly("n", NICS),
            constraints=[*_SAME_SWITCH, {"distinctAttribute": "rootport.dev/index"}],
        ),
    )
    assert explanation.reason is Reason.SEARCH_LIMIT
    assert "too many combinations" in explanation.findings[0].message


def heavy(requests: int = 32, alternatives: int = 8) -> Json:
    """As much as the API server takes: nothing here can be said at once of two requests, or of two constraints."""
    wanted: list[Json] = [
        {
            "name": f"r{number}",
            "firstAvailable": [
                exactly(f"a{index}", GPUS, f"{_GPU}.index >= 0 && {number * 8 + index} >= 0")["exactly"]
                | {"name": f"a{index}"}
                for index in range(alternatives)
            ],
        }
        for number in range(requests)
    ]
    return claim_wire("train", *wanted, constraints=[{"matchAttribute": "rootport.dev/type"}] * 32)


def machine(name: str, gpus: int) -> tuple[Json, Json]:
    return node_wire(name), slice_wire(name, *(gpu(number) for number in range(gpus)))


def test_a_claim_that_takes_too_long_leaves_nodes_out_and_says_so() -> None:
    # No two nodes are alike: each has to be looked at.
    machines = [item for number in range(4) for item in machine(f"n{number}", number + 1)]
    state = cluster(*CLASSES, *machines, heavy(3, 2))
    explainer, subject = Explainer(state), ObjectRef(kind="ResourceClaim", namespace="ml", name="train")
    unknown = []
    for _ in range(10):
        ticking = count(step=0.001)  # each look at the clock takes a millisecond
        found = explainer.explain(subject, budget=Budget(0.15, clock=ticking.__next__))
        unknown.append(found.nodes_unknown)
        if found.nodes_unknown:
            assert found.is_cut
            # What nodes say on which it does not fit does not decide.
            assert found.fits == bool(found.nodes_fitting)
            assert found.fits or found.reason is Reason.SEARCH_LIMIT
            assert f"{found.nodes_unknown} of 4 nodes w" in found.notes[0]
            (group,) = [group for group in found.groups if group.reason is Reason.SEARCH_LIMIT]
            assert (group.count, group.lacks) == (found.nodes_unknown, None)
            assert "not looked at" in group.message
        assert sum(len(group.examples) for group in found.groups) + found.nodes_fitting == 4
    # What is known stays known, so that who asks again comes to the end.
    assert len(set(unknown)) > 2
    assert unknown == sorted(unknown, reverse=True)
    assert unknown[-1] == 0
    assert explainer.explain(subject).nodes_fitting == 2


def test_the_largest_claim_that_there_can_be_takes_bounded_time() -> None:
    machines = [item for number in range(3) for item in machine(f"n{number}", 30 + number)]
    state = cluster(*CLASSES, *machines, heavy())
    explainer, subject = Explainer(state), ObjectRef(kind="ResourceClaim", namespace="ml", name="train")
    began = time.thread_time()
    # A tenth of what the quickest machine so far needs for one of the nodes, so that no machine comes to an end of one.
    explanation = explainer.explain(subject, budget=Budget(0.03))
    assert time.thread_time() - began < 0.5
    assert explanation.is_cut
    assert explanation.reason is Reason.SEARCH_LIMIT


def test_a_node_that_takes_very_long_leaves_time_for_the_others() -> None:
    machines = [item for number in range(4) for item in machine(f"n{number}", 3 + number if number else 60)]
    state = cluster(*CLASSES, *machines, *wants(exactly("g", GPUS, f"{_GPU}.uuid != {_GPU}.model", count=9)))
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name="train")
    ticking = count(step=0.005)  # for each look at the clock: there is one for each device at least
    found = Explainer(state, proposals=False).explain(subject, budget=Budget(2.0, clock=ticking.__next__))
    assert (found.nodes_unknown, found.reason) == (1, Reason.SEARCH_LIMIT)
    assert [group.examples for group in found.groups if group.reason is Reason.SEARCH_LIMIT] == [("n0",)]


def test_who_does_not_want_the_answer_any_more_has_it_at_once() -> None:
    state = cluster(*CLASSES, *machine("n", 4), *wants(exactly("g", GPUS)))
    subject = ObjectRef(kind="ResourceClaim", namespace="ml", name="train")
    found = Explainer(state).explain(subject, budget=Budget(60.0, stopped=lambda: True))
    assert (found.reason, found.is_cut, found.fits) == (Reason.SEARCH_LIMIT, True, False)


def test_an_object_that_is_not_there_is_answered_with_names_that_may_be_meant() -> None:
    with pytest.raises(InputError, match=r"there is no claim ml/trian .did you mean ml/train"):
        explained(*FOUR, *wants(exactly("g", GPUS)), subject="trian")
    with pytest.raises(InputError, match=r"there is no pod ml/trian .*ml/train-0"):
        explained(*FOUR, *wants(exactly("g", GPUS)), subject="trian", kind="Pod")
    with pytest.raises(InputError, match="cannot be explained"):
        explained(*FOUR, subject="n1", kind="Node")


def test_a_funnel_counts_each_device_out_once() -> None:
    explanation = explained(
        node_wire("n1"),
        node_wire("n2"),
        slice_wire("n1", *(gpu(number) for number in range(4)), nic(0)),
        slice_wire("n2", gpu(0, memory="40Gi"), gpu(1, taints=taint()), gpu(2), gpu(3)),
        held_wire("other", "gpu-2", node="n2", consumed={"core": "0", "memory": "50Gi"}, user="o"),
        held_wire("whole", "gpu-3", node="n2", user="p"),
        *wants(exactly("g", GPUS, f"{_GPU}.index < 4", count=5, capacity={"memory": "60Gi"})),
    )
    (funnel,) = explanation.requests
    assert [(step.step, step.left, step.best, step.best_node) for step in funnel.steps] == [
        (Step.PUBLISHED, 9, 5, "n1"),
        (Step.CLASS, 8, 4, "n1"),
        (Step.SIZE, 7, 4, "n1"),
        (Step.TAINTS, 6, 4, "n1"),
        (Step.IN_USE, 5, 4, "n1"),
        (Step.ROOM, 4, 4, "n1"),
    ]
    details = {step.step: " ".join(step.details) for step in funnel.steps}
    assert 'rootport.dev/type "rdma"' in details[Step.CLASS]
    assert "the largest of these has 40Gi" in details[Step.SIZE]
    assert "rootport.dev/unhealthy=Xid79:NoSchedule" in details[Step.TAINTS]
    assert "claim ml/whole (pod ml/p)" in details[Step.IN_USE]
    assert "of those with too little left, the most that is free" in details[Step.ROOM]
    assert "30Gi of memory" in details[Step.ROOM]
    assert "gpu-2 of node n2" in details[Step.ROOM]


def test_the_nearest_node_that_others_could_free_speaks_first() -> None:
    explanation = explained(
        node_wire("cpu"),
        node_wire("far"),
        slice_wire("far", gpu(0), gpu(1)),
        node_wire("near"),
        slice_wire("near", *(gpu(number) for number in range(4))),
        node_wire("small"),
        slice_wire("small", gpu(0)),
        held_wire("one", "gpu-0", "gpu-1", node="far", consumed=WHOLE, user="o"),
        held_wire("two", "gpu-0", "gpu-1", "gpu-2", node="near", consumed=WHOLE, user="p"),
        node_wire("down", unschedulable=True),
        slice_wire("down", gpu(0), gpu(1)),
        *wants(exactly("g", GPUS, count=2)),
    )
    first = explanation.findings[0]
    assert (first.reason, first.nodes) == (Reason.DEVICES_IN_USE, 2)
    assert "on node near, 1 of the 4 suitable devices" in first.message
    assert [(group.reason, group.count, group.examples) for group in explanation.groups] == [
        (Reason.DEVICES_IN_USE, 2, ("near", "far")),
        (Reason.NODE_UNSCHEDULABLE, 1, ("down",)),
        (Reason.CLASS_SELECTS_TOO_FEW, 1, ("small",)),
        (Reason.NO_DEVICES_PUBLISHED, 1, ("cpu",)),
    ]
    assert (explanation.nodes, explanation.nodes_fitting) == (5, 0)


def test_the_alternative_that_came_furthest_speaks() -> None:
    alternatives = [
        {"name": "big", "deviceClassName": GPUS, "allocationMode": "ExactCount", "count": 9},
        {"name": "two", "deviceClassName": GPUS, "allocationMode": "ExactCount", "count": 2},
    ]
    explanation = explained(
        *FOUR,
        held_wire("other", "gpu-0", "gpu-1", "gpu-2", consumed=WHOLE, user="o"),
        *wants({"name": "g", "firstAvailable": alternatives}),
    )
    assert explanation.findings[0].request == "g/two"
    assert explanation.reason is Reason.DEVICES_IN_USE


def test_an_error_on_one_node_keeps_the_scheduler_from_the_others() -> None:
    """As kube-scheduler does: an error in Filter ends the attempt (dynamicresources.go, v1.36.3)."""
    odd = gpu(0)
    del odd["attributes"]["model"]
    explanation = explained(
        *FOUR,
        node_wire("n2"),
        slice_wire("n2", odd),
        *wants(exactly("g", GPUS, f'{_GPU}.model == "H100"')),
    )
    assert explanation.reason is Reason.SELECTOR_FAILS
    assert "does not try the nodes with room" in explanation.findings[0].message
    assert (explanation.fits, explanation.nodes_fitting) == (False, 1)


def test_claims_of_a_pod_are_allocated_together() -> None:
    explanation = explained(
        *FOUR,
        claim_wire("one", exactly("g", GPUS, count=3)),
        claim_wire("two", exactly("g", GPUS, count=3)),
        pod_wire("train", "one", "two"),
        kind="Pod",
    )
    assert [ref.name for ref in explanation.claims] == ["one", "two"]
    # Whole GPUs are shareable devices with nothing left over: both claims want the same three.
    assert explanation.reason is Reason.REQUESTS_COMPETE


def test_other_findings_follow_the_deciding_one() -> None:
    explanation = explained(
        *FOUR,
        held_wire("other", "gpu-0", "gpu-1", "gpu-2", "gpu-3", consumed=WHOLE, user="o"),
        claim_wire("train", exactly("g", GPUS)),
        pod_wire("train-0", "train", schedulerName="volcano"),
    )
    assert [finding.reason for finding in explanation.findings] == [Reason.DEVICES_IN_USE, Reason.OTHER_SCHEDULER]


@pytest.mark.parametrize("topology", MACHINES, ids=lambda path: path.stem)
def test_real_machines_are_explained(topology: Path) -> None:
    facts = HardwareFacts(gpu_model="NVIDIA H100 80GB HBM3", gpu_memory_bytes=80 * 2**30)
    inventory = read_topology(topology, hardware=facts)
    slices = [item.to_wire() | {"kind": "ResourceSlice"} for item in resource_slices(inventory)]
    name = slices[0]["spec"]["nodeName"]
    pairs = wants(exactly("g", GPUS), exactly("n", NICS), constraints=[{"matchAttribute": _SWITCH}])
    assert explained(node_wire(name), *slices, *pairs).reason is Reason.FITS
    gpus = [
        device["name"]
        for item in slices
        for device in item["spec"].get("devices", ())
        if device["name"].startswith("gpu-")
    ]
    others = [
        held_wire(f"other-{gpu_name}", gpu_name, node=name, consumed={"core": "100", "memory": "80Gi"}, user="o")
        for gpu_name in gpus
        if not gpu_name.startswith("gpu-ratio")
    ]
    explanation = explained(node_wire(name), *slices, *others, *pairs)
    assert explanation.reason in {Reason.DEVICES_IN_USE, Reason.COUNTERS_IN_USE}
    assert f"node {name}" in explanation.findings[0].message
    assert "pod ml/o" in explanation.findings[0].message


def test_every_reason_has_a_case() -> None:
    told = {reason for reason, *_ in (*CASES.values(), *POD_CASES.values())}
    elsewhere = {  # each has a test of its own above
        Reason.CLAIM_INVALID,
        Reason.FEATURE_OFF,
        Reason.SEARCH_LIMIT,
        Reason.WAITING_FOR_DEVICE_PREPARATION,
        Reason.DEVICE_PREPARATION_FAILED,
    }
    of_pods = {  # tests/unit/driver/explain/known/test_extended.py
        Reason.POD_ENDED,
        Reason.NO_CLAIM,
        Reason.EXTENDED_RESOURCE_NOT_EVALUATED,
        Reason.EXTENDED_RESOURCE_MISSING,
    }
    uncertain = {Reason.OBJECT_UNREADABLE}  # tests/unit/driver/explain/test_certainty.py
    managed = {  # tests/unit/driver/explain/test_managed_nodes.py
        Reason.WAITING_FOR_PLACEMENT,
        Reason.PLACEMENT_NOT_RUNNING,
        Reason.DEVICES_MANAGED,
        Reason.PLACEMENT_SAYS_OTHERWISE,
        Reason.MANAGED_TAINT_TOLERATED,
    }
    assert told | elsewhere | of_pods | uncertain | managed == set(Reason)


def test_a_selector_that_is_stopped_makes_a_node_unknown_and_not_one_that_fails() -> None:
    ones = f"[{', '.join(['1'] * 200)}]"
    dear = f'cel.bind(s, "{"a" * 3000}", {ones}.map(x, s.replace("", s)).size() < 0) || {_GPU}.index >= 0'
    explanation = explained(*machine("n", 1), *wants(exactly("g", GPUS, dear)))
    assert (explanation.reason, explanation.nodes_unknown, explanation.fits) == (Reason.SEARCH_LIMIT, 1, False)
    assert "takes more time or memory" in explanation.findings[0].message


def test_of_a_pod_with_very_many_claims_nobody_is_told_that_it_fits() -> None:
    names = [f"c{number}" for number in range(1000)]
    objects = (*FOUR, pod_wire("greedy", *names), claim_wire("c999", exactly("g", GPUS)))
    pod = explained(*objects, subject="greedy", kind="Pod")
    assert not pod.fits
    assert any("names more than 256 claims" in finding.message for finding in pod.findings)

    # Whether a pod wants a claim is then not known.
    claim = explained(*objects, subject="c999")
    assert any("greedy names more claims than Rootport looks at" in finding.message for finding in claim.findings)


@pytest.mark.parametrize("name", ["gpu.nvidia.com", "dranet.net", "imex.nvidia.com", "gpu.example.com"])
def test_a_class_of_another_driver_is_said_to_be_one_and_no_own_class_is_meant(name: str) -> None:
    finding = explained(*FOUR, *wants(exactly("g", name))).findings[0]
    assert finding.reason is Reason.DEVICE_CLASS_MISSING
    assert f"names DeviceClass {name}, which is not there ({name} is none of Rootport's" in finding.message
    assert "did you mean" not in finding.message


def test_a_message_is_no_longer_than_a_person_reads() -> None:
    finding = Finding(reason=Reason.CLAIM_INVALID, message="x" * 100_000)
    assert len(finding.message) == 2_000
    assert finding.message.endswith("x…")


def test_a_slice_with_an_invalid_node_selector_is_an_answer() -> None:
    """No API server stores one; a file may have it."""
    wrong = slice_wire("n", device_wire("a"))
    del wrong["spec"]["nodeName"]
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]
    wrong["spec"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    state = cluster(class_wire("any"), node_wire("n"), wrong, claim_wire("c", exactly("r", "any")), pod_wire("p", "c"))
    explanation = Explainer(state).explain(ObjectRef(kind="ResourceClaim", namespace="ml", name="c"))
    assert explanation.reason is Reason.POOL_INVALID
    assert "'Like' is none of In" in explanation.findings[0].message
    assert explanation.proposals == ()
