"""Alibaba Cloud's GPU sharing (gpushare, cGPU) and topology-aware GPUs.

Sources: AliyunContainerService/gpushare-scheduler-extender, pkg/utils/const.go and pod.go; the documentation of
Container Service for Kubernetes on GPU sharing (memory in GiB; the label ``aliyun.com/gpu-count`` spreads it over GPUs;
``aliyun.com/gpu-core.percentage`` with isolated compute) and of Container Compute Service on GPU-HPN nodes
(``alibabacloud.com/gpu-*.percentage``); kubeflow/arena, pkg/apis/types (``aliyun.com/gpu``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from driver.api.resource_v1 import MAX_RESULTS
from driver.convert.dialect import Asked, Dialect, Meaning, PodFacts, PodNote, PodReading, Reading, Resource, Where
from driver.convert.dialects.vgpus import ALL, NOT_COUNTED, NVIDIA_GPUS
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["ALIYUN"]

_NAME: Final = "Alibaba Cloud"
_GIB: Final = 1024**3
_COUNT: Final = "aliyun.com/gpu-count"
_TOPOLOGY: Final = (
    "its scheduler chooses GPUs that are near each other; for that add a constraint with rootport.dev/nvlinkDomain"
)
_LIMITS: Final = (
    "cGPU keeps a container within its share, and tells it by ALIYUN_COM_GPU_MEM_CONTAINER; Rootport does neither by "
    "default. Where nodes have HAMi-core's library, set shareStrategy: hamiCore in the resource map for the former"
)
_RESULT: Final = "was written by Alibaba Cloud's scheduler: it leaves with the resources"


@dataclass(frozen=True, slots=True)
class _Hints:
    cards: int = 1


def _read(asked: Asked) -> Reading:
    if twice := asked.twice():
        return Reading(findings=twice)
    cards = asked.hints.cards if isinstance(asked.hints, _Hints) else 1
    others = asked.all(Meaning.OTHER)
    unknown = [amount for amount in others if amount.name != _COUNT]
    if unknown:
        text = "has no equal: compute is given in percent, write aliyun.com/gpu-core.percentage"
        return Reading(findings=tuple(asked.refused(amount, text) for amount in unknown))
    notes = tuple(asked.noted(amount, "is left out: a node has it, a container cannot ask for it") for amount in others)
    whole, memory = asked.one(Meaning.GPUS), asked.one(Meaning.MEMORY)
    percent, core = asked.one(Meaning.MEMORY_PERCENT), asked.one(Meaning.CORE)
    shares = [amount for amount in (memory, percent, core) if amount is not None]
    if whole is not None:
        if shares:
            text = "and whole GPUs: a container gets either a share or whole GPUs, write one of the two"
            return Reading(findings=tuple(asked.refused(amount, text) for amount in shares))
        gpus = GpuRequest(count=whole.value, vendor=NVIDIA_GPUS)
        findings = (asked.noted(whole, _TOPOLOGY),) if whole.value > 1 else ()
        return Reading(request=DeviceRequest(gpus=(gpus,)), findings=findings + notes)
    if not shares:
        text = "no container can ask for it: write aliyun.com/gpu-mem, and the number of GPUs as a label of the pod"
        return Reading(findings=tuple(asked.refused(amount, text) for amount in others))
    reading = _share(asked, cards)
    return Reading(request=reading.request, findings=reading.findings + notes)


def _share(asked: Asked, cards: int) -> Reading:
    memory, percent, core = asked.one(Meaning.MEMORY), asked.one(Meaning.MEMORY_PERCENT), asked.one(Meaning.CORE)
    for amount in (percent, core):
        if amount is not None and amount.value > ALL:
            return Reading(findings=(asked.refused(amount, "a GPU has 100 percent: write 1 to 100"),))
    if core is not None and memory is None and percent is None:
        text = "names no memory, and a claim that names none takes all of it: write the memory as well"
        return Reading(findings=(asked.refused(core, text),))
    if memory is not None and percent is not None:
        return Reading(findings=(asked.refused(percent, f"and {memory.name}: write one of the two"),))
    if cards > 1 and (memory is None or core is not None):
        amount = core or percent
        text = f"with the label {_COUNT}: only aliyun.com/gpu-mem alone is spread over GPUs; leave one of them out"
        return Reading(findings=(asked.refused(amount, text),) if amount else ())
    if memory is not None and memory.value % cards:
        text = f"is no multiple of {cards}, the label {_COUNT}: each GPU has to give a whole number of GiB"
        return Reading(findings=(asked.refused(memory, text),))
    gpus = GpuRequest(
        count=cards,
        core=None if core is None else core.value,
        memory=None if memory is None else memory.value // cards * memory.resource.unit,
        memory_percent=None if percent is None else percent.value,
        core_is_limited=core is not None,
        strategy=asked.pod.settings.share_strategy,
        vendor=NVIDIA_GPUS,
    )
    noted = memory or percent
    findings = (
        ()
        if noted is None or gpus.strategy
        else (asked.noted(noted, _LIMITS + ("" if core is not None else NOT_COUNTED)),)
    )
    return Reading(request=DeviceRequest(gpus=(gpus,)), findings=findings)


def _read_pod(facts: PodFacts) -> PodReading:
    text = facts.labels.get(_COUNT)
    if text is None:
        return PodReading(hints=_Hints())
    cards = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_RESULTS)) else 0
    if not 1 <= cards <= MAX_RESULTS:
        problem = f"expected a number of GPUs, 1 to {MAX_RESULTS}"
        return PodReading(findings=(_finding(facts, Outcome.REFUSED, problem),))
    return PodReading(
        hints=_Hints(cards),
        findings=(_finding(facts, Outcome.CONVERTED, f"count: {cards}, with the memory spread evenly over them"),),
    )


def _finding(facts: PodFacts, outcome: Outcome, text: str) -> Finding:
    return facts.finding(_NAME, Where.LABEL, _COUNT, outcome, text)


ALIYUN: Final = Dialect(
    name=_NAME,
    source="AliyunContainerService/gpushare-scheduler-extender: pkg/utils; Alibaba Cloud's pages on GPU sharing",
    resources=(
        Resource(name="aliyun.com/gpu-mem", meaning=Meaning.MEMORY, unit=_GIB),
        Resource(name="aliyun.com/gpu-core.percentage", meaning=Meaning.CORE),
        Resource(name="aliyun.com/gpu-core.tflops", meaning=Meaning.OTHER),
        Resource(name=_COUNT, meaning=Meaning.OTHER),
        Resource(name="aliyun.com/gpu", meaning=Meaning.GPUS),
        Resource(name="alibabacloud.com/gpu-core.percentage", meaning=Meaning.CORE),
        Resource(name="alibabacloud.com/gpu-memory.percentage", meaning=Meaning.MEMORY_PERCENT),
    ),
    read=_read,
    read_pod=_read_pod,
    notes=(
        PodNote(name=_COUNT, where=Where.LABEL),
        *(
            PodNote(name=name, text=_RESULT, leaves=True)
            for name in (
                "ALIYUN_COM_GPU_MEM_*",
                "scheduler.framework.gpushare.allocation",
                "gpushare.alibabacloud.com/core-percentage",
            )
        ),
    ),
)
