"""One controller writes, the others wait: leader election by a Lease.

Semantics: client-go, tools/leaderelection (v0.36.3). Whether a holder is alive is told by when *this* process saw its
Lease change, by its own monotonic clock; the times in the Lease are for people. Of our own (the Python client's
``leaderelection`` cannot be stopped, never releases, and compares clocks of several machines).

:class:`Election` decides and does no I/O; :class:`LeaderElector` acts. A leader that could not renew for
``renew_deadline_s`` has to end its process before the Lease runs out: see ``overdue``.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, NotFoundError
from driver.adapters.kubernetes.resources import LEASES, JsonObject
from driver.api.times import micro_time_text

__all__ = ["Election", "LeaderElector", "Outcome", "Step"]

_LOG: Final = logging.getLogger(__name__)
_JITTER: Final = 1.2  # client-go's JitterFactor: candidates do not all come at once


class Step(Enum):
    """What a candidate does about the Lease it has just read."""

    CREATE = "create"
    RENEW = "renew"
    TAKE_OVER = "take over"
    WAIT = "wait"


class Outcome(Enum):
    """How :meth:`LeaderElector.run` ended."""

    STOPPED = "stopped"
    LOST = "lost"


class Election:
    """Decides about the Lease, from what was read of it and when.

    Args:
        identity: Ours; no other process may have it, not even this one's successor.
        lease_duration_s: For how long a renewal of ours is good.
    """

    def __init__(self, *, identity: str, lease_duration_s: int) -> None:
        self._identity = identity
        self._lease_duration_s = lease_duration_s
        self._seen: JsonObject | None = None
        self._seen_at = 0.0

    def decide(self, lease: JsonObject | None, now: float) -> Step:
        """What to do.

        Args:
            lease: The stored Lease; None where there is none.
            now: Monotonic seconds, taken before the Lease was read.
        """
        if lease is None:
            return Step.CREATE
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = dict(spec), now
        holder = spec.get("holderIdentity")
        if holder == self._identity:
            return Step.RENEW
        # The duration that counts is the holder's own: releasing writes one second.
        if holder and now < self._seen_at + float(spec.get("leaseDurationSeconds") or 0):
            return Step.WAIT
        return Step.TAKE_OVER

    def renewed(self, lease: JsonObject | None, step: Step, wall: datetime) -> JsonObject:
        """The Lease's specification after our step; ``lease`` is the one that was read, ``wall`` is for people."""
        former = (lease or {}).get("spec") or {}
        moment = micro_time_text(wall)
        transitions = int(former.get("leaseTransitions") or 0) + (step is Step.TAKE_OVER)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_duration_s,
            "acquireTime": former.get("acquireTime", moment) if step is Step.RENEW else moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        }

    def released(self, lease: JsonObject, wall: datetime) -> JsonObject | None:
        """The specification that gives the Lease up; None where it is not ours."""
        former = lease.get("spec") or {}
        if former.get("holderIdentity") != self._identity:
            return None
        moment = micro_time_text(wall)
        return {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": int(former.get("leaseTransitions") or 0),
        }


class LeaderElector:
    """Gets and keeps the Lease.

    Args:
        api: Its time limit should be well below ``renew_deadline_s``.
        namespace: The Lease's.
        name: The Lease's.
        identity: As for :class:`Election`.
        lease_duration_s: After how long without a renewal others take over; whole seconds.
        renew_deadline_s: After how long without a renewal a leader gives up; shorter than that.
        retry_period_s: The time between two attempts.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration_s: int = 15,
        renew_deadline_s: float = 10.0,
        retry_period_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._clock = clock
        self._election = Election(identity=identity, lease_duration_s=lease_duration_s)
        self._lease: JsonObject | None = None
        self._renewed_at: float | None = None
        self.answered = threading.Event()
        """Set once the API server has answered: whether we lead or wait, we can."""

    @property
    def leads(self) -> bool:
        """Whether the Lease was ours when it was last renewed."""
        return self._renewed_at is not None

    @property
    def holder(self) -> str:
        """Whose the Lease was when it was last read or renewed; empty for nobody's."""
        lease = self._lease  # None for a moment, while it is renewed
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    @property
    def overdue(self) -> bool:
        """Whether we lead by a Lease that has not been renewed in time: stop at once."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() - renewed_at > self._renew_deadline_s

    def run(self, stop: threading.Event, *, on_elected: Callable[[], None]) -> Outcome:
        """Wait for the Lease, call ``on_elected``, then renew. Blocks until stopped or until the Lease is lost.

        ``on_elected`` must return soon. After STOPPED the Lease is still ours: :meth:`release` it when all
        writing has ended.
        """
        while not self._try():
            if stop.wait(self._retry_period_s * (1 + random.random() * _JITTER)):  # noqa: S311 - no secret
                return Outcome.STOPPED
        _LOG.info("elected", extra={"lease": f"{self._namespace}/{self._name}"})
        on_elected()
        while not stop.wait(self._retry_period_s):
            if not self._try() and (self.overdue or not self._is_ours()):
                return Outcome.LOST
        return Outcome.STOPPED

    def release(self) -> bool:
        """Give the Lease up, so that another controller can start at once; False where that failed."""
        if not self.leads:
            return False
        self._renewed_at = None
        try:
            lease = self._api.get(LEASES, self._name, namespace=self._namespace)
            spec = self._election.released(lease, datetime.now(UTC))
            if spec is None:
                return False
            self._api.replace(LEASES, lease | {"spec": spec}, namespace=self._namespace)
        except ApiServerError as error:
            _LOG.warning("lease not released; others take over when it runs out", extra={"error": str(error)})
            return False
        return True

    def _is_ours(self) -> bool:
        """Whether somebody else's name in the Lease is not what we read last."""
        return self._lease is None or self._election.released(self._lease, datetime.now(UTC)) is not None

    def _try(self) -> bool:
        now = self._clock()
        try:
            if self._renewed_at is not None and self._lease is not None:
                # The version written last time: one request instead of two.
                lease, self._lease = self._lease, None
                self._write(lease, Step.RENEW)
            else:
                step = self._read(now)
                if step is Step.WAIT:
                    return False
                self._write(self._lease, step)
        except ApiServerError as error:
            _LOG.warning("lease not renewed" if self.leads else "lease not acquired", extra={"error": str(error)})
            return False
        except Exception:  # noqa: BLE001 - whatever stands in the Lease: a leader that goes on failing loses it anyway
            _LOG.exception("unexpected error; the lease is looked at again")
            return False
        self._renewed_at = now
        return True

    def _read(self, now: float) -> Step:
        try:
            self._lease = self._api.get(LEASES, self._name, namespace=self._namespace)
        except NotFoundError:
            self._lease = None
        self.answered.set()
        step = self._election.decide(self._lease, now)
        # A leader never takes its Lease back from somebody else, not even from one whose time ran out.
        return Step.WAIT if step is Step.TAKE_OVER and self.leads else step

    def _write(self, lease: JsonObject | None, step: Step) -> None:
        spec = self._election.renewed(lease, step, datetime.now(UTC))
        if lease is None:
            body: JsonObject = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            self._lease = self._api.create(LEASES, body, namespace=self._namespace)
        else:
            # With the resource version that was read: of two candidates one gets a conflict.
            self._lease = self._api.replace(LEASES, lease | {"spec": spec}, namespace=self._namespace)
