"""Publishes in the claims' status what was prepared and whether its limits hold, without delaying the kubelet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.api.claim_reference import ClaimReference
from driver.errors import NodeError, RootportError
from kubeletplugin.claims.device_status import device_statuses, is_published
from kubeletplugin.internal_errors import InternalError, guarded, summary
from kubeletplugin.service import ClaimPrepared, ClaimService
from kubeletplugin.state.entry import Entry

if TYPE_CHECKING:  # most nodes move no interface, and need not load what does
    from kubeletplugin.network.netdev.records import InPod

__all__ = ["FIELD_MANAGER", "ClaimStatusPublisher", "NotifyingClaims"]

FIELD_MANAGER: Final = "rootport-claim-status"
"""The owner of the entries in ``status.devices`` by server-side apply; the same in every version."""

_LOG: Final = logging.getLogger(__name__)


class _Published(NamedTuple):
    """What was published of a claim."""

    entry: Entry
    network: Mapping[str, InPod]


class ClaimStatusPublisher:
    """Writes this driver's entries in ``status.devices`` of the prepared claims: the action of a Loop.

    A claim is read before it is written, so that nothing is written that is there already: after a restart of the
    plugin each claim is read once. What this process has published is not checked again. Kubernetes itself removes the
    entries when the claim is deallocated.

    Args:
        api: The API server.
        entries: All prepared claims. A claim that was prepared anew must be another object than before, and one that
            was not should be the same one, as :meth:`kubeletplugin.state.checkpoint.CheckpointFile.look` gives them.
        network: Returns the interfaces that were moved into a claim's pod, by the function's name in the pool; called
            only for claims that have such.
        wall: Returns the time of the conditions.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        entries: Callable[[], Iterable[Entry]],
        network: Callable[[str], Mapping[str, InPod]] = lambda _: {},
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._entries = entries
        self._network = network
        self._wall = wall
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

    def _publish(self, entry: Entry, network: Mapping[str, InPod]) -> None:
        devices = entry.answer.devices
        if all(device.isolation is None and device.nic_use is None for device in devices):
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
            self._api.apply(RESOURCE_CLAIMS, body, field_manager=FIELD_MANAGER, subresource="status")
        except NotFoundError:
            _LOG.debug("the claim is gone", extra={"claim": str(entry.claim)})
            return
        _LOG.info("claim status written", extra={"claim": str(entry.claim), "devices": len(statuses)})


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
    """

    def __init__(self, claims: ClaimService, on_prepared: Callable[[], None]) -> None:
        self._claims = claims
        self._on_prepared = on_prepared

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`ClaimService.prepare`."""
        results = self._claims.prepare(claims)
        if any(isinstance(result, ClaimPrepared) for result in results.values()):
            self._on_prepared()
        return results

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """As :meth:`ClaimService.unprepare`."""
        return self._claims.unprepare(claims)
