"""A scripted API server, for what a real one does too seldom to wait for."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi

__all__ = [
    "Answer",
    "ScriptedServer",
    "answer",
    "connect",
    "scripted",
    "scripted_api",
    "scripted_tls",
    "write_kubeconfig",
]


@dataclass
class Answer:
    """What the scripted server says: a status and an object; or nothing at all, and the connection is dropped."""

    body: dict[str, Any] | bytes = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    dropped: bool = False


class ScriptedServer:
    """An HTTP server with kept-alive connections that gives the next of ``answers`` to each request."""

    def __init__(self, folder: Path, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Answer] = []
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        scheme = "https" if tls else "http"
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", f"{scheme}://127.0.0.1:{self._server.server_port}")

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                self.rfile.read(length)
                script.requests.append(f"{self.command} {self.path}")
                script.headers.append(dict(self.headers))
                answer = script.answers.pop(0)
                if answer.dropped:
                    self.close_connection = True
                    return
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in (answer.headers | {"Content-Length": str(len(body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_PUT = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - as http.server names them

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def write_kubeconfig(path: Path, server: str) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[ScriptedServer]:
    server = ScriptedServer(tmp_path)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def scripted_tls(tmp_path: Path) -> Iterator[ScriptedServer]:
    """One that lets nobody in without ``certificate`` and ``key`` in the test's folder; its own are the same."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    names = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *names)
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ScriptedServer(tmp_path, context)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=[False, True], ids=["official client", "standard library"])
def connect(request: pytest.FixtureRequest) -> Callable[..., KubernetesApi]:
    """Connects, once with each of the two ways to send requests."""
    return partial(KubernetesApi.connect, small=request.param)


@pytest.fixture
def scripted_api(scripted: ScriptedServer, connect: Callable[..., KubernetesApi]) -> Iterator[KubernetesApi]:
    with connect(kubeconfig=scripted.kubeconfig, timeout_s=5) as api:
        yield api


@pytest.fixture
def answer() -> Callable[..., Answer]:
    return Answer
