"""Nodes as the device pass puts them into the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.overview.store import Overview
from driver.api.rootport_v1alpha1 import Device, DeviceStatus
from driver.status.overview import ReadyState

__all__ = ["GIB", "gpu", "nic", "put", "status"]

GIB = 1024**3


def gpu(node: str, index: int = 0, **spec: Any) -> Device:
    name = f"gpu-{index}"
    fields = {
        "nodeName": node,
        "deviceName": name,
        "type": "gpu",
        "index": index,
        "minor": index,
        "model": "NVIDIA H100 80GB HBM3",
        "memory": "80Gi",
        "pciBusID": f"0000:{index + 1:02x}:00.0",
        **spec,
    }
    return Device.model_validate({"metadata": {"name": f"{node}.{name}"}, "spec": fields})


def nic(node: str, index: int = 0, **spec: Any) -> Device:
    name = f"rdma-{index}"
    fields = {
        "nodeName": node,
        "deviceName": name,
        "type": "rdma",
        "index": index,
        "pciBusID": f"0000:{index + 0x40:02x}:00.0",
        **spec,
    }
    return Device.model_validate({"metadata": {"name": f"{node}.{name}"}, "spec": fields})


def status(state: str = "Healthy", **fields: Any) -> DeviceStatus:
    return DeviceStatus.model_validate({"state": state, **fields})


def put(
    overview: Overview,
    node: str,
    *devices: Device,
    statuses: Mapping[str, DeviceStatus] | None = None,
    state: ReadyState = "Ready",
    reason: str = "",
) -> None:
    """Put a node in with one GPU, unless told."""
    made = devices or (gpu(node),)
    told = {device.metadata.name: status() for device in made} | dict(statuses or {})
    overview.put(node, devices=made, statuses=told, state=state, reason=reason)
