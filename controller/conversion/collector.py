"""Deletes the templates that the webhook created and that no pod names any more. Runs in the leader.

What is read is the API server's newest state (lists without a resource version), and read in this order: the templates,
then the pods of their namespaces. :mod:`controller.conversion.lifetime` says why that is enough.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from controller.conversion.counts import ConversionCounter
from controller.conversion.lifetime import BY_WEBHOOK, LAST_USED, Lifetime
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ConflictError, NotFoundError
from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIM_TEMPLATES, JsonObject
from driver.convert import CONVERTED_LABEL

__all__ = ["EVERY_S", "TemplateCollector"]

EVERY_S: Final = 60.0
"""The time from one pass to the next, at least."""

_REST: Final = 100
"""The pause is so many times as long as the pass took, if that is more: to list many pods costs the API server much."""
_LONGEST_PAUSE_S: Final = 3600.0
_DELETIONS_PER_S: Final = 20.0

_LOG: Final = logging.getLogger(__name__)
_NAMES: Final = "templates"
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")


class TemplateCollector:
    """Collects templates, in a thread of its own.

    Args:
        api: With the rights to list and delete resourceclaimtemplates, and to list pods.
        counts: Counts what is collected.
        lifetime: When a template may go.
        every_s: The time from one pass to the next, at least.
        now: Returns the time.
    """

    def __init__(
        self,
        api: KubernetesApi,
        counts: ConversionCounter,
        *,
        lifetime: Lifetime | None = None,
        every_s: float = EVERY_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._counts = counts
        self._lifetime = lifetime or Lifetime()
        self._every_s = every_s
        self._now = now

    def start(self, stop: threading.Event) -> threading.Thread:
        """Start the thread, which ends once ``stop`` is set."""
        thread = threading.Thread(target=self._run, args=(stop,), name="template-collector", daemon=True)
        thread.start()
        return thread

    def collect(self, stop: threading.Event) -> int:
        """Make one pass; return how many templates were deleted.

        Raises:
            ApiServerError: The API server does not answer, or refuses.
        """
        old: defaultdict[str, list[JsonObject]] = defaultdict(list)
        templates = self._templates()
        # Now: a use that was written while they were listed must not seem to be one to come.
        now = self._now()
        for metadata in templates:
            if self._lifetime.may_go(metadata, now) and not metadata.get("deletionTimestamp"):
                old[metadata["namespace"]].append(metadata)
        deleted = 0
        for namespace, found in old.items():
            if stop.is_set():
                break
            named = self._named(namespace)
            if named is None:
                continue
            for metadata in found:
                if metadata["name"] not in named and self._delete(metadata):
                    deleted += 1
                    stop.wait(1.0 / _DELETIONS_PER_S)
        return deleted

    def _run(self, stop: threading.Event) -> None:
        pause_s = self._every_s
        while not stop.wait(pause_s):
            began = time.monotonic()
            try:
                self.collect(stop)
            except ApiServerError as error:
                _LOG.warning("templates not collected; will be tried again", extra={"error": str(error)})
            except Exception:  # noqa: BLE001 - a mistake of ours must not end all passes
                _LOG.exception("unexpected error; templates are looked at again later")
            took_s = time.monotonic() - began
            pause_s = max(self._every_s, min(_REST * took_s, _LONGEST_PAUSE_S))

    def _templates(self) -> list[JsonObject]:
        """Return the metadata of the templates that the webhook created."""
        listing = self._api.list(
            RESOURCE_CLAIM_TEMPLATES,
            label_selector=f"{CONVERTED_LABEL}={BY_WEBHOOK}",
            metadata_only=True,
            transform=_only_needed,
        )
        return [item["metadata"] for item in listing.items]

    def _named(self, namespace: str) -> set[str] | None:
        """Return the templates that a namespace's pods name; None if one of the pods cannot be read."""
        before = self._skipped()
        listing = self._api.list(PODS, namespace=namespace, field_selector=_NOT_ENDED, transform=_only_names)
        if self._skipped() != before:
            # It may be a watch that skipped one at the same time: then the next pass will do.
            _LOG.warning("a pod could not be read: no templates are collected", extra={"namespace": namespace})
            return None
        return {name for item in listing.items for name in item[_NAMES]}

    def _skipped(self) -> int:
        return sum(count for (resource, _), count in self._api.skipped.so_far().items() if resource == str(PODS))

    def _delete(self, metadata: JsonObject) -> bool:
        name, namespace = metadata["name"], metadata["namespace"]
        try:
            self._api.delete(
                RESOURCE_CLAIM_TEMPLATES,
                name,
                namespace=namespace,
                uid=metadata["uid"],
                resource_version=metadata["resourceVersion"],
            )
        except (ConflictError, NotFoundError):
            return False  # it was used meanwhile, or is gone
        self._counts.collected()
        _LOG.info("template collected", extra={"template": f"{namespace}/{name}"})
        return True


def _only_needed(stored: JsonObject) -> JsonObject:
    metadata = stored["metadata"]
    kept: dict[str, Any] = {key: metadata[key] for key in _KEPT if key in metadata}
    if (used := (metadata.get("annotations") or {}).get(LAST_USED)) is not None:
        kept["annotations"] = {LAST_USED: used}
    return {"metadata": kept}


def _only_names(pod: JsonObject) -> JsonObject:
    claims = pod["spec"].get("resourceClaims") or ()
    return {_NAMES: [name for claim in claims if (name := claim.get("resourceClaimTemplateName"))]}
