"""``GET /api/v1/nodes`` and ``/api/v1/nodes/NAME``: all devices in short, one node's in full."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final
from urllib.parse import unquote

from controller.api.access import Answer
from controller.api.stream_places import StreamPlaces
from controller.overview.store import Overview
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response

__all__ = ["nodes_answer"]

_JSON: Final = "application/json"
_LEVEL: Final = 1
_AT_LEAST_S: Final = 1.0
_NODES_A_PIECE: Final = 64
_PREFIX: Final = "/api/v1/nodes"


def nodes_answer(overview: Overview, places: StreamPlaces) -> Answer:
    """Return what answers both paths.

    Args:
        overview: The nodes.
        places: Limits the streams of each caller.
    """
    zipped = _Zipped(overview)

    def answer(request: Request, caller: Caller) -> Response:
        name = unquote(request.path.removeprefix(_PREFIX).strip("/"))
        if name:
            return _one(overview, name)
        return _zipped(request, zipped) if _takes_gzip(request) else _plain(request, caller, overview, places)

    return answer


def _one(overview: Overview, name: str) -> Response:
    node, devices = overview.node(name), overview.devices(name)
    if node is None:
        return Response.of_text("there is no such node", status=HTTPStatus.NOT_FOUND)
    head = {key: value for key, value in node.to_wire().items() if key != "devices"}
    return Response.of_json(head | {"devices": devices})


def _plain(request: Request, caller: Caller, overview: Overview, places: StreamPlaces) -> Response:
    # Piece by piece: thousands of nodes are some megabytes, which a slow client would keep in memory.
    version, nodes = overview.wires()
    if _knows(request, version):
        return _not_modified(version)
    headers = {"ETag": _tag(version), "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    return places.stream(caller, _pieces(version, nodes), content_type=_JSON, headers=headers)


def _zipped(request: Request, zipped: _Zipped) -> Response:
    version, body = zipped.now()
    if _knows(request, version):
        return _not_modified(version)
    headers = {
        "ETag": _tag(version),
        "Cache-Control": "no-cache",
        "Content-Encoding": "gzip",
        "Vary": "Accept-Encoding",
    }
    return Response(body=body, content_type=_JSON, headers=headers)


class _Zipped:
    """The list, compressed once for all callers, and not more than once a second."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._lock = threading.Lock()
        self._made_at = 0.0
        self._version = -1
        self._body = b""

    def now(self) -> tuple[int, bytes]:
        with self._lock:
            now = time.monotonic()
            is_due = self._version < 0 or now >= self._made_at + _AT_LEAST_S
            if is_due and self._overview.version != self._version:
                version, nodes = self._overview.wires()
                body = gzip.compress(b"".join(_pieces(version, nodes)), _LEVEL)
                self._version, self._body, self._made_at = version, body, now
            return self._version, self._body


def _pieces(version: int, nodes: Sequence[bytes]) -> Iterator[bytes]:
    yield b'{"version":%d,"nodes":[' % version
    rest = iter(nodes)
    comma = b""
    while some := b",".join(islice(rest, _NODES_A_PIECE)):
        yield comma + some
        comma = b","
    yield b"]}"


def _takes_gzip(request: Request) -> bool:
    offered = (item.strip().partition(";") for item in request.headers.get("accept-encoding", "").split(","))
    return any(name.strip() == "gzip" and more.replace(" ", "") not in {"q=0", "q=0.0"} for name, _, more in offered)


def _tag(version: int) -> str:
    return f'W/"{version}"'


def _knows(request: Request, version: int) -> bool:
    return _tag(version) in (item.strip() for item in request.headers.get("if-none-match", "").split(","))


def _not_modified(version: int) -> Response:
    return Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": _tag(version), "Vary": "Accept-Encoding"})
