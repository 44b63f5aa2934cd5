"""The plain HTTP port of controller and plugin: ``/healthz`` and ``/readyz`` for the kubelet, and ``/metrics``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from driver.adapters.http.clients import Readers, is_local
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.http.limits import Limits
from driver.adapters.http.server import HttpServer
from driver.errors import NodeError, RootportError

__all__ = ["Page", "ProbeServer", "page_response"]

Page: TypeAlias = Callable[[str], tuple[str, bytes]]
"""Takes the request's Accept header, and returns the page's content type and body."""

_LOG: Final = logging.getLogger(__name__)

_TIMEOUT_S: Final = 10.0  # Prometheus' own default
_CHECK_THREADS: Final = 4
_PAGE_THREADS: Final = 2  # of their own: however long a page takes, a probe is answered


class ProbeServer:
    """Answers probes with 200 ``ok`` or with 503 and the reason, and serves pages.

    Args:
        port: The TCP port, on all addresses; 0 for any free one.
        checks: For each path, such as ``/readyz``, a function that returns what is wrong in a line of text, or None or
            an empty text if all is well.
        pages: For each path, such as ``/metrics``, what makes the page; what it raises is answered with 500.
        readers: Who may read the pages; probes are answered to everyone.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        checks: Mapping[str, Callable[[], str | None]],
        *,
        pages: Mapping[str, Page] | None = None,
        readers: Readers = "everyone",
    ) -> None:
        pages = {} if readers == "nobody" else dict(pages or {})
        routes = {path: _check_route(path, check) for path, check in checks.items()}
        routes |= {path: _page_route(path, page, readers) for path, page in pages.items()}
        limits = Limits(threads=_CHECK_THREADS, own_threads=dict.fromkeys(pages, _PAGE_THREADS), timeout_s=_TIMEOUT_S)
        try:
            self._server = HttpServer(port, routes, limits=limits, name="health")
        except OSError as error:
            raise NodeError(f"cannot listen on port {port}: {error}", hint="choose another --health-port") from error

    @property
    def port(self) -> int:
        """The TCP port that it listens on."""
        return self._server.port

    def start(self) -> None:
        """Start answering, in threads of its own."""
        self._server.start()

    def stop(self) -> None:
        """Stop at once; work under way is not waited for."""
        self._server.stop()


def page_response(request: Request, page: Page) -> Response:
    """Return the page, or 500 with the reason why it cannot be made."""
    try:
        content_type, body = page(request.headers.get("accept", ""))
    except RootportError as error:
        return Response.of_text(str(error), status=HTTPStatus.INTERNAL_SERVER_ERROR)
    except Exception:  # noqa: BLE001 - the client gets an answer, and no traceback
        _LOG.exception("a page cannot be made", extra={"path": request.path[:200]})
        return Response.of_text("the page cannot be made: see the log", status=HTTPStatus.INTERNAL_SERVER_ERROR)
    return Response(body=body, content_type=content_type)


def _check_route(path: str, check: Callable[[], str | None]) -> Route:
    def route(request: Request) -> Response:
        if (refusal := _refusal(request, path)) is not None:
            return refusal
        reason = check()
        return Response.of_text(reason or "ok", status=HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK)

    return route


def _page_route(path: str, page: Page, readers: Readers) -> Route:
    def route(request: Request) -> Response:
        if (refusal := _refusal(request, path)) is not None:
            return refusal
        if readers == "localhost" and not is_local(request.client):
            text = f"{path} is for localhost alone here (--metrics-readers)"
            return Response.of_text(text, status=HTTPStatus.FORBIDDEN)
        return page_response(request, page)

    return route


def _refusal(request: Request, path: str) -> Response | None:
    if request.path != path:
        return Response.of_text("there is nothing here", status=HTTPStatus.NOT_FOUND)
    if request.method != "GET":
        return Response.of_text("only GET is answered here", status=HTTPStatus.METHOD_NOT_ALLOWED)
    return None
