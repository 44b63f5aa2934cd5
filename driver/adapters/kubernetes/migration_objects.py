"""Reads once what ``rootport migrate`` needs of a cluster, for a user's command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import (
    DAEMON_SETS,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.errors import InputError
from driver.migration.facts import ClusterObjects

__all__ = ["read_migration"]

_FORBIDDEN: Final = 403


def read_migration(api: KubernetesApi, node: str, *, seen: Callable[[], None] = lambda: None) -> ClusterObjects:
    """Return the objects that say how far a node has moved; what may not be read is left out, and a problem says so.

    Args:
        api: The API server.
        node: The node's name.
        seen: Called for each object that was read.

    Raises:
        InputError: There is no such node.
        ForbiddenError: These credentials may not read Nodes.
        ApiServerError: The server did not answer.
    """
    problems: list[str] = []
    try:
        found = api.get(NODES, node)
    except NotFoundError as error:
        raise InputError(f"there is no node {node}", hint="kubectl get nodes") from error

    def listed(resource: Resource, *, field_selector: str = "") -> list[JsonObject] | None:
        def slim(stored: JsonObject) -> JsonObject:
            seen()
            stored["metadata"].pop("managedFields", None)
            return stored

        try:
            return [*api.list(resource, field_selector=field_selector, transform=slim).items]
        except NotFoundError:
            return []  # the server does not have the kind
        except ForbiddenError as error:
            if error.status != _FORBIDDEN:
                raise
            problems.append(f"{resource} may not be listed, so what they say is not known")
            return None

    of_node = f"spec.nodeName={node}"
    objects: dict[str, Any] = {
        "pods": listed(PODS, field_selector=of_node),
        "claims": listed(RESOURCE_CLAIMS),
        "slices": listed(RESOURCE_SLICES, field_selector=of_node),
        "daemon_sets": listed(DAEMON_SETS),
    }
    try:
        inventory: JsonObject = api.get(NODE_INVENTORIES, node)
    except NotFoundError:
        inventory = {}
    except ForbiddenError as error:
        if error.status != _FORBIDDEN:
            raise
        inventory = {}
        problems.append(f"{NODE_INVENTORIES} may not be read, so what Rootport's plugin reports is not known")
    return ClusterObjects(node=found, inventory=inventory, problems=(*problems, *api.skipped.notes()), **objects)
