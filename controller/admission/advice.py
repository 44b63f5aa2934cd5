"""What is legal in a claim but suspicious: the linter's findings, as warnings to who makes it."""

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
from driver.api.resource_v1 import DeviceClass, ResourceClaim
from driver.api.validation import MAX_REQUESTS
from driver.budget import Budget
from driver.lint import LintCode, LintFinding, Severity, lint_claim

__all__ = ["Advisor"]

_LOG: Final = logging.getLogger(__name__)
# The policy rootport-claim-advice says it, with and without a webhook; and the author cannot help a lack of time.
_SAID_ELSEWHERE: Final = frozenset({LintCode.PARTIAL_SHARE, LintCode.NOT_LOOKED_AT})
_MAX_SELECTORS: Final = 8192  # characters in all
_MAX_ALTERNATIVES: Final = 8
_SECONDS: Final = 0.1
_CLASSES_FRESH_S: Final = 30.0


class Advisor:
    """Asks the linter, with the cluster's DeviceClasses and without asking what is published. Safe for threads.

    Nothing is said of an object that this version cannot read in full, of one with very long selectors, and while
    another is looked at: anybody may make claims, to read selectors takes the processor from the controller's other
    work, and advice is worth less than a quick answer.

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
        """What the linter says of a ResourceClaim or ResourceClaimTemplate, a line each.

        Args:
            stored: The object, valid for the API server.
        """
        claim = _claim(stored)
        if claim is None or not self._one_at_a_time.acquire(blocking=False):
            return ()
        try:
            if self._clock() >= self._read_at + _CLASSES_FRESH_S:
                # Beside the answer, which must not wait for the API server that waits for it.
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
            if finding.severity is not Severity.NOTE and finding.code not in _SAID_ELSEWHERE
        )

    def read_classes(self) -> None:
        """Read the DeviceClasses; where that fails, the last ones stay."""
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
        return None  # nothing to judge, or the API server would have refused it
    if any(len(request.first_available) > _MAX_ALTERNATIVES for request in devices.requests):
        return None
    asked = [part for request in devices.requests for part in (request.exactly, *request.first_available)]
    expressions = (
        selector.cel.expression for part in asked if part for selector in part.selectors if selector.cel is not None
    )
    return claim if sum(map(len, expressions)) <= _MAX_SELECTORS else None


def _line(finding: LintFinding, prefix: str) -> str:
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{prefix}{finding.path}: {finding.message}{hint}"
