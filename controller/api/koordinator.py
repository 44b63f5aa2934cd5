"""Koordinator's view of nodes, ``GET /apis/v1/plugins/DeviceShare/nodeDeviceSummaries``.

Sources: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare (the API and its shape) and
apis/extension/device_share.go (the names of the resources). As there,

- the keys of a type's devices are minors: N of /dev/nvidiaN; for NICs and FPGAs their order on the node,
- a NIC and an FPGA are 100 each, a part of a NIC in proportion,
- a device that is not available, such as an unhealthy one, has no resources at all.

The devices of a claim whose pods are not known yet count as used, but are in no entry of ``allocateSet``. The devices
of a claim with several pods are in the entry of each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from controller.api.access import Answer
from controller.api.stream_places import StreamPlaces
from controller.overview.store import Overview
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response
from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import Device, DeviceAllocation, DeviceAmounts
from driver.status.overview import ReadyState, has_rival, is_offered

__all__ = ["PREFIX", "node_device_summary", "summaries_answer"]

PREFIX: Final = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"

_DOMAINS: Final = ("koordinator.sh", "kubernetes.io")  # today's, and that of the first releases and the documentation
_ALL: Final = 100
_TYPES: Final = {"gpu": "gpu", "rdma": "rdma", "fpga": "fpga"}  # a VF is a part of its NIC

_Resources: TypeAlias = dict[str, Quantity]
_Detail: TypeAlias = dict[str, dict[str, _Resources]]


@dataclass(frozen=True, slots=True)
class _Summary:
    total: _Detail = field(default_factory=dict)
    free: _Detail = field(default_factory=dict)
    used: _Detail = field(default_factory=dict)
    allocated: dict[str, dict[str, dict[str, _Resources]]] = field(default_factory=dict)


def node_device_summary(
    devices: Iterable[Device], *, state: ReadyState, cannot_prepare: bool = False, domain: str
) -> dict[str, Any]:
    """Return the summary of one node, as JSON.

    Args:
        devices: The node's Device objects.
        state: Whether its plugin reports that it is ready; the devices of a silent node are not available.
        cannot_prepare: Whether its plugin can prepare no claim; its devices are not available either then.
        domain: The domain of the resources' names: ``koordinator.sh`` or ``kubernetes.io``.
    """
    made = _Summary()
    is_away = state == "Silent" or cannot_prepare
    for device in devices:
        kind = _TYPES.get(device.spec.type)
        if kind is None:
            continue
        minor = str(_minor(device))
        total, used = {} if is_away else _total(device), _used(device)
        made.total.setdefault(kind, {})[minor] = total
        made.used.setdefault(kind, {})[minor] = used
        made.free.setdefault(kind, {})[minor] = {name: _left(total[name], used.get(name)) for name in total}
        for pod, resources in _holders(device):
            there = made.allocated.setdefault(kind, {}).setdefault(pod, {}).setdefault(minor, {})
            _add(there, resources)
    return {
        "deviceTotal": _wire(_sum(made.total), domain),
        "deviceFree": _wire(_sum(made.free), domain),
        "deviceUsed": _wire(_sum(made.used), domain),
        "deviceTotalDetail": _detail(made.total, domain),
        "deviceFreeDetail": _detail(made.free, domain),
        "deviceUsedDetail": _detail(made.used, domain),
        "allocateSet": {kind: _detail(pods, domain) for kind, pods in made.allocated.items()},
    }


def summaries_answer(overview: Overview, places: StreamPlaces) -> Answer:
    """Return what answers for all nodes, or for the one that the path names. Errors are JSON, as Koordinator's are.

    Args:
        overview: The nodes.
        places: Limits the streams of each caller.
    """
    # All summaries of thousands of nodes are seconds of work, so only one thread works on them at a time.
    lock = threading.Lock()

    def answer(request: Request, caller: Caller) -> Response:
        domain = request.query.get("domain", _DOMAINS[0])
        if domain not in _DOMAINS:
            return _error(HTTPStatus.BAD_REQUEST, f"domain: expected {' or '.join(_DOMAINS)}")
        name = unquote(request.path.removeprefix(PREFIX).strip("/"))
        if not name:
            names = [node.name for node in overview.nodes()]
            return places.stream(caller, _all(overview, names, domain, lock), content_type="application/json")
        summary = _of(overview, name, domain)
        if summary is None:
            return _error(HTTPStatus.NOT_FOUND, f"cannot find node {name[:253]}")
        return Response.of_json(summary)

    return answer


def _all(overview: Overview, names: Iterable[str], domain: str, lock: threading.Lock) -> Iterator[bytes]:
    """Yield the answer node by node, so that a slow client does not keep all of them in memory."""
    encoder = Response.of_json
    start = b"{"
    for name in names:
        with lock:
            summary = _of(overview, name, domain)
        if summary is not None:  # it may be gone by now
            yield start + encoder(name).body + b":" + encoder(summary).body
            start = b","
    yield b"{}" if start == b"{" else b"}"


def _of(overview: Overview, name: str, domain: str) -> dict[str, Any] | None:
    node = overview.node(name)
    if node is None:
        return None
    devices = map(Device.model_validate, overview.devices(name))
    return node_device_summary(devices, state=node.state, cannot_prepare=node.cannot_prepare, domain=domain)


def _error(status: HTTPStatus, message: str) -> Response:
    return Response.of_json({"message": message}, status=status)


def _minor(device: Device) -> int:
    spec = device.spec
    return spec.minor if spec.type == "gpu" and spec.minor is not None else spec.index


def _total(device: Device) -> _Resources:
    is_unhealthy = device.status is not None and device.status.state == "Unhealthy"
    if is_unhealthy or has_rival(device) or not is_offered(device):
        return {}
    if device.spec.type != "gpu":
        return {device.spec.type: Quantity.of(_ALL)}
    found = {"gpu-core": Quantity.of(_ALL)}
    memory = _memory(device)
    return found if memory is None else found | {"gpu-memory": memory, "gpu-memory-ratio": Quantity.of(_ALL)}


def _used(device: Device) -> _Resources:
    allocated = device.status.allocated if device.status else None
    is_held = device.status is not None and bool(device.status.allocations)
    if device.spec.type != "gpu":
        return {device.spec.type: Quantity.of(_part(device, allocated) if is_held else 0)}
    core, memory = (allocated.core, allocated.memory) if allocated else (None, None)
    return _gpu(device, core or 0, memory or Quantity.of(0))


def _holders(device: Device) -> Iterator[tuple[str, _Resources]]:
    for item in device.status.allocations if device.status else ():
        resources = _allocated(device, item)
        yield from ((f"{item.namespace}/{pod.name}", resources) for pod in item.pods)


def _allocated(device: Device, item: DeviceAllocation) -> _Resources:
    if device.spec.type == "gpu":
        return _gpu(device, item.core, item.memory)
    vfs = 1 if item.bandwidth is None and item.device != device.spec.device_name else None
    return {device.spec.type: Quantity.of(_part(device, DeviceAmounts(bandwidth=item.bandwidth, vfs=vfs)))}


def _gpu(device: Device, core: int | None, memory: Quantity | None) -> _Resources:
    found = {} if core is None else {"gpu-core": Quantity.of(core)}
    whole = _memory(device)
    if memory is not None and whole is not None:
        ratio = _percent(memory.ceil(), whole.ceil())
        found |= {"gpu-memory": memory, "gpu-memory-ratio": Quantity.of(ratio)}
    return found


def _part(device: Device, amounts: DeviceAmounts | None) -> int:
    """Return the percentage of a NIC or FPGA that is allocated; all of it if it is not shared."""
    capacity = device.status.capacity if device.status else None
    if capacity and amounts and capacity.bandwidth and amounts.bandwidth:
        return _percent(amounts.bandwidth.ceil(), capacity.bandwidth.ceil())
    if capacity and amounts and capacity.vfs and amounts.vfs:
        return _percent(amounts.vfs, capacity.vfs)
    return _ALL


def _memory(device: Device) -> Quantity | None:
    capacity = device.status.capacity if device.status else None
    return (capacity.memory if capacity else None) or device.spec.memory


def _percent(part: int, whole: int) -> int:
    """Return the percentage, rounded up, so that nothing in use is shown as free."""
    return min(-(-part * _ALL // whole), _ALL) if whole > 0 else 0


def _left(total: Quantity, used: Quantity | None) -> Quantity:
    left = total if used is None else total - used
    return left if left.nano >= 0 else Quantity.of(0)


def _add(into: _Resources, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        into[name] = into[name] + amount if name in into else amount


def _sum(detail: _Detail) -> _Resources:
    found: _Resources = {}
    for devices in detail.values():
        for resources in devices.values():
            _add(found, resources)
    return found


def _wire(resources: _Resources, domain: str) -> dict[str, str]:
    return {f"{domain}/{name}": str(amount) for name, amount in sorted(resources.items())}


def _detail(detail: Mapping[str, Mapping[str, _Resources]], domain: str) -> dict[str, Any]:
    return {
        kind: {
            minor: _wire(resources, domain)
            for minor, resources in sorted(devices.items(), key=lambda item: int(item[0]))
        }
        for kind, devices in detail.items()
    }
