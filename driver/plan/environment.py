"""The environment variables that describe a claim's devices to its containers. docs/design/prepare.md lists them.

Of two variables of one name the runtime keeps the last (container-device-interface v1.1.1, internal/ociedit), so a name
either carries the claim and the request, or has one value wherever it is set.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driver.api.allocated_claim import AnyMetadata
from driver.api.validation import names
from driver.api.validation.errors import shown
from driver.errors import NodeError
from driver.model.devices import Gpu
from driver.objects.extended_resources import CLAIM_ANNOTATION

__all__ = ["POD_CLAIM_ANNOTATION", "DeviceFacts", "device_environment", "pod_claim_name", "request_environment"]

POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""What the pod calls the claim, on claims made from a template (k8s.io/api v0.36.3, PodResourceClaimAnnotation)."""

_EXTENDED_RESOURCES: Final = "extended-resources"

_VALUE: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device of a request, as its containers' environment describes it.

    Attributes:
        address: The device's PCI address; of a part of a GPU, the GPU's.
        is_gpu: Whether it is a GPU or a part of one.
        uuid: The UUID of the GPU or MIG device, by which CUDA and nvidia-smi know it.
        rdma_device: The RDMA device's name, by which verbs know it.
        interface: Its network interface's name in the pod, where that is moved there.
        core: Percent of the GPU's core.
        memory_bytes: Bytes of the GPU's memory.
        profile: A MIG device's profile.
        bandwidth: Of a NIC, in bits per second: the share's, or all of a whole NIC's. None for VFs, and where it is not
            known.
    """

    address: str
    is_gpu: bool = False
    uuid: str | None = None
    rdma_device: str | None = None
    interface: str | None = None
    core: int | None = None
    memory_bytes: int | None = None
    profile: str | None = None
    bandwidth: int | None = None


def device_environment(gpu: Gpu | None) -> tuple[str, ...]:
    """Return the variables of a GPU or a part of it, which are the same in every claim.

    ``NVIDIA_VISIBLE_DEVICES=void`` keeps NVIDIA's own container runtime, where it is installed, from adding the GPUs
    that an image's environment asks for (``nvidia-ctk cdi generate`` sets it for the same reason).
    """
    return ("NVIDIA_VISIBLE_DEVICES=void",) if gpu is not None and gpu.vendor == "nvidia" else ()


def pod_claim_name(metadata: AnyMetadata) -> str | None:
    """Return the pod's name for a claim that was made from a template; None for other claims.

    A claim's author may write anything into the annotation; only a DNS label, as the pod's field is one, counts.
    """
    annotation = metadata.annotations.get(POD_CLAIM_ANNOTATION, "")
    return None if any(names.label("", annotation)) else annotation


def request_environment(
    metadata: AnyMetadata, request: str, devices: Sequence[DeviceFacts], subject: str
) -> tuple[str, ...]:
    """Return a request's variables, in the allocation's order: ``ROOTPORT_<claim>__<request>_{PCI,UUID,…}=a,b,…``.

    CORE, MEMORY and PROFILE are there only where each GPU of the request has one, BANDWIDTH where each of its devices
    has one: the n-th of one list belongs to the n-th of another.

    Args:
        metadata: The claim's.
        request: The request's name, without a subrequest.
        devices: All devices of the request.
        subject: Names claim and request in the errors.

    Raises:
        NodeError: The inventory has a name that cannot stand in a list.
    """
    prefix = f"ROOTPORT_{_upper(_claim_name(metadata))}__{_upper(request)}"
    gpus = [device for device in devices if device.is_gpu]
    lists: dict[str, Sequence[str]] = {
        "PCI": [device.address for device in devices],
        "UUID": [device.uuid for device in gpus if device.uuid],
        "CORE": _of_all([device.core for device in gpus]),
        "MEMORY": _of_all([device.memory_bytes for device in gpus]),
        "PROFILE": _of_all([device.profile for device in gpus]),
        "RDMA": [device.rdma_device for device in devices if device.rdma_device],
        "BANDWIDTH": _of_all([device.bandwidth for device in devices]),
        "IFNAME": [device.interface for device in devices if device.interface],
    }
    for values in lists.values():
        for value in values:
            if _VALUE.fullmatch(value) is None:
                raise NodeError(
                    f"{subject}: {shown(value)} in the node's inventory is not the name of a device",
                    hint="read the node's inventory again",
                )
    return tuple(f"{prefix}_{suffix}={','.join(values)}" for suffix, values in lists.items() if values)


def _claim_name(metadata: AnyMetadata) -> str:
    """Return the claim's name as the pod's author can know it."""
    if metadata.annotations.get(CLAIM_ANNOTATION) == "true":
        return _EXTENDED_RESOURCES
    return pod_claim_name(metadata) or metadata.name


def _of_all(values: Sequence[int | str | None]) -> list[str]:
    return [] if None in values else [str(value) for value in values]


def _upper(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())
