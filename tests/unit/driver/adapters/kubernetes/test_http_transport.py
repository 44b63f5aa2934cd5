"""The requests of every node's plugin, over the standard library: against local servers by TLS, and broken ones."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.credentials import kubeconfig_credentials, service_account
from driver.adapters.kubernetes.errors import ApiServerError, TooLargeError, UnavailableError
from driver.adapters.kubernetes.http_transport import HttpTransport
from driver.adapters.kubernetes.resources import DEVICES, NODES
from driver.errors import InputError
from tests.support.scripted_api import Answer, ScriptedServer, write_kubeconfig

OBJECT = {"metadata": {"name": "n"}}


def certificate(folder: Path, name: str, host: str = "IP:127.0.0.1") -> Path:
    """A certificate, its own authority; its key is beside it."""
    path = folder / f"{name}.crt"
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={host}")
    command = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    subprocess.run(
        [*command, "-keyout", path.with_suffix(".key"), "-out", path, *names], check=True, capture_output=True
    )
    return path


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Path], ScriptedServer]]:
    """Starts a server by TLS with a certificate."""
    servers = []

    def start(of: Path) -> ScriptedServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(of, of.with_suffix(".key"))
        servers.append(ScriptedServer(tmp_path, context))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


class Service:
    """A server of one function for each connection."""

    def __init__(self, folder: Path, handle: Callable[[socket.socket], None]) -> None:
        self.connections = 0
        self._handle = handle
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.kubeconfig = write_kubeconfig(folder / "service", f"http://127.0.0.1:{self._socket.getsockname()[1]}")
        self._thread = threading.Thread(target=self._run)
        self._threads: list[threading.Thread] = []
        self._thread.start()

    def _run(self) -> None:
        while True:
            accepted, _ = self._socket.accept()
            if self._handle is None:
                accepted.close()
                return
            self.connections += 1
            self._threads.append(threading.Thread(target=self._serve, args=[accepted, self._handle]))
            self._threads[-1].start()

    @staticmethod
    def _serve(accepted: socket.socket, handle: Callable[[socket.socket], None]) -> None:
        with accepted, suppress(OSError):
            handle(accepted)

    def stop(self) -> None:
        self._handle = None  # type: ignore[assignment]
        socket.create_connection(self._socket.getsockname()).close()
        self._thread.join()
        for thread in self._threads:
            thread.join()
        self._socket.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[[Callable[[socket.socket], None]], Service]]:
    made = []

    def make(handle: Callable[[socket.socket], None]) -> Service:
        made.append(Service(tmp_path, handle))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def answered(body: bytes, *, length: int | None = None, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body) if length is None else length,
        body,
    )


def in_pod(server: ScriptedServer, **arguments: Any) -> KubernetesApi:
    url = urlsplit(yaml.safe_load(server.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    environment = {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port)}
    return KubernetesApi(Connection(HttpTransport(service_account(environment, **arguments)), 5))


def test_the_token_is_read_again_each_minute(serve: Callable[[Path], ScriptedServer], tmp_path: Path) -> None:
    now = 0.0
    authority = certificate(tmp_path, "server")
    server = serve(authority)
    server.answers = [Answer(OBJECT)] * 3
    token = tmp_path / "token"
    token.write_text("first\n")
    with in_pod(server, token_file=token, authority=authority, now=lambda: now) as api:
        api.get(NODES, "n")
        token.write_text("second")
        now = 59.0
        api.get(NODES, "n")
        now = 61.0
        api.get(NODES, "n")
        assert [each["Authorization"] for each in server.headers] == ["Bearer first", "Bearer first", "Bearer second"]
        token.unlink()
        now = 122.0
        with pytest.raises(UnavailableError, match="token cannot be read"):
            api.get(NODES, "n")
        token.write_text("secret\r\nX-Header: 1")
        with pytest.raises(UnavailableError, match="token cannot be read") as caught:
            api.get(NODES, "n")
    assert "secret" not in str(caught.value)
    assert len(server.requests) == 3


def test_an_authority_that_was_replaced_verifies_the_next_connection(
    serve: Callable[[Path], ScriptedServer], tmp_path: Path
) -> None:
    old, new = certificate(tmp_path, "old"), certificate(tmp_path, "new")
    server = serve(new)
    server.answers = [Answer(OBJECT)]
    authority, token = tmp_path / "ca.crt", tmp_path / "token"
    shutil.copy(old, authority)
    token.write_text("t")
    with in_pod(server, token_file=token, authority=authority) as api:
        with pytest.raises(UnavailableError, match=r"no TLS connection .*certificate authority"):
            api.get(NODES, "n")
        shutil.copy(new, authority)
        assert api.get(NODES, "n") == OBJECT


@pytest.mark.parametrize(
    ("cluster", "fits"),
    [
        pytest.param({}, False, id="another name"),
        pytest.param({"tls-server-name": "api.example"}, True, id="the name is given"),
        pytest.param({"insecure-skip-tls-verify": True}, True, id="not verified"),
    ],
)
def test_the_servers_name_is_verified(
    serve: Callable[[Path], ScriptedServer], tmp_path: Path, cluster: dict[str, Any], fits: bool
) -> None:
    authority = certificate(tmp_path, "server", "DNS:api.example")
    server = serve(authority)
    server.answers = [Answer(OBJECT)]
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["clusters"][0]["cluster"] |= {"certificate-authority": authority.name} | cluster
    server.kubeconfig.write_text(yaml.safe_dump(config))
    with KubernetesApi.connect(kubeconfig=server.kubeconfig, small=True) as api:
        if fits:
            assert api.get(NODES, "n") == OBJECT
        else:
            with pytest.raises(UnavailableError, match="no TLS connection"):
                api.get(NODES, "n")


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_refusal_leaves_the_connection_for_the_next_request(service: Any, status: int) -> None:
    refused = json.dumps({"kind": "Status", "message": "no"}).encode()

    def handle(peer: socket.socket) -> None:
        for body, line in ((refused, f"{status} No"), (b"{}", "200 OK")):
            peer.recv(65536)
            peer.sendall(answered(body, status=line))
        peer.recv(1)

    server = service(handle)
    with KubernetesApi.connect(kubeconfig=server.kubeconfig, small=True) as api:
        with pytest.raises(ApiServerError) as caught:
            api.get(NODES, "n")
        api.get(NODES, "n")
    assert (caught.value.status, caught.value.retry_helps) == (status, status in (429, 500, 503))
    assert server.connections == 1


def test_a_write_goes_over_a_new_connection_once_the_idle_one_was_dropped(service: Any) -> None:
    def handle(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(answered(b"{}"))

    server = service(handle)
    with KubernetesApi.connect(kubeconfig=server.kubeconfig, small=True) as api:
        for _ in range(3):
            api.merge_patch(DEVICES, "n", {"a": 1})
            time.sleep(0.05)
    assert server.connections == 3


def test_a_body_that_is_cut_off_is_no_answer_and_is_asked_for_once_more(service: Any) -> None:
    def handle(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(answered(b'{"metadata": ', length=1000))

    server = service(handle)
    with (
        KubernetesApi.connect(kubeconfig=server.kubeconfig, small=True) as api,
        pytest.raises(UnavailableError, match="no answer from the API server"),
    ):
        api.get(NODES, "n")
    assert server.connections == 2


def test_a_body_that_comes_drop_by_drop_is_given_up(service: Any) -> None:
    def handle(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(answered(b"", length=1000))
        for _ in range(100):
            peer.sendall(b" ")
            time.sleep(0.05)

    started = time.monotonic()
    with (
        KubernetesApi.connect(kubeconfig=service(handle).kubeconfig, timeout_s=0.1, small=True) as api,
        pytest.raises(UnavailableError, match=r"not complete after 0\.6 s"),
    ):
        api.get(NODES, "n")
    assert time.monotonic() - started < 3


def test_a_body_without_end_is_dropped_at_the_limit(service: Any) -> None:
    sent = 0

    def handle(peer: socket.socket) -> None:
        nonlocal sent
        peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 200 * 1024**2:
            peer.sendall(b"10000\r\n%s\r\n" % (b"x" * 0x10000))
            sent += 0x10000

    with KubernetesApi.connect(kubeconfig=service(handle).kubeconfig, small=True) as api, pytest.raises(TooLargeError):
        api.get(NODES, "n")
    assert sent < 40 * 1024**2


@pytest.mark.parametrize(
    "line",
    [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 100_000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 999],
)
def test_what_is_no_http_is_no_answer(service: Any, line: bytes) -> None:
    def handle(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.sendall(line)

    with (
        KubernetesApi.connect(kubeconfig=service(handle).kubeconfig, small=True) as api,
        pytest.raises(UnavailableError, match="no answer from the API server"),
    ):
        api.get(NODES, "n")


def test_calls_at_the_same_time_do_not_wait_for_each_other_and_their_connections_are_kept(service: Any) -> None:
    meeting = threading.Barrier(4)

    def handle(peer: socket.socket) -> None:
        while peer.recv(65536):
            meeting.wait(5)
            peer.sendall(answered(b"{}"))

    server = service(handle)
    with KubernetesApi.connect(kubeconfig=server.kubeconfig, small=True) as api, ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            list(pool.map(lambda _: api.get(NODES, "n"), range(4)))
    assert server.connections == 4


@pytest.mark.parametrize(
    ("part", "value"),
    [
        pytest.param("users", {"exec": {"command": "x"}}, id="a credential plugin"),
        pytest.param("users", {"username": "u", "password": "p"}, id="a password"),
        pytest.param("users", {"auth-provider": {"name": "oidc"}}, id="OpenID Connect"),
        pytest.param("clusters", {"server": "https://h", "proxy-url": "http://p"}, id="a proxy"),
    ],
)
def test_what_only_the_official_client_can_do_is_left_to_it(tmp_path: Path, part: str, value: dict[str, Any]) -> None:
    path = write_kubeconfig(tmp_path / "config", "https://h")
    assert kubeconfig_credentials(path) is not None
    config = yaml.safe_load(path.read_text())
    config[part][0][part[:-1]] = value
    path.write_text(yaml.safe_dump(config))
    assert kubeconfig_credentials(path) is None


def test_a_pod_without_a_token_has_no_service_account(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no service account to reach the API server with: .*No such file"):
        service_account(
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"},
            token_file=tmp_path / "none",
            authority=certificate(tmp_path, "a"),
        )
