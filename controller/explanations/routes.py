"""``GET /api/v1/claims/NAMESPACE/NAME/explain`` and ``/api/v1/pods/…``, for the controller's HTTPS server.

The paths without ``/api/v1`` are the same.

Callers who may read the claims of a namespace may have them explained. Callers who may list all namespaces' claims see
the names of all objects that stand in the way; others only see how many they are.
"""

from __future__ import annotations

import logging
import re
from typing import Final
from urllib.parse import unquote

from controller.explanations.service import Explanations
from controller.explanations.shared_state import BusyError
from controller.serving.callers import Callers, NotAuthenticatedError
from driver.adapters.http.exchange import Request, Response, Route
from driver.adapters.kubernetes.errors import ApiServerError
from driver.errors import InputError
from driver.explain.explanation import ObjectRef
from driver.explain.tell.report import report_text
from driver.explain.tell.wire import to_wire

__all__ = ["explain_route"]

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = {"claims": "ResourceClaim", "pods": "Pod"}
# k8s.io/apimachinery v0.36.3, util/validation: claims and pods have a DNS subdomain as name, namespaces a label of one.
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE: Final = re.compile(_LABEL)
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LONGEST: Final = 253
_V1: Final = "/api/v1"


def explain_route(explanations: Explanations, callers: Callers) -> Route:
    """Return the route of both paths; ``?format=text`` answers what ``rootport explain`` prints, otherwise JSON.

    It answers 200; 404 for a path that names nothing; 401 and 403 for callers without the rights; 405; 503 if this
    controller does not lead, too many ask at once, or the API server cannot be asked about the caller.

    Args:
        explanations: Explains.
        callers: Authenticates and authorizes the callers.
    """

    def answer(request: Request) -> Response:
        if request.method != "GET":
            return Response(status=405, body=b"only GET is answered here\n", headers={"Allow": "GET"})
        subject = _subject(request.path)
        if subject is None:
            return Response.of_text(
                "ask for /api/v1/claims/NAMESPACE/NAME/explain or /api/v1/pods/NAMESPACE/NAME/explain", status=404
            )
        try:
            return _authorized(request, subject, explanations, callers)
        except NotAuthenticatedError as error:
            return Response(status=401, body=f"{error}\n".encode(), headers={"WWW-Authenticate": "Bearer"})
        except ApiServerError as error:
            _LOG.warning("cannot ask who may have a claim explained", extra={"error": str(error)})
            why = b"the API server cannot be asked who you are: try again\n"
            return Response(status=503, body=why, headers={"Retry-After": "2"})

    return answer


def _authorized(request: Request, subject: ObjectRef, explanations: Explanations, callers: Callers) -> Response:
    caller = callers.caller(request)
    group = "resource.k8s.io"
    named = subject.name if subject.kind == "ResourceClaim" else ""
    allowed = callers.may(caller, "get", "resourceclaims", group=group, namespace=subject.namespace, name=named)
    if allowed and subject.kind == "Pod":
        allowed = callers.may(caller, "get", "pods", group="", namespace=subject.namespace, name=subject.name)
    if not allowed:
        # The answer does not say whether there is such an object.
        right = "resourceclaims and pods" if subject.kind == "Pod" else "resourceclaims"
        return Response.of_text(f"you may not get {right} in namespace {subject.namespace}", status=403)
    if problem := explanations.problem:
        return Response(status=503, body=f"{problem}\n".encode(), headers={"Retry-After": "2"})
    all_names = callers.may(caller, "list", "resourceclaims", group=group)
    try:
        explanation = explanations.explain(subject, all_names=all_names)
    except BusyError as error:
        return Response(status=503, body=f"{error}\n".encode(), headers={"Retry-After": "1"})
    except InputError as error:
        return Response.of_text(str(error), status=404)
    if request.query.get("format") == "text":
        return Response.of_text(report_text(explanation))
    return Response.of_json(to_wire(explanation))


def _subject(path: str) -> ObjectRef | None:
    match [unquote(part) for part in path.removeprefix(_V1).split("/")]:
        case ["", kind, namespace, name, "explain"] if kind in _KINDS:
            if len(namespace) <= _LONGEST and len(name) <= _LONGEST and _NAMESPACE.fullmatch(namespace):
                return ObjectRef(kind=_KINDS[kind], namespace=namespace, name=name) if _NAME.fullmatch(name) else None
    return None
