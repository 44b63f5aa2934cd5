"""How messages write amounts, lists, and who holds a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceTaint
from driver.wording import listed, plural

if TYPE_CHECKING:  # the controller's notes need a plural, and not the allocator behind these
    from driver.allocator.pools import PooledDevice
    from driver.explain.known.cluster import ClaimState, NodeTaint
    from driver.explain.known.state import ClusterState

__all__ = ["amount", "claim_text", "device_names", "holders_text", "joined", "taint_text"]

_SHOWN: Final = 3
_NANO: Final = 10**9
_UNITS: Final = (("Ti", 40), ("Gi", 30), ("Mi", 20))


def amount(nano: int, like: Quantity) -> str:
    """Write an amount of a capacity in the units that a person would use: ``40Gi``, ``79.6Gi``, ``30``.

    Args:
        nano: In nano-units; below zero where more was given than there is.
        like: What the device has, whose suffixes are used.
    """
    if like.format == "BinarySI":
        for suffix, bits in _UNITS:
            unit = _NANO << bits
            if abs(nano) >= unit:
                tenths = nano * 10 // unit
                exact = nano % unit == 0
                return f"{nano // unit}{suffix}" if exact else f"{tenths / 10:g}{suffix}"
    return str(Quantity.from_nano(nano, like.format))


def taint_text(taint: DeviceTaint | NodeTaint) -> str:
    """Write a taint as kubectl does: ``key=value:NoSchedule``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def joined(texts: Sequence[str], *, what: str = "more") -> str:
    """Join clauses, the first few: ``a; b; c; and 4 more``. Names are joined by :func:`driver.wording.listed`."""
    shown = "; ".join(texts[:_SHOWN])
    return shown if len(texts) <= _SHOWN else f"{shown}; and {len(texts) - _SHOWN} {what}"


def device_names(devices: Iterable[PooledDevice]) -> str:
    """Write the names of the first few devices."""
    return listed([device.id.device for device in devices])


def claim_text(state: ClusterState, claim: ClaimState, *, holds: int = 0) -> str:
    """Write ``claim ml/train (pod ml/train-0, 4 devices)``."""
    pods = [f"{claim.namespace}/{name}" for name, _ in claim.pods]
    if not pods:
        pods = [pod.key for pod in state.pods_of(claim.key) if not pod.ended]
    inside = [f"PodGroup {name}" for name, _ in claim.pod_groups[:1]]
    if len(claim.pod_groups) > 1:
        inside = [f"{len(claim.pod_groups)} PodGroups such as {claim.pod_groups[0][0]}"]
    if len(pods) == 1:
        inside.append(f"pod {pods[0]}")
    elif pods:
        inside.append(f"{len(pods)} pods such as {pods[0]}")
    elif not inside:
        inside.append("no pod uses it now")
    if holds > 1:
        inside.append(plural(holds, "device"))
    return f"claim {claim.key} ({', '.join(inside)})"


def holders_text(state: ClusterState, devices: Iterable[PooledDevice]) -> str:
    """Write who has the devices: the claims with most of them first; empty where no claim is known to have any."""
    counts: dict[str, int] = {}
    claims: dict[str, ClaimState] = {}
    for device in devices:
        for claim in state.holders(device.id):
            claims[claim.key] = claim
            counts[claim.key] = counts.get(claim.key, 0) + 1
    keys = sorted(counts, key=lambda key: (-counts[key], key))
    texts = [claim_text(state, claims[key], holds=counts[key]) for key in keys[:_SHOWN]]
    return listed(texts + keys[_SHOWN:], what="more claims" if len(keys) != _SHOWN + 1 else "more claim")
