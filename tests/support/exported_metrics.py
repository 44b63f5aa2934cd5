"""The metrics that plugin and controller export: their names and labels, as docs/operator/metrics.md promises them."""

from __future__ import annotations

from typing import Final

__all__ = ["EXPORTED", "series_names"]

_DEVICE: Final = ("node", "device")
_COMPONENT: Final = ("node", "hw_id", "hw_name", "pci_bus_id")
_HW_GPU: Final = (*_COMPONENT, "hw_type", "hw_vendor", "hw_model", "hw_driver_version")
_SHARE: Final = (*_DEVICE, "namespace", "claim", "request", "share_id", "pod", "container")

EXPORTED: Final[dict[str, tuple[str, ...]]] = {
    "rootport_device_info": (*_DEVICE, "type", "index", "model", "uuid", "pci_bus_id", "numa_node", "pcie_switch"),
    "rootport_device_healthy": _DEVICE,
    "rootport_device_fault": (*_DEVICE, "reason", "effect"),
    "rootport_device_core_allocated_ratio": _DEVICE,
    "rootport_device_memory_capacity_bytes": _DEVICE,
    "rootport_device_memory_allocated_bytes": _DEVICE,
    "rootport_device_shares": _DEVICE,
    "rootport_gpu_utilization_ratio": _DEVICE,
    "rootport_gpu_memory_used_bytes": _DEVICE,
    "rootport_gpu_temperature_celsius": _DEVICE,
    "rootport_gpu_power_watts": _DEVICE,
    "rootport_gpu_ecc_errors_total": (*_DEVICE, "kind"),
    "rootport_gpu_slowdown": (*_DEVICE, "reason"),
    "hw_gpu_utilization_ratio": (*_HW_GPU, "hw_gpu_task"),
    "hw_gpu_memory_usage_bytes": _HW_GPU,
    "hw_gpu_memory_limit_bytes": _HW_GPU,
    "hw_gpu_memory_utilization_ratio": _HW_GPU,
    "hw_power_watts": _HW_GPU,
    "hw_errors_total": (*_HW_GPU, "error_type"),
    "hw_temperature_celsius": (*_COMPONENT, "hw_sensor_location"),
    "rootport_rdma_port_up": (*_DEVICE, "port"),
    "rootport_rdma_port_errors_total": (*_DEVICE, "port", "counter"),
    "rootport_share_core_ratio": _SHARE,
    "rootport_share_memory_bytes": _SHARE,
    "rootport_share_info": (*_SHARE, "mode", "isolation", "isolated_by", "partition"),
    "rootport_claim_operation_duration_seconds": ("node", "operation"),
    "rootport_claim_operation_errors_total": ("node", "operation"),
    "rootport_plugin_internal_errors_total": ("node", "part"),
    "rootport_prepared_claims": ("node",),
    "rootport_plugin_info": ("node", "version"),
    "rootport_node_devices": ("node", "type", "state"),
    "rootport_node_gpus_free": ("node",),
    "rootport_node_gpu_memory_capacity_bytes": ("node",),
    "rootport_node_gpu_memory_allocated_bytes": ("node",),
    "rootport_node_gpu_memory_largest_free_bytes": ("node",),
    "rootport_node_gpu_core_allocated_ratio": ("node",),
    "rootport_node_gpu_fragmentation_ratio": ("node",),
    "rootport_node_rival_devices": ("node", "held"),
    "rootport_api_writes_total": ("resource", "verb"),
    "rootport_api_write_errors_total": ("resource", "verb"),
    "rootport_api_objects_skipped_total": ("resource", "reason"),
    "rootport_pass_duration_seconds": ("pass",),
    "rootport_pending_claims": ("reason",),
    "rootport_explanations_put_off": (),
    "rootport_pod_conversions_total": ("outcome",),
    "rootport_claim_conversions_total": ("outcome",),
    "rootport_converted_templates_created_total": (),
    "rootport_converted_templates_collected_total": (),
    "rootport_placement_decisions_total": ("outcome",),
    "rootport_placement_deallocations_total": ("reason",),
    "rootport_placement_waiting_pods": (),
    "rootport_placement_allocation_duration_seconds": (),
    "rootport_placement_decision_duration_seconds": (),
    "rootport_placement_fragmented_gpus": (),
    "rootport_placement_node_fragmented_gpus": ("node",),
    "rootport_leader": (),
    "rootport_controller_info": ("version",),
}
"""Metric → labels."""


def series_names() -> set[str]:
    """The names that a query may use: of a histogram its parts."""
    histograms = [name for name in EXPORTED if name.endswith("_duration_seconds")]
    parts = {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")}
    return (EXPORTED.keys() - histograms) | parts
