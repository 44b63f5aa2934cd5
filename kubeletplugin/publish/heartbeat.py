"""The node's heartbeat: a Lease that shows when this node's plugin was last alive.

One small write instead of an update of the NodeInventory, as kubelets do for their Nodes (k8s.io/api v0.36.3,
coordination/v1, ``Lease``). The controller takes the node's slices away when it is not renewed for long. Two instances
of a rolling update both renew it. The last one to stop releases it, as leaders do theirs (client-go,
tools/leaderelection): it has no holder then. Nothing is removed, since another instance may be starting.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, NotFoundError
from driver.adapters.kubernetes.resources import LEASES, JsonObject
from driver.api.times import micro_time_text
from kubeletplugin.options import LEASE_DURATION_S

__all__ = ["Heartbeat", "lease"]


def lease(*, namespace: str, node: str, instance: str, now: datetime) -> JsonObject:
    """Return the Lease with a new time of renewal.

    Args:
        namespace: Rootport's own.
        node: The node's name, and the Lease's.
        instance: Which plugin process renews it.
        now: The time of the renewal.
    """
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": node, "namespace": namespace},
        "spec": {
            "holderIdentity": instance,
            "leaseDurationSeconds": LEASE_DURATION_S,
            "renewTime": micro_time_text(now),
        },
    }


class Heartbeat:
    """Renews the Lease of one node.

    Args:
        api: The API server.
        namespace: Rootport's own.
        node: The node's name.
        instance: Which plugin process this is.
        may_begin: Whether the node may be taken for alive: what keeps its devices from being given twice is told.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        node: str,
        instance: str,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self._may_begin = may_begin
        self._api = api
        self._namespace = namespace
        self._node = node
        self._instance = instance

    def beat(self) -> None:
        """Renew the Lease; make it where there is none. Until it may begin, this does nothing.

        A merge patch needs no read before it and never conflicts with the other instance of a rolling update.

        Raises:
            ApiServerError: It could not be renewed.
        """
        if not self._may_begin():
            return
        wanted = lease(namespace=self._namespace, node=self._node, instance=self._instance, now=datetime.now(UTC))
        patch: JsonObject = {"spec": wanted["spec"]}
        try:
            self._api.merge_patch(LEASES, self._node, patch, namespace=self._namespace)
        except NotFoundError:
            try:
                self._api.create(LEASES, wanted, namespace=self._namespace)
            except AlreadyExistsError:  # the other instance was faster
                self._api.merge_patch(LEASES, self._node, patch, namespace=self._namespace)

    def release(self) -> None:
        """Release the Lease, which then has no holder.

        Raises:
            ApiServerError: It could not be released.
        """
        with suppress(NotFoundError):
            self._api.merge_patch(LEASES, self._node, {"spec": {"holderIdentity": ""}}, namespace=self._namespace)
