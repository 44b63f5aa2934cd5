"""All parts of the plugin, connected: which part gets what from which other, and in which order they start and stop.

Order: folders and checkpoint first, since they need nothing else; then one discovery of the hardware; then the CNI
plugin's calls and the kubelet are served; last come the threads that talk to the API server, which may be away for as
long as it likes.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from driver.adapters.http.metrics_page import MetricsPage
from driver.adapters.http.probe_server import ProbeServer
from driver.adapters.kubernetes.api import KubernetesApi
from driver.errors import RootportError
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from kubeletplugin.claims.ahead import PrepareAhead
from kubeletplugin.claims.announced import AnnouncedClaims
from kubeletplugin.claims.reader import ClaimReader
from kubeletplugin.claims.recovery import Reconciler, recover
from kubeletplugin.claims.status import ClaimStatusPublisher, NotifyingClaims
from kubeletplugin.claims.timed import TimedClaims
from kubeletplugin.effects.mps_watch import MpsWatch
from kubeletplugin.grpc_server import PluginServer
from kubeletplugin.health import HEALTH_FILE, FaultHistoryFile, HealthWatch
from kubeletplugin.health.pod_status import DevicesHealth
from kubeletplugin.internal_errors import guarded
from kubeletplugin.loop import Loop
from kubeletplugin.metrics import NodeMetrics
from kubeletplugin.metrics.pod_resources import PodResources
from kubeletplugin.network.node_network import NodeNetwork
from kubeletplugin.node.default_route_policy import DefaultRoutePolicy
from kubeletplugin.node.discovery import Discovery, discover
from kubeletplugin.node.roots import Roots
from kubeletplugin.options import Options
from kubeletplugin.process.loops import PluginLoops
from kubeletplugin.process.prepared import PreparedClaims
from kubeletplugin.process.preparing import make_planner, make_preparer
from kubeletplugin.publish.conditions import (
    ConditionReport,
    ConditionReports,
    ConditionStatus,
    ConditionType,
    FailingLoops,
)
from kubeletplugin.publish.health_watched import HealthWatched
from kubeletplugin.publish.heartbeat import Heartbeat
from kubeletplugin.publish.host_checks import HostChecks
from kubeletplugin.publish.inventory import NodePublisher
from kubeletplugin.publish.rival_checks import RivalChecks
from kubeletplugin.publish.rival_watch import RivalWatch
from kubeletplugin.state.store import ClaimStore

__all__ = ["OUTDATED_SIGNAL", "Plugin"]

_LOG: Final = logging.getLogger(__name__)

OUTDATED_SIGNAL: Final = signal.SIGUSR1
"""Sent by a thread of this process to its main one: only a new process can go on."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_FIRST_DISCOVERY_S: Final = 20.0  # NVML may hang on a broken GPU; what is prepared must be unprepared all the same
_PATIENCE_S: Final = 15.0  # the kubelet looks for plugins every second
_CALLS_S: Final = 6.0
_LOOPS_S: Final = 1.0


