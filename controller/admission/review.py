"""Answers an AdmissionReview: checks claims, templates and classes as the plugin will check them, without any I/O.

The API server has already validated the object itself, in its own version of the API. So only the fields that are for
Rootport are read, and those that cannot be read are not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from controller.admission.envelope import AdmissionRequest, answered, invalid, members_of, read_review, warnings_of
from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceAllocationConfiguration, OpaqueDeviceConfiguration
from driver.api.validation.errors import FieldError
from driver.config import UnsupportedFieldError, read_entries, share_errors

__all__ = ["Advise", "review"]

Advise = Callable[[JsonObject], Sequence[str]]
"""Returns what is legal but suspicious in a claim or template, a line each."""

_RESOURCE_GROUP: Final = "resource.k8s.io"
_OF_CLASSES: Final = f".{DRIVER_NAME}"
# The API allows no more; a reviewer that is not the API server could send any number.
_MAX_ENTRIES: Final = 32
_MAX_NAME: Final = 253
_MAX_QUANTITY: Final = 64


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
    request = read_review(body)
    response: JsonObject = {"allowed": True}
    if _is_to_be_checked(request):
        errors = list(_errors(_text(request.object.get("kind")), request.object))
        if errors:
            what = "a mistake" if len(errors) == 1 else f"{len(errors)} mistakes"
            problem = f"has {what} in what it says to {DRIVER_NAME}"
            response = {"allowed": False, "status": invalid(request, _RESOURCE_GROUP, problem, errors)}
        elif warnings := warnings_of(advise(request.object)):
            response["warnings"] = warnings
    return answered(request.uid, response)


def _is_to_be_checked(request: AdmissionRequest) -> bool:
    if request.operation == "CREATE":
        return True
    # Objects from before this webhook, or from while it was away, can still be labelled and deleted (finalizers!).
    return request.operation == "UPDATE" and request.object.get("spec") != request.old_object.get("spec")


def _errors(kind: str, stored: JsonObject) -> Iterator[FieldError]:
    spec = members_of(stored.get("spec"))
    match kind:
        case "ResourceClaim":
            yield from _claim_errors(spec, "spec")
        case "ResourceClaimTemplate":
            yield from _claim_errors(members_of(spec.get("spec")), "spec.spec")
        case "DeviceClass":
            yield from _config_errors(spec.get("config"), "spec.config", source="FromClass")


def _claim_errors(spec: JsonObject, where: str) -> Iterator[FieldError]:
    devices = members_of(spec.get("devices"))
    for index, request in enumerate(_list(devices.get("requests"))):
        path = f"{where}.devices.requests[{index}]"
        yield from _share_errors(members_of(members_of(request).get("exactly")), f"{path}.exactly")
        for number, part in enumerate(_list(members_of(request).get("firstAvailable"))):
            yield from _share_errors(members_of(part), f"{path}.firstAvailable[{number}]")
    yield from _config_errors(devices.get("config"), f"{where}.devices.config", source="FromClaim")


def _share_errors(part: JsonObject, where: str) -> Iterator[FieldError]:
    device_class = _text(part.get("deviceClassName"))
    own = device_class.endswith(_OF_CLASSES)
    amounts: dict[str, Quantity] = {}
    for key, value in islice(members_of(members_of(part.get("capacity")).get("requests")).items(), _MAX_ENTRIES):
        # Other drivers' devices have memory as well, and their own rules for it.
        if (own or key.startswith(f"{DRIVER_NAME}/")) and isinstance(value, str | int | float):
            try:
                amounts[key] = Quantity(str(value)[: _MAX_QUANTITY + 1])
            except ValueError:
                continue  # the API server refuses it itself
    yield from share_errors(amounts, f"{where}.capacity.requests", device_class)


def _config_errors(entries: object, where: str, *, source: str) -> Iterator[FieldError]:
    found = [_configuration(members_of(entry), source) for entry in _list(entries)]
    _, errors = read_entries(found, where)
    # The configuration of another driver, or of a newer Kubernetes, is not checked.
    yield from (error for error in errors if not isinstance(error, UnsupportedFieldError))


def _configuration(entry: JsonObject, source: str) -> DeviceAllocationConfiguration:
    opaque = members_of(entry.get("opaque"))
    known = (
        OpaqueDeviceConfiguration(driver=DRIVER_NAME, parameters=opaque.get("parameters"))
        if opaque.get("driver") == DRIVER_NAME
        else None
    )
    requests = tuple(map(_text, _list(entry.get("requests"))))
    return DeviceAllocationConfiguration(source=source, requests=requests, opaque=known)


def _text(value: object) -> str:
    return value[:_MAX_NAME] if isinstance(value, str) else ""


def _list(value: object) -> list[Any]:
    return value[:_MAX_ENTRIES] if isinstance(value, list) else []
