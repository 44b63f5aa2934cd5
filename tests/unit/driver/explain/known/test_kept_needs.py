"""What is kept of a pod for placement is all that is read of it, also beside what every pod has."""

from __future__ import annotations

from typing import Any

import pytest

from driver.explain.known.needs_reading import kept_needs, read_needs

TOKEN = {"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
DISK = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


@pytest.mark.parametrize(
    "volumes", [[], [TOKEN], [DISK], [TOKEN, DISK], [DISK, TOKEN]], ids=["none", "token", "disk", "both", "both-ways"]
)
def test_a_pod_keeps_its_requests_whatever_volumes_it_has(volumes: list[dict[str, Any]]) -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}]
    spec: dict[str, Any] = {"containers": containers, "volumes": volumes}
    whole = read_needs({"metadata": {"name": "a", "namespace": "b"}, "spec": spec})
    assert whole.requests == {"cpu": 4000, "memory": 1 << 30}
    assert read_needs({"metadata": {"name": "a", "namespace": "b"}, "spec": kept_needs(spec)}) == whole
