"""An API server that keeps objects in memory: for clusters larger than what a real one can be filled with in a bench.

It lists in pages, watches, and takes writes (create, apply and merge-patch as a merge of the top levels, update,
delete), and counts them. It checks nothing: what is compared with the real API server is compared there.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import yaml

__all__ = ["MemoryApiServer"]

Json = dict[str, Any]
_POLL_S: Final = 1.0
_OF_SEVERAL: Final = frozenset({"nodeinventories"})
"""Kinds whose status has several writers, of different fields."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Whom a request is about: a collection, or an object of it."""

    kind: str
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class MemoryApiServer:
    """Serves what :meth:`put` was given on this computer, by plain HTTP, or by HTTPS with ``tls``.

    Attributes:
        kubeconfig: To reach it by.
        writes: How many writes there were, by kind and whether the status was meant.
    """

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.writes: Counter[str] = Counter()
        self._objects: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self._log: defaultdict[str, list[bytes]] = defaultdict(list)
        self._changed = threading.Condition()
        self._server = _Server(self)
        certificate = _certificate(folder) if tls else None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, certificate.with_suffix(".key"))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.kubeconfig = folder / "memory.kubeconfig"
        scheme = "http" if certificate is None else "https"
        address = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(address, certificate)))

    def put(self, kind: str, objects: Iterable[Json]) -> None:
        """Store objects of a kind (its plural), new or changed; who watches is told."""
        for item in objects:
            self._store(kind, item)

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()

    def _store(self, kind: str, item: Json) -> Json:
        metadata = item["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata['name']}"
        with self._changed:
            version = str(len(self._log[kind]) + 1)  # how long the log is, once it tells of this
            event = "MODIFIED" if key in self._objects[kind] else "ADDED"
            item = item | {"metadata": {"uid": f"{kind}-{key}"} | metadata | {"resourceVersion": version}}
            self._objects[kind][key] = wire = json.dumps(item).encode()
            self._log_event(kind, event, wire)
        return item

    def _log_event(self, kind: str, event: str, wire: bytes) -> None:
        self._log[kind].append(b'{"type":"%s","object":%s}\n' % (event.encode(), wire))
        self._changed.notify_all()

    def _get(self, place: _Place) -> bytes | None:
        with self._changed:
            return self._objects[place.kind].get(place.key)

    def _page(self, place: _Place, query: dict[str, str]) -> bytes:
        with self._changed:
            keys = list(self._objects[place.kind])
            begin, limit = int(query.get("continue", "0")), int(query.get("limit", len(keys) or 1))
            part = [self._objects[place.kind][key] for key in keys[begin : begin + limit]]
            metadata = {"resourceVersion": f"{len(self._log[place.kind])}"}
            if begin + limit < len(keys):
                metadata["continue"] = str(begin + limit)
        return b'{"metadata":%s,"items":[%s]}' % (json.dumps(metadata).encode(), b",".join(part))

    def _write(self, method: str, place: _Place, body: Json, *, dry_run: bool) -> Json:
        if dry_run:
            return body
        self.writes[f"{place.kind}{'/' if place.subresource else ''}{place.subresource}"] += 1
        if method == "DELETE":
            with self._changed:
                wire = self._objects[place.kind].pop(place.key, None)
                if wire is not None:
                    self._log_event(place.kind, "DELETED", wire)
            return {"kind": "Status", "status": "Success"}
        stored = json.loads(self._get(place) or b'{"metadata":{}}')
        merged = stored | body | {"metadata": {"name": place.name} | stored["metadata"] | body.get("metadata", {})}
        if place.kind in _OF_SEVERAL and "status" in body:
            merged["status"] = stored.get("status", {}) | body["status"]
        return self._store(place.kind, merged)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: MemoryApiServer) -> None:
        self.store = store
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    # Head and body are two packets: with Nagle's algorithm each answer would wait 40 ms for an acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/version":
            self._answer(b'{"major":"1","minor":"37"}')
            return
        place, query = _read(self.path)
        if query.get("watch"):
            self._watch(place, int(query["resourceVersion"]))
        elif place.name:
            found = self.server.store._get(place)
            self._answer(found or b'{"kind":"Status","reason":"NotFound","code":404}', 200 if found else 404)
        else:
            self._answer(self.server.store._page(place, query))

    def do_POST(self) -> None:
        place, query = _read(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if place.kind == "tokenreviews":
            made = body | {"status": {"authenticated": True, "user": {"username": "bench"}}}
        elif place.kind.endswith("accessreviews"):
            made = body | {"status": {"allowed": True}}
        else:
            made = self.server.store._write(self.command, place, body, dry_run="dryRun" in query)
        self._answer(json.dumps(made).encode())

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - as http.server names them

    def _watch(self, place: _Place, seen: int) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        store = self.server.store
        log = store._log[place.kind]
        while True:
            with store._changed:
                if len(log) == seen:
                    store._changed.wait(_POLL_S)
                new, seen = log[seen:], len(log)
            data = b"".join(new)
            if not data:
                continue  # an empty chunk is the end
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            except OSError:
                return

    def _answer(self, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _read(target: str) -> tuple[_Place, dict[str, str]]:
    url = urlsplit(target)
    parts = url.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    kind, name, subresource = (*parts, "", "")[:3]
    return _Place(kind, namespace, name, subresource), {key: value[-1] for key, value in parse_qs(url.query).items()}


def _certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1, its own authority; its key is beside it."""
    path = folder / "memory.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "2", "-subj", "/CN=memory", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-out", str(path), "-keyout", str(path.with_suffix(".key"))]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return path


def _kubeconfig(server: str, certificate: Path | None) -> Json:
    authority = {"certificate-authority": str(certificate)} if certificate else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **authority}}],
        "users": [{"name": "u", "user": {"token": "bench"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
