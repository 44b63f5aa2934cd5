"""``/healthz`` and ``/readyz`` for the kubelet's probes of the plugin's own pod."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from driver.errors import NodeError

__all__ = ["HealthPort"]

_TIMEOUT_S: Final = 5.0


class HealthPort:
    """Answers 200 where all is well, else 503 and why, in one line of text.

    Args:
        port: On all addresses, since the kubelet probes the pod's; 0 for any free one.
        healthy: Says what is broken beyond repair, so that the container must be restarted; None where nothing is.
        ready: Says what keeps the plugin from serving the kubelet; None where nothing does.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(self, port: int, *, healthy: Callable[[], str | None], ready: Callable[[], str | None]) -> None:
        probes = {"/healthz": healthy, "/readyz": ready}

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_GET(self) -> None:
                probe = probes.get(self.path)
                if probe is None:
                    self._answer(HTTPStatus.NOT_FOUND, "there are /healthz and /readyz")
                    return
                problem = probe()
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK, problem or "ok")

            def _answer(self, status: HTTPStatus, text: str) -> None:
                body = f"{text}\n".encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
                """Probes come every few seconds: not worth a line."""

        try:
            self._server = ThreadingHTTPServer(("", port), Handler)
        except OSError as error:
            raise NodeError(
                f"port {port} cannot be opened: {error.strerror}", hint="choose another one with --health-port"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="health-port", daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
