"""Plain HTTP of the controller's and the plugin's pods: ``/healthz`` and ``/readyz`` for the kubelet, ``/metrics``."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, TypeAlias

from driver.errors import NodeError, RootportError

__all__ = ["HealthServer", "Page"]

Page: TypeAlias = Callable[[str], tuple[str, bytes]]
"""Gives a page's content type and body, by the request's Accept header."""

_LOG: Final = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0
_TEXT: Final = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    """On IPv4 and IPv6 where the kernel has both: kubelet probes the pod's own address."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's form
        """A client that goes away early is no error of ours; the base class prints a traceback for it."""
        if not isinstance(sys.exception(), OSError):
            _LOG.exception("a request failed", extra={"client": str(client_address)})


class HealthServer:
    """Answers probes: 200 ``ok``, or 503 with the reason. And gives pages.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        checks: By path, such as ``/readyz``: why not, in a line of text, or None or an empty text where all is well.
        pages: By path, such as ``/metrics``: what makes the page; what it raises is answered with 500.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        checks: Mapping[str, Callable[[], str | None]],
        *,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        all_pages = dict(pages or {})

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if (check := checks.get(path)) is not None:
                    reason = check()
                    self._answer(503 if reason else 200, _TEXT, _line(reason or "ok"))
                elif (page := all_pages.get(path)) is not None:
                    self._answer(*_made(path, page, self.headers.get("Accept", "")))
                else:
                    self._answer(404, _TEXT, _line("there is nothing here"))

            def _answer(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
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


def _made(path: str, page: Page, accept: str) -> tuple[int, str, bytes]:
    try:
        return 200, *page(accept)
    except RootportError as error:
        return 500, _TEXT, _line(str(error))
    except Exception:  # noqa: BLE001 - who asks is not to be left without an answer, nor to be shown a traceback
        _LOG.exception("a page cannot be made", extra={"path": path})
        return 500, _TEXT, _line("the page cannot be made: see the log")


def _line(text: str) -> bytes:
    return f"{text}\n".encode()
