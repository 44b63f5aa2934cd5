"""The table: everything for which a claim can hang that the real scheduler can show without a kubelet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.kubernetes.resources import JsonObject
from driver.adapters.machines.topology import read_topology
from driver.api.strict import write
from driver.explain.explanation import ChangeKind
from driver.explain.reasons import Reason
from driver.layout.slices import resource_slices
from driver.model.health import Effect, Fault, NodeHealth
from driver.objects.faults import device_faults
from driver.objects.written_inventory import node_inventory
from tests.cluster.hangs.world import World, claim, device, node, pod, request, slice_of
from tests.support.cluster.control_plane import TAINT_RULES
from tests.support.topologies import machine_file

__all__ = ["CASES", "HOLDER", "POD", "Hang"]

POD: Final = "train"
"""The pod that hangs."""
HOLDER: Final = "holder"
"""The pod that has what it wants."""

_H100: Final = machine_file("azure-nd-h100-v5")
_SWITCH: Final = "rootport.dev/pcieSwitch"
_SAME_SWITCH: Final = [{"matchAttribute": _SWITCH}]


@dataclass(frozen=True, kw_only=True)
class Hang:
    """One way to hang.

    Attributes:
        name: Of the test.
        reason: The code that explain gives.
        objects: What there is, in order.
        placed: Pods that must have been scheduled before ``hanging`` is created.
        hanging: The pod that hangs, and its claims.
        says: What the deciding message must name.
        fix: The kind of the proposal that is done, or what a person does where none can be verified.
        before: Done after ``hanging`` was created, to bring it about.
        subject: What is explained.
        verified: The allocator has tried the proposal.
        tried: The scheduler tries the pod, and says that it does not fit.
        fits: There are devices for it all the same.
    """

    name: str
    reason: Reason
    objects: tuple[JsonObject, ...] = ()
    placed: tuple[JsonObject, ...] = ()
    hanging: tuple[JsonObject, ...] = ()
    says: tuple[str, ...] = ()
    fix: ChangeKind | Callable[[World], None] = ChangeKind.CHANGE_CLAIM
    before: Callable[[World], None] | None = None
    subject: tuple[str, str] = ("Pod", POD)
    verified: bool = True
    tried: bool = True
    fits: bool = False


@cache
def _machine(name: str, *, gpus: int = 1, nics: int = 0, first_nic: int = 0) -> tuple[JsonObject, ...]:
    """The slices of a node with H100s and NICs, each pair of them at a switch of its own, laid out by Rootport."""
    whole = read_topology(_H100, node=name, hardware=HardwareFacts(gpu_model="H100"))
    cut = replace(whole, gpus=whole.gpus[:gpus], nics=whole.nics[first_nic : first_nic + nics])
    return tuple(item.to_wire() for item in resource_slices(cut))


def _unhealthy(name: str) -> tuple[JsonObject, ...]:
    """The slices of a node with one H100 that has fallen off the bus, and its inventory, which says so."""
    whole = read_topology(_H100, node=name, hardware=HardwareFacts(gpu_model="H100"))
    cut = replace(whole, gpus=whole.gpus[:1], nics=())
    fault = Fault(
        device=cut.gpus[0].name,
        reason="Xid79",
        effect=Effect.NO_EXECUTE,
        since=datetime(2026, 1, 1, tzinfo=UTC),
        message="Xid 79 (GPU has fallen off the bus): drain and restart the node",
    )
    health = NodeHealth(faults=(fault,))
    status = {"faults": [write(item) for item in device_faults(health)]}
    slices = [item.to_wire() for item in resource_slices(cut, health=health)]
    return (node_inventory(cut) | {"status": status}, *slices)


def _fpgas(name: str, count: int, **attributes: str | int) -> JsonObject:
    return slice_of(name, *(device(f"fpga-{number}", type="fpga", **attributes) for number in range(count)))


def _vfs(name: str, count: int) -> JsonObject:
    """The VFs of a NIC as one device."""
    one = {"default": "1", "validValues": ["1"]}
    return device(name, type="rdma-vf") | {
        "allowMultipleAllocations": True,
        "capacity": {"vfs": {"value": str(count), "requestPolicy": one}},
    }


_GPU: Final = device("gpu-0", type="gpu", sharingStrategy="timeSlicing")
_BOTH_ON_N2: Final = slice_of("n2", _GPU, device("fpga-0", type="fpga"))


def _wants(*requests: JsonObject, **devices: Any) -> tuple[JsonObject, ...]:
    return (claim(POD, *requests, **devices), pod(POD, POD))


def _holds(*requests: JsonObject, **devices: Any) -> tuple[JsonObject, ...]:
    return (claim(HOLDER, *requests, **devices), pod(HOLDER, HOLDER))


def _share(**capacity: str) -> dict[str, Any]:
    return {"capacity": {"requests": capacity}}


def _full_of_reservations(world: World) -> None:
    jobs = [{"apiGroup": "batch", "resource": "jobs", "name": f"job-{n}", "uid": f"uid-{n}"} for n in range(256)]
    world.patch("ResourceClaim", HOLDER, {"status": {"reservedFor": jobs}}, subresource="status")


def _one_reservation(world: World) -> None:
    job = {"apiGroup": "batch", "resource": "jobs", "name": "job-0", "uid": "uid-0"}
    world.patch("ResourceClaim", HOLDER, {"status": {"reservedFor": [job]}}, subresource="status")


def _deleting(world: World) -> None:
    world.patch("ResourceClaim", POD, {"metadata": {"finalizers": ["example.com/keep"]}})
    world.start_deletion("ResourceClaim", POD)


def _claim_anew(world: World) -> None:
    world.delete("ResourceClaim", POD)
    world.create(claim(POD, request("fpga", "fpga")))


def _ready(world: World) -> None:
    world.patch("Node", "n1", {"spec": {"taints": None}})
    ready = [{"type": "Ready", "status": "True"}]
    world.patch("Node", "n1", {"status": {"conditions": ready}}, subresource="status")


def _creates(*objects: JsonObject) -> Callable[[World], None]:
    return lambda world: world.create(*objects)


def _in_order(*steps: Callable[[World], None]) -> Callable[[World], None]:
    def do(world: World) -> None:
        for step in steps:
            step(world)

    return do


def _ungated(world: World) -> None:
    world.patch("Pod", POD, {"spec": {"schedulingGates": None}})


def _removes(kind: str, name: str) -> Callable[[World], None]:
    return lambda world: world.delete(kind, name)


CASES: Final = (
    Hang(
        name="devices-in-use",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), _fpgas("n1", 1)),
        placed=_holds(request("fpga", "fpga")),
        hanging=_wants(request("fpga", "fpga")),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="one-of-many-nodes-comes-nearest",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), node("n2"), _fpgas("n1", 1), _fpgas("n2", 3)),
        placed=_holds(request("fpga", "fpga", count=2)),
        hanging=_wants(request("fpga", "fpga", count=3)),
        says=(HOLDER, "n2"),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="smaller-count-instead-of-ending-others",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), _fpgas("n1", 3)),
        placed=_holds(request("fpga", "fpga", count=2)),
        hanging=_wants(request("fpga", "fpga", count=3)),
        says=(HOLDER,),
        fix=ChangeKind.CHANGE_CLAIM,
    ),
    Hang(
        name="share-larger-than-what-is-left",
        reason=Reason.CAPACITY_IN_USE,
        objects=(node("n1"), *_machine("n1")),
        placed=_holds(request("gpu", **_share(core="60", memory="40Gi"))),
        hanging=_wants(request("gpu", **_share(core="50", memory="10Gi"))),
        says=("core", "50", "40", HOLDER),
        fix=ChangeKind.CHANGE_CLAIM,
    ),
    Hang(
        name="whole-gpu-where-a-share-is-given",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), *_machine("n1")),
        placed=_holds(request("gpu", **_share(core="10", memory="1Gi"))),
        hanging=_wants(request("gpu")),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="gpu-in-another-mode",
        reason=Reason.COUNTERS_IN_USE,
        objects=(node("n1"), *_machine("n1")),
        placed=_holds(request("gpu", **_share(core="10", memory="1Gi"))),
        hanging=_wants(request("part", "mig")),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="no-placement-left-for-a-mig-partition",
        reason=Reason.COUNTERS_IN_USE,
        objects=(node("n1"), *_machine("n1")),
        placed=_holds(request("part", "mig", 'device.attributes["rootport.dev"].profile == "4g.40gb"')),
        hanging=_wants(request("part", "mig", 'device.attributes["rootport.dev"].profile == "7g.80gb"')),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="more-devices-than-any-node-has",
        reason=Reason.CLASS_SELECTS_TOO_FEW,
        objects=(node("n1"), node("n2"), *_machine("n1", gpus=2), *_machine("n2", gpus=1)),
        hanging=_wants(request("gpus", count=4)),
        says=("4", "2", "n1"),
    ),
    Hang(
        name="class-of-which-no-node-has-devices",
        reason=Reason.CLASS_SELECTS_TOO_FEW,
        objects=(node("n1"), *_machine("n1")),
        hanging=_wants(request("fpga", "fpga")),
        says=("fpga.rootport.dev",),
        fix=_creates(node("n2"), _fpgas("n2", 1)),
    ),
    Hang(
        name="selector-that-no-device-meets",
        reason=Reason.SELECTOR_SELECTS_TOO_FEW,
        objects=(node("n1"), _fpgas("n1", 1, model="Alveo U250")),
        hanging=_wants(
            request(
                "fpga", "fpga", 'device.driver == "rootport.dev" && device.attributes["rootport.dev"].model == "U280"'
            )
        ),
        says=("model", "U280", "Alveo U250"),
    ),
    Hang(
        name="attribute-with-a-typo-in-a-selector",
        reason=Reason.SELECTOR_FAILS,
        objects=(node("n1"), _fpgas("n1", 1, model="Alveo U250")),
        hanging=_wants(request("fpga", "fpga", 'device.attributes["rootport.dev"].modle == "Alveo U250"')),
        says=("modle", "model"),
    ),
    Hang(
        name="selector-that-fails-on-another-node",
        reason=Reason.SELECTOR_FAILS,
        objects=(node("n1"), node("n2"), _fpgas("n1", 1, model="Alveo U250"), _fpgas("n2", 1)),
        hanging=_wants(request("fpga", "fpga", 'device.attributes["rootport.dev"].model == "Alveo U250"')),
        says=("model", "n2"),
    ),
    Hang(
        name="no-slices-at-all",
        reason=Reason.NO_DEVICES_PUBLISHED,
        objects=(node("n1"),),
        hanging=_wants(request("gpu")),
        fix=_creates(*_machine("n1")),
    ),
    Hang(
        name="class-that-is-not-there",
        reason=Reason.DEVICE_CLASS_MISSING,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=_wants(request("fpga", "fpgas.rootport.dev")),
        says=("fpgas.rootport.dev",),
    ),
    Hang(
        name="device-tainted-by-its-driver",
        reason=Reason.DEVICE_TAINTED,
        objects=(
            node("n1"),
            slice_of(
                "n1",
                device("fpga-0", type="fpga")
                | {"taints": [{"key": "rootport.dev/link-down", "value": "down", "effect": "NoSchedule"}]},
            ),
        ),
        hanging=_wants(request("fpga", "fpga")),
        says=("rootport.dev/link-down", "NoSchedule"),
    ),
    Hang(
        name="unhealthy-device",
        reason=Reason.DEVICE_TAINTED,
        objects=(node("n1"), *_unhealthy("n1")),
        hanging=_wants(request("gpu")),
        says=("unhealthy, Xid79: Xid 79", "restart the node", "set by Rootport"),
    ),
    Hang(
        name="device-tainted-by-a-rule",
        reason=Reason.DEVICE_TAINTED,
        objects=(
            node("n1"),
            _fpgas("n1", 1),
            {
                "apiVersion": TAINT_RULES.api_version,
                "kind": "DeviceTaintRule",
                "metadata": {"name": "maintenance"},
                "spec": {
                    "deviceSelector": {"driver": "rootport.dev", "pool": "n1", "device": "fpga-0"},
                    "taint": {"key": "example.com/maintenance", "effect": "NoSchedule"},
                },
            },
        ),
        hanging=_wants(request("fpga", "fpga")),
        says=("example.com/maintenance", "DeviceTaintRule maintenance"),
        fix=ChangeKind.CHANGE_DEVICE_TAINT,
    ),
    Hang(
        name="capacity-with-a-typo",
        reason=Reason.CAPACITY_UNKNOWN,
        objects=(node("n1"), *_machine("n1")),
        hanging=_wants(request("gpu", **_share(core="10", memroy="1Gi"))),
        says=("memroy", "memory"),
    ),
    Hang(
        name="capacity-larger-than-any-device",
        reason=Reason.CAPACITY_TOO_LARGE,
        objects=(node("n1"), *_machine("n1")),
        hanging=_wants(request("gpu", **_share(core="10", memory="200Gi"))),
        says=("memory", "200Gi", "79.6Gi"),
    ),
    Hang(
        name="no-nic-beside-the-gpu",
        reason=Reason.CONSTRAINT_NOT_SATISFIABLE,
        objects=(node("n1"), *_machine("n1", gpus=1, nics=1, first_nic=5)),
        hanging=_wants(request("gpu"), request("nic", "rdma"), constraints=_SAME_SWITCH),
        says=(_SWITCH,),
    ),
    Hang(
        name="the-nic-beside-the-gpu-is-taken",
        reason=Reason.CONSTRAINT_IN_USE,
        objects=(node("n1"), *_machine("n1", gpus=2, nics=2)),
        placed=(
            claim("gpu-of-one", request("gpu", "gpu", 'device.attributes["rootport.dev"].index == 0')),
            pod("first", "gpu-of-one"),
            claim(HOLDER, request("nic", "rdma", 'device.attributes["rootport.dev"].index == 1')),
            pod(HOLDER, HOLDER),
        ),
        hanging=_wants(request("gpu"), request("nic", "rdma"), constraints=_SAME_SWITCH),
        says=(_SWITCH, "in use by"),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="constraint-on-an-attribute-with-a-typo",
        reason=Reason.ATTRIBUTE_MISSING,
        objects=(node("n1"), *_machine("n1", gpus=1, nics=1)),
        hanging=_wants(
            request("gpu"), request("nic", "rdma"), constraints=[{"matchAttribute": "rootport.dev/pcieSwich"}]
        ),
        says=("rootport.dev/pcieSwich", "rootport.dev/pcieSwitch"),
    ),
    Hang(
        name="too-few-different-values",
        reason=Reason.CONSTRAINT_NOT_SATISFIABLE,
        objects=(node("n1"), _fpgas("n1", 2, numaNode=0)),
        hanging=_wants(request("fpga", "fpga", count=2), constraints=[{"distinctAttribute": "rootport.dev/numaNode"}]),
        says=("rootport.dev/numaNode",),
    ),
    Hang(
        name="all-vfs-of-the-nic-are-given",
        reason=Reason.CAPACITY_IN_USE,
        objects=(node("n1"), slice_of("n1", _vfs("rdma-vfs-0000-01-00-0", 2))),
        placed=_holds(
            request("one", "rdma-vf", **_share(vfs="1")),
            request("two", "rdma-vf", **_share(vfs="1")),
        ),
        hanging=_wants(request("nic", "rdma-vf", **_share(vfs="1"))),
        says=("vfs", HOLDER),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="amount-that-the-policy-does-not-have",
        reason=Reason.CAPACITY_TOO_LARGE,
        objects=(node("n1"), slice_of("n1", _vfs("rdma-vfs-0000-01-00-0", 8))),
        hanging=_wants(request("nic", "rdma-vf", **_share(vfs="2"))),
        says=("vfs", "2"),
    ),
    Hang(
        name="two-requests-for-one-device",
        reason=Reason.REQUESTS_COMPETE,
        objects=(node("n1"), _fpgas("n1", 2)),
        placed=_holds(request("fpga", "fpga")),
        hanging=_wants(request("one", "fpga"), request("other", "fpga")),
        says=("one", "other"),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="every-alternative-is-taken",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), _fpgas("n1", 1, model="Alveo U250")),
        placed=_holds(request("fpga", "fpga")),
        hanging=_wants(
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "two", "deviceClassName": "fpga.rootport.dev", "count": 2},
                    {"name": "one", "deviceClassName": "fpga.rootport.dev"},
                ],
            }
        ),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="all-devices-where-one-is-taken",
        reason=Reason.DEVICES_IN_USE,
        objects=(node("n1"), _fpgas("n1", 2)),
        placed=_holds(request("fpga", "fpga")),
        hanging=_wants(request("all", "fpga", allocationMode="All")),
        says=(HOLDER,),
        fix=ChangeKind.END_CLAIMS,
    ),
    Hang(
        name="more-devices-than-a-claim-may-have",
        reason=Reason.TOO_MANY_DEVICES,
        objects=(node("n1"), _fpgas("n1", 40)),
        hanging=_wants(request("fpgas", "fpga", count=33)),
        says=("33", "32"),
    ),
    Hang(
        name="slices-of-the-pool-are-missing",
        reason=Reason.POOL_INCOMPLETE,
        objects=(node("n1"), slice_of("n1", device("fpga-0", type="fpga"), name="n1-a", count=2)),
        hanging=_wants(request("fpga", "fpga")),
        says=("1 of 2", "n1"),
        fix=_creates(slice_of("n1", device("fpga-1", type="fpga"), name="n1-b", count=2)),
    ),
    Hang(
        name="pool-with-a-device-name-used-twice",
        reason=Reason.POOL_INVALID,
        objects=(
            node("n1"),
            slice_of("n1", device("fpga-0", type="fpga"), name="n1-once", count=2),
            slice_of("n1", device("fpga-0", type="fpga"), name="n1-twice", count=2),
        ),
        hanging=_wants(request("fpga", "fpga")),
        says=("fpga-0", "twice"),
        fix=_in_order(
            _removes("ResourceSlice", "n1-twice"),
            _creates(slice_of("n1", device("fpga-1", type="fpga"), name="n1-twice", count=2)),
        ),
    ),
    Hang(
        name="node-cordoned",
        reason=Reason.NODE_UNSCHEDULABLE,
        objects=(node("n1", unschedulable=True), _fpgas("n1", 1)),
        hanging=_wants(request("fpga", "fpga")),
        says=("n1",),
        fix=ChangeKind.CHANGE_NODE,
    ),
    Hang(
        name="node-tainted",
        reason=Reason.NODE_TAINTED,
        objects=(
            node("n1", taints=[{"key": "example.com/team", "value": "other", "effect": "NoSchedule"}]),
            _fpgas("n1", 1),
        ),
        hanging=_wants(request("fpga", "fpga")),
        says=("example.com/team",),
        fix=ChangeKind.CHANGE_NODE,
    ),
    Hang(
        name="node-not-ready",
        reason=Reason.NODE_NOT_READY,
        objects=(
            node(
                "n1",
                not_ready="PLEG is not healthy",
                taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
            ),
            _fpgas("n1", 1),
        ),
        hanging=_wants(request("fpga", "fpga")),
        says=("n1", "PLEG is not healthy"),
        fix=_ready,
    ),
    Hang(
        name="node-selector-of-the-pod",
        reason=Reason.NODE_AFFINITY,
        objects=(node("n1"), node("n2"), _fpgas("n1", 1)),
        hanging=(claim(POD, request("fpga", "fpga")), pod(POD, POD, nodeSelector={"kubernetes.io/hostname": "n3"})),
        says=("kubernetes.io/hostname",),
        fix=ChangeKind.CHANGE_POD,
    ),
    Hang(
        name="claim-that-is-not-there",
        reason=Reason.CLAIM_MISSING,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(pod(POD, POD),),
        tried=False,
        says=(POD,),
        fix=_creates(claim(POD, request("fpga", "fpga"))),
    ),
    Hang(
        name="template-that-is-not-there",
        reason=Reason.CLAIM_TEMPLATE_MISSING,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(pod(POD, template="fpga"),),
        tried=False,
        says=("fpga",),
        fix=_creates(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "fpga"},
                "spec": {"spec": claim("", request("fpga", "fpga"))["spec"]},
            }
        ),
    ),
    Hang(
        name="claim-that-is-being-deleted",
        reason=Reason.CLAIM_DELETED,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(
            claim(POD, request("fpga", "fpga")),
            pod(POD, POD, schedulingGates=[{"name": "example.com/wait"}]),
        ),
        before=_in_order(_deleting, _ungated),
        says=(POD,),
        fix=_claim_anew,
    ),
    Hang(
        name="claim-is-on-another-node",
        reason=Reason.CLAIM_ELSEWHERE,
        objects=(node("n1"), node("n2"), _fpgas("n1", 1), _BOTH_ON_N2),
        placed=(
            claim(HOLDER, request("fpga", "fpga")),
            pod(HOLDER, HOLDER, nodeSelector={"kubernetes.io/hostname": "n1"}),
        ),
        hanging=(claim("gpu", request("gpu")), pod(POD, "gpu", HOLDER)),
        says=(HOLDER, "n1"),
        fix=ChangeKind.END_CLAIMS,
        verified=False,  # what an allocated claim asks for is not kept
    ),
    Hang(
        name="claim-reserved-by-as-many-as-may-have-it",
        reason=Reason.CLAIM_IN_USE,
        objects=(node("n1"), _fpgas("n1", 1)),
        placed=(claim(HOLDER, request("fpga", "fpga")), pod(HOLDER, HOLDER)),
        hanging=(pod(POD, HOLDER, schedulingGates=[{"name": "example.com/wait"}]),),
        before=_in_order(_full_of_reservations, _ungated),
        says=("256",),
        fix=_one_reservation,
    ),
    Hang(
        name="pod-with-a-scheduling-gate",
        reason=Reason.SCHEDULING_GATED,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(
            claim(POD, request("fpga", "fpga")),
            pod(POD, POD, schedulingGates=[{"name": "example.com/wait"}]),
        ),
        says=("example.com/wait",),
        fix=_ungated,
    ),
    Hang(
        name="pod-of-another-scheduler",
        reason=Reason.OTHER_SCHEDULER,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(claim(POD, request("fpga", "fpga")), pod(POD, POD, schedulerName="volcano")),
        says=("volcano",),
        fits=True,
        fix=_in_order(_removes("Pod", POD), _creates(pod(POD, POD))),
        tried=False,
    ),
    Hang(
        name="no-pod-uses-it",
        reason=Reason.WAITING_FOR_POD,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(claim(POD, request("fpga", "fpga")),),
        fits=True,
        fix=_creates(pod(POD, POD)),
        subject=("ResourceClaim", POD),
        tried=False,
    ),
    Hang(
        name="the-devices-are-free-but-not-the-cpus",
        reason=Reason.SCHEDULER_SAYS_OTHERWISE,
        objects=(node("n1"), _fpgas("n1", 1)),
        hanging=(claim(POD, request("fpga", "fpga")), pod(POD, POD, cpu="1000")),
        says=("cpu",),
        fits=True,
        fix=_in_order(_removes("Pod", POD), _creates(pod(POD, POD))),
    ),
    Hang(
        name="two-claims-of-a-pod-that-no-node-has-both-of",
        reason=Reason.CLASS_SELECTS_TOO_FEW,
        objects=(node("n1"), node("n2"), _fpgas("n1", 1), *_machine("n2")),
        hanging=(
            claim(POD, request("fpga", "fpga")),
            claim("gpu", request("gpu")),
            pod(POD, POD, "gpu"),
        ),
        fix=_creates(node("n3"), slice_of("n3", _GPU, device("fpga-0", type="fpga"))),
    ),
)
