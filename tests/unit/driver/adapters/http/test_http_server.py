"""The server of both ports on real sockets: slow, silent and many clients, and who is answered all the same."""

from __future__ import annotations

import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from driver.adapters.heap import return_large_blocks
from driver.adapters.http.clients import client_of, is_local
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.http.fairness import FairQueue
from driver.adapters.http.limits import Limits
from driver.adapters.http.probe_server import ProbeServer
from driver.adapters.http.server import HttpServer

FLOOD = "127.0.0.1"
KUBELET = "127.0.0.2"


def connected(port: int, source: str = FLOOD) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(source, 0))


def ask(port: int, path: str = "/healthz", source: str = FLOOD, method: str = "GET", body: bytes = b"") -> int:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(source, 0))
    try:
        client.request(method, path, body)
        answer = client.getresponse()
        answer.read()
        return answer.status
    finally:
        client.close()


def seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def response_to(client: socket.socket) -> bytes:
    """All that it is told until the server closes."""
    try:
        return b"".join(iter(lambda: client.recv(65536), b""))
    except ConnectionError:
        return b""


@contextmanager
def dribbling(port: int, number: int, source: str = FLOOD) -> Iterator[list[socket.socket]]:
    """So many clients that send a byte now and then and never come to an end; who is cut comes again."""
    clients = [connected(port, source) for _ in range(number)]
    stop = threading.Event()

    def dribble() -> None:
        for client in clients:
            client.setblocking(False)
        while not stop.wait(0.2):
            for index, client in enumerate(clients):
                try:
                    client.send(b"G")
                except OSError:
                    client.close()
                    clients[index] = connected(port, source)
                    clients[index].setblocking(False)

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield clients
    finally:
        stop.set()
        thread.join()
        for client in clients:
            client.close()