class Plugin:
    """The plugin; also the server's :class:`kubeletplugin.service.RegistrationListener`.

    Args:
        options: Checked already.

    Raises:
        InputError: A folder, the kubeconfig or the service account cannot be used.
        NodeError: The health port is taken.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._serving = False
        self._registered = False
        roots = Roots.of(options.host_root, options.device_root)
        boot_id = _BOOT_ID.read_text().strip()
        self._api = KubernetesApi.connect(kubeconfig=options.kubeconfig, small=True)
        self._reports = ConditionReports(self._reports_changed)
        self._store = ClaimStore(
            plugin_dir=options.plugin_dir, cdi_dir=options.cdi_dir, instance=options.instance, boot_id=boot_id
        )
        lends_default_route = DefaultRoutePolicy(options.device_policies, self._latest_inventory).lends
        self._network = NodeNetwork(
            roots,
            config_dir=options.cni_conf_dir,
            config_file=options.cni_conf_file,
            program_dir=options.cni_bin_dir,
            program=options.cni_program,
            on_change=self._network_changed,
            on_unchained=self._network_unchained,
            lends_default_route=lends_default_route,
        )
        self._claims = PreparedClaims(self._store, options.node, lent=self._network.lent)
        self._discovery = self._make_discovery(roots)
        self._health = DevicesHealth(options.node, held=self._claims.device_names)
        make_loop = partial(
            Loop, on_outdated=lambda: os.kill(os.getpid(), OUTDATED_SIGNAL), on_failing=FailingLoops(self._reports)
        )
        self._watch = self._make_watch(roots, boot_id, make_loop)
        self._pod_resources = PodResources(options.pod_resources_socket)
        self._rivals = RivalChecks(
            inventory=self._discovery.latest,
            kubelet=self._pod_resources.plugin_devices,
            held=self._claims.device_names,
            tolerated=options.tolerated_rivals,
            hold_s=options.rival_hold_s,
            reports=self._reports,
            on_change=self._reports_changed,
        )
        planner = make_planner(options, roots, store=self._store, network=self._network)
        self._checks = HostChecks(
            self._api,
            node=options.node,
            cdi_folder=options.cdi_dir,
            state_folder=options.plugin_dir,
            check_network=self._network.check,
            strategy_problems=lambda: planner.strategy_problems(self._discovery.latest()),
            reports=self._reports,
            take_rivals=self._rivals.take,
        )
        self._rival_watch = RivalWatch(self._api, node=options.node, on_change=self._rivals_may_change)
        self._announced = AnnouncedClaims(
            self._api,
            node=options.node,
            types=options.prepare_before_binding,
            on_change=self._claims_announced,
            on_watching=self._reports_changed,
        )
        self._publisher = NodePublisher(
            self._api,
            node=options.node,
            spec=self._discovery.spec,
            reports=self._reports.latest,
            health=self._watch.published,
            rivals=self._rivals.rivals,
            report=self._reports.report,
            on_told=self._rivals_told,
            recovered=self._watch.recover,
            former_rivals=self._rivals.take_former,
            prepares_before_binding=self._announced.types,
        )
        self._heartbeat = Heartbeat(
            self._api,
            namespace=options.namespace,
            node=options.node,
            instance=options.instance,
            may_begin=self._publisher.has_told,
        )
        read_claim = ClaimReader(self._api)
        preparer = make_preparer(
            planner, roots, store=self._store, network=self._network, discovery=self._discovery, get_claim=read_claim
        )
        status = ClaimStatusPublisher(
            self._api, entries=self._claims.entries, network=self._network.of_claim, report=self._reports.report
        )
        self._ahead = PrepareAhead(
            node=options.node,
            store=self._store,
            preparer=preparer,
            reader=read_claim,
            announced=self._announced.claims,
            on_prepared=self._prepared_ahead,
            put_failure=status.put_failure,
            on_fault=self._watch.report,
        )
        self._status = status
        self._loops = PluginLoops(
            options,
            make_loop,
            discovery=self._discovery,
            publisher=self._publisher,
            checks=self._checks,
            rivals=self._rivals,
            heartbeat=self._heartbeat,
            reconciler=Reconciler(store=self._store, preparer=preparer, get_claim=read_claim),
            claim_status=status,
            ahead=self._ahead,
            mps=MpsWatch(roots, effects=self._claims.effects, start=preparer.restart),
        )
        timed = TimedClaims(NotifyingClaims(preparer, self._loops.claim_status.wake, self._claim_refused))
        self._health_watched = HealthWatched(self._reports)
        self._server = PluginServer(
            claims=timed,
            health=self._health,
            listener=self,
            streams=self._health_watched,
            plugin_dir=options.plugin_dir,
            registry_dir=options.registry_dir,
            instance=options.instance,
        )
        self._probes = self._make_probes(timed) if options.health_port else None
        self._patience = threading.Timer(_PATIENCE_S, self._settle)
        self._patience.daemon = True

    def _make_discovery(self, roots: Roots) -> Discovery:
        return Discovery(
            partial(
                discover,
                roots,
                node=self._options.node,
                own_partitions=self._store.journal.own_partitions,
                lent=self._claims.functions_in_pods,
                lent_names=self._network.lent_names,
                next_hops=self._network.next_hops,
            ),
            reports=self._reports,
            on_change=self._discovered,
        )

    def _make_watch(self, roots: Roots, boot_id: str, make_loop: Callable[..., Loop]) -> HealthWatch:
        return HealthWatch(
            roots,
            discovery=self._discovery,
            history=FaultHistoryFile(self._options.plugin_dir / HEALTH_FILE, boot_id=boot_id),
            interval_s=self._options.health_interval_s,
            hold_s=self._options.health_hold_s,
            make_loop=make_loop,
            on_change=self._health_changed,
            on_links=self.discover_now,  # the taint of a NIC without a link is made of the inventory
        )

    def _make_probes(self, timed: TimedClaims) -> ProbeServer:
        metrics = NodeMetrics(
            node=self._options.node,
            inventory=self._discovery.latest,
            health=self._watch.monitor,
            entries=self._claims.holding,
            containers=self._pod_resources.containers,
            operations=timed.so_far,
        )
        return ProbeServer(
            self._options.health_port,
            {"/healthz": self._broken, "/readyz": self._not_ready},
            pages={"/metrics": MetricsPage(metrics.families)},
            readers=self._options.metrics_readers,
        )

    def start(self) -> None:
        """Start everything; the kubelet is served when this returns.

        Raises:
            RootportError: The checkpoint or the sockets cannot be used; the node's conditions say so, if the API server
                is there.
        """
        if self._probes is not None:
            self._probes.start()
        self._checks.check_folders()
        self._checks.check_network()
        try:
            with guarded("start", "the plugin's start"):
                self._start_serving()
        except RootportError as error:
            self._publish_failure(error)
            raise
        self._serving = True
        self._patience.start()
        for loop in (*self._watch.loops, *self._loops.api):
            loop.start()
        self._rival_watch.start()
        self._announced.start()

    def _start_serving(self) -> None:
        _LOG.info("recovered", extra={"report": recover(self._store)})
        self._loops.discovery.start()
        if not self._loops.discovery.wait_once(_FIRST_DISCOVERY_S):
            _LOG.warning("the first look at the hardware takes long; the kubelet is served meanwhile")
        # Before the kubelet: the sandbox of a pod that it starts asks for the interfaces that were lent to it.
        self._network.start()
        self._server.start()

    def discover_now(self) -> None:
        """Discover the hardware again, soon."""
        self._loops.discovery.wake()

    def stop(self) -> None:
        """Unregister, finish running calls and stop the threads. Prepared claims stay as they are."""
        self._serving = False
        self._patience.cancel()
        self._server.stop(_CALLS_S)
        self._health_watched.stop()
        self._watch.stop()
        self._rival_watch.stop()
        self._announced.stop()
        for loop in (self._loops.discovery, *self._loops.api):
            loop.stop(0)
        for loop in self._loops.api:
            loop.stop(_LOOPS_S / 4)
        self._network.stop()
        if self._probes is not None:
            self._probes.stop()
        self._release()
        self._api.close()

    def registered(self, ok: bool, error: str) -> None:  # noqa: FBT001 - RegistrationListener's form
        """Report the kubelet's answer to the registration."""
        self._registered = ok
        if ok:
            report = _registration(ConditionStatus.TRUE, "Registered", "the kubelet has registered the driver")
            self._health_watched.registered()
        else:
            message = f"the kubelet refused the driver: {error}; it tries again"
            report = _registration(ConditionStatus.FALSE, "Refused", message)
        self._reports.report(report)
        self._loops.checks.wake()

    def _reports_changed(self) -> None:
        self._loops.publish.wake()

    def _rivals_told(self) -> None:
        self._loops.heartbeat.wake()

    def _rivals_may_change(self) -> None:
        self._loops.checks.wake()

    def _claims_announced(self) -> None:
        self._loops.ahead.wake()

    def _prepared_ahead(self, claim_uids: Iterable[str]) -> None:
        self._status.again(claim_uids)
        self._loops.claim_status.wake()

    def _claim_refused(self) -> None:
        if self._options.prepare_before_binding:  # what was prepared ahead may be in its way
            self._ahead.look_soon()
            self._loops.ahead.wake()

    def _latest_inventory(self) -> Inventory | None:
        return self._discovery.latest()  # which is made after the network that asks for it

    def _network_changed(self) -> None:
        self._loops.claim_status.wake()

    def _network_unchained(self) -> None:
        self._loops.network.wake()

    def _discovered(self) -> None:
        self._health.update(self._discovery.latest(), certain=self._discovery.certain())
        self._loops.rivals.wake()
        self._loops.publish.wake()
        self._watch.wake()

    def _health_changed(self, health: NodeHealth) -> None:
        self._health.update_health(health)
        self._loops.publish.wake()

    def _settle(self) -> None:
        self._reports.settle(
            _registration(
                ConditionStatus.UNKNOWN,
                "WaitingForKubelet",
                f"the kubelet has not come to {self._server.registration_socket}: is that below its plugins_registry?",
            )
        )

    def _broken(self) -> str | None:
        loops = (self._loops.discovery, *self._watch.loops, *self._loops.api)
        return "a thread has ended: see the log" if any(loop.ended for loop in loops) else None

    def _not_ready(self) -> str | None:
        if not self._serving:
            return "not serving the kubelet yet"
        return None if self._registered else "the kubelet has not registered the driver"

    def _release(self) -> None:
        """Release the heartbeat at once, unless another instance serves this node."""
        try:
            if not self._server.another_serves():
                self._heartbeat.release()
        except RootportError as error:
            _LOG.debug("the heartbeat could not be released", extra={"error": error})

    def _publish_failure(self, error: RootportError) -> None:
        """Publish in the node's conditions why the plugin cannot start, if the API server is there."""
        self._reports.report(
            ConditionReport(
                type=ConditionType.STATE_DIRECTORY_WRITABLE,
                status=ConditionStatus.FALSE,
                reason="CannotStart",
                message=str(error),
            )
        )
        self._reports.settle()
        try:
            self._publisher.publish()
        except RootportError as cause:
            _LOG.debug("the failure could not be published", extra={"error": cause})


def _registration(status: ConditionStatus, reason: str, message: str) -> ConditionReport:
    return ConditionReport(type=ConditionType.REGISTERED, status=status, reason=reason, message=message)
