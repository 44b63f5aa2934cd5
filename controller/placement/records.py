"""What is written on a claim about its placement, and what the claims say of it: the memory that outlives this process.

The annotation is written before the allocation. So an allocation without it is none of the controller's, and an
annotation without an allocation is one that was not made, or was taken back.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from driver import DRIVER_NAME
from driver.explain.tell.summary import shortened
from driver.model.managed_nodes import ANNOTATION, TAINT
from driver.placement.decision import Decision, Placement

__all__ = [
    "FINALIZER",
    "ClaimRecord",
    "ClaimRecords",
    "PlacementNote",
    "note_text",
    "read_claim_record",
    "read_note",
    "tolerates_managed_taint",
]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim until nobody uses it (Finalizer in k8s.io/api v0.37.2, resource/v1)."""

_WHY_BYTES: Final = 600
_MOST_DEVICES: Final = 32
_MOST_AVOIDED: Final = 8
_MOST_READ: Final = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementNote:
    """The annotation of a claim, as far as the controller reads it again.

    Attributes:
        by: The identity of the controller that wrote it.
        pod_uid: The pod for which the claim was allocated.
        node: Where.
    """

    by: str
    pod_uid: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRecord:
    """A claim as placement needs it.

    Attributes:
        key: ``namespace/name``.
        uid: Its UID.
        version: Its resource version.
        created: When it was created, as the API has it.
        finalizers: All of them.
        note: The annotation; None without one.
        is_allocated: It has an allocation.
        tolerates_managed_taint: It has one, of which each result tolerates the taint of managed nodes: of their devices
            alone.
        pool: The pool of its first device, which is its node; empty without one.
        is_reserved: Somebody uses it.
        is_deleting: It is being deleted.
    """

    key: str
    uid: str
    version: int
    created: str = ""
    finalizers: tuple[str, ...] = ()
    note: PlacementNote | None = None
    is_allocated: bool = False
    tolerates_managed_taint: bool = False
    pool: str = ""
    is_reserved: bool = False
    is_deleting: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether a controller has allocated it: not the scheduler, nor an administrator by hand."""
        return self.tolerates_managed_taint and self.note is not None and self.note.node == self.pool

    @property
    def is_intent(self) -> bool:
        """Whether a controller has announced an allocation that is not there."""
        return self.note is not None and not self.is_allocated and not self.is_deleting


def note_text(
    decision: Decision, chosen: Placement, index: int, *, by: str, avoided: Mapping[str, str] | None = None
) -> str:
    """Return the annotation of a claim.

    Args:
        decision: What was decided.
        chosen: Where.
        index: Of the claim in both.
        by: The identity of the controller that writes it.
        avoided: Why the pod could not be on other nodes, by node; the last that failed comes last.
    """
    devices = [item.device for item in chosen.results[index].devices.results]
    more = {"moreDevices": len(devices) - _MOST_DEVICES} if len(devices) > _MOST_DEVICES else {}
    content = {
        "node": chosen.node,
        "devices": devices[:_MOST_DEVICES],
        **more,
        "runnerUp": decision.runner_up.node if decision.runner_up is not None else None,
        "avoided": dict(list((avoided or {}).items())[-_MOST_AVOIDED:]) or None,
        "why": shortened(decision.why, _WHY_BYTES),
        "pod": decision.pod.partition("/")[2],
        "podUID": decision.pod_uid,
        "by": by,
    }
    return json.dumps({key: value for key, value in content.items() if value is not None}, ensure_ascii=False)


def read_note(annotations: Mapping[str, Any] | None) -> PlacementNote | None:
    """Read the annotation; one that no controller could have written counts as one of nobody's for nowhere."""
    text = (annotations or {}).get(ANNOTATION)
    if text is None:
        return None
    try:
        content = json.loads(str(text)[:_MOST_READ])
        return PlacementNote(by=str(content["by"]), pod_uid=str(content["podUID"]), node=str(content["node"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return PlacementNote(by="", pod_uid="", node="")


def read_claim_record(metadata: Mapping[str, Any], wire: Mapping[str, Any]) -> ClaimRecord:
    """Read a claim.

    Args:
        metadata: Its metadata.
        wire: The claim; of its metadata the deletion alone is read.
    """
    status = wire.get("status") or {}
    allocation = status.get("allocation")
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return ClaimRecord(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),  # whole numbers that grow (KEP-5504)
        created=str(metadata.get("creationTimestamp") or ""),
        finalizers=tuple(metadata.get("finalizers") or ()),
        note=read_note(metadata.get("annotations")),
        is_allocated=allocation is not None,
        tolerates_managed_taint=bool(results) and all(map(_tolerates, results)),
        pool=str(results[0].get("pool", "")) if results else "",
        is_reserved=bool(status.get("reservedFor")),
        is_deleting=bool((wire.get("metadata") or {}).get("deletionTimestamp")),
    )


class ClaimRecords:
    """The claims' records by key, each in the newest version that was seen. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ClaimRecord] = {}
        self._unused: set[str] = set()  # those that must be looked at again and again

    def observe(self, record: ClaimRecord) -> bool:
        """Take in a version of a claim; return whether it is newer than what is known."""
        with self._lock:
            known = self._records.get(record.key)
            if known is not None and known.uid == record.uid and known.version >= record.version:
                return False
            self._records[record.key] = record
            is_unused = record.note is not None and not record.is_reserved and not record.is_deleting
            (self._unused.add if is_unused else self._unused.discard)(record.key)
            return True

    def observe_stored(self, stored: Mapping[str, Any]) -> ClaimRecord:
        """Take in a claim as the API server has answered it; return its record."""
        record = read_claim_record(stored["metadata"], stored)
        self.observe(record)
        return record

    def remove(self, key: str, *, uid: str | None = None) -> None:
        """Forget a claim that is gone; only one with this UID, if one is given."""
        with self._lock:
            known = self._records.get(key)
            if uid is not None and known is not None and known.uid != uid:
                return
            self._records.pop(key, None)
            self._unused.discard(key)

    def get(self, key: str) -> ClaimRecord | None:
        """Return a claim's record; None if there is no such claim."""
        with self._lock:
            return self._records.get(key)

    def unused(self) -> list[ClaimRecord]:
        """Return the records of the claims that have the annotation, and that nobody uses yet, or any more."""
        with self._lock:
            return [self._records[key] for key in self._unused]


def tolerates_managed_taint(driver: str, tolerated: Collection[str | None]) -> bool:
    """Return whether a device is this driver's and tolerates the taint: others are not the controller's to give.

    Args:
        driver: The driver in a result of an allocation.
        tolerated: The keys of the taints that the result tolerates.
    """
    return driver == DRIVER_NAME and TAINT in tolerated


def _tolerates(result: Mapping[str, Any]) -> bool:
    tolerated = {item.get("key") for item in result.get("tolerations") or ()}
    return tolerates_managed_taint(str(result.get("driver")), tolerated)
