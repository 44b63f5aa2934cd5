"""What explain needs of a cluster, read once: for a command on a person's desk."""

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

__all__ = ["CLUSTER_ROLE", "read_cluster"]

CLUSTER_ROLE: Final = "rootport-explain"
"""The ClusterRole that allows what is read here (resourceclasses/rbac/explain.yaml)."""

_CLUSTER_WIDE: Final = (
    (Kind.SLICE, RESOURCE_SLICES),
    (Kind.CLASS, DEVICE_CLASSES),
    # Of all namespaces: a claim of another one may have the device.
    (Kind.CLAIM, RESOURCE_CLAIMS),
    (Kind.NODE, NODES),
)
_OPTIONAL: Final = ((Kind.TAINT_RULE, DEVICE_TAINT_RULES), (Kind.INVENTORY, NODE_INVENTORIES))
_FORBIDDEN: Final = 403
_UNNEEDED: Final = ("managedFields", "annotations")


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
    for kind, resource in _CLUSTER_WIDE:
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
        raise ForbiddenError(
            error.message,
            hint=f"explain must read all of a cluster's devices and claims: ask for the ClusterRole {CLUSTER_ROLE}; "
            "or dump what you may see and use --from",
            status=error.status,
            reason=error.reason,
        ) from error
