"""Writes allocations, takes them back, and opens gates; safe against a leader that is none any more.

The annotation goes first, with the newest resource version that is known; then, if this process still leads,
the allocation, with the version that the annotation got. A leader that is stopped between the two, for however long,
has left the annotation: the next leader rewrites each claim that has one and no allocation before it allocates anything
(:meth:`ClaimWriter.fence`), so that the first one's write meets another version and is refused. Without that, two
leaders could give one device to two claims, for a claim's version says nothing of devices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from controller.placement.managed_nodes import ManagedNodes
from controller.placement.next_step import Reason
from controller.placement.records import FINALIZER, ClaimRecord, ClaimRecords, note_text, tolerates_managed_taint
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ConflictError, InvalidError, NotFoundError
from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS, JsonObject
from driver.api.resource_v1 import AllocationResult
from driver.model.managed_nodes import ANNOTATION
from driver.placement.decision import Decision, Placement

__all__ = ["AllocationOutcome", "ClaimWriter", "Result"]

_LOG: Final = logging.getLogger(__name__)


class Result(Enum):
    """What came of a write."""

    DONE = "done"
    CHANGED = "changed"
    """Somebody else has written meanwhile: read again, decide again."""
    REFUSED = "refused"
    """A policy, a webhook or a rule of the API server says no, and will say it again."""
    UNKNOWN = "unknown"
    """The API server has not answered: the write may still take effect."""
    NOT_LEADING = "not leading"
    NOT_MANAGED = "not managed"
    """The node's label is gone."""


@dataclass(frozen=True, slots=True)
class AllocationOutcome:
    """What came of the allocation of a pod's claims.

    Attributes:
        result: Of the first write that did not succeed; DONE if all did.
        allocated: The claims' versions with their allocations, by key.
        in_doubt: The claims whose allocations may have been written; empty if that is known of all.
        error: What the API server said; empty if nothing failed.
    """

    result: Result
    allocated: dict[str, int]
    in_doubt: tuple[str, ...] = ()
    error: str = ""


