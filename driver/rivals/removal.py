"""The command that takes extended resources off a Node which no kubelet owns: nothing else ever takes them away."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable

__all__ = ["removal"]


def removal(node: str, resources: Iterable[str]) -> str:
    """Return the ``kubectl`` command, quoted for a shell.

    The kubelet copies an extended resource that it does not know from ``status.capacity`` to ``status.allocatable``
    (pkg/kubelet/nodestatus/setters.go), so both have it.

    Args:
        node: The node's name.
        resources: The names of the extended resources.
    """
    # RFC 6901, section 3.
    names = [name.replace("~", "~0").replace("/", "~1") for name in resources]
    patch = [
        {"op": "remove", "path": f"/status/{field}/{name}"} for name in names for field in ("capacity", "allocatable")
    ]
    text = shlex.quote(json.dumps(patch, separators=(",", ":")))
    return f"kubectl patch node {shlex.quote(node)} --subresource=status --type=json -p {text}"
