"""The controller's HTTPS server: the admission webhook's, and of what else is asked over the network.

Anybody in the cluster's network reaches it, and the API server shows no credentials to webhooks. What bounds a client
is :mod:`driver.adapters.http`'s; here are TLS and the figures.
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
"""Of a request. The API server takes no larger request either (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

_TIMEOUT_S: Final = 15.0  # of a request in all, the TLS handshake included
_MAX_REQUESTS: Final = 24
_MAX_STREAMS: Final = 64
_HEAD_BYTES: Final = 32 * 1024  # a bearer token may have 16


class SecureServer:
    """Answers requests over TLS 1.2 or newer. Until :meth:`use` has given it a certificate it takes no connection.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        routes: By path prefix: ``/claims`` is for ``/claims`` and all below it. The longest that fits answers.
        own_threads: By path prefix: how many threads these paths have of their own, so that no other path's work is
            waited for.
        timeout_s: The limit for a request in all; then the connection is cut.
        max_requests: How many are worked on at once, besides; one thread each.
        max_streams: How many streams are open at once, besides; one thread each as well. The limit in time is then that
            of each piece.

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
        """Where it listens."""
        return self._server.port

    def use(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate from the next connection on.

        Args:
            certificate: PEM, with what it was issued by where clients need that.
            key: Its private key, PEM.

        Raises:
            ssl.SSLError: They do not belong together, or are no PEM.
        """
        self._server.set_channel(partial(TlsChannel, tls_context(certificate, key)))

    def start(self) -> None:
        """Listen; before there is a certificate, connections are closed: who comes all the same comes again."""
        self._server.start()

    def stop(self) -> None:
        """End at once: streams and requests under way are cut."""
        self._server.stop()
