"""The controller's HTTPS server, for the admission webhook and the HTTP API.

Everything in the cluster's network reaches it, and the API server sends no credentials to webhooks. The mechanisms that
limit a client are in :mod:`driver.adapters.http`; this module has TLS and the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from controller.serving.tls import TlsChannel, tls_context
from driver.adapters.http.exchange import Route
from driver.adapters.http.limits import Limits
from driver.adapters.http.server import HttpServer
from driver.errors import NodeError

__all__ = ["MAX_BODY_BYTES", "SecureServer"]

MAX_BODY_BYTES: Final = 3 * 1024 * 1024
"""The largest body of a request, as for the API server (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

_TIMEOUT_S: Final = 15.0  # for a whole request, the TLS handshake included
_MAX_REQUESTS: Final = 24
_MAX_STREAMS: Final = 64
_HEAD_BYTES: Final = 32 * 1024  # a bearer token may have 16


class SecureServer:
    """Answers requests over TLS 1.2 or newer, once :meth:`use` has given it a certificate.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        routes: The routes by path prefix: ``/claims`` is for ``/claims`` and all below it. The longest prefix wins.
        own_threads: How many threads paths have of their own, by path prefix, so that they do not wait for other paths.
        timeout_s: The time limit of a whole request; then the connection is closed.
        max_requests: How many other requests are answered at once; one thread each.
        max_streams: How many streams are open at once; one more thread each. The time limit is then that of each piece.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        routes: Mapping[str, Route],
        *,
        own_threads: Mapping[str, int] | None = None,
        timeout_s: float = _TIMEOUT_S,
        max_requests: int = _MAX_REQUESTS,
        max_streams: int = _MAX_STREAMS,
    ) -> None:
        limits = Limits(
            threads=max_requests,
            own_threads=own_threads or {},
            streams=max_streams,
            timeout_s=timeout_s,
            head_bytes=_HEAD_BYTES,
            body_bytes=MAX_BODY_BYTES,
        )
        try:
            self._server = HttpServer(port, routes, limits=limits, name="https", channel=None)
        except OSError as error:
            raise NodeError(f"cannot listen on port {port}: {error}", hint="choose another --https-port") from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    def use(self, certificate: bytes, key: bytes) -> None:
        """Serve this certificate from the next connection on.

        Args:
            certificate: PEM, followed by its issuer's if clients need that.
            key: Its private key, PEM.

        Raises:
            ssl.SSLError: They do not belong together, or are not PEM.
        """
        self._server.set_channel(partial(TlsChannel, tls_context(certificate, key)))

    def start(self) -> None:
        """Start listening; until there is a certificate, connections are closed, so that clients try again."""
        self._server.start()

    def stop(self) -> None:
        """Stop at once: streams and requests under way are cut."""
        self._server.stop()