class ClaimWriter:
    """Writes claims and pods. Safe for several threads, if no two of them have the same pod or claim.

    Args:
        api: The API server.
        records: The claims; what is written is taken in.
        nodes: Says whether a node is managed, at the moment of writing.
        identity: This controller's.
        may_write: Returns whether this process leads for sure.
        now: The time of day.
    """

    def __init__(
        self,
        api: KubernetesApi,
        records: ClaimRecords,
        nodes: ManagedNodes,
        *,
        identity: str,
        may_write: Callable[[], bool],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._records = records
        self._nodes = nodes
        self._identity = identity
        self._may_write = may_write
        self._now = now

    def allocate(
        self, decision: Decision, chosen: Placement, failed: Mapping[str, Reason] | None = None
    ) -> AllocationOutcome:
        """Allocate the claims of a decision, one after the other; stop at the first that cannot be.

        Args:
            decision: What was decided.
            chosen: Where.
            failed: The nodes where the pod could not be lately, and why.
        """
        allocated: dict[str, int] = {}
        avoided = {node: reason.value for node, reason in (failed or {}).items()}
        if not all(_tolerates(result) for result in chosen.results):
            why = "a device is not one of Rootport's on a managed node, or the claim tolerates every taint by itself"
            return AllocationOutcome(Result.REFUSED, allocated, error=why)
        with self._nodes.writing(chosen.node) as may_allocate:
            if not may_allocate:
                return AllocationOutcome(Result.NOT_MANAGED, allocated)
            for index, (claim, result) in enumerate(zip(decision.claims, chosen.results, strict=True)):
                text = note_text(decision, chosen, index, by=self._identity, avoided=avoided)
                answer = self._allocate_one(claim.key, claim.uid, text, result)
                if isinstance(answer, int):
                    allocated[claim.key] = answer
                else:
                    failure, is_in_doubt, error = answer
                    return AllocationOutcome(
                        failure, allocated, in_doubt=(claim.key,) if is_in_doubt else (), error=error
                    )
        return AllocationOutcome(Result.DONE, allocated)

    def ungate(self, key: str, uid: str) -> tuple[Result, str]:
        """Remove the gate of a pod that has no other; return what came of it, and what the API server said."""
        namespace, _, name = key.partition("/")
        body = {"metadata": {"uid": uid}, "spec": {"schedulingGates": None}}
        try:
            self._api.merge_patch(PODS, name, body, namespace=namespace)
        except ApiServerError as error:
            return _result(error), str(error)
        return Result.DONE, ""

    def nominate(self, key: str, uid: str, node: str) -> tuple[Result, str]:
        """Have kube-scheduler try a node first for a pod, and then open its gate.

        evaluateNominatedNode in k8s.io/kubernetes v1.37.2, pkg/scheduler/schedule_one.go: if the pod fits there, no
        other node is looked at; if not, all are. So nothing depends on the node being right, nor on its being written.
        """
        namespace, _, name = key.partition("/")
        body = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        try:
            self._api.merge_patch(PODS, name, body, namespace=namespace, subresource="status")
        except ApiServerError as error:
            if _result(error) is not Result.REFUSED:
                return _result(error), str(error)
            _LOG.warning("no node nominated", extra={"pod": key, "error": str(error)})
        return self.ungate(key, uid)

    def take_back(self, record: ClaimRecord) -> tuple[Result, str]:
        """Remove an allocation that nobody uses, then what was written with it."""
        body = {"metadata": _precondition(record.uid, record.version), "status": {"allocation": None}}
        try:
            stored = self._patch(record.key, body, subresource="status")
        except NotFoundError:
            self._records.remove(record.key, uid=record.uid)
            return Result.DONE, ""
        except ApiServerError as error:
            return _result(error), str(error)
        return self.clear(self._records.observe_stored(stored))

    def clear(self, record: ClaimRecord) -> tuple[Result, str]:
        """Remove the annotation, and the finalizer where there is no allocation, as kube-controller-manager does."""
        metadata: JsonObject = _precondition(record.uid, record.version) | {"annotations": {ANNOTATION: None}}
        if not record.is_allocated:
            metadata["finalizers"] = [name for name in record.finalizers if name != FINALIZER] or None
        try:
            self._records.observe_stored(self._patch(record.key, {"metadata": metadata}))
        except NotFoundError:
            self._records.remove(record.key, uid=record.uid)
        except ApiServerError as error:
            return _result(error), str(error)
        return Result.DONE, ""

    def fence(self, key: str) -> tuple[Result, str]:
        """Make sure that no allocation of a claim is still under way: it is there by now, or it will be refused.

        DONE means that; afterwards the record says which of the two.
        """
        namespace, _, name = key.partition("/")
        for _ in range(3):
            try:
                record = self._records.observe_stored(self._api.get(RESOURCE_CLAIMS, name, namespace=namespace))
            except NotFoundError:
                self._records.remove(key)
                return Result.DONE, ""
            except ApiServerError as error:
                return _result(error), str(error)
            if not record.is_intent:
                return Result.DONE, ""
            result, error_text = self.clear(record)
            if result is not Result.CHANGED:
                return result, error_text
        return Result.CHANGED, "it changes all the time"

    def _allocate_one(self, key: str, uid: str, text: str, result: AllocationResult) -> int | tuple[Result, bool, str]:
        """Return the claim's version with the allocation; or why there is none, whether there may be one, and more."""
        try:
            announced = self._announce(key, uid, text)
        except ApiServerError as error:
            return _result(error), False, str(error)
        if announced is None:
            return Result.CHANGED, False, ""
        if not self._may_write():
            return Result.NOT_LEADING, False, ""
        allocation = result.to_wire() | {"allocationTimestamp": self._now().strftime("%Y-%m-%dT%H:%M:%SZ")}
        body = {"metadata": _precondition(uid, announced.version), "status": {"allocation": allocation}}
        try:
            stored = self._patch(key, body, subresource="status")
        except ApiServerError as error:
            failure = _result(error)
            return failure, failure is Result.UNKNOWN, str(error)
        return self._records.observe_stored(stored).version

    def _announce(self, key: str, uid: str, text: str) -> ClaimRecord | None:
        """Write annotation and finalizer; return None if the claim is not to be allocated any more."""
        record = self._records.get(key)
        for attempt in range(2):
            if record is None or record.uid != uid or record.is_allocated or record.is_deleting:
                return None
            metadata: JsonObject = _precondition(uid, record.version) | {"annotations": {ANNOTATION: text}}
            if FINALIZER not in record.finalizers:
                metadata["finalizers"] = [*record.finalizers, FINALIZER]
            try:
                return self._records.observe_stored(self._patch(key, {"metadata": metadata}))
            except ConflictError:
                if attempt:
                    return None
                namespace, _, name = key.partition("/")
                record = self._records.observe_stored(self._api.get(RESOURCE_CLAIMS, name, namespace=namespace))
        return None

    def _patch(self, key: str, body: JsonObject, *, subresource: str | None = None) -> JsonObject:
        namespace, _, name = key.partition("/")
        return self._api.merge_patch(RESOURCE_CLAIMS, name, body, namespace=namespace, subresource=subresource)


def _precondition(uid: str, version: int) -> JsonObject:
    return {"uid": uid, "resourceVersion": str(version)}


def _tolerates(result: AllocationResult) -> bool:
    """Return whether all devices of a claim are this driver's, and tolerate the taint of managed nodes."""
    items = result.devices.results
    return bool(items) and all(
        tolerates_managed_taint(item.driver, {toleration.key for toleration in item.tolerations}) for item in items
    )


def _result(error: ApiServerError) -> Result:
    if isinstance(error, ConflictError | NotFoundError):
        return Result.CHANGED
    if error.status is None or error.retry_helps or (error.status >= 500 and not isinstance(error, InvalidError)):
        return Result.UNKNOWN
    return Result.REFUSED
