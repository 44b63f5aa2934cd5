"""The controller's metrics by HTTPS: to who may get the path, whether the controller leads or not."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from driver.errors import NodeError
from tests.support.api_client import Client
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import start_controller
from tests.support.cluster.processes import Processes
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

Clients = Callable[[str], Client]


def test_only_callers_who_may_get_the_path_read_them(client: Clients, token_with: Callable[..., str]) -> None:
    reader = client(token_with("rootport-metrics-reader"))
    assert reader.get("/metrics").status == 200
    assert reader.get("/metrics").text == "rootport_leader 1\n"
    assert reader.get("/api/v1/nodes").status == 403
    assert client("").get("/metrics").status == 401
    refused = client(token_with("rootport-viewer")).get("/metrics")
    assert (refused.status, refused.text) == (403, "you may not get /metrics\n")


def test_the_right_is_to_this_path_alone(client: Clients, token_with: Callable[..., str]) -> None:
    assert client(token_with("rootport-metrics-reader")).get("/metrics/x").status == 404


def test_a_controller_that_does_not_lead_has_metrics_too(
    client: Clients, token_with: Callable[..., str], leader: type
) -> None:
    leader.problem = "another one leads"
    assert client(token_with("rootport-metrics-reader")).get("/metrics").status == 200


def test_the_answer_has_the_reason_why_they_cannot_be_made(
    client: Clients, token_with: Callable[..., str], page: list[object]
) -> None:
    page.append(NodeError("nothing answers"))
    said = client(token_with("rootport-metrics-reader")).get("/metrics")
    assert (said.status, said.text) == (500, "nothing answers\n")


def test_a_controller_can_keep_them_off_its_plain_port(
    installed: ControlPlane, token_with: Callable[..., str], tmp_path: object
) -> None:
    processes = Processes(tmp_path)  # type: ignore[arg-type]
    plain, secure = (free_port() for _ in range(2))
    try:
        start_controller(
            installed, processes, f"--health-port={plain}", f"--https-port={secure}", "--metrics-readers=nobody"
        )
        reader = Client(secure, token_with("rootport-metrics-reader"))
        eventually("the metrics", lambda: "rootport_leader" in _text(reader))
        assert _plain(plain, "/metrics").startswith("HTTP/1.1 404")
        assert _plain(plain, "/healthz").startswith("HTTP/1.1 200")
    finally:
        processes.stop()


def _text(client: Client) -> str:
    try:
        return client.get("/metrics").text
    except OSError:
        return ""  # not listening yet


def _plain(port: int, path: str) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()
