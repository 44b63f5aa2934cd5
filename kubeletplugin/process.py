"""The plugin's process: makes the parts, joins them, starts them in their order and ends them on a signal.

Order: folders and checkpoint first, since they need nothing else; then one look at the hardware; then the CNI plugin's
calls and the kubelet are served; last come the threads that talk to the API server, which may be away for as long as it
likes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from driver import __version__
from driver.adapters.http.metrics_page import MetricsPage
from driver.adapters.http.probe_server import ProbeServer
from driver.adapters.kubernetes.api import KubernetesApi
from driver.errors import RootportError
from driver.model.health import NodeHealth
from kubeletplugin import heap
from kubeletplugin.claims.planner import ClaimPlanner
from kubeletplugin.claims.preparer import Preparer
from kubeletplugin.claims.reader import ClaimReader
from kubeletplugin.claims.recovery import Reconciler, recover
from kubeletplugin.claims.status import ClaimStatusPublisher, TellingClaims
from kubeletplugin.claims.timed import TimedClaims
from kubeletplugin.effects import HostEffects
from kubeletplugin.effects.mig import MigDevices
from kubeletplugin.effects.mps import MpsDaemons
from kubeletplugin.effects.time_slice import TimeSlices
from kubeletplugin.grpc_server import PluginServer
from kubeletplugin.health import HEALTH_FILE, HealthWatch, MemoryFile
from kubeletplugin.health.pod_status import DevicesHealth
from kubeletplugin.internal_errors import guarded, summary
from kubeletplugin.loop import Loop
from kubeletplugin.metrics import NodeMetrics
from kubeletplugin.metrics.pod_resources import PodResources
from kubeletplugin.network.node_network import NodeNetwork
from kubeletplugin.node.discovery import Discovery, look
from kubeletplugin.node.roots import Roots
from kubeletplugin.options import Options
from kubeletplugin.publish.conditions import Concern, Finding, Findings, State
from kubeletplugin.publish.failing_loops import FailingLoops
from kubeletplugin.publish.heartbeat import Heartbeat
from kubeletplugin.publish.host_checks import HostChecks
from kubeletplugin.publish.inventory import NodePublisher
from kubeletplugin.state.entry import Entry
from kubeletplugin.state.store import ClaimStore

__all__ = ["Plugin", "run"]

_LOG: Final = logging.getLogger(__name__)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_FIRST_LOOK_S: Final = 20.0  # NVML may hang on a broken GPU; what is prepared must be unprepared all the same
_PATIENCE_S: Final = 15.0  # the kubelet looks for plugins every second
_CHECKS_S: Final = 600.0
_FOLDERS_S: Final = (
    15.0  # a folder that is full takes all devices of the node off the offer until it is looked at again
)
_NETWORK_S: Final = 30.0  # a sandbox made while the network's own installer has rewritten its file has no interface
_RECONCILE_S: Final = 300.0
_CLAIM_STATUS_S: Final = 300.0
# Pods that start together are prepared first: told at once, each status takes the API server and this process away from
# the next prepare (measured: 27 ms a prepare, 42 ms without the pause).
_CLAIM_STATUS_SETTLE_S: Final = 1.5
_RUNTIME_FOLDER: Final = "/run/rootport"
_PUBLISH_S: Final = 60.0
_CALLS_S: Final = 6.0
_LOOPS_S: Final = 1.0
_LAST_MOMENT_S: Final = 9.0
_SWITCH_S: Final = 0.0005
_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1})
_OUTDATED: Final = signal.SIGUSR1  # sent by a thread of this process to its main one


class Plugin:
    """All parts of the plugin, joined.

    Args:
        options: Checked already.

    Raises:
        InputError: A folder, the kubeconfig or the service account cannot be used.
        NodeError: The health port is taken.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        roots = Roots.of(options.host_root, options.device_root)
        self._api = KubernetesApi.connect(kubeconfig=options.kubeconfig)
        self._findings = Findings(self._changed)
        boot_id = _BOOT_ID.read_text().strip()
        self._store = ClaimStore(
            plugin_dir=options.plugin_dir, cdi_dir=options.cdi_dir, instance=options.instance, boot_id=boot_id
        )
        self._network = NodeNetwork(
            roots,
            config_dir=options.cni_conf_dir,
            config_file=options.cni_conf_file,
            program_dir=options.cni_bin_dir,
            program=options.cni_program,
            on_change=self._network_changed,
            on_unchained=self._network_unchained,
        )
        self._discovery = Discovery(
            partial(
                look,
                roots,
                node=options.node,
                own_partitions=self._store.journal.own_partitions,
                lent=self._away,
                lent_names=self._network.lent_names,
            ),
            findings=self._findings,
            on_change=self._discovered,
        )
        read_claim = ClaimReader(self._api)
        preparer = Preparer(
            store=self._store,
            inventory=self._discovery.inventory,
            get_claim=read_claim,
            host=roots.host,
            planner=ClaimPlanner(
                roots,
                metadata_dir=self._store.metadata_dir,
                # Programs of a driver in a container of its own see that container's files alone.
                runtime_root=f"{roots.driver_root}{_RUNTIME_FOLDER}",
                hami_core=options.hami_core,
                gpu_policies=options.gpu_policies,
                has_cni_plugin=self._network.has_cni_plugin,
            ),
            effects=HostEffects(
                mig=MigDevices(roots),
                time_slices=TimeSlices(roots),
                mps=MpsDaemons(roots),
                vfs=self._network.vfs,
                interfaces=self._network.interfaces,
            ),
        )
        self._health = DevicesHealth(options.node, held=self._held)
        loop = partial(
            Loop, on_outdated=lambda: os.kill(os.getpid(), _OUTDATED), on_failing=FailingLoops(self._findings)
        )
        self._watch = HealthWatch(
            roots,
            discovery=self._discovery,
            memory=MemoryFile(options.plugin_dir / HEALTH_FILE, boot_id=boot_id),
            interval_s=options.health_interval_s,
            hold_s=options.health_hold_s,
            make_loop=loop,
            on_change=self._health_changed,
            on_links=self.look_now,  # the taint of a NIC without a link is made of the inventory
        )
        self._checks = HostChecks(
            self._api,
            node=options.node,
            cdi_folder=options.cdi_dir,
            state_folder=options.plugin_dir,
            inventory=self._discovery.latest,
            findings=self._findings,
        )
        self._publisher = NodePublisher(
            self._api,
            node=options.node,
            inventory=self._discovery.latest,
            findings=self._findings.latest,
            health=self._watch.published,
            recovered=self._watch.recover,
        )
        self._heartbeat = Heartbeat(
            self._api, namespace=options.namespace, node=options.node, instance=options.instance
        )
        claim_status = ClaimStatusPublisher(self._api, entries=self._entries, network=self._network.of_claim)
        reconciler = Reconciler(store=self._store, preparer=preparer, get_claim=read_claim)
        interval_s = options.discovery_interval_s
        self._look_loop = loop("look", self._discovery.run, interval_s=interval_s, max_delay_s=interval_s)
        self._publish_loop = loop("publish", self._publisher.publish, interval_s=_PUBLISH_S, max_delay_s=60)
        self._checks_loop = loop("check", self._checks.check, interval_s=_CHECKS_S, max_delay_s=60)
        self._folders_loop = loop("folders", self._checks.check_folders, interval_s=_FOLDERS_S, max_delay_s=_FOLDERS_S)
        self._network_loop = loop("network", self._check_network, interval_s=_NETWORK_S, max_delay_s=_NETWORK_S)
        beat_s = options.heartbeat_interval_s
        self._beat_loop = loop("heartbeat", self._heartbeat.beat, interval_s=beat_s, max_delay_s=beat_s)
        self._reconcile_loop = loop(
            "reconcile", partial(_reconcile, reconciler), interval_s=_RECONCILE_S, max_delay_s=60
        )
        self._status_loop = loop(
            "claim status",
            claim_status.publish,
            interval_s=_CLAIM_STATUS_S,
            max_delay_s=60,
            settle_s=_CLAIM_STATUS_SETTLE_S,
        )
        timed = TimedClaims(TellingClaims(preparer, self._status_loop.wake))
        self._server = PluginServer(
            claims=timed,
            health=self._health,
            listener=self,
            plugin_dir=options.plugin_dir,
            registry_dir=options.registry_dir,
            instance=options.instance,
        )
        self._serving = False
        self._registered = False
        metrics = NodeMetrics(
            node=options.node,
            inventory=self._discovery.latest,
            health=self._watch.monitor,
            entries=self._held_entries,
            containers=PodResources(options.pod_resources_socket).containers,
            operations=timed.so_far,
        )
        self._probes = (
            ProbeServer(
                options.health_port,
                {"/healthz": self._broken, "/readyz": self._not_ready},
                pages={"/metrics": MetricsPage(metrics.families)},
                readers=options.metrics_readers,
            )
            if options.health_port
            else None
        )
        self._patience = threading.Timer(_PATIENCE_S, self._settle)
        self._patience.daemon = True

    def start(self) -> None:
        """Start everything; the kubelet is served when this returns.

        Raises:
            RootportError: The checkpoint or the sockets cannot be used; that is said in the node's conditions, if the
                API server is there.
        """
        if self._probes is not None:
            self._probes.start()
        self._checks.check_folders()
        self._check_network()
        try:
            with guarded("start", "the plugin's start"):
                self._start_serving()
        except RootportError as error:
            self._publish_failure(error)
            raise
        self._serving = True
        self._patience.start()
        for loop in (*self._watch.loops, *self._api_loops()):
            loop.start()

    def _start_serving(self) -> None:
        _LOG.info("recovered", extra={"report": recover(self._store)})
        self._look_loop.start()
        if not self._look_loop.wait_once(_FIRST_LOOK_S):
            _LOG.warning("the first look at the hardware takes long; the kubelet is served meanwhile")
        # Before the kubelet: the sandbox of a pod that it starts asks for the interfaces that were lent to it.
        self._network.start()
        self._server.start()

    def look_now(self) -> None:
        """Look at the hardware as soon as may be."""
        self._look_loop.wake()

    def stop(self) -> None:
        """End: out of the registry, finish the calls, end the threads. Prepared claims stay as they are."""
        self._serving = False
        self._patience.cancel()
        self._server.stop(_CALLS_S)
        self._watch.stop()
        for loop in (self._look_loop, *self._api_loops()):
            loop.stop(0)
        for loop in self._api_loops():
            loop.stop(_LOOPS_S / 4)
        self._network.stop()
        if self._probes is not None:
            self._probes.stop()
        self._release()
        self._api.close()

    def registered(self, ok: bool, error: str) -> None:  # noqa: FBT001 - RegistrationListener's form
        """Take note of the kubelet's answer to the registration."""
        self._registered = ok
        if ok:
            finding = _registration(State.TRUE, "Registered", "the kubelet has registered the driver")
        else:
            finding = _registration(State.FALSE, "Refused", f"the kubelet refused the driver: {error}; it tries again")
        self._findings.report(finding)
        self._checks_loop.wake()

    def _api_loops(self) -> tuple[Loop, ...]:
        return (
            self._publish_loop,
            self._beat_loop,
            self._checks_loop,
            self._folders_loop,
            self._network_loop,
            self._reconcile_loop,
            self._status_loop,
        )

    def _changed(self) -> None:
        self._publish_loop.wake()

    def _network_changed(self) -> None:
        self._status_loop.wake()

    def _network_unchained(self) -> None:
        self._network_loop.wake()

    def _check_network(self) -> None:
        finding = self._network.check()
        if finding is not None:
            self._findings.report(finding)

    def _discovered(self) -> None:
        self._health.update(self._discovery.latest(), certain=self._discovery.certain())
        self._publish_loop.wake()
        self._watch.wake()

    def _health_changed(self, health: NodeHealth) -> None:
        self._health.update_health(health)
        self._publish_loop.wake()

    def _settle(self) -> None:
        self._findings.settle(
            _registration(
                State.UNKNOWN,
                "WaitingForKubelet",
                f"the kubelet has not come to {self._server.registration_socket}: is that below its plugins_registry?",
            )
        )

    def _entries(self) -> Collection[Entry]:
        return (self._store.checkpoint.load() or {}).values()

    def _held_entries(self) -> Collection[Entry]:
        """Without those of an earlier boot, which hold nothing until the kubelet prepares them again."""
        return [entry for entry in self._entries() if entry.boot_id == self._store.boot_id]

    def _held(self) -> Iterator[str]:
        try:
            entries = self._entries()
        except RootportError:
            return  # a damaged checkpoint is told, and mended, where claims are prepared
        for entry in entries:
            yield from (device.device for device in entry.devices if device.pool == self._options.node)

    def _away(self) -> frozenset[str]:
        """The functions of NICs whose interfaces may be in pods: lent by Rootport, or moved by Multus for a claim."""
        try:
            uses = [item.nic_use for entry in self._entries() for item in entry.holdings if item.nic_use is not None]
        except RootportError:
            uses = []  # as above
        given = {use.vf or use.nic for use in uses if use.bandwidth is None}
        return self._network.lent() | (given - {""})

    def _broken(self) -> str | None:
        loops = (self._look_loop, *self._watch.loops, *self._api_loops())
        return "a thread has ended: see the log" if any(loop.ended for loop in loops) else None

    def _not_ready(self) -> str | None:
        if not self._serving:
            return "not serving the kubelet yet"
        return None if self._registered else "the kubelet has not registered the driver"

    def _release(self) -> None:
        """Say at once that this node's plugin has ended, unless there is another one."""
        try:
            if not self._server.another_serves():
                self._heartbeat.release()
        except RootportError as error:
            _LOG.debug("the heartbeat could not be released", extra={"error": error})

    def _publish_failure(self, error: RootportError) -> None:
        """Say in the node's conditions why the plugin cannot start; as well as it goes."""
        self._findings.report(
            Finding(
                concern=Concern.STATE_DIRECTORY_WRITABLE, state=State.FALSE, reason="CannotStart", message=str(error)
            )
        )
        self._findings.settle()
        try:
            self._publisher.publish()
        except RootportError as cause:
            _LOG.debug("the failure could not be published", extra={"error": cause})


