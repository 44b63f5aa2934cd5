"""Probes over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from driver.adapters.health_server import HealthServer
from driver.errors import NodeError


@pytest.fixture
def answers() -> dict[str, str]:
    return {"/readyz": ""}


@pytest.fixture
def server(answers: dict[str, str]) -> Iterator[HealthServer]:
    made = HealthServer(0, {"/readyz": lambda: answers["/readyz"]})
    made.start()
    yield made
    made.stop()


def probe(server: HealthServer, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{host}:{server.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_check_decides(server: HealthServer, answers: dict[str, str]) -> None:
    assert probe(server, "/readyz?verbose") == (200, "ok\n")
    answers["/readyz"] = "the cluster is being read"
    assert probe(server, "/readyz") == (503, "the cluster is being read\n")


def test_other_paths_are_not_found(server: HealthServer) -> None:
    assert probe(server, "/metrics")[0] == 404


def test_a_taken_port_is_named(server: HealthServer) -> None:
    with pytest.raises(NodeError, match=f"port {server.port}.*--health-port"):
        HealthServer(server.port, {})
