"""When a template may go: the times on which the webhook and the collector agree, without any I/O.

A review is answered before its pod is stored, so a template may be in use that no pod names yet. The webhook therefore
writes into a template that it was used, unless that was written within the last :attr:`Lifetime.refresh_s`. The
collector deletes it :attr:`Lifetime.unused_s` after that at the earliest: by then the pod is stored, or never will be.
Both go by what the API server has: a deletion requires the version that was judged, and a use changes the version.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from controller.admission.envelope import members_of
from driver import DRIVER_NAME
from driver.adapters.kubernetes.resources import JsonObject
from driver.api.times import time_text
from driver.convert import CONVERTED_LABEL

__all__ = ["BY_WEBHOOK", "LAST_USED", "Lifetime", "is_collected", "used_at"]

BY_WEBHOOK: Final = "webhook"
"""The value of the label ``rootport.dev/converted`` where the webhook created the template, and the collector may
delete it. Templates of ``rootport convert`` have ``true``: who applied one keeps it, also where the webhook had created
it before."""

LAST_USED: Final = f"{DRIVER_NAME}/last-used"
"""The annotation that says when a pod was last converted with the template; without it, that was its creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """The times of templates.

    Attributes:
        refresh_s: How old the last use may be that is written in a template that is used again, in seconds. So many
            pods that ask for the same within it cost one write.
        request_s: How long after a review its pod may be stored: the API server's ``--request-timeout``.
        skew_s: How far the clocks of the controllers and of the API servers may be apart.
    """

    refresh_s: float = 60.0
    request_s: float = 60.0
    skew_s: float = 180.0

    @property
    def unused_s(self) -> float:
        """How long after its last written use a template that no pod names stays."""
        return self.refresh_s + self.request_s + self.skew_s

    def is_stale(self, metadata: JsonObject, now: datetime) -> bool:
        """Return whether a template's use must be written into it."""
        return now - _last_used(metadata, now, self.skew_s) >= timedelta(seconds=self.refresh_s)

    def may_go(self, metadata: JsonObject, now: datetime) -> bool:
        """Return whether a template may be deleted if no pod names it."""
        return now - _last_used(metadata, now, self.skew_s) >= timedelta(seconds=self.unused_s)


def is_collected(metadata: JsonObject) -> bool:
    """Return whether the webhook created the template, and nobody took it over."""
    return members_of(metadata.get("labels")).get(CONVERTED_LABEL) == BY_WEBHOOK


def used_at(now: datetime) -> dict[str, str]:
    """Return the annotations that say that a template is used now."""
    return {LAST_USED: time_text(now)}


def _last_used(metadata: JsonObject, now: datetime, skew_s: float) -> datetime:
    """Return when a template was last used, as far as it says.

    Anybody who may change the template may write that. What is no time, or one to come, does not count.
    """
    created = _time(metadata.get("creationTimestamp")) or now
    written = _time(members_of(metadata.get("annotations")).get(LAST_USED))
    if written is None or written > now + timedelta(seconds=skew_s):
        return created
    return max(created, written)


def _time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
