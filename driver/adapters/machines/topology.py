"""Reads a node's inventory from a file about its machine: a machine description (YAML) or an NCCL topology file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.description import read_machine
from driver.adapters.nccl import inventory as nccl
from driver.adapters.nccl.xml import read_document
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.model.inventory import Inventory

__all__ = ["node_name", "read_topology"]

_NO_FACTS: Final = HardwareFacts()
_DESCRIPTIONS: Final = frozenset({".yaml", ".yml"})
# The longest DNS subdomain (RFC 1123), which a node's name is.
_MAX_NAME: Final = 253


def read_topology(path: Path, *, node: str | None = None, hardware: HardwareFacts = _NO_FACTS) -> Inventory:
    """Read the file: a machine description if its name ends in ``.yaml`` or ``.yml``, else an NCCL topology.

    Args:
        path: The file.
        node: The node's name; made from the file's name by default.
        hardware: The user's facts about the GPUs; they win over the file and the catalogue.

    Raises:
        InputError: The file cannot be read or is not what its name says, or describes no device or more than 512;
            ``node`` is no node name; ``hardware`` names no known model. The message names the file and, where there is
            one, the line.
    """
    if node is not None and any(subdomain("node", node)):
        raise InputError(f"the node name {node[:60]!r} is not a DNS name", hint="use a-z, 0-9, '-' and '.'")
    document = read_machine(path) if path.suffix.lower() in _DESCRIPTIONS else read_document(path)
    return nccl.inventory(document, node=node or node_name(path), hardware=hardware)


def node_name(path: Path) -> str:
    """Make a node's name from a file's: ``aws-p4d.24xlarge.yaml`` gives ``aws-p4d.24xlarge``. Always a DNS name."""
    labels = (label.strip("-") for label in re.sub(r"[^a-z0-9.]", "-", path.stem.lower()).split("."))
    name = ".".join(label for label in labels if label)[:_MAX_NAME].strip("-.")
    return name or "node"
