"""Reads the load of a node's GPUs and who uses them from the metrics that the node's plugin exports.

Names and labels: docs/operator/metrics.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["SAMPLES", "DeviceLoad", "Holder", "MetricSample", "device_loads"]

_INFO: Final = "rootport_device_info"
_HEALTHY: Final = "rootport_device_healthy"
_CORE: Final = "rootport_share_core_ratio"
_SHARE: Final = "rootport_share_info"
_FIGURES: Final = {
    "rootport_gpu_utilization_ratio": "utilization",
    "rootport_gpu_memory_used_bytes": "memory_used",
    "rootport_device_memory_allocated_bytes": "memory_allocated",
    "rootport_device_memory_capacity_bytes": "memory_total",
    "rootport_device_core_allocated_ratio": "core_allocated",
    "rootport_gpu_temperature_celsius": "temperature",
    "rootport_gpu_power_watts": "power",
}
SAMPLES: Final = frozenset({_INFO, _HEALTHY, _CORE, _SHARE, *_FIGURES})
"""The names of the samples that :func:`device_loads` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One line of a page of metrics."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A container that has a device or a share of it.

    Attributes:
        namespace: The namespace of the claim and the pod.
        claim: The claim.
        pod: The pod; empty until the kubelet reports it.
        container: The container; empty until the kubelet reports it.
        core: The part of the core that it may use, 0 to 1; None if no share limits that.
        isolation: ``enforced`` or ``advisory``; empty if it is not known.
    """

    namespace: str
    claim: str
    pod: str
    container: str
    core: float | None = None
    isolation: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the holder as JSON; unknown fields are left out."""
        fields = {
            "namespace": self.namespace,
            "claim": self.claim,
            "pod": self.pod,
            "container": self.container,
            "core": self.core,
            "isolation": self.isolation,
        }
        return {name: value for name, value in fields.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLoad:
    """The load of a GPU; None stands for what the driver does not report.

    Attributes:
        name: The device's name in the node's pool.
        index: Its order among the node's GPUs.
        model: The product's name; empty if it is not known.
        healthy: Whether it is healthy; None if its health is not watched.
        utilization: The part of the last moments in which something ran on it, 0 to 1.
        memory_used: The memory that programs use, in bytes.
        memory_allocated: The memory that is allocated to claims, in bytes.
        memory_total: The memory of the GPU, in bytes.
        core_allocated: The part of its core that is allocated to claims, 0 to 1.
        temperature: In degrees Celsius.
        power: In watts.
        holders: The containers that have it, by namespace, claim and pod.
    """

    name: str
    index: int = 0
    model: str = ""
    healthy: bool | None = None
    utilization: float | None = None
    memory_used: float | None = None
    memory_allocated: float | None = None
    memory_total: float | None = None
    core_allocated: float | None = None
    temperature: float | None = None
    power: float | None = None
    holders: tuple[Holder, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the load as JSON; unknown fields are left out."""
        fields = {
            "model": self.model or None,
            "healthy": self.healthy,
            "utilization": self.utilization,
            "memoryUsed": self.memory_used,
            "memoryAllocated": self.memory_allocated,
            "memoryTotal": self.memory_total,
            "coreAllocated": self.core_allocated,
            "temperature": self.temperature,
            "power": self.power,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        return {"name": self.name, "index": self.index, **known, "holders": [item.to_wire() for item in self.holders]}


def device_loads(samples: Iterable[MetricSample]) -> tuple[DeviceLoad, ...]:
    """Return the GPUs on one node's page of metrics, by index."""
    of_device: defaultdict[str, list[MetricSample]] = defaultdict(list)
    for sample in samples:
        of_device[sample.labels.get("device", "")].append(sample)
    found = (_load(device, of_device[device]) for device in of_device)
    return tuple(sorted((load for load in found if load is not None), key=lambda load: (load.index, load.name)))


def _load(device: str, samples: list[MetricSample]) -> DeviceLoad | None:
    info = next((sample.labels for sample in samples if sample.name == _INFO), None)
    if info is None or info.get("type") != "gpu":
        return None
    figures: dict[str, Any] = {_FIGURES[sample.name]: sample.value for sample in samples if sample.name in _FIGURES}
    healthy = [sample.value > 0 for sample in samples if sample.name == _HEALTHY]
    index = info.get("index", "")
    return DeviceLoad(
        name=device,
        index=int(index) if index.isascii() and index.isdecimal() else 0,
        model=info.get("model", ""),
        healthy=healthy[0] if healthy else None,
        holders=_holders(samples),
        **figures,
    )


def _holders(samples: list[MetricSample]) -> tuple[Holder, ...]:
    """Return one holder for each container; the core of its shares adds up."""
    cores: defaultdict[tuple[str, ...], float] = defaultdict(float)
    isolation: dict[tuple[str, ...], str] = {}
    for sample in samples:
        key = tuple(sample.labels.get(name, "") for name in ("namespace", "claim", "pod", "container"))
        if sample.name == _CORE:
            cores[key] += sample.value
        elif sample.name == _SHARE:
            isolation.setdefault(key, sample.labels.get("isolation", ""))
    return tuple(
        Holder(
            namespace=key[0],
            claim=key[1],
            pod=key[2],
            container=key[3],
            core=cores.get(key),
            isolation=isolation.get(key, ""),
        )
        for key in sorted({*cores, *isolation})
    )