def run(options: Options) -> int:
    """Run the plugin until a signal ends it; the exit code.

    Raises:
        RootportError: It cannot be started.
    """
    # Signals wait in a queue for sigwait() below: no handler runs in the middle of something else. Threads inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    _LOG.info("starting", extra={"version": __version__, "node": options.node, "instance": options.instance})
    heap.set_up_malloc()
    # Pods start several at a time. With the interpreter's 5 ms, a call that has its answer from the API server would
    # wait that long for each other one that is computing.
    sys.setswitchinterval(_SWITCH_S)
    plugin = Plugin(options)
    plugin.start()
    heap.give_back()
    code = None
    while code is None:
        received = signal.sigwait(_SIGNALS)
        if received == signal.SIGHUP:
            plugin.look_now()
        else:
            code = 1 if received == _OUTDATED else 0
    _LOG.info("stopping", extra={"signal": signal.Signals(received).name})
    # Whatever a thread waits for, the end comes in time; all that counts is on disk at any moment.
    last_moment = threading.Timer(_LAST_MOMENT_S, os._exit, [code])
    last_moment.daemon = True
    last_moment.start()
    plugin.stop()
    _LOG.info("stopped")
    return code


def _reconcile(reconciler: Reconciler) -> None:
    report = reconciler.run_once()
    for claim, seconds in report.gone:
        _LOG.warning(
            "a prepared claim is gone from the API server; its devices stay taken until the kubelet unprepares it",
            extra={"claim": claim, "seconds": round(seconds)},
        )
    for claim in report.removed:
        _LOG.warning("a claim that was rebuilt and is gone from the API server was unprepared", extra={"claim": claim})
    for claim in report.planned:
        _LOG.info("a rebuilt claim was planned anew", extra={"claim": claim})
    for claim in report.mended.undone:
        _LOG.warning("what a former claim had left on the node was undone", extra={"claim": claim})
    for claim in report.mended.outdated:
        _LOG.warning("a prepared claim's MIG device was gone and was made anew", extra={"claim": claim})
    if problems := (*report.mended.failed, *report.unknown):
        raise summary(f"{len(problems)} prepared claims could not be looked after", problems)


def _registration(state: State, reason: str, message: str) -> Finding:
    return Finding(concern=Concern.REGISTERED, state=state, reason=reason, message=message)
