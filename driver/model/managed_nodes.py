"""The names by which managed nodes are recognised: those whose devices Rootport's controller allocates.

They stand this low since the layout, explain, lint and placement all need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "ALL_PODS",
    "ANNOTATION",
    "ENABLED",
    "GATE",
    "LABEL",
    "LEADER_ANNOTATION",
    "MANAGED",
    "POLICY_NAMES",
    "TAINT",
    "is_labelled",
]

LABEL: Final = "rootport.dev/placement"
"""The label of a Node whose devices the controller allocates (:data:`MANAGED`), and of a namespace whose new pods are
held until their claims are allocated (:data:`ENABLED`)."""

MANAGED: Final = "managed"
"""The value of :data:`LABEL` on a Node."""

ENABLED: Final = "enabled"
"""The value of :data:`LABEL` on a namespace."""

ALL_PODS: Final = "all-pods"
"""The other one: new pods without claims are held as well, until a node is nominated for them."""

TAINT: Final = "rootport.dev/managed"
"""The key of the taint of all devices of a managed node. Its effect is NoSchedule: kube-scheduler allocates none of
them, and what has a device keeps it. It is no fault."""

GATE: Final = "rootport.dev/placement"
"""The scheduling gate that holds a pod until its claims are allocated."""

ANNOTATION: Final = "rootport.dev/placement"
"""The annotation of a claim that says, for people, where it was placed and why, or why not."""

LEADER_ANNOTATION: Final = "rootport.dev/placement"
"""The annotation of the controller's Lease: ``POLICY IDENTITY`` of the leader that places; it counts only while that
identity holds the Lease. Controllers that place nothing do not write it."""

POLICY_NAMES: Final = ("pack", "spread", "first-fit")
"""The policies of placement as users choose them, the default first. What each is, driver/placement/policies has; the
names stand here because the policies take the engine to read, and options only the names."""


def is_labelled(labels: Mapping[str, str]) -> bool:
    """Return whether the labels of a Node make it managed."""
    return labels.get(LABEL) == MANAGED
