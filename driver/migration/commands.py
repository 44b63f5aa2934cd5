"""The kubectl commands of a migration, which a person runs: names of objects are quoted for a shell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Final

from driver.migration.facts import DaemonSetFacts
from driver.rivals.resources import GPU_OPERATOR

__all__ = [
    "MAINTENANCE_LABEL",
    "MOVED_LABEL",
    "cordon",
    "drain",
    "plugin_off",
    "plugin_on",
    "rootport_on",
    "uncordon",
    "was_switched_off",
]

MAINTENANCE_LABEL: Final = "rootport.dev/maintenance"
"""The label of nodes that Rootport's DaemonSet leaves out (resourceclasses/workloads/kubelet-plugin.yaml)."""

MOVED_LABEL: Final = "rootport.dev/moved"
"""The label by which a device plugin's DaemonSet leaves out nodes, where no label of its own does that."""

_OF_EVERY_NODE: Final = ("kubernetes.io", "k8s.io")


def cordon(node: str) -> str:
    """Return the command that keeps new pods off a node."""
    return f"kubectl cordon {shlex.quote(node)}"


def uncordon(node: str) -> str:
    """Return the command that lets new pods to a node."""
    return f"kubectl uncordon {shlex.quote(node)}"


def drain(node: str) -> str:
    """Return the command that moves the pods off a node, but those of DaemonSets."""
    return f"kubectl drain {shlex.quote(node)} --ignore-daemonsets --delete-emptydir-data"


def plugin_off(node: str, plugin: DaemonSetFacts, labels: Mapping[str, str]) -> str:
    """Return the command that takes a device plugin off one node, and off no other.

    Empty where its DaemonSet has a required node affinity: what to add there is for a person to see.

    Args:
        node: The node's name.
        plugin: The plugin's DaemonSet.
        labels: The node's labels.
    """
    for key in sorted(plugin.node_selector):
        if key.startswith(GPU_OPERATOR):
            # Removed, the operator would set it again.
            return f"kubectl label node {shlex.quote(node)} {shlex.quote(f'{key}=false')} --overwrite"
    for key in sorted(plugin.node_selector):
        if key in labels and not key.partition("/")[0].endswith(_OF_EVERY_NODE):
            return f"kubectl label node {shlex.quote(node)} {shlex.quote(f'{key}-')}"
    if plugin.has_affinity:
        return "" if MOVED_LABEL in labels else _label(node, f"{MOVED_LABEL}=true")
    term = {"matchExpressions": [{"key": MOVED_LABEL, "operator": "DoesNotExist"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    patch = json.dumps({"spec": {"template": {"spec": {"affinity": affinity}}}}, separators=(",", ":"))
    target = f"daemonset {shlex.quote(plugin.name)} --namespace={shlex.quote(plugin.namespace)}"
    return f"{_label(node, f'{MOVED_LABEL}=true')} && kubectl patch {target} --patch={shlex.quote(patch)}"


def plugin_on(node: str, plugin: DaemonSetFacts, labels: Mapping[str, str]) -> str:
    """Return the command that lets a device plugin come back to a node; empty where no label keeps it away."""
    missing = [f"{key}={value}" for key, value in sorted(plugin.node_selector.items()) if labels.get(key) != value]
    changes = [*missing, *([f"{MOVED_LABEL}-"] if MOVED_LABEL in labels else [])]
    return f"{_label(node, *changes)} --overwrite" if changes else ""


def was_switched_off(plugin: DaemonSetFacts, labels: Mapping[str, str]) -> bool:
    """Whether a label of the node says no to a device plugin, or that it was taken off by :func:`plugin_off`.

    Args:
        plugin: The plugin's DaemonSet.
        labels: The node's labels.
    """
    return MOVED_LABEL in labels or any(labels.get(key, value) != value for key, value in plugin.node_selector.items())


def rootport_on(node: str, ours: DaemonSetFacts, labels: Mapping[str, str]) -> str:
    """Return the command that lets Rootport's plugin come to a node; empty where no label keeps it away."""
    missing = [f"{key}={value}" for key, value in sorted(ours.node_selector.items()) if labels.get(key) != value]
    changes = [*missing, *([f"{MAINTENANCE_LABEL}-"] if MAINTENANCE_LABEL in labels else [])]
    return f"{_label(node, *changes)} --overwrite" if changes else ""


def _label(node: str, *changes: str) -> str:
    return f"kubectl label node {shlex.quote(node)} {' '.join(map(shlex.quote, changes))}"
