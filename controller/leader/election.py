"""Leader election by a Lease: one controller writes, the others wait.

The semantics are those of client-go, tools/leaderelection (v0.36.3). A holder is alive if *this* process saw its Lease
change lately, by its own monotonic clock; the times in the Lease are for people. The Python client's ``leaderelection``
is not used: it cannot be stopped, never releases, and compares clocks of several machines.

:class:`Election` decides and does no I/O; :class:`LeaderElector` acts. A leader that could not renew the Lease for ten
seconds has to end its process before the Lease expires: see :attr:`LeaderElector.overdue`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, NotFoundError
from driver.adapters.kubernetes.resources import LEASES, JsonObject
from driver.api.times import micro_time_text

__all__ = ["Election", "LeaderElector", "LeaseAction"]

_LOG: Final = logging.getLogger(__name__)
_LEASE_DURATION_S: Final = 15
_RENEW_DEADLINE_S: Final = 10.0  # shorter than that, and longer than several requests' time limits
_RETRY_PERIOD_S: Final = 2.0
_JITTER: Final = 1.2  # client-go's JitterFactor: candidates do not all come at once


class LeaseAction(Enum):
    """What a candidate does about the Lease that it has just read."""

    CREATE = "create"
    RENEW = "renew"
    TAKE_OVER = "take over"
    WAIT = "wait"


class Election:
    """Decides about the Lease, from its content and when it was read.

    Args:
        identity: This process's identity; no other process may have it, not even its successor.
        lease_duration_s: For how long this process's renewals are valid, in seconds.
    """

    def __init__(self, *, identity: str, lease_duration_s: int) -> None:
        self._identity = identity
        self._lease_duration_s = lease_duration_s
        self._seen: JsonObject | None = None
        self._seen_at = 0.0

    def decide(self, lease: JsonObject | None, now: float) -> LeaseAction:
        """Decide what to do about the Lease.

        Args:
            lease: The stored Lease; None if there is none.
            now: Monotonic seconds, taken before the Lease was read.
        """
        if lease is None:
            return LeaseAction.CREATE
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = dict(spec), now
        holder = spec.get("holderIdentity")
        if holder == self._identity:
            return LeaseAction.RENEW
        # The duration that counts is the holder's own: releasing writes one second.
        if holder and now < self._seen_at + float(spec.get("leaseDurationSeconds") or 0):
            return LeaseAction.WAIT
        return LeaseAction.TAKE_OVER

    def renewed(self, lease: JsonObject | None, action: LeaseAction, wall: datetime) -> JsonObject:
        """Return the Lease's specification after an action.

        Args:
            lease: The Lease as it was read; None if there is none.
            action: What this process does.
            wall: The time of day, for people.
        """
        former = (lease or {}).get("spec") or {}
        moment = micro_time_text(wall)
        transitions = int(former.get("leaseTransitions") or 0) + (action is LeaseAction.TAKE_OVER)
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_duration_s,
            "acquireTime": former.get("acquireTime", moment) if action is LeaseAction.RENEW else moment,
            "renewTime": moment,
            "leaseTransitions": transitions,
        }

    def released(self, lease: JsonObject, wall: datetime) -> JsonObject | None:
        """Return the specification that releases the Lease; None if this process does not hold it."""
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
    """Acquires and renews the Lease.

    Args:
        api: The API server; its time limit must be well below ten seconds.
        namespace: The Lease's namespace.
        name: The Lease's name.
        identity: This process's identity, as for :class:`Election`.
        annotations: What the Lease says about this process while it holds it. Others of its annotations stay, and so do
            these when another process takes over: whoever reads them has to see whether they are of the holder.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._annotations = dict(annotations or {})
        self._election = Election(identity=identity, lease_duration_s=_LEASE_DURATION_S)
        self._lease: JsonObject | None = None
        self._renewed_at: float | None = None
        self.answered = threading.Event()
        """Set once the API server has answered, so that this process can lead or wait."""

    @property
    def leads(self) -> bool:
        """Whether this process held the Lease when it was last renewed."""
        return self._renewed_at is not None

    @property
    def holder(self) -> str:
        """The holder of the Lease when it was last read or renewed; empty if it had none."""
        lease = self._lease  # None for a moment, while it is renewed
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    @property
    def overdue(self) -> bool:
        """Whether this process leads by a Lease that it has not renewed in time: it must stop at once."""
        renewed_at = self._renewed_at
        return renewed_at is not None and time.monotonic() - renewed_at > _RENEW_DEADLINE_S

    def run(self, stop: threading.Event, *, on_elected: Callable[[], None]) -> None:
        """Wait for the Lease, call ``on_elected``, then renew. Blocks until stopped or until the Lease is lost.

        ``on_elected`` must return soon. If it was stopped this process still holds the Lease: :meth:`release` it when
        all writing has ended.
        """
        while not self._try():
            if stop.wait(_RETRY_PERIOD_S * (1 + random.random() * _JITTER)):  # noqa: S311 - no secret
                return
        _LOG.info("elected", extra={"lease": f"{self._namespace}/{self._name}"})
        on_elected()
        while not stop.wait(_RETRY_PERIOD_S):
            if not self._try() and (self.overdue or not self._is_ours()):
                return

    def release(self) -> bool:
        """Release the Lease, so that another controller can start at once; return False if that failed."""
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
        """Return whether the Lease, as it was last read, is held by no other process."""
        return self._lease is None or self._election.released(self._lease, datetime.now(UTC)) is not None

    def _try(self) -> bool:
        now = time.monotonic()
        try:
            if self._renewed_at is not None and self._lease is not None:
                # The version written last time: one request instead of two.
                lease, self._lease = self._lease, None
                self._write(lease, LeaseAction.RENEW)
            else:
                action = self._read(now)
                if action is LeaseAction.WAIT:
                    return False
                self._write(self._lease, action)
        except ApiServerError as error:
            _LOG.warning("lease not renewed" if self.leads else "lease not acquired", extra={"error": str(error)})
            return False
        except Exception:  # noqa: BLE001 - the Lease may hold anything; a leader that goes on failing loses it anyway
            _LOG.exception("unexpected error; the lease is looked at again")
            return False
        self._renewed_at = now
        return True

    def _read(self, now: float) -> LeaseAction:
        try:
            self._lease = self._api.get(LEASES, self._name, namespace=self._namespace)
        except NotFoundError:
            self._lease = None
        self.answered.set()
        action = self._election.decide(self._lease, now)
        # A leader never takes its Lease back from another process, not even after that one's Lease has expired.
        return LeaseAction.WAIT if action is LeaseAction.TAKE_OVER and self.leads else action

    def _write(self, lease: JsonObject | None, action: LeaseAction) -> None:
        spec = self._election.renewed(lease, action, datetime.now(UTC))
        if lease is None:
            body: JsonObject = {
                "apiVersion": LEASES.api_version,
                "kind": LEASES.kind,
                "metadata": {"name": self._name, "namespace": self._namespace, "annotations": self._annotations},
                "spec": spec,
            }
            self._lease = self._api.create(LEASES, body, namespace=self._namespace)
        else:
            metadata = lease["metadata"]
            annotations = {**(metadata.get("annotations") or {}), **self._annotations}
            body = lease | {"spec": spec, "metadata": metadata | {"annotations": annotations}}
            # With the resource version that was read, so that of two candidates one gets a conflict.
            self._lease = self._api.replace(LEASES, body, namespace=self._namespace)
