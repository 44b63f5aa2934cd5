"""Reads once what ``rootport status`` and ``rootport top`` need of a cluster, for a user's command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES, PODS, JsonObject, Resource
from driver.errors import InputError
from driver.objects.names import NODE_LABEL, node_label
from driver.status.observation import Observation, ObservationBuilder

__all__ = ["CLUSTER_ROLE", "NAMESPACE", "PluginPod", "plugin_metrics", "plugin_pods", "read_observed"]

CLUSTER_ROLE: Final = "rootport-viewer"
"""The ClusterRole that allows the reads of this module (resourceclasses/rbac)."""

NAMESPACE: Final = "rootport-system"
"""The namespace of the plugin's pods: the admission policies fix the name."""

_PLUGIN: Final = "app.kubernetes.io/name=rootport,app.kubernetes.io/component=kubelet-plugin"
_PORT_NAME: Final = "health"
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPod:
    """A pod of the kubelet plugin.

    Attributes:
        name: The pod's name.
        node: Its node.
        port: The port of its metrics; None if it declares none.
        is_ready: Whether it is ready.
        created: When it was created, as the API server writes it.
    """

    name: str
    node: str
    port: int | None
    is_ready: bool
    created: str


def read_observed(
    api: KubernetesApi, *, selector: str = "", node: str | None = None, seen: Callable[[], None] = lambda: None
) -> Observation:
    """Return the Device objects and the readiness of their nodes.

    Args:
        api: The API server.
        selector: Read only Device objects with these labels, and their nodes.
        node: Read only this node.
        seen: Called for each object that was read.

    Raises:
        InputError: Rootport's CRDs are not installed, or there is no such node.
        ForbiddenError: These credentials may not list what is needed; the hint names the ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    builder = ObservationBuilder(node)

    # Object by object, so that those of a large cluster are never all in memory as JSON.
    def add_device(stored: JsonObject) -> JsonObject:
        seen()
        builder.add_device(stored)
        return {}

    def add_inventory(stored: JsonObject) -> JsonObject:
        seen()
        builder.add_inventory(stored)
        return {}

    wanted = [part for part in (selector, f"{NODE_LABEL}={node_label(node)}" if node else "") if part]
    with _explained(DEVICES):
        api.list(DEVICES, label_selector=",".join(wanted), transform=add_device)
    with _explained(NODE_INVENTORIES):
        if node is None:
            api.list(NODE_INVENTORIES, transform=add_inventory)
        else:
            api.list(NODE_INVENTORIES, field_selector=f"metadata.name={node}", transform=add_inventory)
    return builder.result(is_selected=bool(selector), notes=api.skipped.notes())


def plugin_pods(api: KubernetesApi, node: str | None = None) -> dict[str, PluginPod]:
    """Return the plugin's pod of each node; of two during an update the ready one, else the newer one.

    Args:
        api: The API server.
        node: Read only this node.

    Raises:
        ForbiddenError: These credentials may not list the pods; the hint names the rights to ask for.
        ApiServerError: The server did not answer.
    """
    with _explained(PODS):
        listed = api.list(
            PODS,
            namespace=NAMESPACE,
            label_selector=_PLUGIN,
            field_selector=f"spec.nodeName={node}" if node else "",
            transform=_slim,
        )
    chosen: dict[str, PluginPod] = {}
    for pod in sorted(map(_plugin_pod, listed.items), key=lambda pod: (pod.is_ready, pod.created)):
        if pod.node:
            chosen[pod.node] = pod
    return chosen


def plugin_metrics(api: KubernetesApi, pod: PluginPod) -> str:
    """Return the page of metrics of a plugin's pod.

    Raises:
        InputError: The pod serves no metrics.
        ApiServerError: The pod does not answer, or these credentials do not allow the request.
    """
    if pod.port is None:
        raise InputError(f"pod {pod.name} has no port named {_PORT_NAME}", hint="was --health-port taken from it?")
    return api.read_through_pod(pod.name, "metrics", namespace=NAMESPACE, port=pod.port)


def _slim(stored: JsonObject) -> JsonObject:
    return {field: stored.get(field) or {} for field in ("metadata", "spec", "status")}


def _plugin_pod(stored: JsonObject) -> PluginPod:
    spec: dict[str, Any] = stored["spec"]
    ports = [port for container in spec.get("containers") or () for port in container.get("ports") or ()]
    ready = [item.get("status") for item in stored["status"].get("conditions") or () if item.get("type") == "Ready"]
    return PluginPod(
        name=stored["metadata"]["name"],
        node=spec.get("nodeName") or "",
        port=next((port["containerPort"] for port in ports if port.get("name") == _PORT_NAME), None),
        is_ready=ready == ["True"],
        created=stored["metadata"].get("creationTimestamp") or "",
    )


@contextmanager
def _explained(resource: Resource) -> Iterator[None]:
    """Turn refusals of the API server into errors that say what the user can do."""
    try:
        yield
    except NotFoundError as error:
        raise InputError(
            f"this cluster has no {resource}: Rootport is not installed there, or an older one is",
            hint="is it the right cluster? (--context)",
        ) from error
    except ForbiddenError as error:
        if error.status != _FORBIDDEN:
            raise
        asked = f"the ClusterRole {CLUSTER_ROLE}"
        if resource is PODS:
            asked = f"the right to list pods and get pods/proxy in namespace {NAMESPACE}"
        raise ForbiddenError(
            error.message, hint=f"ask for {asked}", status=error.status, reason=error.reason
        ) from error
