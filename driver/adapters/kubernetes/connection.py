"""Sends requests to the API server through the official client's ``ApiClient``, as raw JSON without its models.

Connections are kept alive and shared by all threads. Every call has a time limit. A read (GET) whose kept-alive
connection turns out to be dropped is sent once more; a write never is, for it may have been carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import kubernetes
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError, ProtocolError

from driver.adapters.files.input_file import open_input
from driver.adapters.kubernetes.errors import ApiServerError, TooLargeError, UnavailableError
from driver.adapters.kubernetes.kubeconfig_loading import loading
from driver.adapters.kubernetes.refusals import refusal
from driver.adapters.kubernetes.request import OnWrite, Request
from driver.adapters.kubernetes.resources import JsonObject
from driver.bounded_json import JsonError, parse_foreign_json
from driver.errors import InputError

__all__ = ["MAX_OBJECT_BYTES", "Connection", "decoded", "in_cluster", "of_kubeconfig"]

_T = TypeVar("_T")

MAX_OBJECT_BYTES: Final = 16 * 1024**2
"""The longest object that is read, in the API server's JSON.

etcd takes 1.5 MiB (--max-request-bytes), and a text may be six times as long in JSON: ``<`` becomes ``\\u003c``.
"""

_USER_AGENT: Final = f"rootport kubernetes-client/{kubernetes.__version__}"
_CONNECTIONS_KEPT: Final = 32  # more threads than that still get one each, but it is closed after use
_CHUNK: Final = 64 * 1024
_LONGEST_REFUSAL: Final = 1024**2
_KUBECONFIG: Final = "a kubeconfig file"


class _Answer(Protocol):
    """The part of the client's ``RESTResponse`` that this module uses."""

    response: HTTPResponse


class Connection:
    """A pool of connections to one API server. Thread-safe.

    Args:
        configuration: The API server's address, and the credentials.
        timeout_s: The limit for connecting, and for each wait for bytes of an answer.
        on_write: Called after each write, from the thread that made it.
    """

    def __init__(self, configuration: Configuration, timeout_s: float, *, on_write: OnWrite | None = None) -> None:
        # Of urllib3: no retries and no redirects. What is sent twice is decided below.
        configuration.retries = False
        # A watch may be silent for minutes; only TCP's own probes notice a peer that vanished.
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = _CONNECTIONS_KEPT
        self._client: Any = ApiClient(configuration)
        self._client.user_agent = _USER_AGENT
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

        def exchange() -> tuple[HTTPResponse, bytearray, bool]:
            response = self._send(request)
            return response, *_body(response, max_bytes if response.status < 300 else _LONGEST_REFUSAL)

        response, data, is_whole = self._with_retry(request, exchange)
        if response.status >= 300:
            raise refusal(request, response.status, data, response.headers)
        if not is_whole:
            raise TooLargeError(f"cannot {request}: the answer is longer than {max_bytes} bytes")
        return data

    def open_stream(self, request: Request, silence_s: float) -> HTTPResponse:
        """Send a request with an endless answer; the caller closes it.

        Args:
            request: The request, a watch.
            silence_s: How long the answer may pause, once it has begun.

        Raises:
            ApiServerError: The request was refused, or no answer began.
        """
        response = self._with_retry(request, lambda: self._send(request))
        if response.status >= 300:
            try:
                raise refusal(request, response.status, _body(response, _LONGEST_REFUSAL)[0], response.headers)
            except HTTPError as error:
                raise _unreachable(request, error) from error
            finally:
                response.close()
        # Until here the limit of every call held; a silent watch is no error.
        socket = getattr(response.connection, "sock", None)
        if socket is not None:
            socket.settimeout(silence_s)
        return response

    def close(self) -> None:
        """Close the idle connections. Streams that are open stay open."""
        self._client.close()

    def _with_retry(self, request: Request, exchange: Callable[[], _T]) -> _T:
        try:
            try:
                return exchange()
            except ProtocolError:
                if request.method != "GET":
                    raise
                return exchange()
        except (HTTPError, ApiException, OSError, ConfigException) as error:
            raise _unreachable(request, error) from error

    def _send(self, request: Request) -> HTTPResponse:
        headers = {"Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        arguments = self._client.param_serialize(
            request.method,
            request.path,
            path_params={"namespace": request.namespace, "name": request.name},
            query_params=list(request.query.items()),
            header_params=headers,
            auth_settings=["BearerToken"],
        )
        method, url, all_headers, *_ = arguments
        # The body goes past the client's serialization: it copies everything in search of model objects, which takes
        # three times as long as to write the JSON, and ours has none.
        answer: _Answer = self._client.call_api(
            method, url, all_headers, request.body, _request_timeout=(self._timeout_s, self._timeout_s)
        )
        return answer.response


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


def _body(response: HTTPResponse, max_bytes: int) -> tuple[bytearray, bool]:
    """Return the body, and whether it is complete: if it is too long, the connection is closed."""
    data = bytearray()
    for chunk in response.stream(_CHUNK, decode_content=True):
        data += chunk
        if len(data) > max_bytes:
            response.close()
            return data[:max_bytes], False
    return data, True


def _unreachable(request: Request, error: Exception) -> UnavailableError:
    """Return the error for a request that got no complete answer."""
    if isinstance(error, ApiException):  # the client wraps TLS errors, and only those
        return UnavailableError(
            f"cannot {request}: no TLS connection to the API server: {' '.join(str(error.reason).split())}",
            hint="does the certificate authority in the kubeconfig or service account match the server?",
        )
    if isinstance(error, HTTPError):
        return UnavailableError(
            f"cannot {request}: no answer from the API server: {error}",
            hint="is it running, and does the network reach it?",
        )
    return UnavailableError(
        f"cannot {request}: the service account's token cannot be read: {error}",
        hint="is it still mounted in this pod?",
    )


def in_cluster() -> Configuration:
    """Return the pod's own service account; its token is read again each minute, for the kubelet replaces it.

    Raises:
        InputError: This process does not run in a pod, or the pod mounts no token.
    """
    configuration = _direct()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise InputError(
            f"no service account to reach the API server with: {error}",
            hint="run in a pod that mounts one, or name a kubeconfig",
        ) from error
    return configuration


def of_kubeconfig(path: Path) -> Configuration:
    """Return the current context of a kubeconfig: token, client certificate, or credential plugin.

    Raises:
        InputError: The file cannot be read or says too little, or its credential plugin fails.
    """
    open_input(path, _KUBECONFIG).close()
    configuration = _direct()
    with loading(str(path)):
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(path), client_configuration=configuration
        )
    return configuration


def _direct() -> Configuration:
    """Return a configuration without the environment's HTTPS_PROXY, which is not meant for the cluster.

    A kubeconfig that names its own ``proxy-url`` sets it afterwards.
    """
    configuration = Configuration()
    configuration.proxy = None
    return configuration
