"""Serves the dashboard's files and canned answers of the HTTP API on a real socket, as the controller would."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import controller.dashboard

__all__ = ["TOKEN", "PageServer"]

TOKEN: Final = "a-token.of-the.tests"

# The controller's, and more: what the files promise (controller.dashboard).
_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_STATIC: Final = Path(controller.dashboard.__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class PageServer:
    """What the page asks, and what it is answered; change the answers while it runs.

    Attributes:
        nodes: GET /nodes: NodeOverview as JSON.
        details: GET /nodes/NAME.
        pending: GET /claims/pending.
        explanations: GET /claims/... and /pods/...: by path.
        refuse: What every question is answered with instead: status and text; None to answer.
    """

    def __init__(self, nodes: Sequence[dict[str, Any]] = ()) -> None:
        self.nodes = {node["name"]: node for node in nodes}
        self.details: dict[str, dict[str, Any]] = {}
        self.pending: list[dict[str, Any]] = []
        self.explanations: dict[str, dict[str, Any]] = {}
        self.refuse: tuple[int, str] | None = None
        self.version = 1
        self._news = threading.Condition()
        self._events: list[bytes] = []
        self._cut = 0
        self._streams = 0
        self.stopping = False
        self._kept: tuple[object, bytes, bytes] = (None, b"", b"")
        self.asked: list[str] = []
        server = self

        class Handler(_Handler):
            site = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/dashboard/"

    def close(self) -> None:
        self.cut_streams()
        with self._news:
            self.stopping = True
            self._news.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def nodes_body(self) -> tuple[bytes, bytes]:
        """GET /nodes, plain and zipped; kept ready until something changes, as the controller does."""
        key = (self.version, tuple(self.nodes))
        if self._kept[0] != key:
            body = json.dumps({"version": self.version, "nodes": [self.nodes[name] for name in sorted(self.nodes)]})
            self._kept = (key, body.encode(), gzip.compress(body.encode(), 1))
        return self._kept[1:]

    def put(self, node: dict[str, Any]) -> None:
        """A node changed: the next question and the streams tell."""
        self.nodes[node["name"]] = node
        self._send_event("node", node)

    def remove(self, name: str) -> None:
        del self.nodes[name]
        self._send_event("gone", {"name": name})

    def claims_changed(self) -> None:
        self._send_event("claims", {})

    def reset(self) -> None:
        """The streams say that the page must read everything anew."""
        self._send_event("reset", {})

    def cut_streams(self) -> None:
        """All connections that are open for events end."""
        with self._news:
            self._cut += 1
            self._news.notify_all()

    def wait_for_streams(self, number: int = 1, timeout: float = 10) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self._streams >= number, timeout), f"{self._streams} streams are open"

    def _send_event(self, name: str, data: dict[str, Any]) -> None:
        with self._news:
            self.version += 1
            self._events.append(f"id: {self.version}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode())
            self._news.notify_all()

    def stream(self, since: int, handler: _Handler) -> None:
        """Writes events until the streams are cut."""
        with self._news:
            cut, sent = self._cut, max(0, len(self._events) - (self.version - since))
            self._streams += 1
            self._news.notify_all()
        try:
            handler.wfile.write(b": hello\n\n")
            handler.wfile.flush()
            while True:
                with self._news:
                    while self._cut == cut and not self.stopping and len(self._events) <= sent:
                        self._news.wait()
                    if self._cut != cut or self.stopping:
                        return
                    fresh, sent = self._events[sent:], len(self._events)
                for event in fresh:
                    handler.wfile.write(event)
                handler.wfile.flush()
        except OSError:
            pass  # the page went away
        finally:
            with self._news:
                self._streams -= 1
                self._news.notify_all()


class _Handler(BaseHTTPRequestHandler):
    site: PageServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path.startswith("/dashboard/"):
            self._file(url.path.removeprefix("/dashboard/") or "index.html")
        elif url.path.startswith("/api/v1/"):
            self.site.asked.append(url.path)
            self._api(unquote(url.path.removeprefix("/api/v1/")), parse_qs(url.query))
        else:
            self._send(404, b"", "text/plain")

    def _file(self, name: str) -> None:
        path = _STATIC / name
        if path.parent != _STATIC or not path.is_file():
            self._send(404, b"", "text/plain")
            return
        self._send(200, path.read_bytes(), f"{_TYPES[path.suffix]}; charset=utf-8")

    def _api(self, path: str, query: dict[str, list[str]]) -> None:
        site = self.site
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, b"the API server does not know this token", "text/plain")
        elif site.refuse is not None:
            self._send(site.refuse[0], site.refuse[1].encode(), "text/plain")
        elif path == "nodes":
            body, zipped = site.nodes_body()
            self._send(200, body, "application/json", zipped)
        elif path == "claims/pending":
            self._json({"claims": site.pending})
        elif path == "events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.close_connection = True
            site.stream(int(query["since"][0]), self)
        elif path.startswith("nodes/") and path.removeprefix("nodes/") in site.details:
            self._json(site.details[path.removeprefix("nodes/")])
        elif path in site.explanations:
            self._json(site.explanations[path])
        else:
            self._send(404, f"there is no {path}".encode(), "text/plain")

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str, zipped: bytes = b"") -> None:
        self.send_response(HTTPStatus(status))
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("Retry-After", "60")  # so that the page waits until the test lets it go on
        if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1000:
            body = zipped or gzip.compress(body, 1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
