"""The latest readings of GPUs by the names of OpenTelemetry's semantic conventions, for tools that know no driver.

The conventions are those for hardware: https://opentelemetry.io/docs/specs/semconv/hardware/gpu/, status Development.
In Prometheus' form dots become underscores, and the unit is spelled out at the end:
https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/. The label ``pci_bus_id`` is not of
the conventions: by such a label tools for metrics of accelerators tell that a sample is of one device, among them the
test of Kubernetes AI Conformance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from driver.health.readings import GpuReading
from driver.model.devices import Gpu
from driver.status.metric_family import Family, FamilyKind, Sample, family
from kubeletplugin.metrics.snapshot import NodeSnapshot

__all__ = ["otel_families"]

_PERCENT: Final = 100
_COMPONENT: Final = ("node", "hw_id", "hw_name", "pci_bus_id")
_GPU: Final = (*_COMPONENT, "hw_type", "hw_vendor", "hw_model", "hw_driver_version")
_VENDORS: Final = {"nvidia": "NVIDIA", "amd": "AMD"}

_Value = Callable[[Gpu, GpuReading], float | None]


def _utilization(_: Gpu, reading: GpuReading) -> float | None:
    return None if reading.utilization is None else reading.utilization / _PERCENT


def _memory_utilization(gpu: Gpu, reading: GpuReading) -> float | None:
    if reading.memory_used_bytes is None or not gpu.memory_bytes:
        return None
    return reading.memory_used_bytes / gpu.memory_bytes


_FAMILIES: Final[tuple[tuple[FamilyKind, str, str, dict[str, str], _Value], ...]] = (
    (
        "gauge",
        "hw_gpu_utilization_ratio",
        "Part of the last moments in which a kernel ran on the GPU, from 0 to 1 (OpenTelemetry's hw.gpu.utilization).",
        {"hw_gpu_task": "general"},
        _utilization,
    ),
    (
        "gauge",
        "hw_gpu_memory_usage_bytes",
        "Memory of the GPU that is in use (OpenTelemetry's hw.gpu.memory.usage).",
        {},
        lambda _, reading: reading.memory_used_bytes,
    ),
    (
        "gauge",
        "hw_gpu_memory_limit_bytes",
        "Memory of the GPU (OpenTelemetry's hw.gpu.memory.limit).",
        {},
        lambda gpu, _: gpu.memory_bytes,
    ),
    (
        "gauge",
        "hw_gpu_memory_utilization_ratio",
        "Part of the GPU's memory that is in use, from 0 to 1 (OpenTelemetry's hw.gpu.memory.utilization).",
        {},
        _memory_utilization,
    ),
    (
        "gauge",
        "hw_power_watts",
        "Power that the GPU's board draws (OpenTelemetry's hw.power).",
        {},
        lambda _, reading: reading.power_watts,
    ),
    (
        "counter",
        "hw_errors_total",
        "ECC errors of the GPU's memory that could not be corrected (OpenTelemetry's hw.errors).",
        {"error_type": "ecc_uncorrected"},
        lambda _, reading: reading.uncorrected_errors,
    ),
)


def otel_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    """Yield the families; a value that the GPU does not report has no sample."""
    gpus = {gpu.name: gpu for gpu in snapshot.inventory.gpus} if snapshot.inventory else {}
    read = [
        (gpus[reading.device], reading)
        for reading in snapshot.gpus
        if reading.device in gpus and not (reading.lost or reading.not_answering)
    ]
    node = snapshot.node
    for kind, name, text, more, value in _FAMILIES:
        samples = ((_gpu(node, gpu), value(gpu, reading)) for gpu, reading in read)
        yield family(kind, name, text, (*_GPU, *more), _known(samples, tuple(more.values())))
    yield family(
        "gauge",
        "hw_temperature_celsius",
        "Temperature of the GPU (OpenTelemetry's hw.temperature).",
        (*_COMPONENT, "hw_sensor_location"),
        _known(((_component(node, gpu), reading.temperature_celsius) for gpu, reading in read), ("gpu",)),
    )


def _known(found: Iterator[tuple[tuple[str, ...], float | None]], more: tuple[str, ...]) -> Iterator[Sample]:
    for labels, value in found:
        if value is not None:
            yield (*labels, *more), float(value)


def _component(node: str, gpu: Gpu) -> tuple[str, ...]:
    return node, gpu.uuid or gpu.name, gpu.name, str(gpu.address)


def _gpu(node: str, gpu: Gpu) -> tuple[str, ...]:
    vendor = _VENDORS.get(gpu.vendor, gpu.vendor)
    return (*_component(node, gpu), "gpu", vendor, gpu.model or "", gpu.driver_version or "")
