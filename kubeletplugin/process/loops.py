"""The plugin's loops, but for those of the devices' health: what each does, and how often."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kubeletplugin.claims.ahead import PrepareAhead
from kubeletplugin.claims.recovery import Reconciler
from kubeletplugin.claims.status import ClaimStatusPublisher
from kubeletplugin.effects.mps_watch import MpsWatch
from kubeletplugin.internal_errors import summary
from kubeletplugin.loop import Loop
from kubeletplugin.node.discovery import Discovery
from kubeletplugin.options import Options
from kubeletplugin.publish.heartbeat import Heartbeat
from kubeletplugin.publish.host_checks import HostChecks
from kubeletplugin.publish.inventory import NodePublisher
from kubeletplugin.publish.rival_checks import RivalChecks

__all__ = ["PluginLoops"]

_LOG: Final = logging.getLogger(__name__)

_CHECKS_S: Final = 600.0
# A driver that starts writes several ResourceSlices.
_CHECKS_SETTLE_S: Final = 0.5
# Asks the kubelet alone, which writes what a new device plugin offers into its Node only every 10 s: so the scheduler
# mostly knows of the taints before it knows of the plugin.
_RIVALS_S: Final = 5.0
# A folder that is full takes all devices of the node off the offer until it is checked again.
_FOLDERS_S: Final = 15.0
# A sandbox that is made while the network's own installer has rewritten its file gets no interface.
_NETWORK_S: Final = 30.0
_RECONCILE_S: Final = 300.0
# Programs that start to compute by MPS wait for a daemon that has ended; to look costs next to nothing.
_MPS_S: Final = 2.0
_CLAIM_STATUS_S: Final = 300.0
# Pods that start together are prepared first: written at once, each status takes the API server and this process away
# from the next prepare (measured: 27 ms a prepare, 42 ms without the pause).
_CLAIM_STATUS_SETTLE_S: Final = 1.5
# Looks into a folder; only of claims that were prepared before their pods are bound it asks the API server.
_AHEAD_S: Final = 10.0
_AHEAD_MAX_DELAY_S: Final = 4.0
_PUBLISH_S: Final = 60.0
_MAX_DELAY_S: Final = 60.0


class PluginLoops:
    """Makes the loops; the process starts and stops them.

    Args:
        options: The plugin's options.
        make_loop: Makes a Loop with what all of the process's loops share.
        discovery: Discovers the node's devices.
        publisher: Publishes the NodeInventory.
        checks: Checks the host.
        rivals: Checks who else gives out the devices.
        heartbeat: Renews the node's Lease.
        reconciler: Compares prepared claims with the API server's.
        claim_status: Publishes the claims' status.
        ahead: Prepares claims before their pods are bound.
        mps: Starts MPS daemons again that have ended.

    Attributes:
        discovery: Discovers the devices; the kubelet is served after its first run.
        publish: Publishes the NodeInventory.
        heartbeat: Renews the node's Lease.
        checks: Runs all checks of the host.
        rivals: Compares what the kubelet knows of device plugins.
        network: Checks the CNI plugin.
        claim_status: Publishes the claims' status.
        ahead: Prepares claims before their pods are bound.
        api: All but ``discovery``: those that need the API server, which may be away, and the checks.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        options: Options,
        make_loop: Callable[..., Loop],
        *,
        discovery: Discovery,
        publisher: NodePublisher,
        checks: HostChecks,
        rivals: RivalChecks,
        heartbeat: Heartbeat,
        reconciler: Reconciler,
        claim_status: ClaimStatusPublisher,
        ahead: PrepareAhead,
        mps: MpsWatch,
    ) -> None:
        interval_s, beat_s = options.discovery_interval_s, options.heartbeat_interval_s
        self._reconciler = reconciler
        self.discovery = make_loop("look", discovery.run, interval_s=interval_s, max_delay_s=interval_s)
        self.publish = make_loop("publish", publisher.publish, interval_s=_PUBLISH_S, max_delay_s=_MAX_DELAY_S)
        self.heartbeat = make_loop("heartbeat", heartbeat.beat, interval_s=beat_s, max_delay_s=beat_s)
        self.checks = make_loop(
            "check", checks.check, interval_s=_CHECKS_S, max_delay_s=_MAX_DELAY_S, settle_s=_CHECKS_SETTLE_S
        )
        self.rivals = make_loop("rivals", rivals.check, interval_s=_RIVALS_S, max_delay_s=_MAX_DELAY_S)
        self.network = make_loop("network", checks.check_network, interval_s=_NETWORK_S, max_delay_s=_NETWORK_S)
        self.claim_status = make_loop(
            "claim status",
            claim_status.publish,
            interval_s=_CLAIM_STATUS_S,
            max_delay_s=_MAX_DELAY_S,
            settle_s=_CLAIM_STATUS_SETTLE_S,
        )
        self.ahead = make_loop("ahead", ahead.run, interval_s=_AHEAD_S, max_delay_s=_AHEAD_MAX_DELAY_S)
        reconcile = make_loop("reconcile", self._reconcile, interval_s=_RECONCILE_S, max_delay_s=_MAX_DELAY_S)
        self.api: tuple[Loop, ...] = (
            self.publish,
            self.heartbeat,
            self.checks,
            self.rivals,
            make_loop("folders", checks.check_folders, interval_s=_FOLDERS_S, max_delay_s=_FOLDERS_S),
            self.network,
            make_loop("strategies", checks.check_strategies, interval_s=_FOLDERS_S, max_delay_s=_FOLDERS_S),
            reconcile,
            make_loop("mps daemons", mps.check, interval_s=_MPS_S, max_delay_s=_MAX_DELAY_S),
            self.claim_status,
            self.ahead,
        )

    def _reconcile(self) -> None:
        report = self._reconciler.run_once()
        for claim, seconds in report.gone:
            _LOG.warning(
                "a prepared claim is gone from the API server; its devices stay taken until the kubelet unprepares it",
                extra={"claim": claim, "seconds": round(seconds)},
            )
        for claim in report.removed:
            _LOG.warning(
                "a claim that was rebuilt and is gone from the API server was unprepared", extra={"claim": claim}
            )
        for claim in report.planned:
            _LOG.info("a rebuilt claim was planned anew", extra={"claim": claim})
        for claim in report.mended.undone:
            _LOG.warning("what a former claim had left on the node was undone", extra={"claim": claim})
        for claim in report.mended.outdated:
            _LOG.warning("a prepared claim's MIG device was gone and was made anew", extra={"claim": claim})
        if problems := (*report.mended.failed, *report.unknown):
            raise summary(f"{len(problems)} prepared claims could not be looked after", problems)
