"""The server on a real socket: clients that behave, and clients that do not."""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import grpc
import pytest

from kubeletplugin.protocol import dra_v1_pb2 as v1
from kubeletplugin.rpc import Call, Lane, RpcError, RpcServer, Status, call_unary, streaming, unary
from kubeletplugin.rpc.connection import frame
from kubeletplugin.rpc.hpack import encode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS = [(b":method", b"POST"), (b":path", b"/test/Echo"), (b"content-type", b"application/grpc")]


class Echo:
    """Answers with what it is asked; ``size`` says of how much, ``fail`` and ``wait`` what it does before."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.entered = threading.Semaphore(0)
        self.streams_closed = threading.Event()
        self.after = threading.Event()

    def echo(self, claim: v1.Claim) -> Generator[v1.Claim]:
        yield v1.Claim(name=claim.name)
        self.after.set()

    def large(self, claim: v1.Claim) -> Generator[v1.Claim]:
        yield v1.Claim(name="x" * int(claim.name))

    def fail(self, claim: v1.Claim) -> Generator[v1.Claim]:
        if claim.name:
            raise RpcError(Status.INVALID_ARGUMENT, claim.name)
        yield v1.Claim(name=str(1 // 0))

    def wait(self, claim: v1.Claim) -> Generator[v1.Claim]:
        self.entered.release()
        assert self.may_go_on.wait(10)
        yield claim

    def count(self, claim: v1.Claim, call: Call) -> Generator[v1.Claim]:
        gone = threading.Event()
        call.on_gone(gone.set)
        try:
            for number in range(int(claim.name)):
                yield v1.Claim(name=str(number))
            if claim.uid:
                gone.wait(10)
        finally:
            self.streams_closed.set()


class Served:
    def __init__(self, folder: Path) -> None:
        self.socket = folder / "s.sock"
        self.echo = Echo()
        slow = Lane(2, waiting=2)
        methods = {
            name.title(): (unary(v1.Claim.FromString, getattr(self.echo, name)), slow if name == "wait" else Lane(4))
            for name in ("echo", "large", "fail", "wait")
        }
        methods["Count"] = (streaming(v1.Claim.FromString, self.echo.count), Lane(4))
        self.server = RpcServer(
            {f"/test/{name}": each for name, each in methods.items()}, name="test-rpc", max_request=100_000
        )
        self.server.listen(self.socket)
        self.server.start()
        self.channel = grpc.insecure_channel(f"unix:{self.socket}")

    def method(self, name: str, kind: str = "unary_unary") -> object:
        return getattr(self.channel, kind)(
            f"/test/{name}", request_serializer=v1.Claim.SerializeToString, response_deserializer=v1.Claim.FromString
        )

    def call(self, method: str, **fields: str) -> v1.Claim:
        return self.method(method)(v1.Claim(**fields), timeout=10)

    def connect(self, *, settings: bytes = b"") -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(10)
        client.connect(str(self.socket))
        client.sendall(PREFACE + frame(4, 0, 0, settings))
        return client

    def threads(self) -> int:
        return sum(thread.name == "test-rpc" for thread in threading.enumerate())


@pytest.fixture
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="rootport-") as folder:
        made = Served(Path(folder))
        yield made
        made.echo.may_go_on.set()
        made.channel.close()
        made.server.drain()
        made.server.close(5)


def request(stream: int, message: bytes) -> bytes:
    return frame(1, 0x4, stream, encode(HEADERS)) + frame(0, 0x1, stream, struct.pack(">BI", 0, len(message)) + message)


def read_until(client: socket.socket, text: bytes) -> bytes:
    found = b""
    while text not in found:
        part = client.recv(65536)
        assert part, found
        found += part
    return found


def failure(call: object) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_a_call_is_answered_again_and_again(served: Served) -> None:
    assert [served.call("Echo", name=str(number)).name for number in range(50)] == [str(n) for n in range(50)]


def test_what_a_method_does_after_its_answer_is_done(served: Served) -> None:
    served.call("Echo", name="a")
    assert served.echo.after.wait(5)


def test_many_calls_at_once_are_all_answered(served: Served) -> None:
    futures = [served.method("Echo").future(v1.Claim(name=str(n)), timeout=10) for n in range(200)]
    assert [future.result().name for future in futures] == [str(n) for n in range(200)]
    assert served.threads() < 20


def test_an_answer_larger_than_every_window_arrives_whole(served: Served) -> None:
    assert len(served.call("Large", name="3000000").name) == 3_000_000


def test_an_error_has_its_code_and_its_message(served: Served) -> None:
    error = failure(lambda: served.call("Fail", name="50 % of ä\nline"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "50 % of ä\nline"


def test_a_bug_is_an_error_of_one_call(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    assert failure(lambda: served.call("Fail")).code() is grpc.StatusCode.UNKNOWN
    assert "a method raised" in caplog.text
    assert served.call("Echo", name="a").name == "a"


def test_a_method_that_is_not_there_is_said_to_be_so(served: Served) -> None:
    assert failure(lambda: served.call("Nothing")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_what_waits_has_a_lane_of_its_own_and_too_many_are_refused(served: Served) -> None:
    waiting = [served.method("Wait").future(v1.Claim(name=str(n)), timeout=20) for n in range(2)]
    for _ in waiting:
        assert served.echo.entered.acquire(timeout=10)
    queued = [served.method("Wait").future(v1.Claim(name=str(n)), timeout=20) for n in range(2)]
    assert served.call("Echo", name="a").name == "a"
    deadline = time.monotonic() + 5
    while failure(lambda: served.method("Wait")(v1.Claim(name="no"), timeout=0.5)).code() is not (
        grpc.StatusCode.RESOURCE_EXHAUSTED
    ):
        assert time.monotonic() < deadline
    served.echo.may_go_on.set()
    assert [future.result().name for future in waiting + queued] == ["0", "1", "0", "1"]


def test_a_message_that_is_too_long_is_refused_and_the_connection_goes_on(served: Served) -> None:
    assert failure(lambda: served.call("Echo", name="x" * 200_000)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert served.call("Echo", name="a").name == "a"


def test_a_compressed_message_is_refused(served: Served) -> None:
    call = served.method("Echo")
    error = failure(lambda: call(v1.Claim(name="a" * 1000), timeout=5, compression=grpc.Compression.Gzip))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_stream_is_sent_and_ends(served: Served) -> None:
    answers = served.method("Count", "unary_stream")(v1.Claim(name="30"), timeout=10)
    assert [answer.name for answer in answers] == [str(n) for n in range(30)]


def test_a_stream_whose_client_goes_is_closed(served: Served) -> None:
    answers = served.method("Count", "unary_stream")(v1.Claim(name="2", uid="stay"), timeout=10)
    assert next(answers).name == "0"
    answers.cancel()
    assert served.echo.streams_closed.wait(5)


def test_a_stream_whose_connection_breaks_is_closed(served: Served) -> None:
    client = served.connect()
    headers = [(name, value.replace(b"Echo", b"Count")) for name, value in HEADERS]
    message = v1.Claim(name="1", uid="stay").SerializeToString()
    body = struct.pack(">BI", 0, len(message)) + message
    client.sendall(frame(1, 0x4, 1, encode(headers)) + frame(0, 0x1, 1, body))
    read_until(client, v1.Claim(name="0").SerializeToString())
    client.close()
    assert served.echo.streams_closed.wait(5)


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", PREFACE + frame(4, 0, 0, b"") + b"\xff" * 50, PREFACE + frame(6, 0, 0, b"")]
)
def test_junk_ends_its_own_connection(served: Served, junk: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(served.socket))
        client.sendall(junk)
        while client.recv(65536):
            pass
    assert "a client of the socket is not understood" in caplog.text
    assert served.call("Echo", name="a").name == "a"


def test_another_content_type_is_refused(served: Served) -> None:
    with served.connect() as client:
        client.sendall(frame(1, 0x5, 1, encode([(b":method", b"POST"), (b":path", b"/test/Echo")])))
        assert b"415" in read_until(client, b"415")


@pytest.mark.parametrize("body", [b"", b"\0\0", b"\0\0\0\0\x05ab", b"\0\0\0\0\x01ab"])
def test_a_body_that_is_not_one_message_is_an_error(served: Served, body: bytes) -> None:
    with served.connect() as client:
        client.sendall(frame(1, 0x4, 1, encode(HEADERS)) + frame(0, 0x1, 1, body))
        assert b"grpc-status" in read_until(client, b"grpc-message")


def test_requests_that_are_never_completed_are_bounded(served: Served) -> None:
    with served.connect() as client:
        try:
            for stream in range(1, 2000, 2):
                client.sendall(frame(1, 0x4, stream, encode(HEADERS)))
                for _ in range(6):
                    client.sendall(frame(0, 0, stream, bytes(16000)))
            ended = b""
        except (BrokenPipeError, ConnectionResetError):
            ended = None
        assert ended is None
    assert served.call("Echo", name="a").name == "a"


def test_no_more_connections_than_allowed_are_kept(served: Served) -> None:
    served.channel.close()
    clients = [served.connect() for _ in range(32)]
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(served.socket))
        assert client.recv(1) == b""
    for each in clients:
        each.close()
    deadline = time.monotonic() + 5
    while served.threads() > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_that_reads_nothing_holds_up_nobody_else(served: Served) -> None:
    with served.connect(settings=struct.pack(">HI", 4, 2**31 - 1)) as client:
        client.sendall(frame(8, 0, 0, struct.pack(">I", 2**30)))
        headers = [(name, value.replace(b"Echo", b"Large")) for name, value in HEADERS]
        message = v1.Claim(name="8000000").SerializeToString()
        body = struct.pack(">BI", 0, len(message)) + message
        client.sendall(frame(1, 0x4, 1, encode(headers)) + frame(0, 0x1, 1, body))
        time.sleep(0.2)
        assert served.call("Echo", name="a").name == "a"


def test_running_calls_end_and_no_further_one_begins_once_the_server_stops(served: Served) -> None:
    running = served.method("Wait").future(v1.Claim(name="a"), timeout=10)
    assert served.echo.entered.acquire(timeout=10)
    served.server.drain()
    assert failure(lambda: served.call("Echo")).code() is grpc.StatusCode.UNAVAILABLE
    threading.Timer(0.1, served.echo.may_go_on.set).start()
    served.server.close(5)
    assert running.result().name == "a"


def test_the_client_calls_a_method(served: Served) -> None:
    asked = v1.Claim(name="5000000").SerializeToString()
    answer = call_unary(served.socket, "/test/Large", asked, timeout_s=10, max_bytes=6_000_000)
    assert len(v1.Claim.FromString(answer).name) == 5_000_000


@pytest.mark.parametrize(
    ("method", "message", "status"),
    [
        ("/test/Fail", v1.Claim(name="bad"), Status.INVALID_ARGUMENT),
        ("/test/Fail", v1.Claim(), Status.UNKNOWN),
        ("/test/Nothing", v1.Claim(), Status.UNIMPLEMENTED),
        ("/test/Large", v1.Claim(name="2000000"), Status.RESOURCE_EXHAUSTED),
        ("/test/Wait", v1.Claim(), Status.DEADLINE_EXCEEDED),
    ],
)
def test_the_client_learns_why_there_is_no_answer(
    served: Served, method: str, message: v1.Claim, status: Status
) -> None:
    with pytest.raises(RpcError) as caught:
        call_unary(served.socket, method, message.SerializeToString(), timeout_s=0.5, max_bytes=1_000_000)
    assert caught.value.status is status


def test_without_a_server_there_is_no_answer(tmp_path: Path) -> None:
    with pytest.raises(RpcError) as caught:
        call_unary(tmp_path / "none", "/a/B", b"", timeout_s=1, max_bytes=100)
    assert caught.value.status is Status.UNAVAILABLE
