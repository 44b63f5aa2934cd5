"""Bytes to the servers: whatever comes, it is answered or cut off, nothing breaks, and the next one is served."""

from __future__ import annotations

import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import grpc
import pytest

from controller.admission.envelope import BadReviewError
from controller.admission.review import review
from controller.serving.certificates import issue
from controller.serving.secure_server import SecureServer
from driver.adapters.http.exchange import Request, Response
from driver.adapters.http.probe_server import ProbeServer
from driver.api.claim_reference import ClaimReference
from driver.errors import RootportError
from kubeletplugin.grpc_server import PluginServer
from kubeletplugin.protocol import dra_v1_pb2, plugin_registration_v1_pb2
from kubeletplugin.service import ClaimPrepared, DeviceHealth
from tests.fuzz.fuzzing import Target
from tests.fuzz.mutation import TEXTS, mutated

pytestmark = pytest.mark.fuzz

_REQUESTS: Final = (
    b"GET /readyz HTTP/1.1\r\nHost: a\r\nAccept: text/plain;q=0.5, */*\r\nConnection: close\r\n\r\n",
    b"GET /metrics?a=b&c=%00 HTTP/1.0\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n",
    b'POST /admission HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\n\r\n{"apiVersion": "admission.k8s.io/v1", "a":1}',
    b"HEAD / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
)
_TOKENS: Final = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\0",
        b"\xff",
        b":",
        b"/",
        b"?",
        b"%",
        b"%00",
        b"http://[::1",
        b"//",
        b"..",
        b"\r\n ",
    ),
    *(
        b"HTTP/1.1",
        b"HTTP/9.9",
        b"HTTP/1.1.1",
        b"HTTP/0.9",
        b"GET ",
        b"POST ",
        b"PRI * ",
        b"Content-Length: ",
        b"-1",
        b"9" * 30,
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\n",
        b"Expect: 100-continue\r\n",
        b"Accept: ",
        b"a" * 70_000,
    ),
)
_METHODS: Final = {
    "NodePrepareResources": dra_v1_pb2.NodePrepareResourcesResponse,
    "NodeUnprepareResources": dra_v1_pb2.NodeUnprepareResourcesResponse,
}
_CLIENTS_FAULT: Final = frozenset(
    {grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}
)


def _request(random: Random) -> bytes:
    return mutated(random, random.choice(_REQUESTS), _TOKENS)


def _answer(connection: socket.socket, data: bytes) -> bytes:
    """All that the server says to a client that sends this and then nothing more."""
    answer = b""
    with suppress(OSError):
        connection.sendall(data)
        socket.socket.shutdown(connection, socket.SHUT_WR)  # SSLSocket's own would go on without encryption
    with suppress(OSError):
        while piece := connection.recv(65536):
            answer += piece
    return answer


