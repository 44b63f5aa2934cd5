"""Authorizes requests: callers need the same rights as with kubectl, which the API server is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from controller.serving.callers import Caller, Callers, NotAuthenticatedError
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import DEVICES, RESOURCE_CLAIMS, Resource

__all__ = ["MAY_LIST_CLAIMS", "MAY_LIST_DEVICES", "Answer", "PathRight", "Right", "guarded"]

_LOG: Final = logging.getLogger(__name__)

Answer: TypeAlias = Callable[[Request, Caller], Response]
"""Answers a GET of an authorized caller; may raise ApiServerError if it asks the API server about the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A right of RBAC, in all namespaces.

    Attributes:
        verb: Such as ``list``.
        resource: The resource.
    """

    verb: str
    resource: Resource

    def is_held(self, caller: Caller, callers: Callers) -> bool:
        """Return whether the caller has it."""
        return callers.may(caller, self.verb, self.resource.plural, group=self.resource.group)

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRight:
    """The right of RBAC to get a path that is no resource: ``nonResourceURLs``.

    Attributes:
        path: Such as ``/metrics``.
    """

    path: str

    def is_held(self, caller: Caller, callers: Callers) -> bool:
        """Return whether the caller has it."""
        return callers.may_get(caller, self.path)

    def __str__(self) -> str:
        return f"get {self.path}"


MAY_LIST_DEVICES: Final = Right(verb="list", resource=DEVICES)
MAY_LIST_CLAIMS: Final = Right(verb="list", resource=RESOURCE_CLAIMS)


def guarded(answer: Answer, right: Right | PathRight, *, callers: Callers, problem: Callable[[], str]) -> Route:
    """Return a route that answers GET of callers with a right.

    It also answers 405; 401 and 403 for callers without the right; 503 if the API server cannot be asked about the
    caller, or if there is no data here.

    Args:
        answer: Answers the authorized callers.
        right: The right that they need.
        callers: Authenticates and authorizes the callers.
        problem: Returns why there is no data here, such as that another controller leads; empty if there is.
    """

    def route(request: Request) -> Response:
        if request.method != "GET":
            return Response(
                status=HTTPStatus.METHOD_NOT_ALLOWED, body=b"only GET is answered here\n", headers={"Allow": "GET"}
            )
        try:
            caller = callers.caller(request)
            if not right.is_held(caller, callers):
                return Response.of_text(f"you may not {right}", status=HTTPStatus.FORBIDDEN)
            return _unavailable(why) if (why := problem()) else answer(request, caller)
        except NotAuthenticatedError as error:
            return Response(
                status=HTTPStatus.UNAUTHORIZED, body=f"{error}\n".encode(), headers={"WWW-Authenticate": "Bearer"}
            )
        except ApiServerError as error:
            _LOG.warning("cannot ask who may read", extra={"error": str(error)})
            return _unavailable("the API server cannot be asked who you are: try again")

    return route


def _unavailable(why: str) -> Response:
    return Response(status=HTTPStatus.SERVICE_UNAVAILABLE, body=f"{why}\n".encode(), headers={"Retry-After": "2"})
