"""Sends requests through the official client's ``ApiClient``, as raw JSON without its models.

It knows every way to be let in that a kubeconfig can name: credential plugins and proxies too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import kubernetes
from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3 import HTTPResponse
from urllib3.exceptions import HTTPError, ProtocolError

from driver.adapters.files.input_file import open_input
from driver.adapters.kubernetes.kubeconfig_loading import loading
from driver.adapters.kubernetes.request import Request
from driver.adapters.kubernetes.transport import CredentialsError, DroppedError, TlsError, TransportError
from driver.errors import InputError

__all__ = ["ClientTransport", "in_cluster", "of_kubeconfig"]

_USER_AGENT: Final = f"rootport kubernetes-client/{kubernetes.__version__}"
_CONNECTIONS_KEPT: Final = 32  # more threads than that still get one each, but it is closed after use
_CHUNK: Final = 64 * 1024
_KUBECONFIG: Final = "a kubeconfig file"


class _ClientAnswer(Protocol):
    """The part of the client's ``RESTResponse`` that this module uses."""

    response: HTTPResponse


class ClientTransport:
    """The :class:`driver.adapters.kubernetes.transport.Transport` over the official client.

    Args:
        configuration: The API server's address, and the credentials.
    """

    def __init__(self, configuration: Configuration) -> None:
        # Of urllib3: no retries and no redirects. What is sent twice is decided in ``connection``.
        configuration.retries = False
        # A watch may be silent for minutes; only TCP's own probes notice a peer that vanished.
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = _CONNECTIONS_KEPT
        self._client: Any = ApiClient(configuration)
        self._client.user_agent = _USER_AGENT

    def send(self, request: Request, timeout_s: float) -> _Answer:
        """As :meth:`Transport.send`."""
        headers = {"Accept": request.accept}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            arguments = self._client.param_serialize(
                request.method,
                request.path,
                path_params={"namespace": request.namespace, "name": request.name},
                query_params=list(request.query.items()),
                header_params=headers,
                auth_settings=["BearerToken"],
            )
        except (ConfigException, OSError) as error:
            raise CredentialsError(str(error)) from error
        method, url, all_headers, *_ = arguments
        try:
            # The body goes past the client's serialization: it copies everything in search of model objects, which
            # takes three times as long as to write the JSON, and ours has none.
            answer: _ClientAnswer = self._client.call_api(
                method, url, all_headers, request.body, _request_timeout=(timeout_s, timeout_s)
            )
        except ApiException as error:  # the client wraps TLS errors, and only those
            raise TlsError(" ".join(str(error.reason).split())) from error
        except (HTTPError, OSError) as error:
            raise _failure(error) from error
        return _Answer(answer.response)

    def close(self) -> None:
        """As :meth:`Transport.close`."""
        self._client.close()


class _Answer:
    """The :class:`driver.adapters.kubernetes.transport.Answer` of urllib3."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from self._response.stream(_CHUNK, decode_content=True)
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(error) from error

    def set_silence(self, seconds: float) -> None:
        socket = getattr(self._response.connection, "sock", None)
        if socket is not None:
            socket.settimeout(seconds)

    def shut_down(self) -> None:
        self._response.shutdown()

    def close(self) -> None:
        self._response.close()


def _failure(error: Exception) -> TransportError:
    kind = DroppedError if isinstance(error, ProtocolError) else TransportError
    return kind(str(error))


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
