"""Turns the API server's refusals into errors.

A refusal carries a ``Status`` object (k8s.io/apimachinery/pkg/apis/meta/v1, ``Status`` and ``StatusReason``): its
message, reason and causes are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from driver.adapters.kubernetes.errors import (
    AlreadyExistsError,
    ApiServerError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NamespaceTerminatingError,
    NotFoundError,
    UnavailableError,
)
from driver.adapters.kubernetes.request import Request
from driver.bounded_json import JsonError, parse_foreign_json

__all__ = ["refusal", "refusal_of_status"]

_TEXT_SHOWN: Final = 300  # of an answer that is no Status: a proxy's error page may be long
_LONGEST_TEXT: Final = 4096  # a message may quote what any user wrote into the object
_MOST_CAUSES: Final = 32
_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"  # k8s.io/api v0.37.2, core/v1, NamespaceTerminatingCause
_LONGEST_RETRY_AFTER_S: Final = 600.0

_BY_STATUS: Final[Mapping[int, type[ApiServerError]]] = {
    400: InvalidError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    413: InvalidError,
    422: InvalidError,
    429: UnavailableError,
}


def refusal(request: Request, status: int, body: bytes | bytearray, retry_after: str | None) -> ApiServerError:
    """Return the error for an answer with an HTTP status of 300 or more.

    Args:
        request: The request.
        status: The HTTP status.
        body: A Status object in JSON, or any text.
        retry_after: The header ``Retry-After``.
    """
    try:
        answer, _ = parse_foreign_json(body, max_bytes=len(body))
    except JsonError:
        answer = None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        answer = {"message": body.decode(errors="replace").strip()[:_TEXT_SHOWN]}
    return _error(request, status, answer, _seconds(retry_after))


def refusal_of_status(request: Request, answer: Mapping[str, Any]) -> ApiServerError:
    """Return the error for a Status object that came as an event of a watch."""
    status = answer.get("code")
    return _error(request, status if isinstance(status, int) else 500, answer, None)


def _error(request: Request, status: int, answer: Mapping[str, Any], retry_after_s: float | None) -> ApiServerError:
    reason = _cut(str(answer.get("reason") or ""))
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    causes = [cause for cause in causes if isinstance(cause, dict)][:_MOST_CAUSES] if isinstance(causes, list) else []
    texts = tuple(_cut(f"{cause.get('field', '')}: {cause.get('message', '')}".removeprefix(": ")) for cause in causes)
    text = _cut(str(answer.get("message") or reason or "refused without a reason"))
    message = f"cannot {request}: {text if text.isprintable() else repr(text)} (HTTP {status})"
    kind = _kind(status, reason)
    if kind is ForbiddenError and any(cause.get("reason") == _NAMESPACE_TERMINATING for cause in causes):
        kind = NamespaceTerminatingError
    if kind is UnavailableError:
        if retry_after_s is None:
            retry_after_s = _seconds(details.get("retryAfterSeconds"))
        return UnavailableError(message, status=status, reason=reason, causes=texts, retry_after_s=retry_after_s)
    return kind(message, hint=_hint(request, status, kind, reason), status=status, reason=reason, causes=texts)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _kind(status: int, reason: str) -> type[ApiServerError]:
    if reason == "AlreadyExists":
        return AlreadyExistsError
    if status >= 500:
        return UnavailableError
    return _BY_STATUS.get(status, ApiServerError)


def _hint(request: Request, status: int, kind: type[ApiServerError], reason: str) -> str | None:
    resource = request.resource
    if status == 401:
        return "the API server does not accept these credentials: check the token or the client certificate"
    if kind is ForbiddenError:
        what = f"{resource.plural}/{request.subresource}" if request.subresource else resource.plural
        return (
            f"if RBAC says no, allow the verb {request.verb!r} on {what!r} in API group {resource.group!r};"
            " otherwise the message names the admission policy"
        )
    if kind is NotFoundError and reason != "NotFound":
        return f"the API server does not serve {resource} in {resource.version}: install its CRD or enable its API"
    return None


def _seconds(value: object) -> float | None:
    # Retry-After may be a date as well (RFC 9110, 10.2.3); the API server sends seconds.
    try:
        return max(0.0, min(float(str(value)), _LONGEST_RETRY_AFTER_S))
    except ValueError:
        return None
