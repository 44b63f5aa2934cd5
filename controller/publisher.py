"""The publisher: threads for slices, others of lower rank for Device objects and Events, and the watches.

Slow nodes' slices have a thread of their own, so that they keep each other waiting and nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

from controller.alignment.reconciler import AlignmentPass
from controller.cluster.events import ClusterListener
from controller.cluster.liveness import Liveness, LivenessTracker
from controller.cluster.view import ClusterView
from controller.devices.pace import DevicePace
from controller.devices.reconciler import DevicePass, NodeListener
from controller.precedence import Precedence
from controller.slices.features import SliceFeatures
from controller.slices.published_condition import PublishedCondition
from controller.slices.reconciler import NodePass
from controller.slices.writer import SliceWriter
from controller.work_queue import WorkQueue
from driver.adapters.files.policies_in_force import PoliciesInForce
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.objects import node_label

__all__ = ["LowerRank", "Publisher", "PublisherOptions"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.5
# Several slices usually change at once: kubelet deletes all of a node.
_SETTLE_S: Final = 0.3
# A claim's results, and its pods, are written at once. Not to wait is what makes its Device tell of it within a second.
_DEVICES_SETTLE_S: Final = 0.1
# The scheduler reserves a pod's claims one after the other, and only all of them together can be judged.
_PODS_SETTLE_S: Final = 2.0
_EVENTS_PER_S: Final = 10.0
_MAX_EVENT_DELAY_S: Final = 300.0
_WORKERS: Final = frozenset({"slices", "slices-slow", "devices", "alignment", "explanations"})
# Longer than the controller's own Lease goes unrenewed as long as it leads.
_MAX_GAP_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherOptions:
    """What a person may choose.

    Attributes:
        namespace: Where the Leases are.
        leader_lease: The name of the controller's own Lease.
        fresh_for_s: How long after a heartbeat a node's slices are created and updated.
        grace_s: After how long without a heartbeat they are deleted.
        node_grace_s: How long an inventory may wait for its Node.
        resync_s: How often everything is looked at although nothing changed.
    """

    namespace: str = "rootport-system"
    leader_lease: str = "rootport-controller"
    fresh_for_s: float = 25.0
    grace_s: float = 60.0
    node_grace_s: float = 60.0
    resync_s: float = 600.0


class LowerRank(Protocol):
    """What else works on the leader, after the slices: :class:`controller.explanations.service.Explanations`."""

    @property
    def listener(self) -> ClusterListener:
        """What the watches feed."""

    def start(
        self, stop: threading.Event, *, is_synced: Callable[[], bool], go_first: Callable[[], None]
    ) -> list[threading.Thread]:
        """Begin, in threads of their own; the last of them is the one that writes."""


class Publisher:
    """Publishes what the nodes say. The only writer: start it on the elected leader alone.

    Args:
        api: The API server.
        options: What a person may choose.
        policies: What an administrator lets be given of GPUs; None for the defaults.
        nic_policies: Likewise of RDMA NICs.
        explanations: Tells why claims are pending; None to leave that.
        overview: Gets what is found out of the nodes; None where nobody looks.
        timed: Called with the name of a pass, ``slices`` or ``devices``: what times it.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        options: PublisherOptions,
        *,
        policies: PoliciesInForce[GpuPolicies] | None = None,
        nic_policies: PoliciesInForce[NicPolicies] | None = None,
        explanations: LowerRank | None = None,
        overview: NodeListener | None = None,
        timed: Callable[[str], AbstractContextManager[object]] = nullcontext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._explanations = explanations
        self._timed = timed
        self._clock = clock
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._resynced: float | None = None
        self._device_pace = DevicePace(wait=self._stop.wait, clock=clock)
        self._nodes = WorkQueue(clock=clock)
        self._slices_first = Precedence(self._nodes, wait=self._stop.wait, clock=clock)
        self._labels = WorkQueue(clock=clock, cpu_clock=self._device_pace.cost_s)
        self._pods = WorkQueue(max_delay_s=_MAX_EVENT_DELAY_S, clock=clock)
        self._liveness = LivenessTracker(fresh_for_s=options.fresh_for_s, grace_s=options.grace_s, max_gap_s=_MAX_GAP_S)
        self._view = ClusterView(
            api,
            namespace=options.namespace,
            leader_lease=options.leader_lease,
            liveness=self._liveness,
            look_at=lambda node: self._nodes.add(node, after_s=_SETTLE_S),
            look_at_devices=lambda label: self._labels.add(label, after_s=_DEVICES_SETTLE_S),
            look_at_pod=lambda uid: self._pods.add(uid, after_s=_PODS_SETTLE_S),
            listener=explanations.listener if explanations else None,
            clock=clock,
        )
        self._condition = PublishedCondition(api)
        self._features = SliceFeatures(api)
        self._policies = policies or PoliciesInForce(None, default=DEFAULT_POLICIES, flag="")
        self._nic_policies = nic_policies or PoliciesInForce(None, default=DEFAULT_NIC_POLICIES, flag="")
        self._node_pass = NodePass(
            api,
            namespace=options.namespace,
            view=self._view,
            liveness=self._liveness,
            writer=SliceWriter(api, self._view.slices, self._stop),
            features=self._features,
            condition=self._condition,
            policies=lambda: self._policies.now,
            nic_policies=lambda: self._nic_policies.now,
            node_grace_s=options.node_grace_s,
            clock=clock,
        )
        self._device_pass = DevicePass(
            api,
            view=self._view,
            policies=lambda: self._policies.now,
            features=self._features,
            stop=self._stop,
            pause=self._wait_for_slices,
            instance=options.leader_lease,
            liveness=self._liveness,
            listener=overview,
            clock=clock,
        )
        self._alignment_pass = AlignmentPass(
            api,
            pod=self._view.pods.pod,
            inventory=self._view.inventory,
            instance=options.leader_lease,
            pause=lambda: self._stop.wait(1.0 / _EVENTS_PER_S),
        )

    @property
    def is_ready(self) -> bool:
        """Whether everything was read once, so that slices are written."""
        return self._view.is_synced

    @property
    def failure(self) -> str:
        """Why it does not work any more; empty while it does."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"ended: {', '.join(dead)}" if dead and not self._stop.is_set() else ""

    def start(self) -> None:
        """Begin, in threads of its own."""
        self._threads = [
            *self._view.start(self._stop),
            threading.Thread(target=self._work_on_nodes, args=(False,), name="slices", daemon=True),
            threading.Thread(target=self._work_on_nodes, args=(True,), name="slices-slow", daemon=True),
            threading.Thread(target=self._work_on_devices, name="devices", daemon=True),
            threading.Thread(target=self._work_on_pods, name="alignment", daemon=True),
            threading.Thread(target=self._tick, name="ticks", daemon=True),
        ]
        for thread in self._threads[-5:]:
            thread.start()
        if self._explanations is not None:
            self._threads += self._explanations.start(
                self._stop, is_synced=lambda: self._view.devices_are_synced, go_first=self._slices_first.give
            )

    def stop(self, timeout_s: float) -> bool:
        """End once the writes under way are done; False where one is not done by then."""
        self._stop.set()
        self._nodes.close()
        self._labels.close()
        self._pods.close()
        end = time.monotonic() + timeout_s
        workers = [thread for thread in self._threads if thread.name in _WORKERS]
        for thread in workers:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in workers)

    def _work_on_nodes(self, slow: bool) -> None:  # noqa: FBT001 - a thread's argument
        run = self._timing("slices", self._node_pass.run)
        self._work(self._nodes, "node", lambda: self._view.is_synced, run, slow=slow)

    def _work_on_devices(self) -> None:
        run = self._timing("devices", self._device_pass.run)

        def run_after_slices(label: str) -> float | None:
            self._slices_first.give()
            return run(label)

        self._work(self._labels, "node", lambda: self._view.devices_are_synced, run_after_slices)

    def _work_on_pods(self) -> None:
        self._work(self._pods, "pod_uid", lambda: self._view.devices_are_synced, self._look_at_pod)

    def _work(
        self,
        queue: WorkQueue,
        what: str,
        may_start: Callable[[], bool],
        run: Callable[[str], float | None],
        *,
        slow: bool | None = None,
    ) -> None:
        while not may_start():
            if self._stop.wait(0.05):
                return
        while (key := queue.get(slow=slow)) is not None:
            try:
                again_s = run(key)
            except Exception as error:  # noqa: BLE001 - one node's failure must not end the work on the others
                delay = queue.failed(key)
                self._log_failure({what: key}, error, delay)
            else:
                queue.succeeded(key)
                if again_s is not None:
                    queue.add(key, after_s=again_s)

    def _timing(self, name: str, run: Callable[[str], float | None]) -> Callable[[str], float | None]:
        def timed(key: str) -> float | None:
            with self._timed(name):
                return run(key)

        return timed

    @staticmethod
    def _log_failure(what: dict[str, str], error: Exception, delay: float) -> None:
        told = what | {"retry_in_s": round(delay, 1)}
        if isinstance(error, ApiServerError):
            _LOG.warning("will be tried again", extra=told | {"error": str(error)})
        else:
            _LOG.error("unexpected error; will be tried again", extra=told, exc_info=error)

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            if not self._view.is_synced:
                continue
            for look in (self._look_at_policies, self._look_at_liveness, self._look_at_all_in_time):
                try:
                    look()
                except Exception:  # noqa: BLE001 - what one of them meets must not end the others, nor the next tick
                    _LOG.exception("unexpected error; will be tried again at the next tick")

    def _look_at_policies(self) -> None:
        if any([self._policies.reload(), self._nic_policies.reload()]):  # a list: both look each time
            self._look_at_all()

    def _look_at_liveness(self) -> None:
        for node in self._view.slices.doubtful():
            self._nodes.add(node)
        now = self._clock()
        for node in self._liveness.changed(now):
            self._nodes.add(node)
            label = node_label(node)
            if self._device_pass.was_silent(label) or self._liveness.liveness(node, now) is Liveness.SILENT:
                self._labels.add(label)

    def _look_at_all_in_time(self) -> None:
        now = self._clock()
        if self._resynced is None or now - self._resynced >= self._options.resync_s:
            self._resynced = now
            self._resync()

    def _resync(self) -> None:
        self._condition.forget()
        self._features.forget()
        self._look_at_all()

    def _look_at_all(self) -> None:
        nodes, labels = self._view.known()
        _LOG.info("looking at everything", extra={"nodes": len(nodes)})
        for node in nodes:
            self._nodes.add(node)
        for label in labels:
            self._labels.add(label, after_s=_DEVICES_SETTLE_S)

    def _wait_for_slices(self) -> None:
        """Devices come after slices, and slowly: they are to look at, and etcd has other work."""
        self._slices_first.give()
        self._device_pace.pause()

    def _look_at_pod(self, uid: str) -> None:
        self._slices_first.give()
        self._alignment_pass.run(uid)
