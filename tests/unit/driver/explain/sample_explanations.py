"""Answers to eight questions, written by hand: what the report, the summary and the JSON are tried on."""

from __future__ import annotations

from typing import Final

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

__all__ = ["CLAIM", "POD", "SAMPLES"]

CLAIM: Final = ObjectRef(kind="ResourceClaim", namespace="ml", name="train", uid="4f1c")
POD: Final = ObjectRef(kind="Pod", namespace="ml", name="train-0")
_NIC: Final = ObjectRef(kind="ResourceClaim", namespace="ml", name="train-nic")
_OTHER: Final = ObjectRef(kind="ResourceClaim", namespace="batch", name="sweep-7")
_OTHER_POD: Final = ObjectRef(kind="Pod", namespace="batch", name="sweep-7-0")
_TERM: Final = 'device.attributes["rootport.dev"].model == "H200"'


def _in_use() -> Explanation:
    message = "4 GPUs are asked for; 2 are free on the best node, gpu-2: claim batch/sweep-7 (pod sweep-7-0) has 6"
    return Explanation(
        subject=POD,
        pod=POD,
        claims=(CLAIM,),
        findings=(Finding(reason=Reason.DEVICES_IN_USE, message=message, claim=CLAIM, request="gpus", nodes=2),),
        nodes=3,
        requests=(
            RequestFunnel(
                claim=CLAIM,
                request="gpus",
                device_class="gpu.rootport.dev",
                need=4,
                steps=(
                    FunnelStep(step=Step.PUBLISHED, left=48, best=16, best_node="gpu-1"),
                    FunnelStep(step=Step.CLASS, left=24, best=8, best_node="gpu-1", details=("24 are not GPUs",)),
                    FunnelStep(
                        step=Step.IN_USE,
                        left=3,
                        best=2,
                        best_node="gpu-2",
                        details=(
                            "claim batch/sweep-7 (pod sweep-7-0) has 6 on gpu-2",
                            "claim ml/eval (pod eval-0) has 7 on gpu-1",
                            "claim ml/notebook has 1 on gpu-1",
                        ),
                    ),
                ),
            ),
        ),
        groups=(
            NodeGroup(reason=Reason.DEVICES_IN_USE, count=2, examples=("gpu-1", "gpu-2"), message=message, lacks=2),
            NodeGroup(reason=Reason.NODE_UNSCHEDULABLE, count=1, examples=("gpu-3",), message="the node is cordoned"),
        ),
        proposals=(
            Proposal(
                kind=ChangeKind.END_CLAIMS,
                text="end claim batch/sweep-7 of pod batch/sweep-7-0",
                node="gpu-2",
                ends=(_OTHER,),
                pods=(_OTHER_POD,),
                commands=("kubectl delete pod --namespace batch sweep-7-0",),
            ),
            Proposal(
                kind=ChangeKind.CHANGE_CLAIM,
                text="ask for 2 devices in request gpus instead of 4",
                node="gpu-2",
                cost=2,
                patches=(
                    ClaimPatch(
                        claim=CLAIM,
                        operations=({"op": "replace", "path": "/spec/devices/requests/0/exactly/count", "value": 2},),
                    ),
                ),
            ),
        ),
        scheduler_message="0/3 nodes are available: 2 cannot allocate all claims, 1 node(s) were unschedulable.",
    )


def _selector() -> Explanation:
    message = f"no device of class gpu.rootport.dev has {_TERM}; there are 16 of model H100 and 8 of model A100"
    return Explanation(
        subject=CLAIM,
        claims=(CLAIM,),
        findings=(
            Finding(reason=Reason.SELECTOR_SELECTS_TOO_FEW, message=message, claim=CLAIM, request="gpus", nodes=3),
            Finding(reason=Reason.WAITING_FOR_POD, message="no pod uses the claim", claim=CLAIM),
        ),
        nodes=3,
        requests=(
            RequestFunnel(
                claim=CLAIM,
                request="gpus/large",
                device_class="gpu.rootport.dev",
                need=8,
                steps=(
                    FunnelStep(step=Step.PUBLISHED, left=48, best=16, best_node="gpu-1"),
                    FunnelStep(step=Step.CLASS, left=24, best=8, best_node="gpu-1"),
                    FunnelStep(step=Step.SELECTOR, left=0, best=0, details=(f"{_TERM}: false for 24",)),
                ),
            ),
        ),
        groups=(
            NodeGroup(
                reason=Reason.SELECTOR_SELECTS_TOO_FEW, count=3, examples=("gpu-1", "gpu-2", "gpu-3"), message=message
            ),
        ),
        proposals=(Proposal(kind=ChangeKind.CHANGE_CLAIM, text='select model "H100"', node="gpu-1"),),
    )


