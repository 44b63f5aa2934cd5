"""A small cluster as its API server has it: Device objects with statuses, and NodeInventories."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import (
    Condition,
    Device,
    DeviceAllocation,
    DeviceAmounts,
    DeviceFragment,
    DeviceIsolation,
    DevicePod,
    DeviceStatus,
)
from driver.model.devices import Gpu
from driver.objects.devices import device_objects
from driver.objects.written_inventory import node_inventory
from tests.support.inventories import machine

__all__ = ["CARD", "GIB", "devices_of", "inventory_object", "small_cluster", "with_status"]

GIB: Final = 1024**3
CARD: Final = 81559 * 1024**2
"""What NVML reports of an H100 80GB."""
_SINCE: Final = "2026-11-20T08:15:00Z"


def _gib(amount: int) -> Quantity:
    return Quantity.of(amount * GIB, binary=True)


def _mib(amount: int) -> Quantity:
    return Quantity.of(amount * 1024**2, binary=True)


def _condition(status: str, reason: str, message: str = "", *, kind: str = "Healthy") -> Condition:
    return Condition.model_validate(
        {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": _SINCE}
    )


def with_status(device: Device, **fields: Any) -> Device:
    """The device, healthy and free, but for these fields of its status."""
    if device.spec.type == "gpu":
        amounts = DeviceAmounts(core=100, memory=_mib(81559))
        left = DeviceFragment(core=100, memory=_mib(81559))
    else:
        amounts = DeviceAmounts(bandwidth=Quantity.of(400 * 10**9, binary=False))
        left = DeviceFragment(bandwidth=Quantity.of(400 * 10**9, binary=False))
    given = {
        "state": "Healthy",
        "conditions": (_condition("True", "Healthy"),),
        "capacity": amounts,
        "allocatable": amounts,
        "largest_free": left,
    } | fields
    return device.model_copy(update={"status": DeviceStatus(**given)})


def _held(claim: str, *pods: str, core: int | None = None, memory: int | None = None, **more: Any) -> DeviceAllocation:
    return DeviceAllocation.model_validate(
        {
            "namespace": "ml",
            "claim": claim,
            "uid": f"uid-{claim}",
            "request": "gpu",
            "shareID": more.pop("share_id", ""),
            "core": core,
            "memory": None if memory is None else str(_mib(memory)),
            "pods": [{"name": pod, "uid": f"uid-{pod}", "containers": ["main"]} for pod in pods],
        }
        | more
    )


def devices_of(node: str) -> list[Device]:
    """A node of 8 GPUs and 8 NICs, all healthy and free."""
    tree = replace(machine("azure-nd-h100-v5"), node=node)
    tree = replace(tree, gpus=tuple(_h100(gpu) for gpu in tree.gpus))
    return [with_status(device) for device in device_objects(tree)]


def _h100(gpu: Gpu) -> Gpu:
    return replace(gpu, model="NVIDIA H100 80GB HBM3", memory_bytes=CARD)


def inventory_object(node: str, *, ready: bool = True, silent: bool = False) -> dict[str, Any]:
    """The node's NodeInventory."""
    stored: dict[str, Any] = json.loads(json.dumps(node_inventory(replace(machine("azure-nd-h100-v5"), node=node))))
    conditions = [
        _condition("True" if ready else "False", "Ready" if ready else "Refused", kind="Ready"),
        _condition("True" if ready else "False", "Registered" if ready else "Refused", kind="Registered"),
        _condition("False" if silent else "True", "NodeSilent" if silent else "Published", kind="Published"),
    ]
    return stored | {"status": {"conditions": [item.to_wire() for item in conditions]}}


def small_cluster(prefix: str = "gpu") -> tuple[list[Device], list[dict[str, Any]]]:
    """Four nodes: one in use in every way with broken devices, a free one, a silent one, and one that is refused."""
    used = devices_of(f"{prefix}-node-2")
    whole = _held(
        "train",
        "train-0",
        core=100,
        memory=81559,
        device=used[0].spec.device_name,
        isolation=DeviceIsolation(state="enforced", by="device"),
    )
    used[0] = with_status(
        used[0],
        mode="whole",
        allocated=DeviceAmounts(core=100, memory=_mib(81559)),
        largest_free=None,
        allocations=(whole,),
    )
    mps = DeviceIsolation(state="enforced", by="MPS", version="12.8")
    shares = (
        _held(
            "notebook-a",
            "notebook-a",
            core=30,
            memory=24 * 1024,
            device=used[1].spec.device_name,
            share_id="s1",
            isolation=mps,
        ),
        _held(
            "notebook-b",
            "notebook-b",
            core=20,
            memory=16 * 1024,
            device=used[1].spec.device_name,
            share_id="s2",
            isolation=mps,
        ),
    )
    used[1] = with_status(
        used[1],
        mode="shared",
        allocated=DeviceAmounts(core=50, memory=_gib(40)),
        largest_free=DeviceFragment(core=50, memory=_mib(81559 - 40 * 1024)),
        allocations=shares,
    )
    mig = _held("small", "infer-7c9d-x2x", memory=9984, device="gpu-2-mig-1g-10gb-0")
    used[2] = with_status(
        used[2],
        mode="mig",
        allocated=DeviceAmounts(core=14, memory=_mib(9984)),
        largest_free=DeviceFragment(memory=_mib(40448), profile="4g.40gb"),
        allocations=(mig,),
    )
    used[3] = with_status(
        used[3],
        state="Unhealthy",
        conditions=(_condition("False", "Xid79", "The GPU has fallen off the bus. Drain the node and restart it."),),
        allocatable=DeviceAmounts(core=0, memory=_gib(0)),
        largest_free=None,
    )
    used[4] = with_status(
        used[4],
        conditions=(
            _condition("True", "Healthy"),
            _condition("True", "RowRemapPending", "Reset the GPU when nobody uses it.", kind="Degraded"),
        ),
    )
    pods = tuple(DevicePod(name=f"allreduce-{at}", uid=f"u{at}") for at in range(2))
    used[8] = with_status(
        used[8],
        mode="whole",
        allocated=DeviceAmounts(bandwidth=Quantity.of(400 * 10**9, binary=False)),
        largest_free=None,
        allocations=(
            _held(
                "train", core=None, device=used[8].spec.device_name, pods=[pod.to_wire() for pod in pods], more_pods=3
            ),
        ),
    )
    used[9] = with_status(
        used[9], state="Unhealthy", conditions=(_condition("False", "LinkDown", "No port is active."),)
    )
    silent = [
        with_status(device, state="Unknown", conditions=(_condition("Unknown", "NodeSilent", "Nothing is heard."),))
        for device in devices_of(f"{prefix}-node-10")
    ]
    late = devices_of(f"{prefix}-node-3")
    devices = [*devices_of(f"{prefix}-node-1"), *silent, *used, *late]
    inventories = [
        inventory_object(f"{prefix}-node-1"),
        inventory_object(f"{prefix}-node-2"),
        inventory_object(f"{prefix}-node-3", ready=False),
        inventory_object(f"{prefix}-node-10", silent=True),
    ]
    return devices, inventories
