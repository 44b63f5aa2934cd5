"""``/healthz`` and ``/readyz`` over HTTP, for the kubelet's probes of the controller's and the plugin's pods."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from driver.errors import NodeError

__all__ = ["HealthServer"]

_TIMEOUT_S: Final = 5.0


class _Server(ThreadingHTTPServer):
    """On IPv4 and IPv6 where the kernel has both: kubelet probes the pod's own address."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class HealthServer:
    """Answers probes: 200 ``ok``, or 503 with the reason.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        checks: By path, such as ``/readyz``: why not, in a line of text, or None or an empty text where all is well.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(self, port: int, checks: Mapping[str, Callable[[], str | None]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_GET(self) -> None:
                check = checks.get(self.path.partition("?")[0])
                reason = "there is nothing here" if check is None else check()
                body = f"{reason or 'ok'}\n".encode()
                self.send_response(404 if check is None else 503 if reason else 200)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Probes come every few seconds: no log."""

        try:
            self._server = _Server(("", port), Handler)
        except OSError as error:
            raise NodeError(f"cannot listen on port {port}: {error}", hint="choose another --health-port") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
