"""Which of a claim's devices its pod's binding waits for (KEP-5007), of every driver: pure.

Source of the rules: isClaimReadyForBinding of k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/
dynamicresources: a device is ready when all its binding conditions are True in its entry of ``status.devices``, and has
failed when one of its binding failure conditions is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from driver import DRIVER_NAME
from driver.api.prepared_device import device_key

__all__ = ["UnreadyDevice", "allocated_devices", "awaited_pools", "unready_devices"]

_MOST: Final = 32
"""Of each list in a claim's status: AllocationResultsMaxSize of k8s.io/api v0.37.2, resource/v1; others are shorter."""
_IDENTITY: Final = ("driver", "pool", "device")
_MAX_REASON: Final = 1024  # as of every metav1.Condition
_MAX_MESSAGE: Final = 32768  # likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadyDevice:
    """A device of a claim for which kube-scheduler waits, or that has failed.

    Attributes:
        driver: Whose device it is.
        pool: Its pool.
        device: Its name in the pool.
        failed: Whether one of its binding failure conditions is True: kube-scheduler takes the claim's devices back.
        reason: Of the condition that failed; empty where none has.
        message: Likewise.
    """

    driver: str
    pool: str
    device: str
    failed: bool = False
    reason: str = ""
    message: str = ""


def allocated_devices(claim: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the results of a claim's allocation, of every driver; without what names no device.

    Args:
        claim: A ResourceClaim as the API server stores it.
    """
    return tuple(_devices(_field(_field(_field(claim, "status"), "allocation"), "devices").get("results")))


def unready_devices(claim: Mapping[str, Any]) -> tuple[UnreadyDevice, ...]:
    """Return the devices of a claim that are not ready, in the order of its allocation; none where it has none.

    Args:
        claim: As for :func:`allocated_devices`.
    """
    waiting = [result for result in allocated_devices(claim) if _names(result.get("bindingConditions"))]
    if not waiting:
        return ()
    reported = {
        (entry["driver"], *device_key(entry)): {
            item["type"]: item
            for item in _mappings(entry.get("conditions"))
            if item.get("status") == "True" and isinstance(item.get("type"), str)
        }
        for entry in _devices(_field(claim, "status").get("devices"))
    }
    found = []
    for result in waiting:
        true = reported.get((result["driver"], *device_key(result)), {})
        failure = next((true[name] for name in _names(result.get("bindingFailureConditions")) if name in true), None)
        if failure is None and all(name in true for name in _names(result["bindingConditions"])):
            continue
        found.append(
            UnreadyDevice(
                driver=result["driver"],
                pool=result["pool"],
                device=result["device"],
                failed=failure is not None,
                reason=_text(failure, "reason")[:_MAX_REASON],
                message=_text(failure, "message")[:_MAX_MESSAGE],
            )
        )
    return tuple(found)


def awaited_pools(claim: Mapping[str, Any]) -> frozenset[str]:
    """Return the pools of this driver whose nodes are to prepare the claim now; none once a device has failed.

    Args:
        claim: As for :func:`allocated_devices`.
    """
    own = [device for device in unready_devices(claim) if device.driver == DRIVER_NAME]
    return frozenset() if any(device.failed for device in own) else frozenset(device.pool for device in own)


def _field(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    listed = value if isinstance(value, list | tuple) else ()
    return (item for item in islice(listed, _MOST) if isinstance(item, Mapping))


def _devices(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield what names a device, and its share where it has one."""
    for item in _mappings(value):
        if all(isinstance(item.get(name), str) for name in _IDENTITY) and isinstance(item.get("shareID") or "", str):
            yield item


def _names(value: object) -> list[str]:
    listed = value if isinstance(value, list | tuple) else ()
    return [item for item in islice(listed, _MOST) if isinstance(item, str)]


def _text(of: Mapping[str, Any] | None, name: str) -> str:
    value = (of or {}).get(name)
    return value if isinstance(value, str) else ""
