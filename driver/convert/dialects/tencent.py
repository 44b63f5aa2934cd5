"""Tencent's qGPU of TKE, and Elastic GPU, from which its scheduler came.

Sources: Tencent Cloud's documentation, product 457, documents 59103 (qGPU: steps of 5, whole cards by the hundred) and
127667 (several cards: more than 100 is split evenly, rounded down, from qGPU 1.1.1 on), and its page on online and
offline pods; elastic-ai/elastic-gpu-scheduler, pkg/scheduler/allocate.go and README.md; elastic-ai/elastic-gpu-agent,
pkg/plugins/gpushare.go.
"""

from __future__ import annotations

from typing import Final

from driver.convert.dialect import Amount, Asked, Dialect, Meaning, PodNote, Reading, Resource
from driver.convert.dialects.vgpus import ALL, MIB, NOT_COUNTED, NVIDIA_GPUS
from driver.convert.findings import Finding
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["ELASTIC_GPU", "QGPU"]

_GIB: Final = 1024**3
_GREEDY: Final = "tke.cloud.tencent.com/qgpu-core-greedy"
_CORE_STEP: Final = 5
_ISOLATION: Final = (
    "qGPU keeps a container within its share; Rootport's default strategy limits nothing. Where nodes have HAMi-core's "
    "library, set shareStrategy: hamiCore in the resource map"
)
_ELASTIC_ISOLATION: Final = (
    "with the mode gpushare nothing kept a container within its share, and Rootport's default strategy limits nothing"
)


def _read_qgpu(asked: Asked) -> Reading:
    greedy = next((amount for amount in asked.amounts if amount.name == _GREEDY), None)
    if greedy is not None:
        text = (
            "has no equal: no container can have the compute that others leave. Write tke.cloud.tencent.com/qgpu-core "
            "with what it needs"
        )
        return Reading(findings=(asked.refused(greedy, text),))
    core, memory = asked.one(Meaning.CORE), asked.one(Meaning.MEMORY)
    if core is None:
        # What an online pod asks for: it may use all of the compute, before offline pods.
        return _share(asked, None, memory, cards=1, is_limited=True)
    if core.value % ALL == 0:
        return _whole(asked, core, memory)
    if core.value < ALL and core.value % _CORE_STEP:
        text = f"qGPU gives compute in steps of {_CORE_STEP} percent: write a multiple of {_CORE_STEP}"
        return Reading(findings=(asked.refused(core, text),))
    return _share(asked, core, memory, cards=-(-core.value // ALL), is_limited=True)


def _read_elastic(asked: Asked) -> Reading:
    core, memory = asked.one(Meaning.CORE), asked.one(Meaning.MEMORY)
    if core is not None and core.value >= ALL:
        return _whole(asked, core, memory)
    return _share(asked, core, memory, cards=1, is_limited=False)


def _whole(asked: Asked, core: Amount, memory: Amount | None) -> Reading:
    """Return as many whole GPUs as there are hundreds."""
    cards = core.value // ALL
    findings: list[Finding] = []
    if core.value % ALL:
        findings.append(asked.noted(core, f"is rounded down to {cards} whole GPUs, which is what its scheduler does"))
    if memory is not None:
        findings.append(asked.noted(memory, "is left out: a whole GPU has all of its memory"))
    gpus = GpuRequest(count=cards, vendor=NVIDIA_GPUS)
    return Reading(request=DeviceRequest(gpus=(gpus,)), findings=tuple(findings))


def _share(asked: Asked, core: Amount | None, memory: Amount | None, *, cards: int, is_limited: bool) -> Reading:
    """Return a share of so many GPUs, over which both amounts are spread evenly and rounded down.

    Args:
        asked: The container.
        core: Percent of compute.
        memory: The memory.
        cards: How many GPUs.
        is_limited: Whether its system kept a container within its share.
    """
    if memory is None and core is not None:
        text = "names no memory, and a claim that names none takes all of it: write the memory as well"
        return Reading(findings=(asked.refused(core, text),))
    each = None if memory is None else memory.value // cards * memory.resource.unit
    if memory is not None and not each:
        text = f"is less than 1 for each of the {cards} GPUs: write at least {cards}"
        return Reading(findings=(asked.refused(memory, text),))
    percent = None if core is None else core.value // cards
    findings: list[Finding] = []
    if core is not None and cards > 1:
        text = f"{percent} percent of each of {cards} GPUs, as qGPU spreads it, and the memory likewise"
        findings.append(asked.noted(core, text))
    strategy = asked.pod.settings.share_strategy if is_limited else ""
    if memory is not None and not strategy:
        note = _ISOLATION if is_limited else _ELASTIC_ISOLATION
        findings.append(asked.noted(memory, note + ("" if core is not None else NOT_COUNTED)))
    gpus = GpuRequest(
        count=cards,
        core=percent,
        memory=each,
        core_is_limited=core is not None and is_limited,
        strategy=strategy,
        vendor=NVIDIA_GPUS,
    )
    return Reading(request=DeviceRequest(gpus=(gpus,)), findings=tuple(findings))


QGPU: Final = Dialect(
    name="TKE qGPU",
    source="Tencent Cloud, product 457: documents 59103 (using qGPU) and 127667 (several cards)",
    resources=(
        Resource(name="tke.cloud.tencent.com/qgpu-core", meaning=Meaning.CORE),
        Resource(name="tke.cloud.tencent.com/qgpu-memory", meaning=Meaning.MEMORY, unit=_GIB),
        Resource(name=_GREEDY, meaning=Meaning.CORE),
    ),
    read=_read_qgpu,
    notes=(
        PodNote(
            name="tke.cloud.tencent.com/app-class",
            text="has no equal: no pod's programs come before another's on a GPU. For online pods ask for whole GPUs",
            leaves=True,
        ),
    ),
)

ELASTIC_GPU: Final = Dialect(
    name="Elastic GPU",
    source="elastic-ai/elastic-gpu-scheduler: pkg/scheduler/allocate.go; elastic-ai/elastic-gpu-agent: pkg/plugins",
    resources=(
        Resource(name="elasticgpu.io/gpu-core", meaning=Meaning.CORE),
        Resource(name="elasticgpu.io/gpu-memory", meaning=Meaning.MEMORY, unit=MIB),
    ),
    read=_read_elastic,
    notes=(
        PodNote(
            name="elasticgpu.io/*",
            text="was written by Elastic GPU's scheduler: it leaves with the resources",
            leaves=True,
        ),
    ),
)
