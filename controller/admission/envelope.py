"""Reads an AdmissionReview within bounds, and makes the parts of its answer.

Source of the format: k8s.io/api v0.36.3, admission/v1 (AdmissionReview).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from driver.adapters.kubernetes.resources import JsonObject
from driver.api.validation.errors import FieldError
from driver.bounded_json import JsonError, parse_foreign_json

__all__ = [
    "MAX_WARNINGS",
    "AdmissionRequest",
    "BadReviewError",
    "answered",
    "bounded_warnings",
    "invalid",
    "members_of",
    "read_review",
    "warnings_of",
]

_MAX_REVIEW_BYTES: Final = 3 * 1024 * 1024
"""The largest review: that of a request to the API server (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

MAX_WARNINGS: Final = 12
"""Of 256 characters each: the API server cuts what is longer, and all of a response's at 4096 (k8s.io/api v0.36.3,
admission/v1)."""

_API_VERSION: Final = "admission.k8s.io/v1"
_MAX_CAUSES: Final = 32
_MAX_CAUSE: Final = 1024
"""Characters of a message or a field: a hundred values of an object may be in one."""
_MAX_WARNING: Final = 256
_MAX_UID: Final = 128
_MAX_NAME: Final = 253
# As Python objects a review has up to 200 bytes for each value, of which the shortest have two in JSON: [[],[],...].
# The 200,000 of a review of 3 MiB are 15 bytes each, less than any field of Kubernetes with its name.
_MAX_VALUES: Final = 200_000


class BadReviewError(Exception):
    """The request's body is no AdmissionReview, or larger than the API server sends.

    Attributes:
        status: The status of the answer, whose text is the exception's.
    """

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """What an AdmissionReview asks about.

    Attributes:
        uid: The request's UID, which the answer repeats.
        operation: Such as ``CREATE``.
        subresource: Such as ``status``; empty for the object itself.
        namespace: The object's namespace; empty for none.
        name: The object's name; of one whose name is generated, the beginning.
        is_dry_run: Whether nothing will be stored.
        object: The object; empty if it is deleted.
        old_object: The object before; empty if it is new.
        is_whole: Whether nothing was left out of the objects: :func:`~driver.bounded_json.parse_foreign_json`.
    """

    uid: str
    operation: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    is_dry_run: bool = False
    object: JsonObject = field(default_factory=dict, repr=False)
    old_object: JsonObject = field(default_factory=dict, repr=False)
    is_whole: bool = True


def read_review(body: bytes) -> AdmissionRequest:
    """Return what the body of a review asks.

    Raises:
        BadReviewError: The body is not an AdmissionReview.
    """
    if len(body) > _MAX_REVIEW_BYTES or sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise BadReviewError(
            f"expected at most {_MAX_REVIEW_BYTES} bytes and {_MAX_VALUES} values", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    try:
        # A part that is malformed must not keep the others from being read.
        parsed, is_cut = parse_foreign_json(body, max_bytes=_MAX_REVIEW_BYTES)
    except JsonError as error:
        raise BadReviewError("the body is not JSON") from error
    document = members_of(parsed)
    request = members_of(document.get("request"))
    uid = request.get("uid")
    if document.get("apiVersion") != _API_VERSION or not isinstance(uid, str) or not 0 < len(uid) <= _MAX_UID:
        raise BadReviewError(f"expected an AdmissionReview of {_API_VERSION} with a request")
    stored = members_of(request.get("object"))
    metadata = members_of(stored.get("metadata"))
    names = (request.get("name"), metadata.get("name"), metadata.get("generateName"))
    return AdmissionRequest(
        uid=uid,
        operation=_text(request.get("operation")),
        subresource=_text(request.get("subResource")),
        namespace=_text(request.get("namespace")),
        name=next(filter(None, map(_text, names)), ""),
        is_dry_run=request.get("dryRun") is True,
        object=stored,
        old_object=members_of(request.get("oldObject")),
        is_whole=not is_cut,
    )


def answered(uid: str, response: JsonObject) -> JsonObject:
    """Return the AdmissionReview with a response."""
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid} | response}


def invalid(request: AdmissionRequest, group: str, problem: str, errors: Sequence[FieldError]) -> JsonObject:
    """Return a Status like that of the API server's own validation: kubectl shows the causes, a line each.

    Args:
        request: The request.
        group: The API group of the object.
        problem: What is wrong, without where; the errors follow it in the message.
        errors: At least one; those beyond 32 are counted only, and long ones are cut.
    """
    kind = _text(request.object.get("kind"))
    # Each is in the answer twice, as in the API server's own.
    found = [
        FieldError(_cut(error.path, _MAX_CAUSE), _cut(error.message, _MAX_CAUSE)) for error in errors[:_MAX_CAUSES]
    ]
    shown = [*map(str, found)]
    if len(errors) > len(shown):
        shown.append(f"and {len(errors) - len(shown)} more")
    place = f"{request.namespace}/{request.name}" if request.namespace else request.name
    causes = [{"reason": "FieldValueInvalid", "field": error.path, "message": error.message} for error in found]
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f"{kind} {place} {problem}: {'; '.join(shown)}",
        "details": {"group": group, "kind": kind, "name": request.name, "causes": causes},
    }


def warnings_of(texts: Iterable[str]) -> list[str]:
    """Return texts as the API server passes them on: at most :data:`MAX_WARNINGS`, of 256 characters."""
    return [_cut(text, _MAX_WARNING) for text in islice(texts, MAX_WARNINGS)]


def bounded_warnings(lines: Sequence[str]) -> list[str]:
    """Return texts as :func:`warnings_of`; of more than :data:`MAX_WARNINGS`, the last says how many are left out."""
    more = len(lines) - MAX_WARNINGS + 1
    return warnings_of([*lines[: MAX_WARNINGS - 1], f"and {more} more"] if more > 1 else lines)


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _text(value: object) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""


def members_of(value: object) -> dict[str, Any]:
    """Return a JSON object's members; none for anything else."""
    return value if isinstance(value, dict) else {}