def _competing() -> Explanation:
    funnel = [
        RequestFunnel(
            claim=claim,
            request=f"{name}-{index}",
            device_class=f"{name}.rootport.dev",
            need=1,
            steps=(
                FunnelStep(step=Step.PUBLISHED, left=48, best=16, best_node="gpu-1"),
                FunnelStep(step=Step.CLASS, left=24, best=8, best_node="gpu-1"),
                FunnelStep(step=Step.IN_USE, left=9, best=4, best_node="gpu-1"),
            ),
        )
        for claim, name in ((CLAIM, "gpu"), (_NIC, "rdma"))
        for index in range(4)
    ]
    message = (
        "4 pairs of constraint rootport.dev/pcieSwitch are asked for; the best node, gpu-1, has 3: under switch"
        " 0000:3b:00.0 are 1 free GPU and no free NIC, claim batch/sweep-7 has it"
    )
    return Explanation(
        subject=POD,
        pod=POD,
        claims=(CLAIM, _NIC),
        findings=(Finding(reason=Reason.CONSTRAINT_IN_USE, message=message, claim=CLAIM, nodes=3),),
        nodes=3,
        requests=tuple(funnel),
        groups=(
            NodeGroup(
                reason=Reason.CONSTRAINT_IN_USE, count=3, examples=("gpu-1", "gpu-2", "gpu-3"), message=message, lacks=1
            ),
        ),
    )


def _class_missing() -> Explanation:
    return Explanation(
        subject=CLAIM,
        claims=(CLAIM,),
        pod=POD,
        findings=(
            Finding(
                reason=Reason.DEVICE_CLASS_MISSING,
                message="request gpus is for class gpus.rootport.dev, which is not there: gpu.rootport.dev is",
                claim=CLAIM,
                request="gpus",
            ),
        ),
        proposals=(
            Proposal(kind=ChangeKind.CHANGE_CLAIM, text="name class gpu.rootport.dev in request gpus", node="gpu-1"),
            Proposal(
                kind=ChangeKind.CREATE_OBJECT,
                text="create DeviceClass gpus.rootport.dev",
                verified=False,
                commands=("kubectl create -f class.yaml",),
            ),
        ),
        notes=("feature DRADeviceTaints is off on this cluster: taints of devices are dropped",),
    )


def _allocated() -> Explanation:
    return Explanation(
        subject=CLAIM,
        claims=(CLAIM,),
        fits=True,
        findings=(Finding(reason=Reason.ALLOCATED, message="it has gpu-0 and rdma-0 of node gpu-1", claim=CLAIM),),
    )


def _fits() -> Explanation:
    return Explanation(
        subject=CLAIM,
        claims=(CLAIM,),
        pod=POD,
        fits=True,
        findings=(Finding(reason=Reason.FITS, message="there is room: the scheduler has not come to it yet"),),
        nodes=3,
        nodes_fitting=1,
        groups=(NodeGroup(reason=Reason.NODE_TAINTED, count=2, examples=("gpu-1", "gpu-2"), message="taint x=y"),),
    )


def _prepare_fails() -> Explanation:
    return Explanation(
        subject=POD,
        pod=POD,
        claims=(CLAIM,),
        findings=(
            Finding(
                reason=Reason.PREPARE_FAILS,
                message="node gpu-1 cannot prepare it: claim ml/train: device gpu-0 does not answer",
                claim=CLAIM,
                driver_fault=True,
            ),
        ),
        proposals=(Proposal(kind=ChangeKind.REPAIR_DRIVER, text="look at Rootport's plugin on gpu-1", verified=False),),
    )


def _hostile() -> Explanation:
    """Texts that a terminal would act on, and far too much of everything."""
    evil = "\x1b[31mred\x1b[0m\r\n\u202ereversed " + "word " * 400
    step = FunnelStep(step=Step.PUBLISHED, left=0, best=0, best_node=evil, details=(evil,) * 40)
    request = RequestFunnel(claim=CLAIM, request="r", device_class="c", need=None, steps=(step,) * 8)
    proposal = Proposal(kind=ChangeKind.WAIT, text=evil, commands=("true " + evil,))
    return Explanation(
        subject=CLAIM,
        claims=(CLAIM,) * 40,
        findings=tuple(Finding(reason=reason, message=evil) for reason in Reason),
        nodes=5000,
        requests=(request,) * 64,
        groups=tuple(NodeGroup(reason=reason, count=100, examples=("n",) * 5, message=evil) for reason in Reason),
        proposals=(proposal,) * 20,
        scheduler_message=evil,
        notes=(evil,) * 20,
    )


SAMPLES: Final = {
    "devices in use": _in_use(),
    "selector": _selector(),
    "requests compete": _competing(),
    "class missing": _class_missing(),
    "allocated": _allocated(),
    "fits": _fits(),
    "prepare fails": _prepare_fails(),
    "hostile": _hostile(),
}
"""By what they are about."""
