"""Streams of the HTTPS server: what comes at once, who is cut, and that nobody's slowness is another's."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from controller.api.events import events_answer
from controller.api.stream_places import StreamPlaces
from controller.overview.store import Overview
from controller.serving.callers import Caller
from controller.serving.certificates import issue
from controller.serving.secure_server import SecureServer
from controller.serving.self_signed import SelfSigned
from driver.adapters.http.exchange import Request, Response
from tests.support.api_client import Client
from tests.support.shown_nodes import put

Serve = Callable[..., SecureServer]


class Endless(Iterator[bytes]):
    """A stream without end, that tells when it is closed."""

    def __init__(self, piece: bytes) -> None:
        self.piece = piece
        self.closed = threading.Event()

    def __next__(self) -> bytes:
        if not self.piece:
            time.sleep(0.02)  # as a stream that has nothing to say just now
        return self.piece

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[SecureServer] = []

    def serve(stream: Callable[[], Iterator[bytes]], *, max_requests: int = 2, max_streams: int = 2) -> SecureServer:
        routes = {
            "/stream": lambda _: Response(stream=stream()),
            "/big": lambda _: Response(body=b"x" * 50_000_000),
            "/echo": lambda _: Response.of_text("here"),
        }
        server = SecureServer(0, routes, timeout_s=1.0, max_requests=max_requests, max_streams=max_streams)
        certificate, _ = issue(("127.0.0.1",), now=datetime.now(UTC), valid=timedelta(hours=1))
        server.use(certificate.pem, certificate.key)
        server.start()
        started.append(server)
        return server

    yield serve
    for server in started:
        server.stop()


def slow_reader(port: int, path: str, *, version: str = "1.1") -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(10)
    plain.connect(("127.0.0.1", port))
    tls = context.wrap_socket(plain)
    tls.sendall(f"GET {path} HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    return tls


def test_a_stream_comes_in_chunks_and_ends(serve: Serve) -> None:
    server = serve(lambda: iter([b"one", b"", b"two"]))
    said = Client(server.port).get("/stream")
    assert (said.status, said.body, said.headers["transfer-encoding"]) == (200, b"onetwo", "chunked")


def test_a_client_that_knows_no_chunks_gets_none(serve: Serve) -> None:
    server = serve(lambda: iter([b"one", b"two"]))
    with slow_reader(server.port, "/stream", version="1.0") as tls:
        received = b"".join(iter(lambda: tls.recv(4096), b""))
    assert received.endswith(b"\r\n\r\nonetwo")


def test_a_reader_that_does_not_read_is_cut(serve: Serve) -> None:
    stream = Endless(b"x" * 65536)
    server = serve(lambda: stream)
    with slow_reader(server.port, "/stream"):
        assert stream.closed.wait(10)


def test_a_reader_that_dribbles_is_cut_as_well(serve: Serve) -> None:
    stream = Endless(b"x" * 4_000_000)
    server = serve(lambda: stream)
    with slow_reader(server.port, "/stream") as tls:
        end = time.monotonic() + 10
        while not stream.closed.wait(0.05) and time.monotonic() < end:
            try:
                tls.recv(16)
            except OSError:
                break
        assert stream.closed.wait(10)


def test_one_stream_too_many_is_refused_and_closed(serve: Serve) -> None:
    streams = [Endless(b"") for _ in range(3)]
    left = iter(streams)
    server = serve(lambda: next(left))
    with slow_reader(server.port, "/stream") as first, slow_reader(server.port, "/stream") as second:
        assert b"200" in first.recv(64)
        assert b"200" in second.recv(64)
        said = Client(server.port).get("/stream")
        assert (said.status, said.headers["retry-after"]) == (503, "10")
        assert streams[2].closed.is_set()
        # No thread of those that answer requests is taken.
        assert [Client(server.port).get("/echo").status for _ in range(4)] == [200] * 4


def test_a_stream_whose_client_left_is_closed(serve: Serve) -> None:
    def nothing() -> Iterator[bytes]:
        for _ in itertools.count():
            time.sleep(0.02)
            yield b""

    closed = threading.Event()
    pieces = nothing()

    class Told(Endless):
        def __next__(self) -> bytes:
            return next(pieces)

        def close(self) -> None:
            closed.set()

    server = serve(lambda: Told(b""))
    with slow_reader(server.port, "/stream") as tls:
        assert b"200" in tls.recv(64)
        assert not closed.is_set()
    assert closed.wait(10)


def test_a_stream_may_be_silent_for_longer_than_a_request_may_take(serve: Serve) -> None:
    stream = Endless(b"")
    server = serve(lambda: stream)
    with slow_reader(server.port, "/stream") as tls:
        assert b"200" in tls.recv(64)
        assert not stream.closed.wait(1.6)


def test_the_end_of_the_server_ends_its_streams(serve: Serve) -> None:
    server = serve(lambda: Endless(b""))
    with slow_reader(server.port, "/stream") as tls:
        assert b"200" in tls.recv(64)
        server.stop()
        assert b"".join(_until_the_end(tls)) is not None


def _until_the_end(tls: ssl.SSLSocket) -> Iterator[bytes]:
    try:
        yield from iter(lambda: tls.recv(4096), b"")
    except ssl.SSLError:
        return  # cut without a word


def test_those_who_read_a_large_answer_slowly_make_room_for_others(serve: Serve) -> None:
    server = serve(lambda: iter(()))
    with slow_reader(server.port, "/big"), slow_reader(server.port, "/big"):
        began = time.monotonic()
        assert Client(server.port).get("/echo").status == 200
        assert time.monotonic() - began < 5


def test_a_stream_of_events_ends_and_is_kept_alive_until_then() -> None:
    overview = Overview(first_version=1)
    put(overview, "a")
    answer = events_answer(overview, StreamPlaces(), longest_s=1.5, comment_s=0.0)
    said = answer(Request(method="GET", path="/api/v1/events", query={"since": "1"}), Caller(username="x"))
    assert said.stream is not None
    pieces = [piece for piece in said.stream if piece]
    assert pieces[0].startswith(b":")
    assert pieces[1].startswith(b"id: 2\nevent: node\ndata: {")
    assert b": nothing new\n\n" in pieces


def test_a_certificate_of_its_own_is_good_for_its_names_and_is_renewed() -> None:
    served = SelfSigned(0, names=["127.0.0.1"], routes={"/echo": lambda _: Response.of_text("here")}, renew_s=0.05)
    served.start()
    try:
        shown = {ssl.get_server_certificate(("127.0.0.1", served.port))}
        end = time.monotonic() + 10
        while len(shown) < 2:
            assert time.monotonic() < end
            shown.add(ssl.get_server_certificate(("127.0.0.1", served.port)))
        assert Client(served.port).get("/echo").status == 200
    finally:
        served.stop()
