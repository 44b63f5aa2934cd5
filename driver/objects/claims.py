"""Extracts what a claim was allocated of this driver's devices, and no more, since there are many claims."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from driver import DRIVER_NAME
from driver.api.prepared_device import PreparedDeviceData, PreparedIsolation, device_key
from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import DeviceIsolation
from driver.api.strict import StrictError, read
from driver.objects.extended_resources import CLAIM_ANNOTATION

__all__ = ["ClaimAllocation", "claim_allocations"]

_DOMAIN: Final = f"{DRIVER_NAME}/"
_ALL: Final = 100
_TEXT_LENGTH: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAllocation:
    """One result of a claim's allocation, with what the node's plugin reports of it.

    Attributes:
        namespace: The claim's.
        claim: The claim's name.
        uid: The claim's UID.
        request: As the result writes it: ``request`` or ``request/subrequest``.
        pool: The device's pool: its node.
        device: The device's name in the pool.
        share_id: Which share of the device; empty where it is given once.
        core: Percent of the core that it consumes; None where it is not consumed.
        memory_bytes: Bytes of memory that it consumes; None where it is not consumed.
        memory_ratio: Percent of memory that it consumes; None where it is not consumed.
        bandwidth: Bits per second of a NIC that it consumes; None where it is not consumed.
        bandwidth_ratio: Percent of a NIC's bandwidth that it consumes; None where that is not consumed.
        isolation: Whether the limits hold; None before it is prepared, and where it has no limits.
        vf: The VF that was given out of a pool of a NIC's VFs, by its name in the pool of devices; None before it is
            prepared, and for other devices.
        mig_uuid: The UUID of the MIG device that was made for it; None before it is prepared, and for other devices.
        is_extended: kube-scheduler made the claim of its pod's extended resources.
    """

    namespace: str
    claim: str
    uid: str
    request: str
    pool: str
    device: str
    share_id: str
    core: int | None
    memory_bytes: int | None
    memory_ratio: int | None
    isolation: DeviceIsolation | None
    bandwidth: int | None = None
    bandwidth_ratio: int | None = None
    vf: str | None = None
    mig_uuid: str | None = None
    is_extended: bool = False


def claim_allocations(claim: Mapping[str, Any]) -> tuple[ClaimAllocation, ...]:
    """Return what a claim was given of this driver's devices; nothing where it is not allocated.

    Devices that it only watches over (admin access, KEP-5018) are left out: that is no use of them.

    Args:
        claim: A ResourceClaim as the API server stores it.
    """
    return tuple(_allocations(claim))


def _allocations(claim: Mapping[str, Any]) -> Iterator[ClaimAllocation]:
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    ours = [item for item in results if item["driver"] == DRIVER_NAME and not item.get("adminAccess")]
    if not ours:
        return
    reported = {
        device_key(entry): entry.get("data") for entry in status.get("devices") or () if entry["driver"] == DRIVER_NAME
    }
    metadata = claim["metadata"]
    is_extended = (metadata.get("annotations") or {}).get(CLAIM_ANNOTATION) == "true"
    for item in ours:
        prepared = _prepared(reported.get(device_key(item)))
        vf = prepared.vf if prepared and prepared.vf != item["device"] else None
        consumed = {key.removeprefix(_DOMAIN): value for key, value in (item.get("consumedCapacity") or {}).items()}
        yield ClaimAllocation(
            # The same few names stand in thousands of claims.
            namespace=sys.intern(metadata["namespace"]),
            claim=metadata["name"],
            uid=metadata["uid"],
            request=sys.intern(item["request"]),
            pool=sys.intern(item["pool"]),
            device=sys.intern(item["device"]),
            share_id=item.get("shareID") or "",
            core=_percent(consumed.get("core")),
            memory_bytes=_whole(consumed.get("memory")),
            memory_ratio=_percent(consumed.get("memoryRatio")),
            bandwidth=_whole(consumed.get("bandwidth")),
            bandwidth_ratio=_percent(consumed.get("bandwidthRatio")),
            isolation=_isolation(prepared.isolation if prepared else None),
            vf=sys.intern(vf) if vf else None,
            mig_uuid=_text(prepared.mig_uuid if prepared else None),
            is_extended=is_extended,
        )


def _whole(text: str | None) -> int | None:
    return None if text is None else max(Quantity(text).ceil(), 0)


def _text(text: str | None) -> str | None:
    """Return what fits into a Device's status as a text; None where it does not."""
    return text if text and len(text) <= _TEXT_LENGTH and text.isprintable() else None


def _percent(text: str | None) -> int | None:
    value = _whole(text)
    return None if value is None else min(value, _ALL)


def _prepared(data: object) -> PreparedDeviceData | None:
    """Return the plugin's data; None where it is not data that this version understands."""
    try:
        return read(PreparedDeviceData, data, ignore_unknown=True)
    except StrictError:
        return None


def _isolation(reported: PreparedIsolation | None) -> DeviceIsolation | None:
    """Return the isolation as a Device's status has it; None where it does not fit in there."""
    try:
        return _shared(reported.state, reported.by, reported.version) if reported else None
    except ValidationError:
        return None


@lru_cache(maxsize=256)
def _shared(state: str, by: str, version: str | None) -> DeviceIsolation:
    """Return one object for all shares that are isolated in the same way."""
    return DeviceIsolation.model_validate({"state": state, "by": by, "version": version})
