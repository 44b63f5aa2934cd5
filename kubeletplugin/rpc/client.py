"""One call of a method with one answer, over a unix socket and a connection of its own."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

from kubeletplugin.rpc.connection import Connection, Data, GoAway, Headers, ProtocolError, Reset
from kubeletplugin.rpc.service import RpcError, Status, framed, message_in, percent_decoded

__all__ = ["call_unary"]

_READ: Final = 64 * 1024


def call_unary(path: Path, method: str, request: bytes, *, timeout_s: float, max_bytes: int) -> bytes:
    """Call a method of the server on a socket; returns the answer's bytes.

    Args:
        path: The socket.
        method: ``/<service>/<method>``.
        request: The request's bytes, at most 32 KiB.
        timeout_s: Seconds for all of it.
        max_bytes: How long the answer may be.

    Raises:
        RpcError: There is no answer: UNAVAILABLE where there is no server, or the server's own error.
    """
    end = time.monotonic() + timeout_s
    connection = Connection(is_server=False, window=max_bytes + _READ)
    # The kubelet's gRPC in Go refuses an authority that is a path.
    stream = connection.open_stream([
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", method.encode()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ])  # fmt: skip
    connection.send_data(stream, memoryview(framed(request)), ends=True)
    content = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(str(path))
            while True:
                if out := connection.take_output():
                    client.sendall(out)
                client.settimeout(max(end - time.monotonic(), 0.001))
                data = client.recv(_READ)
                if not data or time.monotonic() > end:
                    raise RpcError(
                        *((Status.DEADLINE_EXCEEDED, "the time is over") if data else _gone("the connection ended"))
                    )
                for event in connection.receive(data):
                    match event:
                        case Data(content=part):
                            content += part
                            if len(content) > max_bytes:
                                raise RpcError(Status.RESOURCE_EXHAUSTED, f"the answer is over {max_bytes} bytes long")
                        case Headers(headers=headers, ends=True):
                            _check(dict(headers))
                            return message_in(bytes(content))
                        case Reset() | GoAway():
                            raise RpcError(*_gone("the server gave the call up"))
                        case _:
                            pass
    except TimeoutError:
        raise RpcError(Status.DEADLINE_EXCEEDED, f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise RpcError(*_gone(error.strerror or str(error))) from error
    except ProtocolError as error:
        raise RpcError(Status.INTERNAL, str(error)) from error


def _check(trailers: dict[bytes, bytes]) -> None:
    status = trailers.get(b"grpc-status", b"2")
    if status != b"0":
        code = int(status) if status.isdigit() and int(status) in set(Status) else Status.UNKNOWN
        raise RpcError(Status(code), percent_decoded(trailers.get(b"grpc-message", b"")))


def _gone(why: str) -> tuple[Status, str]:
    return Status.UNAVAILABLE, why
