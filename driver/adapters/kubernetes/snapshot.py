"""Reads once what explain and lint need of a cluster, for a user's command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULE_VERSIONS,
    EVENTS,
    LEASES,
    NODE_INVENTORIES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.adapters.kubernetes.status_objects import NAMESPACE
from driver.allocator.features import Features
from driver.explain.known.cluster import Kind
from driver.explain.known.placing import LEASE, Placing
from driver.explain.known.state import ClusterState
from driver.model.managed_nodes import GATE

__all__ = ["CLUSTER_ROLE", "read_cluster", "read_published"]

CLUSTER_ROLE: Final = "rootport-explain"
"""The ClusterRole that allows the cluster-wide reads (resourceclasses/rbac/explain.yaml)."""
_NAMESPACE_ROLE: Final = "view"
"""Kubernetes' own role for readers of a namespace."""

_PUBLISHED: Final = ((Kind.SLICE, RESOURCE_SLICES), (Kind.CLASS, DEVICE_CLASSES), (Kind.NODE, NODES))
# Claims of all namespaces: one of another may have the device.
_OF_ALL: Final = (*_PUBLISHED, (Kind.CLAIM, RESOURCE_CLAIMS))
_OPTIONAL: Final = ((Kind.TAINT_RULE, DEVICE_TAINT_RULE_VERSIONS), (Kind.INVENTORY, (NODE_INVENTORIES,)))
"""Kinds that a server may not have, with the versions in which it may have them."""
_FORBIDDEN: Final = 403


def read_published(api: KubernetesApi) -> ClusterState:
    """Return the cluster's classes, nodes and devices, without anything that has a namespace.

    Raises:
        ForbiddenError: These credentials may not list what is needed; the hint names the ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    state = ClusterState()
    for kind, resource in _PUBLISHED:
        _put_all(state, kind, api, resource, None)
    _note_skipped(state, api, {str(resource): kind for kind, resource in _PUBLISHED})
    return state


def read_cluster(
    api: KubernetesApi,
    namespace: str | None,
    *,
    features: Features | None = None,
    seen: Callable[[], None] = lambda: None,
) -> ClusterState:
    """Return the cluster, with the pods and templates of one namespace: claims are used only in their own.

    DeviceTaintRules, NodeInventories and the kubelets' events about claims are read where they are served; if only
    those may not be listed, a note says so.

    Args:
        api: The API server.
        namespace: The namespace of the claim or pod to explain; None for all namespaces.
        features: The features of the cluster's scheduler; None for Kubernetes' defaults.
        seen: Called for each object.

    Raises:
        ForbiddenError: These credentials may not list what is needed; the hint names the ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    state = ClusterState(features=features)
    for kind, resource in _OF_ALL:
        _put_all(state, kind, api, resource, None, seen=seen)
    for kind, resource in ((Kind.POD, PODS), (Kind.TEMPLATE, RESOURCE_CLAIM_TEMPLATES)):
        _put_all(state, kind, api, resource, namespace, metadata_only=kind is Kind.TEMPLATE, seen=seen)
    for kind, versions, where, selector in (
        *((kind, versions, None, "") for kind, versions in _OPTIONAL),
        (Kind.EVENT, (EVENTS,), namespace, "reason=FailedPrepareDynamicResources"),
    ):
        try:
            for resource in versions:
                with suppress(NotFoundError):  # this server does not have that kind in that version
                    _put_all(state, kind, api, resource, where, field_selector=selector, seen=seen)
                    break
        except ForbiddenError as error:
            if error.status != _FORBIDDEN:
                raise
            # RBAC refuses before the server reports whether it has the kind at all.
            state.notes.append(f"{versions[0]} may not be listed and are taken for none")
    state.clock = lambda: datetime.now(UTC)
    _put_leader(state, api)
    kinds = {str(resource): kind for kind, resource in _OF_ALL}
    kinds |= {str(resource): kind for kind, versions in _OPTIONAL for resource in versions}
    _note_skipped(state, api, kinds)
    return state


def _put_leader(state: ClusterState, api: KubernetesApi) -> None:
    """Read which controller leads, and whether it places, where some node or pod waits for that."""
    if not state.managed_nodes and not any(GATE in pod.gates for key in state.pod_keys() if (pod := state.pod(key))):
        return
    try:
        state.put(Kind.LEASE, api.get(LEASES, LEASE, namespace=NAMESPACE))
    except NotFoundError:
        state.placing = Placing()
    except ForbiddenError as error:
        if error.status != _FORBIDDEN:
            raise
        state.notes.append(f"Lease {NAMESPACE}/{LEASE} may not be read: whether a controller places is not known")


def _note_skipped(state: ClusterState, api: KubernetesApi, kinds: Mapping[str, Kind]) -> None:
    """Note the objects that the lists left out, by their resource's name."""
    for (name, _), count in api.skipped.so_far().items():
        if name in kinds:
            state.left_out.add_unnamed(kinds[name], count)
    state.notes += api.skipped.notes()


def _put_all(
    state: ClusterState,
    kind: Kind,
    api: KubernetesApi,
    resource: Resource,
    namespace: str | None,
    *,
    metadata_only: bool = False,
    field_selector: str = "",
    seen: Callable[[], None] = lambda: None,
) -> None:
    def take(stored: JsonObject) -> JsonObject:
        seen()
        # Page by page into the state, so that the objects of a large cluster are never all in memory as JSON.
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
        if namespace is not None:
            role = f"{_NAMESPACE_ROLE} in namespace {namespace}"
        elif kind in {Kind.POD, Kind.TEMPLATE}:
            role = f"{_NAMESPACE_ROLE} in all namespaces, or name one of them with -n"
        else:
            role = CLUSTER_ROLE
        raise ForbiddenError(
            error.message,
            hint=f"ask for the ClusterRole {role}; or let somebody who has it dump the cluster, and use --from",
            status=error.status,
            reason=error.reason,
        ) from error
