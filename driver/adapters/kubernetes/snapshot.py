"""What explain and lint need of a cluster, read once: for a command on a person's desk."""

from __future__ import annotations

from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.allocator.features import Features
from driver.explain.cluster import Kind
from driver.explain.state import ClusterState

__all__ = ["CLUSTER_ROLE", "read_cluster", "read_published"]

CLUSTER_ROLE: Final = "rootport-explain"
"""The ClusterRole that allows what is read of the whole cluster (resourceclasses/rbac/explain.yaml)."""
_NAMESPACE_ROLE: Final = "view"
"""Kubernetes' own role for those who may read what is in a namespace."""

_PUBLISHED: Final = ((Kind.SLICE, RESOURCE_SLICES), (Kind.CLASS, DEVICE_CLASSES), (Kind.NODE, NODES))
_OPTIONAL: Final = ((Kind.TAINT_RULE, DEVICE_TAINT_RULES), (Kind.INVENTORY, NODE_INVENTORIES))
_FORBIDDEN: Final = 403
_UNNEEDED: Final = ("managedFields", "annotations")


def read_published(api: KubernetesApi) -> ClusterState:
    """The classes, the nodes and their devices, whatever of them is in use: nothing that a namespace has.

    Raises:
        ForbiddenError: These credentials may not list what is needed; says which ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    state = ClusterState()
    for kind, resource in _PUBLISHED:
        _put_all(state, kind, api, resource, None)
    return state


def read_cluster(api: KubernetesApi, namespace: str, *, features: Features | None = None) -> ClusterState:
    """The cluster, with the pods and templates of one namespace: claims are used in their own alone.

    DeviceTaintRules, NodeInventories and the kubelets' events about claims are read where they are served; where only
    those may not be listed, a note says so.

    Args:
        api: The API server.
        namespace: Of the claim or pod that is asked about.
        features: Which features the cluster's scheduler has; None for Kubernetes' defaults.

    Raises:
        ForbiddenError: These credentials may not list what is needed; says which ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    state = ClusterState(features=features)
    # Claims of all namespaces: one of another may have the device.
    for kind, resource in (*_PUBLISHED, (Kind.CLAIM, RESOURCE_CLAIMS)):
        _put_all(state, kind, api, resource, None)
    for kind, resource in ((Kind.POD, PODS), (Kind.TEMPLATE, RESOURCE_CLAIM_TEMPLATES)):
        _put_all(state, kind, api, resource, namespace, metadata_only=kind is Kind.TEMPLATE)
    for kind, resource, where, selector in (
        *((kind, resource, None, "") for kind, resource in _OPTIONAL),
        (Kind.EVENT, EVENTS, namespace, "reason=FailedPrepareDynamicResources"),
    ):
        try:
            _put_all(state, kind, api, resource, where, field_selector=selector)
        except NotFoundError:
            continue  # this server does not have that kind
        except ForbiddenError as error:
            if error.status != _FORBIDDEN:
                raise
            # RBAC answers before the server says whether it has the kind at all.
            state.notes.append(f"{resource} may not be listed and are taken for none")
    return state


def _put_all(
    state: ClusterState,
    kind: Kind,
    api: KubernetesApi,
    resource: Resource,
    namespace: str | None,
    *,
    metadata_only: bool = False,
    field_selector: str = "",
) -> None:
    def take(stored: JsonObject) -> JsonObject:
        # Page by page into the state, so that the objects of a large cluster are never all in memory as JSON.
        metadata: dict[str, Any] = stored.get("metadata") or {}
        for field in _UNNEEDED:
            metadata.pop(field, None)
        state.put(kind, stored)
        return {}

    try:
        api.list(
            resource,
            namespace=namespace,
            field_selector=field_selector,
            metadata_only=metadata_only,
            transform=take,
        )
    except ForbiddenError as error:
        if error.status != _FORBIDDEN:
            raise
        role = CLUSTER_ROLE if namespace is None else f"{_NAMESPACE_ROLE} in namespace {namespace}"
        raise ForbiddenError(
            error.message,
            hint=f"ask for the ClusterRole {role}; or let somebody who has it dump the cluster, and use --from",
            status=error.status,
            reason=error.reason,
        ) from error
