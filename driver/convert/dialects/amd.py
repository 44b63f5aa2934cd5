"""AMD's device plugin: whole GPUs, and partitions under names of their own; HAMi's shares of AMD's GPUs.

Sources: ROCm/k8s-device-plugin, docs/user-guide/configuration.md (resource naming strategies single and mixed);
ROCm/k8s-gpu-dra-driver, docs/device-plugin-to-dra-partitions.md (the names); Project-HAMi/HAMi,
pkg/device/amd/device.go and charts/hami/values.yaml.
"""

from __future__ import annotations

from typing import Final

from driver.convert.dialect import Asked, Dialect, Meaning, Reading, Resource
from driver.convert.findings import Finding
from driver.convert.requests import DeviceRequest, GpuRequest

__all__ = ["AMD"]

_ALL: Final = 100
_MIB: Final = 1024**2
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
    partitions = [amount for amount in asked.amounts if amount.resource.meaning is Meaning.OTHER]
    if partitions:
        return Reading(findings=tuple(asked.refused(amount, _PARTITION) for amount in partitions))
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
    name="AMD's device plugin",
    source="ROCm/k8s-device-plugin: docs/user-guide/configuration.md; Project-HAMi/HAMi: pkg/device/amd/device.go",
    resources=(
        Resource(name="amd.com/gpu", meaning=Meaning.GPUS),
        Resource(name=_WHOLE_MODE, meaning=Meaning.GPUS),
        *(Resource(name=f"amd.com/{mode}_*", meaning=Meaning.OTHER) for mode in ("dpx", "tpx", "qpx", "cpx")),
        Resource(name="amd.com/gpumem", meaning=Meaning.MEMORY, unit=_MIB),
        Resource(name="amd.com/gpucores", meaning=Meaning.CORE),
    ),
    read=_read,
)
