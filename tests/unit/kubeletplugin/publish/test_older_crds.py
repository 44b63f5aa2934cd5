"""What the plugin does where the API server's CRDs are older than it, and drop what it writes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.api import node_status
from driver.api import rootport_v1alpha1 as api
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory, InventorySource
from driver.objects.written_inventory import node_inventory
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType
from kubeletplugin.publish.inventory import NodePublisher
from tests.support.machines import gpu, node

GPU = DeviceName("gpu-0000-13-00-0")
NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
FINDINGS = (
    ConditionReport(type=ConditionType.READY, status=ConditionStatus.TRUE, reason="Ready", message="all is well"),
)
SICK = NodeHealth(
    watched=frozenset({GPU}),
    faults=(Fault(device=GPU, reason="Xid79", effect=Effect.NO_EXECUTE, since=NOW, message="gone"),),
)


class OldApiServer(HTTPServer):
    """Stores one NodeInventory, without the fields of the status that its CRD does not know."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stored: dict[str, Any] | None = None
        self.unknown: tuple[str, ...] = ()
        self.writes = 0
        self.refuses_gpus = False


class _Handler(BaseHTTPRequestHandler):
    server: OldApiServer

    def do_GET(self) -> None:
        missing = {"kind": "Status", "reason": "NotFound", "code": 404, "message": "no such thing"}
        self._answer(200, self.server.stored) if self.server.stored else self._answer(404, missing)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refuses_gpus and body.get("spec", {}).get("gpus"):
            message = "spec.gpus[0].memoryBytes: Invalid value"
            return self._answer(422, {"kind": "Status", "reason": "Invalid", "code": 422, "message": message})
        self.server.writes += 1
        status = {name: value for name, value in body.get("status", {}).items() if name not in self.server.unknown}
        metadata = {"name": "n", "generation": 1, "uid": "u", "resourceVersion": str(self.server.writes)}
        self.server.stored = {**(self.server.stored or {}), **body, "metadata": metadata, "status": status}
        return self._answer(200, self.server.stored)

    def _answer(self, code: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing."""


@pytest.fixture
def server() -> Iterator[OldApiServer]:
    with OldApiServer() as made:
        thread = threading.Thread(target=made.serve_forever, args=[0.05])
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def publisher(server: OldApiServer, tmp_path: Path) -> NodePublisher:
    named = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    cluster = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
    config = {"clusters": [cluster], "contexts": [named], "users": [{"name": "x", "user": {}}], "current-context": "x"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))
    spec = node_inventory(Inventory(node="n", source=InventorySource.LIVE))["spec"]
    return NodePublisher(
        KubernetesApi.connect(kubeconfig=kubeconfig),
        node="n",
        spec=lambda: spec,
        reports=lambda: FINDINGS,
        health=lambda: SICK,
        now=lambda: NOW,
    )


@pytest.mark.parametrize("unknown", [("watched", "faults"), ()], ids=["older-crd", "this-crd"])
def test_health_that_is_not_stored_is_told_once_and_not_written_again_and_again(
    publisher: NodePublisher, server: OldApiServer, unknown: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.unknown = unknown
    for _ in range(3):
        publisher.publish()
    assert server.writes == 2  # the spec and the status
    told = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    expected = "the API server does not store all of the status: update the CRDs to this version's"
    assert told == ([expected] if unknown else [])


def test_an_inventory_that_is_refused_leaves_an_empty_one_and_a_condition(
    publisher: NodePublisher, server: OldApiServer
) -> None:
    server.refuses_gpus = True
    spec = node_inventory(node(gpu("01", memory_bytes=2**63), name="n"))["spec"]
    reports: list[ConditionReport] = []
    refused = NodePublisher(
        publisher._api, node="n", spec=lambda: spec, reports=lambda: FINDINGS, report=reports.append, now=lambda: NOW
    )
    refused.publish()
    assert server.stored is not None
    assert server.stored["spec"]["counts"]["gpus"] == 0
    assert server.stored["status"]["conditions"]
    assert [(item.type, item.status) for item in reports] == [("InventoryAccepted", "False")]
    assert "memoryBytes" in reports[0].message
    server.refuses_gpus = False
    refused.publish()
    assert server.stored["spec"] == spec
    assert reports[-1].status is ConditionStatus.TRUE


@pytest.mark.parametrize("name", ["Condition", "DeviceFault", "DeviceRival", "NodeInventoryStatus"])
def test_the_status_has_the_fields_of_its_model(name: str) -> None:
    of_others = {"claims_to_prepare"}  # which the controller writes
    wanted = [field for field in getattr(api, name).model_fields if field not in of_others]
    assert [item.name for item in fields(getattr(node_status, name))] == wanted
