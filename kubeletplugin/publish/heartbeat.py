"""The node's heartbeat: a Lease that says when this node's plugin was last alive.

One small write instead of an update of the NodeInventory, as kubelets do for their Nodes (k8s.io/api v0.36.3,
coordination/v1, ``Lease``). The controller takes the node's slices away when it is not renewed for long. Two instances
of a rolling update both renew it. The last one to stop releases it, as leaders do theirs (client-go,
tools/leaderelection): it has no holder then. Nothing is removed, since another instance may be starting.
"""

from __future__ import annotations

import time
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
    """The Lease as it is to be now.

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
        on_late: Called after a renewal that came late: what the controller has said of this node meanwhile is over.
        now: Tells the time.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        node: str,
        instance: str,
        on_late: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._node = node
        self._instance = instance
        self._on_late = on_late
        self._now = now
        self._beaten_at: float | None = None

    def beat(self) -> None:
        """Renew the Lease; make it where there is none.

        A merge patch needs no read before it and never conflicts with the other instance of a rolling update.

        Raises:
            ApiServerError: It could not be renewed.
        """
        self._renew()
        beaten_at, self._beaten_at = self._beaten_at, time.monotonic()
        if beaten_at is not None and self._beaten_at - beaten_at > LEASE_DURATION_S / 2:
            self._on_late()

    def _renew(self) -> None:
        wanted = lease(namespace=self._namespace, node=self._node, instance=self._instance, now=self._now())
        patch: JsonObject = {"spec": wanted["spec"]}
        try:
            self._api.merge_patch(LEASES, self._node, patch, namespace=self._namespace)
        except NotFoundError:
            try:
                self._api.create(LEASES, wanted, namespace=self._namespace)
            except AlreadyExistsError:  # the other instance was faster
                self._api.merge_patch(LEASES, self._node, patch, namespace=self._namespace)

    def release(self) -> None:
        """Say that nobody renews the Lease any more.

        Raises:
            ApiServerError: It could not be said.
        """
        with suppress(NotFoundError):
            self._api.merge_patch(LEASES, self._node, {"spec": {"holderIdentity": ""}}, namespace=self._namespace)
