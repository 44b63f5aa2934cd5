"""Tells users in their claims' status what was prepared, and whether its limits hold; never in the kubelet's way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIMS
from driver.api.resource_v1 import ClaimReference
from driver.errors import NodeError, RootportError
from kubeletplugin.claims.device_status import device_statuses, is_told
from kubeletplugin.internal_errors import InternalError, guarded, summary
from kubeletplugin.network.network_data import NetworkData
from kubeletplugin.service import ClaimPrepared, ClaimService
from kubeletplugin.state.entry import Entry

__all__ = ["FIELD_MANAGER", "ClaimStatusPublisher", "TellingClaims"]

FIELD_MANAGER: Final = "rootport-claim-status"
"""Who owns the entries in ``status.devices`` by server-side apply; the same in every version."""

_LOG: Final = logging.getLogger(__name__)


class _Told(NamedTuple):
    """What was told of a claim."""

    entry: Entry
    network: Mapping[str, NetworkData]


class ClaimStatusPublisher:
    """Writes this driver's entries in ``status.devices`` of the prepared claims: the action of a Loop.

    A claim is read before it is written, so that nothing is written that is there already: after a restart of the
    plugin each claim is read once. What is told in this process is not looked at again. Kubernetes itself removes the
    entries when the claim is deallocated.

    Args:
        api: The API server.
        entries: All prepared claims. A claim that was prepared anew must be another object than before, and one that
            was not should be the same one, as :meth:`kubeletplugin.state.checkpoint.CheckpointFile.load` gives them.
        network: What a claim's pod sees of the interfaces that were moved into it, by the function's name in the pool;
            asked only for claims that have such.
        field_manager: Who owns the entries.
        wall: The time of the conditions.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        entries: Callable[[], Iterable[Entry]],
        network: Callable[[str], Mapping[str, NetworkData]] = lambda _: {},
        field_manager: str = FIELD_MANAGER,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._entries = entries
        self._network = network
        self._field_manager = field_manager
        self._wall = wall
        self._done: dict[str, _Told] = {}

    def publish(self) -> None:
        """Bring the status of all prepared claims up to date. One on which it stumbles keeps no other from it.

        Raises:
            ApiServerError: The API server is away; a retry goes on.
            NodeError: Some claims' status could not be written, all others' were; a retry tries those again.
            RootportError: The entries could not be read.
        """
        # What is not planned yet (rebuilt from a CDI spec, outdated) has nothing to tell.
        entries = [entry for entry in self._entries() if entry.state == "prepared"]
        done, self._done = self._done, {}
        failures: list[RootportError] = []
        for index, entry in enumerate(entries):
            known = done.get(entry.uid)
            try:
                with guarded("claim status", f"claim {entry.claim}"):
                    network = dict(self._network(entry.uid)) if entry.lent_to else {}
                    if known is None or known.entry is not entry or known.network != network:
                        self._tell(entry, network)
            except UnavailableError:
                # What comes after it was told, or not, as before.
                self._done |= {item.uid: done[item.uid] for item in entries[index + 1 :] if item.uid in done}
                raise
            except RootportError as error:
                failures.append(_hinted(error))
            else:
                self._done[entry.uid] = _Told(entry, network)
        if failures:
            raise summary(f"the status of {len(failures)} claims could not be written", failures)

    def _tell(self, entry: Entry, network: Mapping[str, NetworkData]) -> None:
        devices = entry.answer.devices
        if all(device.isolation is None and device.nic_use is None for device in devices):
            return
        try:
            claim = self._api.get(RESOURCE_CLAIMS, entry.name, namespace=entry.namespace)
            if claim["metadata"]["uid"] != entry.uid:
                _LOG.debug("another claim has its name now", extra={"claim": str(entry.claim)})
                return
            statuses = device_statuses(devices, claim, now=self._wall(), network=network)
            # Without any the claim was deallocated, or allocated to another node: no concern of ours any more.
            if not statuses or is_told(statuses, claim):
                return
            # With the uid: another claim of that name is refused. Its allocation may have changed since it was read as
            # well; then it is refused (status 422), and the next try reads it again.
            body = {
                "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
                "status": {"devices": statuses},
            }
            self._api.apply(RESOURCE_CLAIMS, body, field_manager=self._field_manager, subresource="status")
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


class TellingClaims:
    """A claim service that calls somebody after each prepare that went well for a claim; see :class:`ClaimService`.

    Args:
        claims: Does the work.
        tell: Called after it; must not block, such as :meth:`kubeletplugin.loop.Loop.wake`.
    """

    def __init__(self, claims: ClaimService, tell: Callable[[], None]) -> None:
        self._claims = claims
        self._tell = tell

    def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, ClaimPrepared | RootportError]:
        """As :meth:`ClaimService.prepare`."""
        results = self._claims.prepare(claims)
        if any(isinstance(result, ClaimPrepared) for result in results.values()):
            self._tell()
        return results

    def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, RootportError | None]:
        """As :meth:`ClaimService.unprepare`."""
        return self._claims.unprepare(claims)