Serve = Callable[..., HttpServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def serve(routes: dict[str, Route], **limits: object) -> HttpServer:
            defaults: dict[str, object] = {"threads": 2, "timeout_s": 30.0}
            server = HttpServer(0, routes, limits=Limits(**{**defaults, **limits}), name="test")  # type: ignore[arg-type]
            server.start()
            stack.callback(server.stop)
            return server

        yield serve


@pytest.fixture
def health() -> Iterator[ProbeServer]:
    page = threading.Event()

    def slow(_accept: str) -> tuple[str, bytes]:
        page.wait(20)
        return "text/plain", b"x"

    server = ProbeServer(0, {"/healthz": lambda: None}, pages={"/metrics": slow})
    server.start()
    yield server
    page.set()
    server.stop()


def echo(request: Request) -> Response:
    return Response.of_text(f"{request.method} {request.path} {len(request.body)} {request.client}")


# Probes


@pytest.mark.parametrize("source", [KUBELET, FLOOD], ids=["another address", "the same address"])
def test_a_probe_is_answered_within_a_second_beside_500_slow_connections(health: ProbeServer, source: str) -> None:
    before = threading.active_count()
    with dribbling(health.port, 500):
        assert max(seconds(lambda: ask(health.port, source=source)) for _ in range(5)) < 1
        assert threading.active_count() - before < 12
    assert ask(health.port, source=source) == 200


def test_a_probe_does_not_wait_for_pages(health: ProbeServer) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(connected(health.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert max(seconds(lambda: ask(health.port)) for _ in range(5)) < 1


def test_the_server_stops_at_once(health: ProbeServer) -> None:
    assert ask(health.port) == 200
    with connected(health.port):
        assert seconds(health.stop) < 0.3


def test_nobodys_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a name was looked up")

    for name in ("getfqdn", "gethostbyaddr", "getnameinfo", "gethostbyname", "gethostbyname_ex"):
        monkeypatch.setattr(socket, name, fail)
    server = ProbeServer(0, {"/healthz": lambda: None})
    server.start()
    try:
        with connected(server.port) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert response_to(client).startswith(b"HTTP/1.1 200 OK\r\n")
    finally:
        server.stop()


def test_pages_are_for_whom_they_are_meant() -> None:
    def status(readers: str, host: str) -> int:
        server = ProbeServer(0, {"/healthz": lambda: None}, pages={"/metrics": page}, readers=readers)  # type: ignore[arg-type]
        server.start()
        try:
            client = http.client.HTTPConnection(host, server.port, timeout=10)
            client.request("GET", "/metrics")
            answer = client.getresponse().status
            client.request("GET", "/healthz")
            assert client.getresponse().status == 200
            client.close()
            return answer
        finally:
            server.stop()

    def page(_accept: str) -> tuple[str, bytes]:
        return "text/plain", b"x"

    own = own_address()
    assert [status("everyone", own), status("localhost", own), status("nobody", own)] == [200, 403, 404]
    assert [status("localhost", "127.0.0.1"), status("nobody", "127.0.0.1")] == [200, 404]


def own_address() -> str:
    """One of this machine's that is not localhost's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but localhost's")
        return str(probe.getsockname()[0])


# Bounds


def test_a_client_that_never_finishes_is_cut_whatever_it_sends(serve: Serve) -> None:
    server = serve({"/x": echo}, timeout_s=1.0)
    with connected(server.port) as client:
        client.sendall(b"GET /x HTTP/1.1\r\n")
        for _ in itertools.count():
            try:
                client.sendall(b"A: b\r\n")
                client.settimeout(0.1)
                if not client.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break


def test_a_client_that_says_nothing_is_cut(serve: Serve) -> None:
    server = serve({"/x": echo}, silence_s=0.5)
    with connected(server.port) as client:
        assert response_to(client) == b""


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /x HTTP/1.1\r\nA: " + b"x" * 9000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 9000, 431),
        (b"GET /x HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n", 431),
        (b"GET /x HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        (b"GET /x HTTP/2.0\r\n\r\n", 400),
        (b"GET  /x HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: +1\r\n\r\na", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"PUT /x HTTP/1.1\r\n\r\n", 501),
        (b"GET /y HTTP/1.1\r\n\r\n", 404),
        (b"GET /x HTTP/1.0\r\n\r\n", 200),
        (b"GET //x/x HTTP/1.1\r\n\r\n", 200),
    ],
    ids=range(19),
)
def test_what_is_no_request_is_refused_and_told_why(serve: Serve, request_text: bytes, status: int) -> None:
    server = serve({"/x": echo}, body_bytes=1000)
    with connected(server.port) as client:
        client.sendall(request_text)
        assert response_to(client).startswith(b"HTTP/1.1 %d " % status)
    assert ask(server.port, "/x") == 200


def test_headers_are_read_in_linear_time(serve: Serve) -> None:
    server = serve({"/x": echo}, head_bytes=1_000_000)
    with connected(server.port) as client:
        text = b"GET /x HTTP/1.1\r\nA:" + b" \t" * 200_000 + b"b" + b" " * 200_000 + b"c\r\n\r\n"
        assert seconds(lambda: (client.sendall(text), response_to(client))) < 5


def test_a_client_that_still_sends_reads_why_it_is_refused(serve: Serve) -> None:
    server = serve({"/x": echo}, body_bytes=1000)
    with connected(server.port) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(10):
            client.sendall(b"x" * 20_000)
        assert response_to(client).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_before_it_sends_is_told_to_go_on(serve: Serve) -> None:
    server = serve({"/x": echo}, body_bytes=1000)
    with connected(server.port) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert b"POST /x 3 127.0.0.1" in response_to(client)


def test_a_body_that_ends_early_is_refused(serve: Serve) -> None:
    server = serve({"/x": echo}, body_bytes=1000)
    with connected(server.port) as client:
        client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\na")
        client.shutdown(socket.SHUT_WR)
        assert response_to(client).startswith(b"HTTP/1.1 400 ")


def test_one_source_has_no_more_connections_than_its_share(serve: Serve) -> None:
    server = serve({"/x": echo}, connections=8, connections_per_client=4)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(server.port)) for _ in range(6)]
        other = stack.enter_context(connected(server.port, KUBELET))
        # The two oldest make room, and no other.
        assert [response_to(client) for client in clients[:2]] == [b"", b""]
        for client in (*clients[2:], other):
            client.sendall(b"GET /x HTTP/1.1\r\n\r\n")
            assert b"200 OK" in response_to(client)


def test_where_there_is_no_more_room_the_source_that_has_the_most_makes_it(serve: Serve) -> None:
    server = serve({"/x": echo}, connections=8)
    with ExitStack() as stack:
        first = stack.enter_context(connected(server.port, KUBELET))
        clients = [stack.enter_context(connected(server.port)) for _ in range(8)]
        assert response_to(clients[0]) == b""
        for client in (first, *clients[1:]):
            client.sendall(b"GET /x HTTP/1.1\r\n\r\n")
            assert b"200 OK" in response_to(client)


def test_answers_that_nobody_takes_do_not_pile_up(serve: Serve) -> None:
    size = 8_000_000  # more than the kernel takes
    server = serve({"/big": lambda _: Response(body=bytes(size)), "/x": echo}, buffered_bytes=20_000_000)
    return_large_blocks()  # as the controller does: what is freed is not counted
    before = resident()
    with ExitStack() as stack:
        for _ in range(30):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        assert ask(server.port, "/x") == 200
        reader = stack.enter_context(connected(server.port, KUBELET))
        reader.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        assert len(response_to(reader)) > size
        assert (
            resident() - before < 120_000_000
        )  # of 240 that were asked for; what else this process does shows as well


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_large_bodies_are_read_one_at_a_time_and_everyone_has_a_turn(serve: Serve) -> None:
    begun, go_on = threading.Event(), threading.Event()
    inside: list[int] = []
    most: list[int] = []

    def work(request: Request) -> Response:
        inside.append(1)
        most.append(len(inside))
        begun.set()
        go_on.wait(10)
        inside.pop()
        return echo(request)

    server = serve({"/x": work, "/small": echo}, threads=4, body_bytes=300_000, small_body_bytes=100_000)
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(server.port, "/x", method="POST", body=bytes(300_000))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert ask(server.port, "/small", method="POST", body=bytes(99_000)) == 200
    go_on.set()
    for thread in threads:
        thread.join()
    assert (answers, max(most)) == ([200] * 4, 1)


def test_who_sends_a_large_body_slowly_gives_the_place_to_who_waits(serve: Serve) -> None:
    server = serve({"/x": echo}, body_bytes=300_000, small_body_bytes=100_000, silence_s=60.0)
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(server.port)) for _ in range(20)]
        for client in slow:
            client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + bytes(200_000))
        took = seconds(lambda: ask(server.port, "/x", KUBELET, "POST", bytes(300_000)))
        assert ask(server.port, "/x", KUBELET, "POST", bytes(300_000)) == 200
        assert took < 2


def test_who_waits_too_long_with_a_large_body_is_told_to_come_again(serve: Serve) -> None:
    go_on = threading.Event()

    def work(request: Request) -> Response:
        go_on.wait(10)
        return echo(request)

    server = serve({"/x": work}, body_bytes=300_000, small_body_bytes=100_000)
    first = threading.Thread(target=lambda: ask(server.port, "/x", FLOOD, "POST", bytes(300_000)))
    first.start()
    try:
        with connected(server.port, KUBELET) as client:
            time.sleep(0.3)
            client.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 300000\r\n\r\n" + bytes(300_000))
            said = response_to(client)
            assert said.startswith(b"HTTP/1.1 429 ")
            assert b"Retry-After: 1\r\n" in said
    finally:
        go_on.set()
        first.join()


def test_every_source_has_its_turn_at_the_threads(serve: Serve) -> None:
    order: list[str] = []
    go_on = threading.Event()

    def work(request: Request) -> Response:
        go_on.wait(10)
        order.append(request.client)
        return echo(request)

    server = serve({"/x": work}, threads=1)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(server.port)) for _ in range(10)]
        clients.append(stack.enter_context(connected(server.port, KUBELET)))
        for client in clients:
            client.sendall(b"GET /x HTTP/1.1\r\n\r\n")
            time.sleep(0.02)
        go_on.set()
        for client in clients:
            assert b"200 OK" in response_to(client)
    assert order.index(KUBELET) <= 2


def test_threads_of_their_own_wait_for_no_other_paths(serve: Serve) -> None:
    go_on = threading.Event()

    def work(request: Request) -> Response:
        go_on.wait(10)
        return echo(request)

    server = serve({"/slow": work, "/own": echo}, threads=1, own_threads={"/own": 1})
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(connected(server.port)).sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert seconds(lambda: ask(server.port, "/own")) < 5
        go_on.set()


def test_a_request_is_answered_when_no_thread_can_be_started(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve({"/x": echo})
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == "test":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail)
    assert ask(server.port, "/x") == 503
    monkeypatch.undo()
    assert ask(server.port, "/x") == 200


def test_clients_that_reset_at_any_moment_end_nothing(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    server = serve({"/x": echo, "/big": lambda _: Response(body=bytes(5_000_000))}, connections_per_client=256)
    for text in (b"", b"GET", b"GET /x HTTP/1.1\r\n\r\n", b"GET /big HTTP/1.1\r\n\r\n", b"POST /x HTTP/1.1\r\n") * 20:
        with connected(server.port) as client:
            client.sendall(text)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closing resets
    assert ask(server.port, "/x") == 200
    assert caplog.records == []


def test_nothing_is_left_open(serve: Serve) -> None:
    server = serve({"/x": echo})
    assert ask(server.port, "/x") == 200
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        assert ask(server.port, "/x") == 200
    end = time.monotonic() + 10
    while len(list(Path("/proc/self/fd").iterdir())) > before:
        assert time.monotonic() < end
        time.sleep(0.05)


# Parts


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_network(host: str, source: str) -> None:
    assert client_of(host) == source


def test_localhost_is_known_in_every_form() -> None:
    assert all(is_local(client_of(host)) for host in ("127.0.0.1", "::ffff:127.0.0.9", "::1"))
    assert not any(is_local(client_of(host)) for host in ("10.0.0.1", "::ffff:12.7.0.1", "1270::1"))


def test_a_queue_gives_each_source_its_turn() -> None:
    queue: FairQueue[str] = FairQueue()
    for source, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")):
        queue.put(source, item)
    queue.remove("c", "c1")
    queue.remove("c", "c1")
    assert [queue.get() for _ in range(4)] == ["a1", "b1", "a2", "a3"]
    assert not queue
