"""All routes of the HTTP API, as the HTTPS server takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus

from controller.api.access import MAY_LIST_CLAIMS, MAY_LIST_DEVICES, Answer, PathRight, Right, guarded
from controller.api.claims import pending_answer
from controller.api.events import events_answer
from controller.api.koordinator import PREFIX, summaries_answer
from controller.api.nodes import nodes_answer
from controller.api.openapi import openapi_route
from controller.api.stream_places import StreamPlaces
from controller.explanations.routes import explain_route
from controller.explanations.service import Explanations
from controller.overview.store import Overview
from controller.serving.callers import Caller, Callers
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.http.probe_server import Page, page_response

__all__ = ["api_routes"]

_V1 = "/api/v1"


def api_routes(
    overview: Overview,
    explanations: Explanations | None,
    *,
    callers: Callers,
    problem: Callable[[], str],
    pages: Mapping[str, Page] | None = None,
) -> Mapping[str, Route]:
    """Return the routes by path prefix.

    Args:
        overview: The nodes.
        explanations: Explains claims and pods; None to serve nothing under ``claims`` and ``pods``.
        callers: Authenticates and authorizes the callers.
        problem: Returns why there is no data here, such as that another controller leads; empty if there is.
        pages: The pages of every controller about itself, by the path that callers must have the right to get.
    """

    def may(right: Right, answer: Answer, *, further_problem: Callable[[], str] = lambda: "") -> Route:
        return guarded(answer, right, callers=callers, problem=lambda: problem() or further_problem())

    places = StreamPlaces()
    routes: dict[str, Route] = {
        f"{_V1}/nodes": may(MAY_LIST_DEVICES, nodes_answer(overview, places)),
        f"{_V1}/events": may(MAY_LIST_DEVICES, events_answer(overview, places)),
        f"{_V1}/openapi.json": openapi_route(),
        PREFIX: may(MAY_LIST_DEVICES, summaries_answer(overview, places)),
    }
    for path, page in (pages or {}).items():
        routes[path] = guarded(_page_answer(path, page), PathRight(path=path), callers=callers, problem=lambda: "")
    if explanations is not None:
        explain = explain_route(explanations, callers)
        routes |= dict.fromkeys(("/claims", "/pods", f"{_V1}/claims", f"{_V1}/pods"), explain)
        routes[f"{_V1}/claims/pending"] = _but_explanations(
            may(
                MAY_LIST_CLAIMS,
                pending_answer(
                    lambda: explanations.pending,
                    may_list_pods=lambda caller: callers.may(caller, "list", "pods", group=""),
                ),
                further_problem=lambda: explanations.pending_problem,
            ),
            explain,
        )
    return routes


def _page_answer(path: str, page: Page) -> Answer:
    def answer(request: Request, _caller: Caller) -> Response:
        if request.path != path:  # the right is only to this path
            return Response.of_text("there is nothing here", status=HTTPStatus.NOT_FOUND)
        return page_response(request, page)

    return answer


def _but_explanations(pending: Route, explain: Route) -> Route:
    """Return the route of explanations, and of pending claims for its path alone: "pending" may be a namespace."""
    return lambda request: (pending if request.path == f"{_V1}/claims/pending" else explain)(request)
