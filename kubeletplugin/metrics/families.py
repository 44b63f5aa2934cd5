"""A node's facts → the families of samples that Prometheus scrapes. Names and labels are an interface: see the docs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.health import Effect
from driver.status.metric_family import Family, family
from kubeletplugin.metrics.otel_families import otel_families
from kubeletplugin.metrics.readings import reading_families
from kubeletplugin.metrics.share_families import share_families
from kubeletplugin.metrics.snapshot import NodeSnapshot

__all__ = ["node_families"]

_DEVICE: Final = ("node", "device")
_INFO: Final = (*_DEVICE, "type", "index", "model", "uuid", "pci_bus_id", "numa_node", "pcie_switch")


def node_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    """Yield all of a plugin's families, each once; those of which nothing is known have no samples."""
    yield from _device_families(snapshot)
    yield from share_families(snapshot)
    yield from reading_families(snapshot)
    yield from otel_families(snapshot)
    yield from _plugin_families(snapshot)


def _whole_devices(snapshot: NodeSnapshot) -> tuple[Gpu | RdmaNic | Fpga, ...]:
    inventory = snapshot.inventory
    return (*inventory.gpus, *inventory.nics, *inventory.fpgas) if inventory else ()


def _device_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    node, health = snapshot.node, snapshot.health
    devices = _whole_devices(snapshot)
    yield family(
        "gauge",
        "rootport_device_info",
        "A GPU, RDMA NIC or FPGA of the node, whether somebody has it or not; always 1.",
        _INFO,
        ((_info(node, device), 1.0) for device in devices),
    )
    unhealthy = set(health.taints())
    yield family(
        "gauge",
        "rootport_device_healthy",
        "Whether the device can be given, as far as its health goes: 1 or 0. Not there for what nobody watches.",
        _DEVICE,
        (((node, device), 0.0 if device in unhealthy else 1.0) for device in sorted(health.watched)),
    )
    faults = sorted({(fault.device, fault.reason, fault.effect) for fault in health.faults})
    yield family(
        "gauge",
        "rootport_device_fault",
        "What is wrong with the device, and what that does to it (NoExecute, NoSchedule, None); always 1.",
        (*_DEVICE, "reason", "effect"),
        (((node, device, reason, Effect(effect).value), 1.0) for device, reason, effect in faults),
    )
    yield family(
        "gauge",
        "rootport_device_memory_capacity_bytes",
        "Memory of the GPU.",
        _DEVICE,
        (
            ((node, device.name), float(device.memory_bytes))
            for device in devices
            if isinstance(device, Gpu) and device.memory_bytes is not None
        ),
    )


def _info(node: str, device: Gpu | RdmaNic | Fpga) -> tuple[str, ...]:
    numa, switch = device.pcie.numa_node, device.pcie.switch
    return (
        node,
        device.name,
        device.type.value,
        str(device.index),
        device.model or "",
        (device.uuid if isinstance(device, Gpu) else None) or "",
        str(device.address),
        "" if numa is None else str(numa),
        "" if switch is None else str(switch),
    )


def _plugin_families(snapshot: NodeSnapshot) -> Iterator[Family]:
    node, operations = snapshot.node, snapshot.operations
    yield family(
        "histogram",
        "rootport_claim_operation_duration_seconds",
        "How long the kubelet waited until a claim was prepared or unprepared, failures included.",
        ("node", "operation"),
        (((node, operation), found) for operation, found in operations.durations.items()),
    )
    yield family(
        "counter",
        "rootport_claim_operation_errors_total",
        "Claims that could not be prepared or unprepared; the kubelet tries again, and each time counts.",
        ("node", "operation"),
        (((node, operation), float(count)) for operation, count in operations.errors.items()),
    )
    yield family(
        "counter",
        "rootport_plugin_internal_errors_total",
        "Errors in the plugin that its code did not expect: mistakes in Rootport, each of which concerned one object.",
        ("node", "part"),
        (((node, part), float(count)) for part, count in sorted(snapshot.internal_errors.items())),
    )
    yield family(
        "gauge",
        "rootport_prepared_claims",
        "Claims that are prepared on the node.",
        ("node",),
        [] if snapshot.prepared_claims is None else [((node,), float(snapshot.prepared_claims))],
    )
    yield family(
        "gauge",
        "rootport_plugin_info",
        "The node's kubelet plugin; always 1.",
        ("node", "version"),
        [((node, snapshot.version), 1.0)],
    )
