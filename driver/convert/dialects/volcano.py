"""Volcano: vGPUs, and its older whole GPUs and GPU memory.

Sources: volcano-sh/volcano v1.15, pkg/scheduler/api/devices/nvidia/vgpu (utils.go: resourcereqs, checkGPUtype,
checkNodeGPUSharingPredicateAndScore; type.go) and gpushare (share.go, type.go); volcano-sh/devices, README.md.
"""

from __future__ import annotations

from typing import Final

from driver.api.pod_templates import field_path
from driver.convert.dialect import Asked, Dialect, Meaning, PodFacts, PodNote, PodReading, Reading, Resource, Where
from driver.convert.dialects.vgpus import (
    MIB,
    NO_TYPE,
    NOT_COUNTED,
    NVIDIA_GPUS,
    STRATEGIES,
    USE_TYPE,
    VgpuHints,
    VgpuRules,
    mode_refusal,
    read_vgpus,
    wanted_models,
)
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["VOLCANO"]

_NAME: Final = "Volcano"
_SCHEDULER: Final = "volcano"
_MODE: Final = "volcano.sh/vgpu-mode"
_VGPUS: Final = "volcano.sh/vgpu-number"
_NUMBER: Final = "volcano.sh/gpu-number"
_MEMORY: Final = "volcano.sh/gpu-memory"

_RULES: Final = VgpuRules(
    system=_NAME,
    number=_VGPUS,
    core_above_all="",
    limits=(
        "HAMi's library keeps a vGPU's container within its share; Rootport's default strategy limits nothing. Where"
        " nodes have the library, set the annotation volcano.sh/vgpu-mode: hami-core, or shareStrategy in the resource"
        " map"
    ),
)
_RESULT: Final = "was written by Volcano's scheduler: it leaves with the resources"


def _read(asked: Asked) -> Reading:
    number = next((amount for amount in asked.amounts if amount.name == _NUMBER), None)
    memory = next((amount for amount in asked.amounts if amount.name == _MEMORY), None)
    older = [amount for amount in (number, memory) if amount is not None]
    if older and len(older) < len(asked.amounts):
        text = "is of the older device plugin, and the container asks for a vGPU as well: write one of the two"
        return Reading(findings=tuple(asked.refused(amount, text) for amount in older))
    if number is not None and memory is not None:
        text = f"and {_MEMORY}: Volcano serves either of them, by its configuration; write one of the two"
        return Reading(findings=(asked.refused(number, text),))
    if number is not None:
        return Reading(request=DeviceRequest(gpus=(GpuRequest(count=number.value, vendor=NVIDIA_GPUS),)))
    if memory is not None:
        gpu = GpuRequest(memory=memory.value * memory.resource.unit, core_is_limited=False, vendor=NVIDIA_GPUS)
        text = f"nothing kept a container within this memory, and nothing does by default now{NOT_COUNTED}"
        return Reading(request=DeviceRequest(gpus=(gpu,)), findings=(asked.noted(memory, text),))
    hints = asked.hints if isinstance(asked.hints, VgpuHints) else VgpuHints()
    return read_vgpus(asked, _RULES, hints)


def _read_pod(facts: PodFacts) -> PodReading:
    findings: list[Finding] = []
    wanted, finding = wanted_models(_NAME, facts, USE_TYPE, negated=False)
    if finding is not None and NO_TYPE in facts.annotations:
        findings.append(finding)
        text = f"is left out: Volcano reads {USE_TYPE} alone where both are there"
        finding = facts.finding(_NAME, Where.ANNOTATION, NO_TYPE, Outcome.NOTED, text)
    elif finding is None:
        wanted, finding = wanted_models(_NAME, facts, NO_TYPE, negated=True)
    findings.extend(each for each in (finding, _mode(facts), _scheduler(facts)) if each is not None)
    strategy = STRATEGIES.get(facts.annotations.get(_MODE, ""), "")
    hints = VgpuHints(wanted=() if wanted is None else (wanted,), strategy=strategy)
    return PodReading(hints=hints, findings=tuple(findings))


def _mode(facts: PodFacts) -> Finding | None:
    mode = facts.annotations.get(_MODE)
    if mode is None:
        return None
    if mode in STRATEGIES:
        return facts.finding(_NAME, Where.ANNOTATION, _MODE, Outcome.CONVERTED, f"strategy {STRATEGIES[mode]}")
    return facts.finding(_NAME, Where.ANNOTATION, _MODE, Outcome.REFUSED, mode_refusal(_NAME, is_mig=mode == "mig"))


def _scheduler(facts: PodFacts) -> Finding | None:
    """Return the note on Volcano's scheduler, which stays: it allocates claims, and gives gangs and queues."""
    if facts.scheduler != _SCHEDULER:
        return None
    text = (
        "stays, with gang scheduling and queues: Volcano allocates claims from v1.15 on, before that with "
        "predicate.DynamicResourceAllocationEnable: true in its predicates plugin. Queues do not count GPUs of claims "
        "as they counted volcano.sh/vgpu-number"
    )
    path = field_path((*facts.steps[:-1], "spec", "schedulerName"))
    return Finding(dialect=_NAME, field=path, value=_SCHEDULER, outcome=Outcome.NOTED, text=text)


VOLCANO: Final = Dialect(
    name=_NAME,
    source="volcano-sh/volcano v1.15: pkg/scheduler/api/devices/nvidia/vgpu, gpushare; volcano-sh/devices: README.md",
    resources=(
        Resource(name=_VGPUS, meaning=Meaning.GPUS),
        Resource(name="volcano.sh/vgpu-memory", meaning=Meaning.MEMORY, unit=MIB),
        Resource(name="volcano.sh/vgpu-memory-percentage", meaning=Meaning.MEMORY_PERCENT),
        Resource(name="volcano.sh/vgpu-cores", meaning=Meaning.CORE),
        Resource(name=_NUMBER, meaning=Meaning.GPUS),
        Resource(name=_MEMORY, meaning=Meaning.MEMORY, unit=MIB),
    ),
    read=_read,
    read_pod=_read_pod,
    notes=(
        *(PodNote(name=name, leaves=True) for name in (USE_TYPE, NO_TYPE, _MODE)),
        *(
            PodNote(name=f"volcano.sh/{name}", text=_RESULT, leaves=True)
            for name in (
                "vgpu-time",
                "vgpu-ids-new",
                "devices-to-allocate",
                "vgpu-node",
                "bind-time",
                "bind-phase",
                "predicate-time",
                "gpu-index",
            )
        ),
    ),
)
