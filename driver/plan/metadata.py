"""Makes each request's device metadata file, from which programs in the container learn their devices (KEP-5304).

Source of paths and format: k8s.io/dynamic-resource-allocation v0.36.3, api/metadata (doc.go, helpers.go, v1alpha1) and
kubeletplugin/metadata.go. The API there is alpha; a file is a stream of the same object in each version, newest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.allocated_claim import AnyMetadata
from driver.api.resource_v1 import DeviceAttribute
from driver.layout import device_attributes
from driver.layout.attributes import RAIL
from driver.model.alignment import pair_distances
from driver.plan.cdi import CdiMount
from driver.plan.decide import Decision
from driver.plan.decided import DecidedDevice
from driver.plan.environment import pod_claim_name
from driver.plan.host import host_folder
from driver.plan.isolation.provider import ClaimFile
from driver.pretty_json import pretty_json

__all__ = ["RequestMetadata", "distances_of", "request_metadata"]

_API_VERSIONS: Final = ("metadata.resource.k8s.io/v1alpha1",)
"""Newest first."""

_CONTAINER_FOLDER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_IF_NAME: Final = "ifName"
_DISTANCES: Final = "distances"
_GENERATION: Final = 1
"""The files are written once and never updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMetadata:
    """The metadata file of one request, and its mount."""

    file: ClaimFile
    mount: CdiMount


def request_metadata(
    decision: Decision, metadata_root: str, distances: Mapping[str, tuple[tuple[str, str], ...]]
) -> dict[str, RequestMetadata]:
    """Return the metadata file of each request, by the request's name without a subrequest.

    Args:
        decision: The claim's decision.
        metadata_root: The host's folder for these files.
        distances: From :func:`distances_of`.

    Raises:
        InputError: The folder is no absolute path.
    """
    root = host_folder(metadata_root, "metadata_root")
    by_request = defaultdict[str, list[DecidedDevice]](list)
    for device in decision.devices:
        by_request[device.allocated.base_request].append(device)
    names = {device.allocated.device.name for device in decision.devices}
    names |= {device.function.name for device in decision.devices if device.function is not None}
    published = device_attributes(decision.inventory, names) if names else {}

    def attributes(device: DecidedDevice) -> dict[str, DeviceAttribute]:
        name, function = device.allocated.device.name, device.function
        return _attributes(
            published.get(name, {}),
            published.get(function.name, {}) if function is not None and function.name != name else {},
            device.nic.name_in_pod if device.nic else None,
            () if device.allocated.admin_access else distances.get(name, ()),
        )

    metadata, pool = decision.metadata, decision.inventory.node
    return {
        request: RequestMetadata(
            file=_file(
                metadata,
                devices[0].allocated.request,
                pool,
                [(device.allocated.device.name, attributes(device)) for device in devices],
            ),
            mount=_mount(metadata, request, root),
        )
        for request, devices in by_request.items()
    }


def distances_of(decision: Decision) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return how far each GPU of the claim is from its NICs, and each NIC from its GPUs.

    Returns:
        By name in the pool, in the allocation's order: the other's name and the distance, such as ``PIX``. Empty unless
        the claim has both; devices that it only watches over do not count.
    """
    used = [device.allocated for device in decision.devices if not device.allocated.admin_access]
    if not (any(item.gpu for item in used) and any(item.nic for item in used)):
        return {}
    # Two shares of one card are equally far from everything.
    devices = {item.device.name: item.device for item in used if item.gpu or item.nic}
    found = defaultdict[str, list[tuple[str, str]]](list)
    for pair in pair_distances(decision.inventory, tuple(devices.values())):
        found[pair.gpu].append((pair.nic, str(pair.distance)))
        found[pair.nic].append((pair.gpu, str(pair.distance)))
    return {name: tuple(others) for name, others in found.items()}


def _file(
    metadata: AnyMetadata,
    request: str,
    pool: str,
    devices: Sequence[tuple[str, Mapping[str, DeviceAttribute]]],
) -> ClaimFile:
    """Return the file of one request.

    Args:
        metadata: The claim's; its names were checked before.
        request: The request as the allocation writes it: ``request`` or ``request/subrequest``.
        pool: The pool of the devices.
        devices: Their names and attributes, in the allocation's order; from :func:`_attributes`.
    """
    pod_claim = pod_claim_name(metadata)
    body = {
        "metadata": {
            "name": metadata.name,
            **({"namespace": metadata.namespace} if metadata.namespace else {}),
            "uid": metadata.uid,
            "generation": _GENERATION,
        },
        **({"podClaimName": pod_claim} if pod_claim else {}),
        "requests": [{"name": request, "devices": [_device(pool, *device) for device in devices]}],
    }
    stream = b"".join(
        pretty_json({"kind": "DeviceMetadata", "apiVersion": version, **body}).encode() + b"\n"
        for version in _API_VERSIONS
    )
    return ClaimFile(relative_path=_relative_path(metadata.uid, request), content=stream)


def _attributes(
    published: Mapping[str, DeviceAttribute],
    function: Mapping[str, DeviceAttribute],
    interface: str | None,
    distances: Sequence[tuple[str, str]],
) -> dict[str, DeviceAttribute]:
    """Return a device's attributes for its containers: those in the ResourceSlice, and what is known since.

    Its rail and the extra attributes of policies are left out: a node does not read the administrator's policies.

    Args:
        published: From :func:`driver.layout.device_attributes`.
        function: Those of the virtual function that was chosen from a pool; empty for other devices.
        interface: The name in the pod of its network interface; None where that is not moved.
        distances: How far it is from each NIC (of a GPU) or GPU (of a NIC) of the claim, such as ``PIX``, by name.
    """
    facts = {**published, **function}
    # The administrator's NicPolicies, which a node does not read, may have published another one.
    facts.pop(RAIL, None)
    if interface is not None:
        facts[_IF_NAME] = DeviceAttribute(string_value=interface)
    if distances:
        facts[_DISTANCES] = DeviceAttribute(string_value=",".join(f"{name}={distance}" for name, distance in distances))
    return facts


def _mount(metadata: AnyMetadata, request: str, metadata_root: str) -> CdiMount:
    """Return the mount of the file, by the name that the pod's author knows, so not by the claim's UID.

    Args:
        metadata: The claim's.
        request: As in :func:`_file`.
        metadata_root: The host's folder of all metadata files.
    """
    pod_claim = pod_claim_name(metadata)
    claim = f"resourceclaimtemplates/{pod_claim}" if pod_claim else f"resourceclaims/{metadata.name}"
    base = request.partition("/")[0]
    return CdiMount(
        host_path=f"{metadata_root}/{_relative_path(metadata.uid, request)}",
        container_path=f"{_CONTAINER_FOLDER}/{claim}/{base}/{DRIVER_NAME}-metadata.json",
        options=("ro", "bind"),
    )


def _relative_path(claim_uid: str, request: str) -> str:
    return f"{claim_uid}/{request.partition('/')[0]}.json"


def _device(pool: str, name: str, attributes: Mapping[str, DeviceAttribute]) -> dict[str, object]:
    values = {attribute: attributes[attribute].to_wire() for attribute in sorted(attributes)}
    return {
        "driver": DRIVER_NAME,
        "pool": pool,
        "name": name,
        **({"attributes": values} if values else {}),
    }
