"""The device metadata file of a request: what its devices are, for the programs in the container (KEP-5304).

Source of paths and format: k8s.io/dynamic-resource-allocation v0.36.3, api/metadata (doc.go, helpers.go, v1alpha1) and
kubeletplugin/metadata.go. The API there is alpha; a file is a stream of the same object in each version, newest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic_core import to_json

from driver import DRIVER_NAME
from driver.api.resource_v1 import DeviceAttribute, ObjectMeta
from driver.layout.attributes import RAIL
from driver.plan.cdi import CdiMount
from driver.plan.environment import pod_claim_name
from driver.plan.isolation.interface import ClaimFile

__all__ = ["device_facts", "metadata_file", "metadata_mount"]

_API_VERSIONS: Final = ("metadata.resource.k8s.io/v1alpha1",)
"""Newest first."""

_CONTAINER_FOLDER: Final = "/var/run/kubernetes.io/dra-device-attributes"
_IF_NAME: Final = "ifName"
_DISTANCES: Final = "distances"
_GENERATION: Final = 1
"""The files are written once and never updated."""


def metadata_file(
    metadata: ObjectMeta,
    request: str,
    pool: str,
    devices: Sequence[tuple[str, Mapping[str, DeviceAttribute]]],
) -> ClaimFile:
    """The file of one request.

    Args:
        metadata: The claim's; its names were checked before.
        request: The request as the allocation writes it: ``request`` or ``request/subrequest``.
        pool: The pool of the devices.
        devices: Their names and attributes, in the allocation's order; from :func:`device_facts`.
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
        to_json({"kind": "DeviceMetadata", "apiVersion": version, **body}, indent=2) + b"\n"
        for version in _API_VERSIONS
    )
    return ClaimFile(relative_path=_relative_path(metadata.uid, request), content=stream)


def device_facts(
    published: Mapping[str, DeviceAttribute],
    function: Mapping[str, DeviceAttribute],
    interface: str | None,
    distances: Sequence[tuple[str, str]],
) -> dict[str, DeviceAttribute]:
    """What a container is told of a device: its attributes in the ResourceSlice, and what is known since.

    Without what is the administrator's to say: its rail, and the extra attributes of policies.

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


def metadata_mount(metadata: ObjectMeta, request: str, metadata_root: str) -> CdiMount:
    """Where the container finds the file: by the name that the pod's author knows, so not by the claim's UID.

    Args:
        metadata: The claim's.
        request: As in :func:`metadata_file`.
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
