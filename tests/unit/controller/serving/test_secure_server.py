"""The HTTPS server met by real clients over real sockets."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from controller.serving.certificates import Authority, issue
from controller.serving.secure_server import MAX_BODY_BYTES, SecureServer
from driver.adapters.http.exchange import Request, Response

_NAMES = ("127.0.0.1", "localhost")


class Served:
    """A server, and a client that trusts it."""

    def __init__(self, server: SecureServer) -> None:
        self.server = server
        self.authority = self.renew()
        server.start()

    def renew(self) -> Authority:
        certificate, self.authority = issue(_NAMES, now=datetime.now(UTC), valid=timedelta(hours=1))
        self.server.use(certificate.pem, certificate.key)
        return self.authority

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, str]:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        client = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=10)
        try:
            client.request(method, path, body or None, headers or {})
            answer = client.getresponse()
            return answer.status, answer.read().decode()
        finally:
            client.close()

    def plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=10)


def echo(request: Request) -> Response:
    return Response.of_json(
        [request.method, request.path, dict(request.query), request.headers.get("x-test", ""), len(request.body)]
    )


def fail(_request: Request) -> Response:
    raise ValueError("a secret")


@pytest.fixture
def served() -> Iterator[Served]:
    routes = {"/echo": echo, "/echo/deep": lambda _: Response.of_text("deep", status=202), "/fail": fail}
    server = SecureServer(0, routes, timeout_s=1.0, max_requests=2)
    made = Served(server)
    yield made
    server.stop()


def test_a_request_reaches_its_route(served: Served) -> None:
    status, text = served.ask("POST", "/echo/a%2Fb?x=1&y=", b"12345", {"X-Test": "t"})
    assert (status, text) == (200, '["POST","/echo/a%2Fb",{"x":"1","y":""},"t",5]')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/echo/deep/er", 202),
        ("GET", "/echo/deeper", 200),
        ("GET", "/echoes", 404),
        ("GET", "/", 404),
        ("GET", "/fail", 500),
        ("DELETE", "/echo", 501),
        ("GET", "/echo?" + "&".join(f"a{index}=1" for index in range(99)), 400),
    ],
)
def test_the_longest_prefix_answers(served: Served, method: str, path: str, status: int) -> None:
    answer = served.ask(method, path)
    assert answer[0] == status
    assert "secret" not in answer[1]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 30}, 400),
        ({"Content-Length": "-1"}, 400),
        ({"Transfer-Encoding": "chunked"}, 411),
    ],
    ids=str,
)
def test_a_body_that_cannot_be_bounded_is_refused(served: Served, headers: dict[str, str], status: int) -> None:
    assert served.ask("POST", "/echo", headers=headers)[0] == status


def test_the_largest_body_is_taken(served: Served) -> None:
    assert served.ask("POST", "/echo", b"x" * MAX_BODY_BYTES)[0] == 200


def test_a_new_certificate_is_in_use_from_the_next_request_on(served: Served) -> None:
    assert served.ask("GET", "/echo")[0] == 200
    old = served.authority
    served.renew()
    assert served.ask("GET", "/echo")[0] == 200
    served.authority = old
    with pytest.raises(ssl.SSLCertVerificationError):
        served.ask("GET", "/echo")


def test_old_tls_is_refused(served: Served) -> None:
    context = ssl.create_default_context(cadata=served.authority.pem.decode())
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with served.plain() as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_slow_and_silent_clients_are_cut_off_and_others_are_served(served: Served) -> None:
    with served.plain() as first, served.plain() as second:
        # Both threads are taken by clients that never say anything, until their time is over.
        assert served.ask("GET", "/echo")[0] == 200
        assert first.recv(1) == b""
        assert second.recv(1) == b""


def test_silent_clients_make_room_and_clients_that_wait_for_an_answer_do_not() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(_request: Request) -> Response:
        begun.set()
        go_on.wait(10)
        return Response.of_text("done")

    served = Served(SecureServer(0, {"/work": work, "/echo": echo}, timeout_s=60.0, max_requests=2))
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(served.ask("GET", "/work")))
    try:
        thread.start()
        assert begun.wait(10)
        with served.plain() as silent:
            assert served.ask("GET", "/echo")[0] == 200
            assert silent.recv(1) == b""
    finally:
        go_on.set()
        thread.join()
        served.server.stop()
    assert answers == [(200, "done\n")]


def test_a_flood_of_silent_connections_keeps_no_client_out_for_long() -> None:
    served = Served(SecureServer(0, {"/echo": echo}, timeout_s=60.0))
    flood = [served.plain() for _ in range(96)]
    try:
        began = time.monotonic()
        assert served.ask("GET", "/echo")[0] == 200
        assert time.monotonic() - began < 8
    finally:
        for connection in flood:
            connection.close()
        served.server.stop()


def test_tokens_and_keys_are_in_no_text_of_what_holds_them() -> None:
    certificate, _ = issue(_NAMES, now=datetime.now(UTC), valid=timedelta(hours=1))
    assert "PRIVATE" not in repr(certificate)
    request = Request(method="GET", path="/", headers={"authorization": "Bearer hunter2"}, body=b"hunter2")
    assert "hunter2" not in repr(request)


def test_a_client_that_dribbles_is_cut_off(served: Served) -> None:
    context = ssl.create_default_context(cadata=served.authority.pem.decode())
    with served.plain() as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
        tls.sendall(b"GET /echo HTTP/1.1\r\n")
        stop = threading.Event()

        def dribble() -> None:
            while not stop.wait(0.1):
                try:
                    tls.sendall(b"X: y\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert _everything(tls) == b""
        finally:
            stop.set()
            thread.join()


def _everything(tls: ssl.SSLSocket) -> bytes:
    try:
        return tls.recv(1024)
    except OSError:
        return b""  # cut without a word


def test_without_a_certificate_no_client_is_answered() -> None:
    server = SecureServer(0, {"/echo": echo})
    server.start()
    try:
        with (
            socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
    finally:
        server.stop()
