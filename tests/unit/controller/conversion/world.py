"""A clock, an API server in memory, and the two parts of the conversion that write to it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

from controller.conversion.collector import TemplateCollector
from controller.conversion.counts import ConversionCounter
from controller.conversion.lifetime import Lifetime
from controller.conversion.templates import Templates
from tests.unit.controller.conversion.stored_api import StoredApi

NAME = "rootport-0123456789ab"
NAMESPACE = "team-a"
LIFETIME = Lifetime()
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def template(name: str = NAME, *, count: int | None = None, namespace: str = NAMESPACE) -> dict[str, Any]:
    """A template as the converter makes it."""
    exactly: dict[str, Any] = {"deviceClassName": "gpu.rootport.dev"}
    if count is not None:
        exactly["count"] = count
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace, "labels": {"rootport.dev/converted": "true"}},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }


def pod(name: str, *templates: str, namespace: str = NAMESPACE, phase: str = "Pending") -> dict[str, Any]:
    """A pod that names templates."""
    claims = [{"name": f"gpu-{at}", "resourceClaimTemplateName": name} for at, name in enumerate(templates)]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main"}], "resourceClaims": claims},
        "status": {"phase": phase},
    }


class World:
    """The webhook of one replica, and the leader's collector, whose clock may be wrong."""

    def __init__(self, *, webhook_clock_s: float = 0.0, collector_clock_s: float = 0.0) -> None:
        self.now = BEGIN
        self.server = StoredApi(now=lambda: self.now)
        self.counts = ConversionCounter()
        self.monotonic = 0.0
        self.webhook_clock_s = webhook_clock_s
        self.templates = self.webhook()
        self.collector = TemplateCollector(
            self.server.api(),
            self.counts,
            lifetime=LIFETIME,
            now=lambda: self.now + timedelta(seconds=collector_clock_s),
        )

    def webhook(self) -> Templates:
        """Another replica's."""
        return Templates(
            self.server.api(),
            self.counts,
            lifetime=LIFETIME,
            now=lambda: self.now + timedelta(seconds=self.webhook_clock_s),
            clock=lambda: self.monotonic,
        )

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.monotonic += seconds

    def collect(self) -> int:
        stop = threading.Event()
        stop.wait = lambda timeout=None: False  # type: ignore[method-assign]
        return self.collector.collect(stop)
