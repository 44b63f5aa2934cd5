"""Answers an AdmissionReview: checks claims, templates and classes as the plugin will check them, without any I/O.

Source of the format: k8s.io/api v0.36.3, admission/v1 (AdmissionReview). The API server has already validated the
object itself, in its own version of the API. So only the fields that are for Rootport are read, and those that cannot
be read are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceAllocationConfiguration, OpaqueDeviceConfiguration
from driver.api.validation.errors import FieldError
from driver.bounded_json import JsonError, parse_foreign_json
from driver.config import UnsupportedFieldError, read_entries, share_errors

__all__ = ["MAX_REVIEW_BYTES", "Advise", "BadReviewError", "review"]

MAX_REVIEW_BYTES: Final = 3 * 1024 * 1024
"""The largest review: that of a request to the API server (MaxRequestBodyBytes in k8s.io/apiserver v0.36.3)."""

Advise = Callable[[JsonObject], Sequence[str]]
"""Returns what is legal but suspicious in a claim or template, a line each."""

_API_VERSION: Final = "admission.k8s.io/v1"
_RESOURCE_GROUP: Final = "resource.k8s.io"
_OF_CLASSES: Final = f".{DRIVER_NAME}"
_MAX_CAUSES: Final = 32
# The API server cuts a warning at 256 characters and all of a response's at 4096 (k8s.io/api v0.36.3, admission/v1).
_MAX_WARNINGS: Final = 12
_MAX_WARNING: Final = 256
# The API allows no more; a reviewer that is not the API server could send any number.
_MAX_ENTRIES: Final = 32
_MAX_UID: Final = 128
_MAX_NAME: Final = 253
_MAX_QUANTITY: Final = 64
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


def review(body: bytes, advise: Advise = lambda _: ()) -> JsonObject:
    """Answer an AdmissionReview.

    Args:
        body: The request's body, JSON.
        advise: Returns the warnings about an object without errors.

    Returns:
        The AdmissionReview with the response.

    Raises:
        BadReviewError: The body is not an AdmissionReview.
    """
    document = _parsed(body)
    request = _dict(document.get("request"))
    uid = request.get("uid")
    if document.get("apiVersion") != _API_VERSION or not isinstance(uid, str) or not 0 < len(uid) <= _MAX_UID:
        raise BadReviewError(f"expected an AdmissionReview of {_API_VERSION} with a request")
    response: JsonObject = {"uid": uid, "allowed": True}
    stored = _dict(request.get("object"))
    if _is_to_be_checked(request, stored):
        kind = _text(stored.get("kind"))
        errors = list(_errors(kind, stored))
        if errors:
            response |= {"allowed": False, "status": _status(kind, request, errors)}
        elif warnings := [_cut(text, _MAX_WARNING) for text in advise(stored)[:_MAX_WARNINGS]]:
            response["warnings"] = warnings
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response}


def _parsed(body: bytes) -> JsonObject:
    if len(body) > MAX_REVIEW_BYTES or sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise BadReviewError(
            f"expected at most {MAX_REVIEW_BYTES} bytes and {_MAX_VALUES} values", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    try:
        # A part that is malformed must not keep the others from being checked.
        document, _ = parse_foreign_json(body, max_bytes=MAX_REVIEW_BYTES)
    except JsonError as error:
        raise BadReviewError("the body is not JSON") from error
    return _dict(document)


def _is_to_be_checked(request: JsonObject, stored: JsonObject) -> bool:
    if request.get("operation") == "CREATE":
        return True
    # Objects from before this webhook, or from while it was away, can still be labelled and deleted (finalizers!).
    return request.get("operation") == "UPDATE" and stored.get("spec") != _dict(request.get("oldObject")).get("spec")


def _errors(kind: str, stored: JsonObject) -> Iterator[FieldError]:
    spec = _dict(stored.get("spec"))
    match kind:
        case "ResourceClaim":
            yield from _claim_errors(spec, "spec")
        case "ResourceClaimTemplate":
            yield from _claim_errors(_dict(spec.get("spec")), "spec.spec")
        case "DeviceClass":
            yield from _config_errors(spec.get("config"), "spec.config", source="FromClass")


def _claim_errors(spec: JsonObject, where: str) -> Iterator[FieldError]:
    devices = _dict(spec.get("devices"))
    for index, request in enumerate(_list(devices.get("requests"))):
        path = f"{where}.devices.requests[{index}]"
        yield from _share_errors(_dict(_dict(request).get("exactly")), f"{path}.exactly")
        for number, part in enumerate(_list(_dict(request).get("firstAvailable"))):
            yield from _share_errors(_dict(part), f"{path}.firstAvailable[{number}]")
    yield from _config_errors(devices.get("config"), f"{where}.devices.config", source="FromClaim")


def _share_errors(part: JsonObject, where: str) -> Iterator[FieldError]:
    own = _text(part.get("deviceClassName")).endswith(_OF_CLASSES)
    amounts: dict[str, Quantity] = {}
    for key, value in islice(_dict(_dict(part.get("capacity")).get("requests")).items(), _MAX_ENTRIES):
        # Other drivers' devices have memory as well, and their own rules for it.
        if (own or key.startswith(f"{DRIVER_NAME}/")) and isinstance(value, str | int | float):
            try:
                amounts[key] = Quantity(str(value)[: _MAX_QUANTITY + 1])
            except ValueError:
                continue  # the API server refuses it itself
    yield from share_errors(amounts, f"{where}.capacity.requests")


def _config_errors(entries: object, where: str, *, source: str) -> Iterator[FieldError]:
    found = [_configuration(_dict(entry), source) for entry in _list(entries)]
    _, errors = read_entries(found, where)
    # The configuration of another driver, or of a newer Kubernetes, is not checked.
    yield from (error for error in errors if not isinstance(error, UnsupportedFieldError))


def _configuration(entry: JsonObject, source: str) -> DeviceAllocationConfiguration:
    opaque = _dict(entry.get("opaque"))
    known = (
        OpaqueDeviceConfiguration(driver=DRIVER_NAME, parameters=opaque.get("parameters"))
        if opaque.get("driver") == DRIVER_NAME
        else None
    )
    requests = tuple(map(_text, _list(entry.get("requests"))))
    return DeviceAllocationConfiguration(source=source, requests=requests, opaque=known)


def _status(kind: str, request: JsonObject, errors: Sequence[FieldError]) -> JsonObject:
    """Return a Status like that of the API server's own validation: kubectl shows the causes, a line each."""
    metadata = _dict(_dict(request.get("object")).get("metadata"))
    name = _text(request.get("name")) or _text(metadata.get("name")) or _text(metadata.get("generateName"))
    namespace = _text(request.get("namespace"))
    shown = [*map(str, errors[:_MAX_CAUSES])]
    if len(errors) > len(shown):
        shown.append(f"and {len(errors) - len(shown)} more")
    what = "a mistake" if len(errors) == 1 else f"{len(errors)} mistakes"
    place = f"{namespace}/{name}" if namespace else name
    causes = [
        {"reason": "FieldValueInvalid", "field": error.path, "message": error.message} for error in errors[:_MAX_CAUSES]
    ]
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f"{kind} {place} has {what} in what it says to {DRIVER_NAME}: {'; '.join(shown)}",
        "details": {"group": _RESOURCE_GROUP, "kind": kind, "name": name, "causes": causes},
    }


def _cut(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _text(value: object) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value[:_MAX_ENTRIES] if isinstance(value, list) else []
