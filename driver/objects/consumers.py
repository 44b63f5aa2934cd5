"""Extracts whom a claim is reserved for, and no more of it, since there are many claims."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["GROUP_API", "GROUP_KIND", "Consumer", "consumers", "is_pod", "is_pod_group"]

GROUP_API: Final = "scheduling.k8s.io"
"""The API group of PodGroups."""

GROUP_KIND: Final = "PodGroup"
"""Their kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Whom a claim is reserved for; it is in the claim's namespace.

    Attributes:
        name: Its name.
        uid: Its UID.
        is_group: It is a PodGroup, all pods of which may use the claim; otherwise a pod.
    """

    name: str
    uid: str
    is_group: bool = False


def consumers(claim: Mapping[str, Any]) -> tuple[Consumer, ...]:
    """Return the pods and PodGroups that a claim is reserved for (KEP-4381, KEP-5729); others may stand there as well.

    Args:
        claim: A ResourceClaim as the API server stores it.
    """
    return tuple(
        # A pod of two claims stands in both.
        Consumer(name=sys.intern(item["name"]), uid=sys.intern(item["uid"]), is_group=is_pod_group(item))
        for item in (claim.get("status") or {}).get("reservedFor") or ()
        if is_pod(item) or is_pod_group(item)
    )


def is_pod(reference: Mapping[str, Any]) -> bool:
    """Whether an entry of ``reservedFor`` is a pod."""
    return reference.get("resource") == "pods" and not reference.get("apiGroup")


def is_pod_group(reference: Mapping[str, Any]) -> bool:
    """Whether an entry of ``reservedFor`` is a PodGroup (gate DRAWorkloadResourceClaims)."""
    return reference.get("resource") == "podgroups" and reference.get("apiGroup") == GROUP_API
