"""Probes and pages over HTTP."""

from __future__ import annotations

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from driver.adapters.http.metrics_page import MetricsPage
from driver.adapters.http.probe_server import ProbeServer
from driver.errors import NodeError
from driver.status.metric_family import family

METRICS = MetricsPage(lambda: [family("counter", "tests_total", "Tests.", ("kind",), [(("unit",), 3.0)])])


def fail(error: Exception) -> tuple[str, bytes]:
    raise error


@pytest.fixture
def answers() -> dict[str, str]:
    return {"/readyz": ""}


@pytest.fixture
def server(answers: dict[str, str]) -> Iterator[ProbeServer]:
    pages = {
        "/metrics": METRICS,
        "/node": lambda _: fail(NodeError("no GPU answers")),
        "/bug": lambda _: fail(KeyError()),
    }
    made = ProbeServer(0, {"/readyz": lambda: answers["/readyz"]}, pages=pages)
    made.start()
    yield made
    made.stop()


def probe(server: ProbeServer, path: str, host: str = "127.0.0.1", accept: str = "*/*") -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(f"http://{host}:{server.port}{path}", headers={"Accept": accept})
        with opener.open(request, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_check_decides(server: ProbeServer, answers: dict[str, str]) -> None:
    assert probe(server, "/readyz?verbose") == (200, "ok\n")
    answers["/readyz"] = "the cluster is being read"
    assert probe(server, "/readyz") == (503, "the cluster is being read\n")


def test_other_paths_are_not_found(server: ProbeServer) -> None:
    assert probe(server, "/metrics/x")[0] == 404


def test_a_taken_port_is_named(server: ProbeServer) -> None:
    with pytest.raises(NodeError, match=f"port {server.port}.*--health-port"):
        ProbeServer(server.port, {})


def test_metrics_come_in_the_form_that_is_asked_for(server: ProbeServer) -> None:
    status, text = probe(server, "/metrics")
    assert (status, text.splitlines()[:3]) == (
        200,
        ["# HELP tests_total Tests.", "# TYPE tests_total counter", 'tests_total{kind="unit"} 3.0'],
    )
    assert "process_resident_memory_bytes" in text
    _, text = probe(server, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert (text.splitlines()[1], text.splitlines()[-1]) == ("# TYPE tests counter", "# EOF")


def test_a_page_that_cannot_be_made_says_why(server: ProbeServer, caplog: pytest.LogCaptureFixture) -> None:
    assert probe(server, "/node") == (500, "no GPU answers\n")
    assert caplog.records == []
    assert probe(server, "/bug") == (500, "the page cannot be made: see the log\n")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert probe(server, "/readyz")[0] == 200


def test_a_client_that_goes_away_leaves_no_traceback(
    server: ProbeServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing resets
    assert probe(server, "/metrics")[0] == 200
    assert capfd.readouterr().err == ""
    assert caplog.records == []
