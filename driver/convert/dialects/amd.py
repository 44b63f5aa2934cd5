"""AMD's device plugin: whole GPUs, and partitions under names of their own; HAMi's shares of AMD's GPUs.

Sources: ROCm/k8s-device-plugin, docs/user-guide/configuration.md (resource naming strategies single and mixed);
ROCm/k8s-gpu-dra-driver, docs/device-plugin-to-dra-partitions.md (the names); Project-HAMi/HAMi,
pkg/device/amd/device.go and charts/hami/values.yaml.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from driver.convert.dialect import Asked, Dialect, Meaning, PodFacts, PodNote, PodReading, Reading, Resource
from driver.convert.dialects.vgpus import MIB, wanted_models
from driver.convert.findings import Finding, Outcome
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["AMD"]

_NAME: Final = "AMD's device plugin"
_ALL: Final = 100
_USE_TYPE: Final = "amd.com/use-gputype"
_NO_TYPE: Final = "amd.com/nouse-gputype"
_UUIDS: Final = ("amd.com/use-gpu-uuid", "amd.com/nouse-gpu-uuid")
_VENDOR: Final = "amd"
_WHOLE_MODE: Final = "amd.com/spx_*"
_DEFAULT_MEMORY_MODE: Final = "nps1"
_PARTITION: Final = (
    "is a partition of a GPU, and Rootport publishes none of AMD's: write amd.com/gpu for a whole GPU, and set the "
    "nodes' GPUs to SPX"
)
_MEMORY_MODE: Final = "a whole GPU in any memory mode: Rootport sets none, the node's administrator does"
_NO_LIMITS: Final = "HAMi keeps a container to its compute units; Rootport limits no share of AMD's GPUs"


def _read(asked: Asked) -> Reading:
    reading = _read_amounts(asked)
    wanted = asked.hints if isinstance(asked.hints, tuple) else ()
    gpus = tuple(replace(gpu, wanted=wanted) for gpu in reading.request.gpus)
    return Reading(request=DeviceRequest(gpus=gpus), findings=reading.findings)


def _read_pod(facts: PodFacts) -> PodReading:
    found = (
        wanted_models(_NAME, facts, _USE_TYPE, negated=False, prefix=""),
        wanted_models(_NAME, facts, _NO_TYPE, negated=True, prefix=""),
    )
    return PodReading(
        hints=tuple(wanted for wanted, _ in found if wanted is not None),
        findings=tuple(finding for _, finding in found if finding is not None),
    )


def _read_amounts(asked: Asked) -> Reading:
    partitions = [amount for amount in asked.amounts if amount.resource.meaning is Meaning.OTHER]
    if partitions:
        return Reading(findings=tuple(asked.refused(amount, _PARTITION) for amount in partitions))
    if twice := asked.twice():
        return Reading(findings=twice)
    whole = asked.all(Meaning.GPUS)
    findings: list[Finding] = [
        asked.noted(amount, _MEMORY_MODE)
        for amount in whole
        if amount.resource.name == _WHOLE_MODE and amount.rest != _DEFAULT_MEMORY_MODE
    ]
    memory, core = asked.one(Meaning.MEMORY), asked.one(Meaning.CORE)
    if memory is None and core is None:
        gpus = tuple(GpuRequest(count=amount.value, vendor=_VENDOR) for amount in whole)
        return Reading(request=DeviceRequest(gpus=gpus), findings=tuple(findings))
    if core is not None and core.value > _ALL:
        return Reading(findings=(asked.refused(core, "a GPU has 100 percent: write 1 to 100"),))
    if not whole:
        text = "HAMi schedules AMD's shares only together with amd.com/gpu: write how many GPUs"
        return Reading(findings=tuple(asked.refused(amount, text) for amount in (memory, core) if amount is not None))
    if core is None or core.value == _ALL:
        # HAMi gives all compute units to a container that names none, and with them nobody else gets a share.
        text = "is left out: the container has the GPU's compute to itself, and so the GPU"
        gpu = GpuRequest(count=whole[0].value, vendor=_VENDOR)
        findings += [] if memory is None else [asked.noted(memory, text)]
        return Reading(request=DeviceRequest(gpus=(gpu,)), findings=tuple(findings))
    gpu = GpuRequest(
        count=whole[0].value,
        core=core.value,
        memory=None if memory is None else memory.value * memory.resource.unit,
        memory_percent=_ALL if memory is None else None,
        core_is_limited=False,
        vendor=_VENDOR,
    )
    findings.append(asked.noted(core, _NO_LIMITS))
    return Reading(request=DeviceRequest(gpus=(gpu,)), findings=tuple(findings))


AMD: Final = Dialect(
    name=_NAME,
    source="ROCm/k8s-device-plugin: docs/user-guide/configuration.md; Project-HAMi/HAMi: pkg/device/amd/device.go",
    resources=(
        Resource(name="amd.com/gpu", meaning=Meaning.GPUS),
        Resource(name=_WHOLE_MODE, meaning=Meaning.GPUS),
        *(Resource(name=f"amd.com/{mode}_*", meaning=Meaning.OTHER) for mode in ("dpx", "tpx", "qpx", "cpx")),
        Resource(name="amd.com/gpumem", meaning=Meaning.MEMORY, unit=MIB),
        Resource(name="amd.com/gpucores", meaning=Meaning.CORE),
    ),
    read=_read,
    read_pod=_read_pod,
    notes=(
        *(PodNote(name=name, leaves=True) for name in (_USE_TYPE, _NO_TYPE)),
        *(
            PodNote(
                name=name,
                text="names cards by HAMi's own identifiers, which Rootport does not have: select by model",
                outcome=Outcome.REFUSED,
            )
            for name in _UUIDS
        ),
    ),
)
