"""What ``rootport status`` and ``rootport top`` need of a cluster, read once: for a command on a person's desk."""

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
from driver.status.observed import Observed, Observing

__all__ = ["CLUSTER_ROLE", "NAMESPACE", "PluginPod", "plugin_metrics", "plugin_pods", "read_observed"]

CLUSTER_ROLE: Final = "rootport-viewer"
"""The ClusterRole that allows what is read here (resourceclasses/rbac)."""

NAMESPACE: Final = "rootport-system"
"""Where the plugin's pods are: the admission policies fix the name."""

_PLUGIN: Final = "app.kubernetes.io/name=rootport,app.kubernetes.io/component=kubelet-plugin"
_PORT_NAME: Final = "health"
_FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginPod:
    """A pod of the kubelet plugin.

    Attributes:
        name: The pod's name.
        node: Its node.
        port: Where it serves its metrics; None where it says nowhere.
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
) -> Observed:
    """The Device objects and what is known of their nodes.

    Args:
        api: The API server.
        selector: Only Device objects with these labels, and their nodes.
        node: Only this one.
        seen: Called for each object that was read.

    Raises:
        InputError: Rootport's CRDs are not installed, or there is no such node.
        ForbiddenError: These credentials may not list what is needed; says which ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """
    observing = Observing(node)

    # Object by object, so that those of a large cluster are never all in memory as JSON.
    def take_device(stored: JsonObject) -> JsonObject:
        seen()
        observing.take_device(stored)
        return {}

    def take_inventory(stored: JsonObject) -> JsonObject:
        seen()
        observing.take_inventory(stored)
        return {}

    wanted = [part for part in (selector, f"{NODE_LABEL}={node_label(node)}" if node else "") if part]
    with _explained(DEVICES):
        api.list(DEVICES, label_selector=",".join(wanted), transform=take_device)
    with _explained(NODE_INVENTORIES):
        if node is None:
            api.list(NODE_INVENTORIES, transform=take_inventory)
        else:
            api.list(NODE_INVENTORIES, field_selector=f"metadata.name={node}", transform=take_inventory)
    return observing.result(is_selected=bool(selector), notes=api.skipped.notes())


def plugin_pods(api: KubernetesApi, node: str | None = None) -> dict[str, PluginPod]:
    """The plugin's pod of each node; of two during an update the one that is ready, else the newer one.

    Args:
        api: The API server.
        node: Only of this one.

    Raises:
        ForbiddenError: These credentials may not list the pods; says which rights to ask for.
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
    """The page of metrics of a plugin's pod.

    Raises:
        InputError: The pod serves none.
        ApiServerError: It does not answer, or these credentials may not ask it.
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
    """Turns what the API server refuses into what the reader can do about it."""
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
