"""Reads an allocation's results for this driver, each with the device of the inventory that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.allocated_claim import AnyClaim, AnyResult
from driver.api.claim_reference import ClaimReference
from driver.api.quantity import Quantity
from driver.api.validation import names
from driver.api.validation.errors import joined_errors, shown
from driver.errors import InputError, NodeError
from driver.layout.nic_devices import LINK_DOWN
from driver.model.devices import Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory
from driver.model.parts import (
    AllocatableDevice,
    RdmaVfPool,
    allocatable_devices,
    has_static_layout,
    named_devices,
    whole_device,
)
from driver.plan.cdi import check_claim_uid

__all__ = ["AllocatedDevice", "allocated_devices", "reference_of"]

_RESULTS = "status.allocation.devices.results"
_DOMAIN: Final = f"{DRIVER_NAME}/"
_LONGEST_KEY: Final = len(_DOMAIN) + 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedDevice:
    """A device, or a part of one, that was allocated to a request.

    Attributes:
        request: As the result writes it: ``request`` or ``request/subrequest``.
        device: The device.
        admin_access: Whether it is only watched over, which is no use of it (KEP-5018).
        share_id: Which share of the device; None where it is given once.
        consumed: The result's ``consumedCapacity``.
        where: The result's field path.
        subject: Names claim, request and device in errors.
        nic: The NIC that the device is, or whose virtual function it is; None for other devices.
        tolerates_link_down: Whether the request puts up with a NIC whose link is down, by a toleration.
    """

    request: str
    device: AllocatableDevice
    admin_access: bool
    share_id: str | None
    consumed: Mapping[str, Quantity]
    where: str
    subject: str
    nic: RdmaNic | None = None
    tolerates_link_down: bool = False

    @property
    def at(self) -> str:
        """Request and device, for messages that name the claim already."""
        return f"request {self.base_request}, device {self.device.name}"

    def capacity_path(self, key: str) -> str:
        """Return the field path of a capacity in ``consumedCapacity``."""
        return f"{self.where}.consumedCapacity[{key if len(key) <= _LONGEST_KEY and key.isprintable() else shown(key)}]"

    @property
    def base_request(self) -> str:
        """The request without the subrequest, which the kubelet does not know."""
        return self.request.partition("/")[0]

    @property
    def gpu(self) -> Gpu | None:
        """The GPU that the device is, or is a part of; None for other devices."""
        device = whole_device(self.device)
        return device if isinstance(device, Gpu) else None

    @property
    def is_nvidia_gpu(self) -> bool:
        """Whether it is an NVIDIA GPU or a part of one."""
        gpu = self.gpu
        return gpu is not None and gpu.vendor == "nvidia"


def reference_of(claim: AnyClaim) -> ClaimReference:
    """Return a claim's reference, once its UID and names are checked.

    Raises:
        InputError: They could not come from Kubernetes.
    """
    meta = claim.metadata
    check_claim_uid(meta.uid)
    errors = [*names.subdomain("metadata.name", meta.name)]
    if meta.namespace:
        errors += names.label("metadata.namespace", meta.namespace)
    if errors:
        raise InputError(f"the claim with UID {meta.uid} cannot come from Kubernetes: {joined_errors(errors)}")
    return claim.reference


def allocated_devices(claim: AnyClaim, inventory: Inventory) -> tuple[AllocatedDevice, ...]:
    """Return this driver's devices that were allocated to a claim, in the allocation's order.

    Raises:
        InputError: The claim is not allocated, not to this node, or could not come from Kubernetes.
        NodeError: A device is not there, or is given by an administrator's MIG partitions alone.
    """
    reference = reference_of(claim)
    if claim.status.allocation is None:
        raise InputError(
            f"claim {reference} is not allocated", hint="prepare it after the scheduler has set status.allocation"
        )
    results: Sequence[AnyResult] = claim.status.allocation.devices.results
    ours = [(index, result) for index, result in enumerate(results) if result.driver == DRIVER_NAME]
    for _, result in ours:
        _check_names(result, inventory.node, reference)
    devices = named_devices(inventory, {result.device for _, result in ours})
    return tuple(
        _allocated(result, f"{_RESULTS}[{index}]", devices.get(result.device), inventory, reference)
        for index, result in ours
    )


def _check_names(result: AnyResult, node: str, claim: ClaimReference) -> None:
    base, slash, sub = result.request.partition("/")
    errors = [*names.label("request", base), *(names.label("subrequest", sub) if slash else ())]
    if result.share_id is not None:
        # It becomes a part of a CDI device's name. The API server demands a UUID, which is a label.
        errors += names.label("shareID", result.share_id)
    if errors:
        raise InputError(f"claim {claim}: an allocation result cannot come from Kubernetes: {joined_errors(errors)}")
    if result.pool != node:
        raise InputError(
            f"{_subject(claim, result)} of pool {shown(result.pool)} is not on node {node}",
            hint="each node is the pool of its own devices: prepare the claim on the node it was allocated to",
        )


def _allocated(
    result: AnyResult,
    where: str,
    device: AllocatableDevice | None,
    inventory: Inventory,
    claim: ClaimReference,
) -> AllocatedDevice:
    if device is None:
        number = sum(1 for _ in allocatable_devices(inventory))
        raise NodeError(
            f"{_subject(claim, result)} is not among the {number} devices of node {inventory.node}",
            hint="it may have left the node since it was allocated: check the node's hardware and driver, or delete "
            "the pod so that its claim is allocated anew",
        )
    item = AllocatedDevice(
        request=result.request,
        device=device,
        admin_access=result.admin_access is True,
        share_id=result.share_id,
        consumed=result.consumed_capacity,
        where=where,
        subject=f"claim {claim}, request {result.request.partition('/')[0]}, device {device.name}",
        nic=_nic(device, inventory),
        # An empty key goes with all taints (k8s.io/api v0.36.3, resource/v1 DeviceToleration).
        tolerates_link_down=any(
            toleration.key in ("", LINK_DOWN) and toleration.effect in ("", "NoSchedule")
            for toleration in result.tolerations
        ),
    )
    # A GPU with a layout has no part for percent, and no partitions but the layout's: those were not found above.
    if isinstance(device, Gpu) and has_static_layout(device) and not item.admin_access:
        raise NodeError(
            f"{item.subject} was partitioned by an administrator since it was allocated: it is given by its MIG "
            "partitions alone",
            hint="remove the MIG partitions, or delete the pod so that its claim is allocated anew",
        )
    return item


def _nic(device: AllocatableDevice, inventory: Inventory) -> RdmaNic | None:
    match device:
        case RdmaNic():
            return device
        case RdmaVfPool():
            return device.nic
        case RdmaVf():
            return next((nic for nic in inventory.nics if nic.address == device.parent), None)
        case _:
            return None


def _subject(claim: ClaimReference, result: AnyResult) -> str:
    return f"claim {claim}, request {result.request}, device {shown(result.device)}"
