"""Returns the linter's findings about a claim as warnings: what is legal but suspicious."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from pydantic import ValidationError

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.adapters.kubernetes.resources import DEVICE_CLASSES, JsonObject
from driver.api.resource_v1 import MAX_REQUESTS, DeviceClass, ResourceClaim
from driver.budget import Budget
from driver.lint import LintCode, LintFinding, Severity, lint_claim

__all__ = ["Advisor"]

_LOG: Final = logging.getLogger(__name__)
# The policy rootport-claim-advice warns of the first, with and without a webhook; the second is not the author's fault.
_NO_WARNING: Final = frozenset({LintCode.PARTIAL_SHARE, LintCode.NOT_LOOKED_AT})
_MAX_SELECTORS: Final = 8192  # characters in all
_MAX_ALTERNATIVES: Final = 8
_SECONDS: Final = 0.1
_CLASSES_FRESH_S: Final = 30.0


class Advisor:
    """Runs the linter with the cluster's DeviceClasses, but without the published devices. Thread-safe.

    There are no warnings for an object that this version cannot read in full, for one with very long selectors, and
    while another object is checked: any user may create claims, selectors take processor time from the controller's
    other work, and warnings are worth less than a quick answer.

    Args:
        api: With the right to list deviceclasses.
        clock: Monotonic seconds.
    """

    def __init__(self, api: KubernetesApi, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._classes: Mapping[str, DeviceClass] | None = None
        self._read_at = -_CLASSES_FRESH_S
        self._reading = threading.Lock()

    def __call__(self, stored: JsonObject) -> tuple[str, ...]:
        """Return the warnings about a ResourceClaim or ResourceClaimTemplate, a line each.

        Args:
            stored: The object, valid for the API server.
        """
        claim = _claim(stored)
        if claim is None or not self._one_at_a_time.acquire(blocking=False):
            return ()
        try:
            if self._clock() >= self._read_at + _CLASSES_FRESH_S:
                # In a thread: the answer must not wait for the API server, which waits for the answer.
                threading.Thread(target=self.read_classes, name="classes", daemon=True).start()
            with Budget(_SECONDS).in_force():
                findings = lint_claim(claim, classes=self._classes)
        except Exception:  # noqa: BLE001 - a mistake of the linter must not keep a claim out
            _LOG.exception(
                "no advice", extra={"claim": f"{claim.metadata.namespace or ''}/{claim.metadata.name or ''}"}
            )
            return ()
        finally:
            self._one_at_a_time.release()
        prefix = "spec." if stored.get("kind") == "ResourceClaimTemplate" else ""
        return tuple(
            _line(finding, prefix)
            for finding in findings
            if finding.severity is not Severity.NOTE and finding.code not in _NO_WARNING
        )

    def read_classes(self) -> None:
        """Read the DeviceClasses; if that fails, keep the last ones."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            self._read_at = self._clock()
            self._classes = dict(_classes(self._api.list(DEVICE_CLASSES).items))
        except ApiServerError as error:
            _LOG.warning("DeviceClasses not read: claims get less advice", extra={"error": str(error)})
        finally:
            self._reading.release()


def _classes(stored: Iterable[JsonObject]) -> Iterator[tuple[str, DeviceClass]]:
    for item in stored:
        try:
            yield item["metadata"]["name"], DeviceClass.model_validate(item)
        except ValidationError:
            continue  # of a newer API


def _claim(stored: JsonObject) -> ResourceClaim | None:
    match stored.get("kind"):
        case "ResourceClaim":
            wire = {"metadata": stored.get("metadata"), "spec": stored.get("spec")}
        case "ResourceClaimTemplate":
            template = stored.get("spec") or {}
            wire = {"metadata": stored.get("metadata"), "spec": template.get("spec")}
        case _:
            return None
    try:
        claim = ResourceClaim.model_validate(wire)
    except ValidationError:
        return None
    devices = claim.spec.devices
    if not devices.requests or len(devices.requests) > MAX_REQUESTS or len(devices.constraints) > MAX_REQUESTS:
        return None  # nothing to check, or the API server would have refused it
    if any(len(request.first_available) > _MAX_ALTERNATIVES for request in devices.requests):
        return None
    parts = [part for request in devices.requests for part in (request.exactly, *request.first_available)]
    expressions = (
        selector.cel.expression for part in parts if part for selector in part.selectors if selector.cel is not None
    )
    return claim if sum(map(len, expressions)) <= _MAX_SELECTORS else None


def _line(finding: LintFinding, prefix: str) -> str:
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{prefix}{finding.path}: {finding.message}{hint}"
