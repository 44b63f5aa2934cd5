"""The latest readings of GPUs and NICs as families of samples. A scrape reads no hardware: the health loop does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from driver.health.readings import GpuReading, Slowdown
from driver.status.metric_family import Family, Sample, family
from kubeletplugin.metrics.snapshot import NodeSnapshot

__all__ = ["reading_families"]

_DEVICE: Final = ("node", "device")
_PERCENT: Final = 100

_GAUGES: Final[tuple[tuple[str, str, Callable[[GpuReading], float | None]], ...]] = (
    (
        "rootport_gpu_utilization_ratio",
        "Part of the last moments in which a kernel ran on the GPU, from 0 to 1 (NVML).",
        lambda reading: None if reading.utilization is None else reading.utilization / _PERCENT,
    ),
    (
        "rootport_gpu_memory_used_bytes",
        "Memory of the GPU that is in use, whoever has it (NVML).",
        lambda reading: reading.memory_used_bytes,
    ),
    (
        "rootport_gpu_temperature_celsius",
        "Temperature of the GPU (NVML).",
        lambda reading: reading.temperature_celsius,
    ),
    (
        "rootport_gpu_power_watts",
        "Power that the GPU's board draws (NVML).",
        lambda reading: reading.power_watts,
    ),
)


def reading_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    """Yield the families; a value that the device does not report has no sample."""
    node = snapshot.node
    read = [reading for reading in snapshot.gpus if not (reading.lost or reading.not_answering)]
    for name, text, value in _GAUGES:
        found = ((reading.device, value(reading)) for reading in read)
        yield family(
            "gauge", name, text, _DEVICE, (((node, device), float(seen)) for device, seen in found if seen is not None)
        )
    yield family(
        "counter",
        "rootport_gpu_ecc_errors_total",
        "ECC errors of the GPU's memory since its driver was loaded (NVML, volatile).",
        (*_DEVICE, "kind"),
        (sample for reading in read for sample in _ecc(node, reading)),
    )
    yield family(
        "gauge",
        "rootport_gpu_slowdown",
        "Whether hardware holds the GPU's clocks down: 1 or 0.",
        (*_DEVICE, "reason"),
        (
            ((node, reading.device, reason.value), 1.0 if reason in reading.slowdowns else 0.0)
            for reading in read
            for reason in Slowdown
        ),
    )
    yield family(
        "gauge",
        "rootport_rdma_port_up",
        "Whether the RDMA port is active: 1 or 0.",
        (*_DEVICE, "port"),
        (
            ((node, nic.device, str(port.number)), 1.0 if port.state == "active" else 0.0)
            for nic in snapshot.nics
            for port in nic.ports
            if port.state is not None
        ),
    )
    yield family(
        "counter",
        "rootport_rdma_port_errors_total",
        "Errors that the RDMA port has counted, by the counter's name in sysfs.",
        (*_DEVICE, "port", "counter"),
        (
            ((node, nic.device, str(port.number), counter), float(port.counters[counter]))
            for nic in snapshot.nics
            for port in nic.ports
            for counter in sorted(port.counters)
        ),
    )


def _ecc(node: str, reading: GpuReading) -> Iterator[Sample]:
    for kind, count in (("corrected", reading.corrected_errors), ("uncorrected", reading.uncorrected_errors)):
        if count is not None:
            yield (node, reading.device, kind), float(count)
