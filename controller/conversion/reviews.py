"""Answers the reviews of pods: decides, sees to it that the templates are there, and says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from controller.admission.certificate_keeper import FailurePolicy
from controller.admission.envelope import (
    AdmissionRequest,
    BadReviewError,
    answered,
    bounded_warnings,
    invalid,
    read_review,
    warnings_of,
)
from controller.conversion.counts import ConversionCounter
from controller.conversion.decision import decide
from controller.conversion.json_patch import patch_response
from controller.conversion.templates import Templates, TemplateTakenError
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.validation.errors import FieldError
from driver.budget import Budget, SpentError
from driver.convert import Outcome, Settings

__all__ = ["OnRefusal", "PodReviews"]

OnRefusal: TypeAlias = Literal["deny", "admit"]

_LOG: Final = logging.getLogger(__name__)
_CPU_S: Final = 1.0
_WALL_S: Final = 7.0  # the API server waits 10 s for the answer
_TRY_AGAIN: Final = "it is not the pod's fault: try again in a moment"


class PodReviews:
    """Answers AdmissionReviews about pods. Thread-safe.

    Args:
        templates: Creates what converted pods name.
        counts: Counts the pods by outcome.
        settings: Returns how to convert now.
        on_refusal: Whether a pod that cannot be converted is denied, or admitted as it is with warnings.
        failure_policy: Whether a pod is denied if its templates cannot be created now, or admitted as it is: what the
            API server does where no webhook answers at all.
    """

    def __init__(
        self,
        templates: Templates,
        counts: ConversionCounter,
        settings: Callable[[], Settings],
        *,
        on_refusal: OnRefusal,
        failure_policy: FailurePolicy,
    ) -> None:
        self._templates = templates
        self._counts = counts
        self._settings = settings
        self._on_refusal = on_refusal
        self._failure_policy = failure_policy

    def __call__(self, body: bytes) -> JsonObject:
        """Answer a review.

        Args:
            body: The request's body, JSON.

        Returns:
            The AdmissionReview with the response.

        Raises:
            BadReviewError: The body is not an AdmissionReview, or one that would be read in part only.
        """
        request = read_review(body)
        if not request.is_whole:
            # A patch could not be made of what was left out; no pod of the API server has such values.
            raise BadReviewError("expected UTF-8, and JSON that is not nested deeply")
        outcome, response = self._response(request)
        if not request.is_dry_run:
            self._counts.pod(outcome)
        return answered(request.uid, response)

    def _response(self, request: AdmissionRequest) -> tuple[str, JsonObject]:
        try:
            return self._decided(request)
        except TemplateTakenError as error:
            return Outcome.REFUSED, _denied(request, str(error), HTTPStatus.CONFLICT, "Conflict")
        except ApiServerError as error:
            _LOG.warning("pod not converted", extra={"namespace": request.namespace, "error": str(error)})
            return "failed", self._failed(request, str(error))
        except SpentError:
            return "failed", self._failed(request, "the API server takes too long to create its templates")
        except Exception:  # noqa: BLE001 - it must not decide about the pod, which may be any
            _LOG.exception("pod not converted", extra={"namespace": request.namespace, "pod": request.name})
            return "failed", self._failed(request, "unexpected error; the log of Rootport's controller has it")

    def _decided(self, request: AdmissionRequest) -> tuple[str, JsonObject]:
        try:
            with Budget(_CPU_S).in_force():
                decision = decide(request, self._settings())
        except SpentError:
            errors = (FieldError("spec", f"to convert it takes more than {_CPU_S:g} s: it has too many containers"),)
            return Outcome.REFUSED, self._refused(request, errors)
        if decision.outcome is Outcome.REFUSED:
            return decision.outcome, self._refused(request, decision.errors)
        with Budget(_CPU_S, wall_s=_WALL_S).in_force():
            for template in decision.templates:
                self._templates.ensure(template, dry_run=request.is_dry_run)
        response: JsonObject = patch_response(decision.patch) if decision.patch else {"allowed": True}
        if decision.notes:
            response["warnings"] = bounded_warnings(decision.notes)
        return decision.outcome, response

    def _refused(self, request: AdmissionRequest, errors: Sequence[FieldError]) -> JsonObject:
        if self._on_refusal == "admit":
            return {"allowed": True, "warnings": bounded_warnings([f"not converted: {error}" for error in errors])}
        problem = "asks for devices in a way that cannot be converted into claims"
        return {"allowed": False, "status": invalid(request, "", problem, errors)}

    def _failed(self, request: AdmissionRequest, reason: str) -> JsonObject:
        if self._failure_policy == "Ignore":
            return {"allowed": True, "warnings": warnings_of([f"not converted: {reason}"])}
        return _denied(request, f"{reason}; {_TRY_AGAIN}", HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable")


def _denied(request: AdmissionRequest, text: str, code: HTTPStatus, reason: str) -> JsonObject:
    status = {
        "status": "Failure",
        "code": int(code),
        "reason": reason,
        "message": f"Pod {request.namespace}/{request.name}: {text}",
    }
    return {"allowed": False, "status": status}
