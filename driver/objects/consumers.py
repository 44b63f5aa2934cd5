"""Extracts the pods that a claim is reserved for, and no more of it, since there are many claims."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PodConsumer", "pod_consumers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConsumer:
    """A pod that a claim is reserved for; it is in the claim's namespace.

    Attributes:
        name: The pod's name.
        uid: Its UID.
    """

    name: str
    uid: str


def pod_consumers(claim: Mapping[str, Any]) -> tuple[PodConsumer, ...]:
    """Return the pods that a claim is reserved for (KEP-4381: ``resource: pods`` of the core group).

    Others may stand there as well, such as groups of pods.

    Args:
        claim: A ResourceClaim as the API server stores it.
    """
    return tuple(
        # A pod of two claims stands in both.
        PodConsumer(name=sys.intern(item["name"]), uid=sys.intern(item["uid"]))
        for item in (claim.get("status") or {}).get("reservedFor") or ()
        if item["resource"] == "pods" and not item.get("apiGroup")
    )
