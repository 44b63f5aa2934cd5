"""What the tests of the installation share: the manifests as data, and small objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

__all__ = ["FOLDER", "NODES", "document", "documents", "inventory", "slice_of"]

FOLDER: Final = Path(__file__).parents[2] / "resourceclasses"
NODES: Final = ("install-n1", "install-n2")


def documents() -> Iterator[dict[str, Any]]:
    """All objects of the manifests."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield from (document for document in yaml.safe_load_all(path.read_text()) if document)


def document(kind: str, name: str) -> dict[str, Any]:
    """One object of the manifests."""
    (found,) = (item for item in documents() if (item["kind"], item["metadata"]["name"]) == (kind, name))
    return found


def inventory(name: str) -> dict[str, object]:
    """A NodeInventory without devices."""
    counts = {"gpus": 0, "nics": 0, "vfs": 0, "fpgas": 0}
    spec = {"source": "live", "counts": counts}
    return {"apiVersion": "rootport.dev/v1alpha1", "kind": "NodeInventory", "metadata": {"name": name}, "spec": spec}


def slice_of(driver: str, *, name: str, node: str = NODES[0]) -> dict[str, object]:
    """An empty ResourceSlice."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": []}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
