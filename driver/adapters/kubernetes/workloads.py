"""Lists the workloads of a cluster: what people applied, and the pods that other controllers made.

Also the extended resources that its DeviceClasses serve, which workloads need no claims for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import DEVICE_CLASSES, PODS, JsonObject, Resource

__all__ = ["each_workload", "served_resources"]

_WORKLOADS: Final = (
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True),
    Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True),
    Resource("batch", "v1", "cronjobs", "CronJob", namespaced=True),
    Resource("batch", "v1", "jobs", "Job", namespaced=True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", namespaced=True),
    PODS,
)
"""Owners before what they own. The kinds of operators (JobSet, PyTorchJob) are seen by their Jobs and pods."""
_FORBIDDEN: Final = 403


def each_workload(api: KubernetesApi, namespace: str | None, take: Callable[[JsonObject], None]) -> None:
    """Call ``take`` with each workload and pod, owners before what they own. Pages alone are in memory.

    Args:
        api: The API server.
        namespace: The namespace; None for all.
        take: Called for each object. One for which it raises counts as skipped.

    Raises:
        ForbiddenError: These credentials may not list them; the hint names the ClusterRole to ask for.
        ApiServerError: The server did not answer.
    """

    def taken(stored: JsonObject) -> JsonObject:
        take(stored)
        return {}

    where = "in all namespaces, or name one of them with -n" if namespace is None else f"in namespace {namespace}"
    for resource in _WORKLOADS:
        try:
            api.list(resource, namespace=namespace, transform=taken)
        except ForbiddenError as error:
            if error.status != _FORBIDDEN:
                raise
            raise ForbiddenError(
                error.message,
                hint=f"ask for the ClusterRole view {where}; or dump them: kubectl get"
                " deployments,statefulsets,daemonsets,cronjobs,jobs,replicasets,pods -A -o json",
                status=error.status,
                reason=error.reason,
            ) from error


def served_resources(api: KubernetesApi) -> frozenset[str] | None:
    """Return the extended resources that DeviceClasses serve; None if these credentials may not list the classes.

    Args:
        api: The API server. One without DeviceClasses serves none.

    Raises:
        ApiServerError: The server did not answer.
    """
    found: set[str] = set()

    def taken(stored: JsonObject) -> JsonObject:
        name = stored["spec"].get("extendedResourceName")
        found.update([name] if isinstance(name, str) else ())
        return {}

    try:
        api.list(DEVICE_CLASSES, transform=taken)
    except ForbiddenError as error:
        if error.status != _FORBIDDEN:
            raise
        return None
    except NotFoundError:
        return frozenset()
    return frozenset(found)
