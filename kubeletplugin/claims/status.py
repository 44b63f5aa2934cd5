"""Publishes in the claims' status what was prepared and whether its limits hold, without delaying the kubelet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS, JsonObject
from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError, RootportError
from kubeletplugin.claims.device_status import device_statuses, failure_statuses, is_published
from kubeletplugin.internal_errors import InternalError, guarded, summary
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType
from kubeletplugin.service import ClaimPrepared, ClaimService
from kubeletplugin.state.entry import Entry

if TYPE_CHECKING:  # most nodes move no interface, and need not load what does
    from kubeletplugin.network.netdev.records import InPod

__all__ = ["FIELD_MANAGER", "ClaimStatusPublisher", "NotifyingClaims"]

FIELD_MANAGER: Final = "rootport-claim-status"
"""The owner of the entries in ``status.devices`` by server-side apply; the same in every version."""

_LOG: Final = logging.getLogger(__name__)
_DROPPED: Final = ConditionReport(
    type=ConditionType.DEVICE_STATUS_KEPT,
    status=ConditionStatus.FALSE,
    reason="Dropped",
    message="no claim's status.devices says what was prepared, and whether its limits hold: the API server drops it, "
    "its feature gate DRAResourceClaimDeviceStatus is off",
)
_KEPT: Final = ConditionReport(
    type=ConditionType.DEVICE_STATUS_KEPT,
    status=ConditionStatus.TRUE,
    reason="Kept",
    message="the API server keeps status.devices of claims again",
)


class _Published(NamedTuple):
    """What was published of a claim."""

    entry: Entry
    network: Mapping[str, InPod]


class ClaimStatusPublisher:
    """Writes this driver's entries in ``status.devices`` of the prepared claims: the action of a Loop.

    A claim is read before it is written, so that nothing is written that is there already: after a restart of the
    plugin each claim is read once. What this process has published is not checked again. Kubernetes itself removes the
    entries when the claim is deallocated.

    An API server whose feature gate DRAResourceClaimDeviceStatus is off drops the entries and says nothing (it is on by
    default since Kubernetes 1.33, and always on since 1.37): then the condition DeviceStatusKept does.

    Args:
        api: The API server.
        entries: All prepared claims. A claim that was prepared anew must be another object than before, and one that
            was not should be the same one, as :meth:`kubeletplugin.state.checkpoint.CheckpointFile.look` gives them.
        network: Returns the interfaces that were moved into a claim's pod, by the function's name in the pool; called
            only for claims that have such.
        wall: Returns the time of the conditions.
        report: Receives the condition, once something was dropped.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        entries: Callable[[], Iterable[Entry]],
        network: Callable[[str], Mapping[str, InPod]] = lambda _: {},
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        report: Callable[[ConditionReport], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._entries = entries
        self._network = network
        self._wall = wall
        self._report = report
        self._is_dropped = False
        self._done: dict[str, _Published] = {}

    def publish(self) -> None:
        """Bring the status of all prepared claims up to date. A failure for one does not stop the others.

        Raises:
            ApiServerError: The API server is away; a retry goes on.
            NodeError: The status of some claims could not be written; a retry tries those again.
            RootportError: The entries could not be read.
        """
        # What is not planned yet (rebuilt from a CDI spec, outdated) has no status.
        entries = [entry for entry in self._entries() if entry.state == "prepared"]
        done, self._done = self._done, {}
        failures: list[RootportError] = []
        for index, entry in enumerate(entries):
            known = done.get(entry.uid)
            try:
                with guarded("claim status", f"claim {entry.claim}"):
                    network = dict(self._network(entry.uid)) if entry.lent_to else {}
                    if known is None or known.entry is not entry or known.network != network:
                        self._publish(entry, network)
            except UnavailableError:
                # The claims after it are as they were before.
                self._done |= {item.uid: done[item.uid] for item in entries[index + 1 :] if item.uid in done}
                raise
            except RootportError as error:
                failures.append(_hinted(error))
            else:
                self._done[entry.uid] = _Published(entry, network)
        if failures:
            raise summary(f"the status of {len(failures)} claims could not be written", failures)

    def again(self, claim_uids: Iterable[str]) -> None:
        """Have the next run write the status of some claims, whatever was written of them before."""
        for uid in claim_uids:
            self._done.pop(uid, None)

    def put_failure(self, claim: JsonObject, reason: str, message: str) -> None:
        """Write at once that a claim's devices cannot be prepared (KEP-5007).

        Args:
            claim: The claim as it was just read.
            reason: Why not, in one CamelCase word.
            message: Why not, for a person.

        Raises:
            NodeError: It could not be written.
        """
        metadata = claim["metadata"]
        statuses = failure_statuses(claim, reason=reason, message=message, now=self._wall())
        identity = {key: metadata[key] for key in ("name", "namespace", "uid")}
        try:
            self._api.apply(
                RESOURCE_CLAIMS,
                {"metadata": identity, "status": {"devices": statuses}},
                field_manager=FIELD_MANAGER,
                subresource="status",
            )
        except NotFoundError:
            _LOG.debug("the claim is gone", extra={"claim": metadata["name"]})
        except UnavailableError:
            raise
        except RootportError as error:
            raise _hinted(error) from error

    def _publish(self, entry: Entry, network: Mapping[str, InPod]) -> None:
        devices = entry.answer.devices
        # Without a read: whose devices never get an entry.
        if not any(device.isolation or device.nic_use or device.admin_access for device in devices):
            return
        try:
            claim = self._api.get(RESOURCE_CLAIMS, entry.name, namespace=entry.namespace)
            if claim["metadata"]["uid"] != entry.uid:
                _LOG.debug("another claim has its name now", extra={"claim": str(entry.claim)})
                return
            statuses = device_statuses(devices, claim, now=self._wall(), network=network)
            # Without any the claim was deallocated, or allocated to another node, and is not ours any more.
            if not statuses or is_published(statuses, claim):
                return
            # With the uid: another claim of that name is refused. Its allocation may have changed since it was read as
            # well; then it is refused (status 422), and the next try reads it again.
            body = {
                "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
                "status": {"devices": statuses},
            }
            stored = self._api.apply(RESOURCE_CLAIMS, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFoundError:
            _LOG.debug("the claim is gone", extra={"claim": str(entry.claim)})
            return
        self._check(is_dropped=not (stored.get("status") or {}).get("devices"))
        _LOG.info("claim status written", extra={"claim": str(entry.claim), "devices": len(statuses)})

    def _check(self, *, is_dropped: bool) -> None:
        if is_dropped != self._is_dropped:
            self._is_dropped = is_dropped
            self._report(_DROPPED if is_dropped else _KEPT)


def _hinted(error: RootportError) -> RootportError:
    if isinstance(error, InternalError):
        return error
    return NodeError(
        error.message,
        hint="check that the plugin's service account may patch resourceclaims/status, and from Kubernetes "
        "1.36 on has associated-node:patch on resourceclaims/driver",
    )


class NotifyingClaims:
    """A :class:`ClaimService` with a callback after each call that prepared a claim.

    Args:
        claims: Does the work.
        on_prepared: Called after it; must not block, such as :meth:`kubeletplugin.loop.Loop.wake`.
        on_refused: Called after a call that could not prepare a claim, where a retry helps: another claim may be in its
            way. Must not block either.
    """

    def __init__(
        self, claims: ClaimService, on_prepared: Callable[[], None], on_refused: Callable[[], None] = lambda: None
    ) -> None:
        self._claims = claims
        self._on_prepared = on_prepared
        self._on_refused = on_refused

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`ClaimService.prepare`."""
        results = self._claims.prepare(claims)
        if any(isinstance(result, ClaimPrepared) for result in results.values()):
            self._on_prepared()
        if any(isinstance(result, RootportError) and result.retry_helps for result in results.values()):
            self._on_refused()
        return results

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """As :meth:`ClaimService.unprepare`."""
        return self._claims.unprepare(claims)
