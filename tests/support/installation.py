"""What the tests of the installation share: the manifests as data, and small objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.support.paths import REPO

__all__ = ["FOLDER", "NODES", "OTHER", "allocated_claim", "claim", "document", "documents", "inventory", "slice_of"]

FOLDER: Final = REPO / "resourceclasses"
OTHER: Final = frozenset({"Chart.yaml", "components", "monitoring", "templates", "values.yaml"})
"""Folders of what is not installed with the rest, and the files of the Helm chart."""

NODES: Final = ("install-n1", "install-n2")


def documents() -> Iterator[dict[str, Any]]:
    """All objects of the manifests; those of components are left out, for they are not installed unless asked for.

    So are Prometheus' own files and the chart's: they are no objects of Kubernetes.
    """
    for path in sorted(FOLDER.rglob("*.yaml")):
        if path.name != "kustomization.yaml" and not OTHER.intersection(path.relative_to(FOLDER).parts):
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


def claim(
    name: str,
    *requests: dict[str, Any],
    config: tuple[dict[str, Any], ...] = (),
    driver: str = "rootport.dev",
    kind: str = "ResourceClaim",
) -> dict[str, Any]:
    """A ResourceClaim, or a template of one, in the namespace default.

    Args:
        name: Its name.
        requests: Its requests; one for a whole GPU where none is given.
        config: The opaque parameters, one entry each.
        driver: Whose parameters they are.
        kind: ResourceClaim or ResourceClaimTemplate.
    """
    entries = [{"opaque": {"driver": driver, "parameters": parameters}} for parameters in config]
    asked = requests or ({"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}},)
    spec: dict[str, Any] = {"devices": {"requests": list(asked), "config": entries}}
    if kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def allocated_claim(
    name: str, node: str, *devices: tuple[str, str, str], shares: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What kube-scheduler writes into a claim's status.

    Args:
        name: The claim's name.
        node: Where it can be used.
        devices: Driver, pool and device of each result.
        shares: The share's id of each result; none where they are not shared.
    """
    results: list[dict[str, Any]] = [
        {"request": "gpu", "driver": driver, "pool": pool, "device": device} for driver, pool, device in devices
    ]
    for result, share in zip(results, shares, strict=False):
        result["shareID"] = share
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    return claim(name) | {"status": {"allocation": allocation}}
