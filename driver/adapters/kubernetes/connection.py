"""Sends requests to the API server, and turns what comes back into JSON objects or errors.

Every call has a time limit. A read (GET) whose kept-alive connection turns out to be dropped is sent once more; a write
never is, for it may have been carried out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from driver.adapters.kubernetes.errors import ApiServerError, TooLargeError, UnavailableError
from driver.adapters.kubernetes.refusals import refusal
from driver.adapters.kubernetes.request import OnWrite, Request
from driver.adapters.kubernetes.resources import JsonObject
from driver.adapters.kubernetes.transport import (
    Answer,
    CredentialsError,
    DroppedError,
    TlsError,
    Transport,
    TransportError,
)
from driver.bounded_json import JsonError, parse_foreign_json

__all__ = ["MAX_OBJECT_BYTES", "Connection", "decoded"]

_T = TypeVar("_T")

MAX_OBJECT_BYTES: Final = 16 * 1024**2
"""The longest object that is read, in the API server's JSON.

etcd takes 1.5 MiB (--max-request-bytes), and a text may be six times as long in JSON: ``<`` becomes ``\\u003c``.
"""

_LONGEST_REFUSAL: Final = 1024**2
_WAITS: Final = 6
"""An answer that comes drop by drop is given up after so many times the limit of one wait.

The time is looked at after each piece; the official client gives pieces of 64 KiB.
"""


class Connection:
    """Calls one API server. Thread-safe.

    Args:
        transport: Sends the requests.
        timeout_s: The limit for connecting, and for each wait for bytes of an answer.
        on_write: Called after each write, from the thread that made it.
    """

    def __init__(self, transport: Transport, timeout_s: float, *, on_write: OnWrite | None = None) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._on_write = on_write

    def call(self, request: Request) -> JsonObject:
        """Send a request and return the JSON object of the answer.

        Raises:
            ApiServerError: The request was refused, or no answer came.
            TooLargeError: The answer is longer than :data:`MAX_OBJECT_BYTES`.
        """
        if self._on_write is None or not request.is_write:
            return decoded(request, self.read(request, MAX_OBJECT_BYTES))
        try:
            answer = decoded(request, self.read(request, MAX_OBJECT_BYTES))
        except ApiServerError as error:
            self._on_write(request, error)
            raise
        self._on_write(request, None)
        return answer

    def read(self, request: Request, max_bytes: int) -> bytearray:
        """Send a request and return the answer.

        Args:
            request: The request. ``on_write`` is not called here.
            max_bytes: A longer answer is dropped while it is read.

        Raises:
            ApiServerError: The request was refused, or no answer came.
            TooLargeError: The answer is longer.
        """

        def exchange() -> tuple[Answer, bytearray, bool]:
            answer = self._transport.send(request, self._timeout_s)
            return answer, *self._body(answer, max_bytes if answer.status < 300 else _LONGEST_REFUSAL)

        answer, data, is_whole = self._with_retry(request, exchange)
        if answer.status >= 300:
            raise refusal(request, answer.status, data, answer.header("Retry-After"))
        if not is_whole:
            raise TooLargeError(f"cannot {request}: the answer is longer than {max_bytes} bytes")
        return data

    def open_stream(self, request: Request, silence_s: float) -> Answer:
        """Send a request with an endless answer; the caller closes it.

        Args:
            request: The request, a watch.
            silence_s: How long the answer may pause, once it has begun.

        Raises:
            ApiServerError: The request was refused, or no answer began.
        """
        answer = self._with_retry(request, lambda: self._transport.send(request, self._timeout_s))
        if answer.status >= 300:
            try:
                raise refusal(
                    request, answer.status, self._body(answer, _LONGEST_REFUSAL)[0], answer.header("Retry-After")
                )
            except TransportError as error:
                raise _unreachable(request, error) from error
            finally:
                answer.close()
        # Until here the limit of every call held; a silent watch is no error.
        answer.set_silence(silence_s)
        return answer

    def close(self) -> None:
        """Close the idle connections. Streams that are open stay open."""
        self._transport.close()

    def _with_retry(self, request: Request, exchange: Callable[[], _T]) -> _T:
        try:
            try:
                return exchange()
            except DroppedError:
                if request.method != "GET":
                    raise
                return exchange()
        except TransportError as error:
            raise _unreachable(request, error) from error

    def _body(self, answer: Answer, max_bytes: int) -> tuple[bytearray, bool]:
        """Return the body, and whether it is complete: if it is too long, the connection is closed."""
        data = bytearray()
        until = time.monotonic() + _WAITS * self._timeout_s
        for chunk in answer.chunks():
            data += chunk
            if len(data) > max_bytes:
                answer.close()
                return data[:max_bytes], False
            if time.monotonic() > until:
                answer.close()
                raise TransportError(f"the answer was not complete after {_WAITS * self._timeout_s:g} s")
        return data, True


def decoded(request: Request, data: bytearray) -> JsonObject:
    """Return the JSON object of an answer, without what is nested too deeply or no Unicode (:mod:`bounded_json`).

    Args:
        request: The request, for messages.
        data: The answer.

    Raises:
        ApiServerError: The answer is no JSON object.
    """
    try:
        answer, _ = parse_foreign_json(data, max_bytes=len(data))
    except JsonError:
        answer = None
    if not isinstance(answer, dict):
        raise ApiServerError(
            f"cannot {request}: the answer is no JSON object",
            hint="is this address the Kubernetes API server, or something in between?",
        )
    return answer


def _unreachable(request: Request, error: TransportError) -> UnavailableError:
    """Return the error for a request that got no complete answer."""
    match error:
        case TlsError():
            return UnavailableError(
                f"cannot {request}: no TLS connection to the API server: {error}",
                hint="does the certificate authority in the kubeconfig or service account match the server?",
            )
        case CredentialsError():
            return UnavailableError(
                f"cannot {request}: the service account's token cannot be read: {error}",
                hint="is it still mounted in this pod?",
            )
        case _:
            return UnavailableError(
                f"cannot {request}: no answer from the API server: {error}",
                hint="is it running, and does the network reach it?",
            )
