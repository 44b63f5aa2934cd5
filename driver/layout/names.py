"""The names of a node's ResourceSlices, for the controller and every command that shows them, and of taints."""

from __future__ import annotations

import hashlib
from typing import Final

from driver import DRIVER_NAME

__all__ = ["DEFAULT_ROUTE", "LINK_DOWN", "slice_name"]

DEFAULT_ROUTE: Final = "rootport.dev/default-route"
"""The key of the taint of what the node needs for itself: nothing new is given it, what has it keeps it."""

LINK_DOWN: Final = "rootport.dev/link-down"
"""The key of the taint of what has no link: nothing new is given it, what has it keeps it."""

_NAME_LENGTH: Final = 253
_SUFFIX_LENGTH: Final = 10


def slice_name(node: str, node_uid: str, index: int, *, other: str = "") -> str:
    """Return the name of a node's slice: ``00000-rootport.dev-node-a-1b2c3d4e5f``.

    Consumers sort a pool's slices by name, so the index stands first: it gives the order of allocation. The end
    distinguishes Nodes that had the same name one after the other, and nodes whose long names were cut.

    Args:
        node: The node's name.
        node_uid: The Node's uid; empty where there is no cluster.
        index: The slice's place in the pool.
        other: What makes it another name, where another driver's slice has taken that: letters and digits.
    """
    start = f"{index:05x}-{DRIVER_NAME}-"
    end = "-" + hashlib.sha256(f"{node}/{node_uid}".encode()).hexdigest()[:_SUFFIX_LENGTH] + (other and f"-{other}")
    return start + node[: _NAME_LENGTH - len(start) - len(end)].rstrip("-.") + end