def _checked(
    connect: Callable[[], socket.socket], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        caplog.clear()
        with connect() as connection:
            answer = _answer(connection, data)
        with connect() as connection:
            probe = _answer(connection, _REQUESTS[0])
        assert b"Traceback" not in answer
        assert b" 200 " in probe.partition(b"\r\n")[0]
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []
        assert "Traceback" not in capfd.readouterr().err

    return check


def test_the_health_servers_port_answers_on(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server = ProbeServer(
        0, {"/readyz": lambda: None}, pages={"/metrics": lambda accept: ("text/plain", accept.encode())}
    )
    server.start()

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", server.port), timeout=30)

    try:
        Target(name="health-port", make=_request, check=_checked(connect, caplog, capfd), examples=80).run()
    finally:
        server.stop()


def _route(request: Request) -> Response:
    try:
        return Response.of_json(review(request.body))
    except BadReviewError as error:
        return Response.of_text(str(error), status=400)


def test_the_https_port_answers_on(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    server = SecureServer(0, {"/admission": _route, "/readyz": lambda _: Response.of_text("ok")})
    certificate, _ = issue(("127.0.0.1",), now=datetime.now(UTC), valid=timedelta(hours=24))
    server.use(certificate.pem, certificate.key)
    server.start()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def connect() -> socket.socket:
        return context.wrap_socket(socket.create_connection(("127.0.0.1", server.port), timeout=30))

    try:
        Target(name="https-port", make=_request, check=_checked(connect, caplog, capfd), examples=80).run()
    finally:
        server.stop()


class _Claims:
    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        return {claim.uid: ClaimPrepared(devices=()) for claim in claims}

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        return dict.fromkeys(claim.uid for claim in claims)


class _Health:
    def current(self) -> Sequence[DeviceHealth]:
        return ()

    def version(self) -> int:
        return 0

    def wait(self, version: int, timeout_s: float) -> int:
        return version


class _Listener:
    def registered(self, ok: bool, error: str) -> None:
        """Hears it."""


@pytest.fixture
def server() -> Iterator[PluginServer]:
    folder = Path(tempfile.mkdtemp(prefix="rootport-"))  # pytest's own folders are too long for a socket
    (folder / "registry").mkdir()
    server = PluginServer(
        claims=_Claims(),
        health=_Health(),
        listener=_Listener(),
        plugin_dir=folder / "plugin",
        registry_dir=folder / "registry",
        instance="a",
    )
    server.start()
    yield server
    server.stop(0)
    shutil.rmtree(folder)


def test_a_call_of_the_kubelet_has_an_entry_for_every_claim_or_is_refused(server: PluginServer) -> None:
    status = plugin_registration_v1_pb2.RegistrationStatus(plugin_registered=True, error="é").SerializeToString()

    def make(random: Random) -> bytes:
        texts = [text.encode(errors="replace").decode()[:5000] for text in TEXTS]
        claims = [
            dra_v1_pb2.Claim(
                namespace=random.choice((*texts, "ml")),
                name=random.choice((*texts, "a")),
                uid=random.choice((*texts, "u", "v")),
            )
            for _ in range(random.choice((0, 1, 3, 1100)))
        ]
        message = dra_v1_pb2.NodePrepareResourcesRequest(claims=claims).SerializeToString()
        return (
            mutated(random, random.choice((message, status)), (b"\x0a", b"\xff" * 10, b"\0"))
            if random.randrange(2)
            else message
        )

    def check(data: bytes) -> None:
        for version in ("v1", "v1beta1"):
            for method, answer_of in _METHODS.items():
                call = channel.unary_unary(f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin/{method}")
                try:
                    answer = answer_of.FromString(call(data, timeout=30))
                except grpc.RpcError as error:
                    if error.code() not in _CLIENTS_FAULT:
                        raise
                else:
                    asked = dra_v1_pb2.NodePrepareResourcesRequest.FromString(data)
                    assert set(answer.claims) == {claim.uid for claim in asked.claims}

    with grpc.insecure_channel(f"unix:{server.endpoint}", options=[("grpc.default_authority", "localhost")]) as channel:
        Target(name="grpc", make=make, check=check, examples=60).run()


_UNPREPARE: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def _headers(fields: Mapping[bytes, bytes]) -> bytes:
    """Header fields as HPACK literals without an index (RFC 7541, 6.2.2), each text shorter than 127 bytes."""
    texts = ((bytes((len(text),)) + text for text in field) for field in fields.items())
    return b"".join(b"\0" + b"".join(field) for field in texts)


_HTTP2_TOKENS: Final = (
    *(
        _frame(kind, flags, stream, b"\0\0\0\x01")
        for kind in range(11)
        for flags in (0, 1, 4, 0xFF)
        for stream in (0, 1, 3)
    ),
    *(b"\xff" * 9, b"\0" * 9, b"\x82", b"\xbe", b"\x3f\xe1\x1f", _frame(4, 0, 0, b"\0\x04\xff\xff\xff\xff")),
)


def test_what_is_no_http2_ends_its_own_connection_alone(
    server: PluginServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    claim = dra_v1_pb2.NodeUnprepareResourcesRequest(
        claims=[dra_v1_pb2.Claim(namespace="a", name="b", uid="c")]
    ).SerializeToString()
    headers = _headers(
        {
            b":method": b"POST",
            b":scheme": b"http",
            b":path": _UNPREPARE.encode(),
            b":authority": b"localhost",
            b"te": b"trailers",
            b"content-type": b"application/grpc",
        }
    )
    body = b"\0" + len(claim).to_bytes(4, "big") + claim
    calls = (_frame(1, 4, stream, headers) + _frame(0, 1, stream, body) for stream in (1, 3, 5))
    session = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"") + b"".join(calls)

    def make(random: Random) -> bytes:
        # The beginning stays as it is more often than not: what comes after it is what there is to find.
        kept = random.choice((0, 24, 33, 33, 33))
        return session[:kept] + mutated(random, session[kept:], _HTTP2_TOKENS)

    def check(data: bytes) -> None:
        caplog.clear()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(server.endpoint))
            _answer(connection, data)
        answer = call(claim, timeout=30)
        assert set(dra_v1_pb2.NodeUnprepareResourcesResponse.FromString(answer).claims) == {"c"}
        # The library itself logs a path that is no text.
        ours = [record for record in caplog.records if not record.name.startswith("grpc.")]
        assert [record.getMessage() for record in ours if record.exc_info] == []
        assert "Traceback" not in capfd.readouterr().err

    with grpc.insecure_channel(f"unix:{server.endpoint}", options=[("grpc.default_authority", "localhost")]) as channel:
        call = channel.unary_unary(_UNPREPARE)
        assert session.count(claim) == 3
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(server.endpoint))
            connection.sendall(session)
            answered = b""
            while answered.count(b"application/grpc") + answered.count(b"\n\x01c") < 1:
                chunk = connection.recv(65536)
                assert chunk, "the server closed the connection"
                answered += chunk
        Target(name="http2", make=make, check=check, examples=300).run()
