"""Serves the dashboard's files from the package: they are read once, and no other file can be requested."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from driver.adapters.http.exchange import Request, Response, Route

__all__ = ["DASHBOARD", "dashboard_routes"]

DASHBOARD: Final = "/dashboard/"

_PACKAGE: Final = "controller.dashboard"
_FOLDER: Final = "static"
_INDEX: Final = "index.html"
_CONTENT_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".json": "application/json",
    ".woff2": "font/woff2",
}
_HEADERS: Final = {
    # The page shows names and messages that users choose: none of them can ever become a script, and no other page can
    # show this one in a frame.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    content_type: str
    body: bytes
    zipped: bytes
    tag: str


def dashboard_routes() -> Mapping[str, Route]:
    """Return the routes of ``/dashboard/`` and everything below, without a token; ``/`` redirects there."""
    files = dict(_read(resources.files(_PACKAGE).joinpath(_FOLDER)))

    def file(request: Request) -> Response:
        if request.method != "GET":
            return Response.of_text("only GET is answered here", status=HTTPStatus.METHOD_NOT_ALLOWED)
        if request.path == DASHBOARD.rstrip("/"):
            return _to_dashboard()
        found = files.get(request.path.removeprefix(DASHBOARD) or _INDEX)
        return _NOT_FOUND if found is None else _answer(request, found)

    def root(request: Request) -> Response:
        return _to_dashboard() if request.path == "/" and request.method == "GET" else _NOT_FOUND

    return {DASHBOARD.rstrip("/"): file, "/": root}


_NOT_FOUND: Final = Response.of_text("there is nothing here", status=HTTPStatus.NOT_FOUND)


def _answer(request: Request, file: _File) -> Response:
    headers = _HEADERS | {"ETag": file.tag}
    if file.tag in (item.strip() for item in request.headers.get("if-none-match", "").split(",")):
        return Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            body=file.zipped, content_type=file.content_type, headers=headers | {"Content-Encoding": "gzip"}
        )
    return Response(body=file.body, content_type=file.content_type, headers=headers)


def _to_dashboard() -> Response:
    return Response(status=HTTPStatus.FOUND, headers={"Location": DASHBOARD})


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, _File]]:
    if not folder.is_dir():
        return
    for item in folder.iterdir():
        if item.is_dir():
            yield from _read(item, f"{prefix}{item.name}/")
        elif (content_type := _CONTENT_TYPES.get(PurePosixPath(item.name).suffix)) is not None:
            body = item.read_bytes()
            # Weak: the same for both encodings.
            tag = f'W/"{hashlib.sha256(body).hexdigest()[:16]}"'
            yield (
                f"{prefix}{item.name}",
                _File(content_type=content_type, body=body, zipped=gzip.compress(body, mtime=0), tag=tag),
            )
