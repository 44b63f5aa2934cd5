"""Answers the reviews of claims: percentages become prioritized lists over the sizes that the cluster's devices have.

Nothing is created and nothing else is decided: a claim that cannot be rewritten is admitted as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from controller.admission.envelope import (
    AdmissionRequest,
    BadReviewError,
    answered,
    bounded_warnings,
    members_of,
    read_review,
)
from controller.conversion.counts import ConversionCounter
from controller.conversion.json_patch import json_patch, patch_response
from driver.adapters.kubernetes.resources import JsonObject
from driver.convert import Outcome
from driver.ratios import Sizes, restored, rewritten

__all__ = ["ClaimReviews"]

_LOG: Final = logging.getLogger(__name__)
_FIELD: Final = "spec.devices"


class ClaimReviews:
    """Answers AdmissionReviews about ResourceClaims. Thread-safe.

    Args:
        sizes: Returns the sizes of the cluster's devices; none as long as they are not known.
        counts: Counts the claims by outcome.
    """

    def __init__(self, sizes: Callable[[], Sizes], counts: ConversionCounter) -> None:
        self._sizes = sizes
        self._counts = counts

    def __call__(self, body: bytes) -> JsonObject:
        """Answer a review.

        Args:
            body: The request's body, JSON.

        Returns:
            The AdmissionReview with the response, which always admits the claim.

        Raises:
            BadReviewError: The body is not an AdmissionReview, or one that would be read in part only.
        """
        request = read_review(body)
        if not request.is_whole:
            raise BadReviewError("expected UTF-8, and JSON that is not nested deeply")
        try:
            outcome, response = self._answer(request)
        except Exception:  # noqa: BLE001 - it must not decide about the claim
            _LOG.exception("claim not rewritten", extra={"namespace": request.namespace, "claim": request.name})
            outcome, response = "failed", {"allowed": True}
        if not request.is_dry_run:
            self._counts.claim(outcome)
        return answered(request.uid, response)

    def _answer(self, request: AdmissionRequest) -> tuple[str, JsonObject]:
        claim = request.object
        devices = _devices(claim)
        if request.subresource or claim.get("kind") != "ResourceClaim" or devices is None:
            return Outcome.UNCHANGED, {"allowed": True}
        if request.operation == "UPDATE":
            # Who applies the claim again sends what it was before; the spec of a claim cannot change.
            stored = _devices(request.old_object)
            is_same = stored is not None and stored != devices and restored(stored) == devices
            return (Outcome.CONVERTED, _with(claim, stored)) if is_same else (Outcome.UNCHANGED, {"allowed": True})
        if request.operation != "CREATE":
            return Outcome.UNCHANGED, {"allowed": True}
        found = rewritten(devices, self._sizes())
        stays = [
            f"{_FIELD}.{change.path}: {change.capacity} stays a percentage: {change.text}"
            for change in found.changes
            if not change.is_rewritten
        ]
        response = _with(claim, found.devices) if found.is_rewritten else {"allowed": True}
        if stays:
            return Outcome.NOTED, response | {"warnings": bounded_warnings(stays)}
        return (Outcome.CONVERTED if found.is_rewritten else Outcome.UNCHANGED), response


def _devices(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    devices = members_of(claim.get("spec")).get("devices")
    return devices if isinstance(devices, dict) else None


def _with(claim: Mapping[str, Any], devices: Mapping[str, Any] | None) -> JsonObject:
    return patch_response(json_patch(claim, {**claim, "spec": {**claim["spec"], "devices": devices}}))
