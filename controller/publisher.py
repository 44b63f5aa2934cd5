"""Runs the reconcilers: threads for slices, others of lower priority for Device objects and Events, and the informers.

Slow nodes' slices have a thread of their own, so that they delay each other and no other node.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.alignment.reconciler import AlignmentReconciler
from controller.binding.announcer import ClaimAnnouncer
from controller.cluster.event_forwarder import BothHandlers, ClusterEventHandler
from controller.cluster.informers import ClusterInformers
from controller.cluster.liveness import Liveness, LivenessTracker
from controller.devices.pace import DevicePace
from controller.devices.reconciler import DeviceReconciler, NodeEventHandler
from controller.modes.claim_lists import EVERY_S, ClaimLists
from controller.modes.layout_in_force import LayoutInForce
from controller.modes.node_modes import NodeModes
from controller.modes.wishes import Wishes
from controller.precedence import Precedence
from controller.slices.features import SliceFeatures
from controller.slices.published_condition import PublishedCondition
from controller.slices.reconciler import SliceReconciler
from controller.slices.supply import PublishableGpus
from controller.slices.writer import SliceWriter
from controller.work_loop import work
from controller.work_queue import WorkQueue
from driver.adapters.files.policies_in_force import PoliciesInForce
from driver.adapters.kubernetes.api import KubernetesApi
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.modes.rule import Layout
from driver.modes.transition import CLOSED_S
from driver.objects.names import node_label

if TYPE_CHECKING:
    # A controller that does without one of these does not load it: explanations bring the allocator and CEL.
    from controller.compatibility.service import Compatibility
    from controller.conversion.collector import TemplateCollector
    from controller.demand.follower import DemandFollower
    from controller.explanations.service import Explanations
    from controller.placement.service import PlacementService

__all__ = ["Publisher", "PublisherOptions"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.5
# Several slices usually change at once: kubelet deletes all of a node.
_SETTLE_S: Final = 0.3
# A claim's results, and its pods, are written at once, and its Device should show them within a second.
_DEVICES_SETTLE_S: Final = 0.1
# Pods that are scheduled together are written to their node at once. kube-scheduler looks every five seconds whether a
# claim is ready, and a node needs well below a second.
_AWAITED_SETTLE_S: Final = 0.2
# The scheduler reserves a pod's claims one after the other, and only all of them together can be judged.
_PODS_SETTLE_S: Final = 2.0
_EVENTS_PER_S: Final = 10.0
_MAX_EVENT_DELAY_S: Final = 300.0
# Their writes overlap: the API server takes longer for one than this process takes to decide it.
_SLICE_WORKERS: Final = 4
# So long the Device objects are read later, while slices are due: after a start all are.
_DEVICES_LATEST_S: Final = 60.0
_WORKERS: Final = frozenset(
    {
        "slices",
        "slices-slow",
        "devices",
        "alignment",
        "binding",
        "explanations",
        "placement",
        "pod-annotations",
        "node-labels",
        "template-collector",
    }
)
# How soon a node's slices are looked at again that keep the taint of managed nodes for a moment.
_LEAVING_S: Final = 1.0
# Longer than the controller's own Lease goes without a renewal while it leads.
_MAX_GAP_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherOptions:
    """The settings of a publisher.

    Attributes:
        namespace: Where the Leases are.
        leader_lease: The name of the controller's own Lease.
        fresh_for_s: How long after a heartbeat a node's slices are created and updated.
        grace_s: After how long without a heartbeat they are deleted.
        resync_s: How often everything is reconciled although nothing changed.
        gpu_layout: The layout of GPUs; None for the one that fits the cluster (:mod:`driver.modes.rule`).
        mig_gpus_ahead: How many free GPUs of a node are published in all their modes ahead of demand, in the layout
            ``lean``.
        closed_s: How long a device is closed before it may leave the slices (:mod:`driver.modes.transition`).
        list_claims_every_s: How often claims are listed to find out whether such devices are free, at most.
        lists: Whether attributes may be lists (DRAListTypeAttributes), if the API server keeps them.
        node_allocatable: Whether GPUs may bring CPU and memory of the node (DRANodeAllocatableResources), likewise.
    """

    namespace: str = "rootport-system"
    leader_lease: str = "rootport-controller"
    fresh_for_s: float = 25.0
    grace_s: float = 60.0
    resync_s: float = 600.0
    gpu_layout: Layout | None = None
    mig_gpus_ahead: int = 1
    closed_s: float = CLOSED_S
    list_claims_every_s: float = EVERY_S
    lists: bool = False
    node_allocatable: bool = False


class Publisher:
    """Publishes the nodes' inventories. It must be the only writer: start it on the elected leader alone.

    Args:
        api: The API server.
        options: The settings.
        policies: The GPU policies; None for the defaults.
        nic_policies: The NIC policies; None for the defaults.
        device_policies: The device policies; None for the defaults.
        explanations: Explains pending claims; None to do without.
        demand: Makes the modes of GPUs follow pending claims; None to do without.
        compatibility: Writes what other systems' tools read; None to do without.
        overview: Gets the nodes' states; None to do without.
        collector: Deletes templates that nothing names; None to do without.
        placement: Allocates the devices of managed nodes; None to leave all to kube-scheduler.
        timed: Called with ``slices`` or ``devices`` for each time that a key is reconciled; returns what times it.
    """

    def __init__(  # noqa: PLR0913 - all by name
        self,
        api: KubernetesApi,
        options: PublisherOptions,
        *,
        policies: PoliciesInForce[GpuPolicies] | None = None,
        nic_policies: PoliciesInForce[NicPolicies] | None = None,
        device_policies: PoliciesInForce[DevicePolicies] | None = None,
        explanations: Explanations | None = None,
        demand: DemandFollower | None = None,
        compatibility: Compatibility | None = None,
        overview: NodeEventHandler | None = None,
        collector: TemplateCollector | None = None,
        placement: PlacementService | None = None,
        timed: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._options = options
        self._explanations = explanations
        self._demand = demand
        self._collector = collector
        self._placement = placement
        self._compatibility = compatibility
        self._timed = timed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._resynced: float | None = None
        self._device_pace = DevicePace(wait=self._stop.wait)
        self._nodes = WorkQueue()
        self._slices_first = Precedence(self._nodes, wait=self._stop.wait)
        self._labels = WorkQueue(cpu_clock=self._device_pace.cost_s)
        self._pods = WorkQueue(max_delay_s=_MAX_EVENT_DELAY_S)
        self._awaited = WorkQueue()
        self._liveness = LivenessTracker(fresh_for_s=options.fresh_for_s, grace_s=options.grace_s, max_gap_s=_MAX_GAP_S)
        self._informers = ClusterInformers(
            api,
            namespace=options.namespace,
            leader_lease=options.leader_lease,
            liveness=self._liveness,
            enqueue_node=self._node_changed,
            enqueue_devices=lambda label: self._labels.add(label, after_s=_DEVICES_SETTLE_S),
            enqueue_pod=self._pod_changed,
            use_changed=self._use_changed,
            awaited_changed=lambda node: self._awaited.add(node, after_s=_AWAITED_SETTLE_S),
            handler=_handler(explanations, placement),
        )
        self._condition = PublishedCondition(api)
        self._features = SliceFeatures(api, lists=options.lists, node_allocatable=options.node_allocatable)
        self._policies = policies or PoliciesInForce(None, default=DEFAULT_POLICIES, flag="")
        self._nic_policies = nic_policies or PoliciesInForce(None, default=DEFAULT_NIC_POLICIES, flag="")
        self._device_policies = device_policies or PoliciesInForce(None, default=DEFAULT_DEVICE_POLICIES, flag="")
        self._layout = LayoutInForce(
            api,
            has_counters=lambda: self._features.has_counters,
            nodes=lambda: self._informers.node_count,
            override=options.gpu_layout,
        )
        self._claim_lists = ClaimLists(api, enqueue=self._nodes.add, every_s=options.list_claims_every_s)
        self._wishes = Wishes(self._nodes.add)
        self._modes = NodeModes(
            layout=self._layout,
            lists=self._claim_lists,
            wishes=self._wishes,
            in_use=lambda node: [item.device for item in self._informers.allocations(node)],
            policies=lambda: self._policies.now,
            device_policies=lambda: self._device_policies.now,
            has_taints=lambda: self._features.has_taints,
            mig_gpus_ahead=options.mig_gpus_ahead,
            closed_s=options.closed_s,
        )
        self._gpus = PublishableGpus(
            informers=self._informers,
            layout=self._layout,
            features=self._features,
            policies=lambda: self._policies.now,
            nic_policies=lambda: self._nic_policies.now,
            device_policies=lambda: self._device_policies.now,
        )
        self._slice_reconciler = SliceReconciler(
            api,
            namespace=options.namespace,
            informers=self._informers,
            liveness=self._liveness,
            writer=SliceWriter(api, self._informers.slices, self._stop),
            features=self._features,
            condition=self._condition,
            policies=lambda: self._policies.now,
            nic_policies=lambda: self._nic_policies.now,
            device_policies=lambda: self._device_policies.now,
            modes=self._modes,
            is_tainted=self._is_tainted,
        )
        self._device_reconciler = DeviceReconciler(
            api,
            informers=self._informers,
            policies=lambda: self._policies.now,
            device_policies=lambda: self._device_policies.now,
            modes_follow_demand=self._modes_follow_demand,
            stop=self._stop,
            pause=self._wait_for_slices,
            pace=self._device_pace,
            instance=options.leader_lease,
            liveness=self._liveness,
            handler=overview,
        )
        self._announcer = ClaimAnnouncer(
            api, awaiting=self._informers.awaiting.of_node, inventory=self._informers.inventory
        )
        self._alignment_reconciler = AlignmentReconciler(
            api,
            pod=self._informers.pods.pod,
            inventory=self._informers.inventory,
            instance=options.leader_lease,
            pause=lambda: self._stop.wait(1.0 / _EVENTS_PER_S),
        )

    @property
    def is_ready(self) -> bool:
        """Whether everything has been read once, so that slices are written."""
        return self._informers.is_synced

    @property
    def failure(self) -> str:
        """Why the publisher does not work any more; empty while it does."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"ended: {', '.join(dead)}" if dead and not self._stop.is_set() else ""

    def start(self) -> None:
        """Start the threads."""
        workers = [
            *(
                threading.Thread(target=self._work_on_nodes, args=(False,), name="slices", daemon=True)
                for _ in range(_SLICE_WORKERS)
            ),
            threading.Thread(target=self._work_on_nodes, args=(True,), name="slices-slow", daemon=True),
            threading.Thread(target=self._work_on_devices, name="devices", daemon=True),
            threading.Thread(target=self._work_on_pods, name="alignment", daemon=True),
            threading.Thread(target=self._work_on_awaited, name="binding", daemon=True),
            threading.Thread(target=self._claim_lists.run, args=(self._stop,), name="claim-lists", daemon=True),
            threading.Thread(target=self._tick, name="ticks", daemon=True),
        ]
        self._threads = [*self._informers.start(self._stop, devices_after=self._wait_for_first_slices), *workers]
        if self._placement is not None:  # before the workers, which ask it for the taints of managed nodes
            self._threads += self._placement.start(
                self._stop,
                is_synced=lambda: self._informers.is_synced,
                is_labelled=self._informers.is_labelled_managed,
                pools=self._informers.slices.pools,
            )
        for thread in workers:
            thread.start()
        if self._explanations is not None:
            self._threads += self._explanations.start(
                self._stop,
                is_synced=lambda: self._informers.devices_are_synced,
                yield_to_slices=self._slices_first.wait,
            )
        if self._demand is not None:
            self._threads.append(
                self._demand.start(
                    self._stop, supply=self._gpus, wishes=self._wishes, yield_to_slices=self._slices_first.wait
                )
            )
        if self._collector is not None:
            self._threads.append(self._collector.start(self._stop))
        if self._compatibility is not None:
            self._threads += self._compatibility.start(
                self._stop,
                is_synced=lambda: self._informers.is_synced,
                pod=self._informers.pods.pod,
                inventory=self._informers.inventory,
                yield_to_slices=self._slices_first.wait,
            )

    def stop(self, timeout_s: float) -> bool:
        """Stop once the writes under way are done; return False if one is not done in time."""
        self._stop.set()
        self._nodes.close()
        self._labels.close()
        self._pods.close()
        self._awaited.close()
        if self._compatibility is not None:
            self._compatibility.close()
        if self._placement is not None:
            self._placement.close()
        end = time.monotonic() + timeout_s
        workers = [thread for thread in self._threads if thread.name in _WORKERS]
        for thread in workers:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in workers)

    def _work_on_nodes(self, slow: bool) -> None:  # noqa: FBT001 - a thread's argument
        reconcile = self._timing("slices", self._slice_reconciler.reconcile)
        work(self._nodes, "node", reconcile, stop=self._stop, may_start=lambda: self._informers.is_synced, slow=slow)

    def _work_on_devices(self) -> None:
        reconcile = self._timing("devices", self._device_reconciler.reconcile)

        def after_slices(label: str) -> float | None:
            self._slices_first.wait()
            return reconcile(label)

        work(self._labels, "node", after_slices, stop=self._stop, may_start=lambda: self._informers.devices_are_synced)

    def _work_on_pods(self) -> None:
        def after_slices(uid: str) -> None:
            self._slices_first.wait()
            self._alignment_reconciler.reconcile(uid)

        work(self._pods, "pod_uid", after_slices, stop=self._stop, may_start=lambda: self._informers.devices_are_synced)

    def _work_on_awaited(self) -> None:
        reconcile = self._announcer.reconcile
        work(self._awaited, "node", reconcile, stop=self._stop, may_start=lambda: self._informers.is_synced)

    def _timing(self, name: str, reconcile: Callable[[str], float | None]) -> Callable[[str], float | None]:
        def timed(key: str) -> float | None:
            with self._timed(name):
                return reconcile(key)

        return timed

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            if not self._informers.is_synced:
                continue
            for check in (self._check_policies, self._check_layout, self._check_liveness, self._resync_if_due):
                try:
                    check()
                except Exception:  # noqa: BLE001 - a failure of one must not end the others, nor the next tick
                    _LOG.exception("unexpected error; will be tried again at the next tick")

    def _check_policies(self) -> None:
        files = (self._policies, self._nic_policies, self._device_policies)
        if sum(file.reload() for file in files):  # each file is checked each time
            self._enqueue_all()

    def _check_layout(self) -> None:
        # At the start everything is due anyway.
        if self._layout.take_change() and self._resynced is not None:
            self._enqueue_all()

    def _modes_follow_demand(self) -> bool:
        """Return whether each GPU can be had in any mode that the policies offer, at once or soon."""
        return self._layout.now.layout is Layout.FULL or (self._demand is not None and self._features.has_taints)

    def _is_tainted(self, node: str) -> bool:
        """Return whether a node's devices are to have the taint of managed nodes."""
        if self._placement is None:
            return False
        if self._placement.is_leaving(node):
            self._nodes.add(node, after_s=_LEAVING_S)
        return self._placement.is_tainted(node)

    def _node_changed(self, node: str) -> None:
        self._nodes.add(node, after_s=_SETTLE_S)
        if self._informers.awaiting.of_node(node):  # its inventory may be a new object
            self._awaited.add(node, after_s=_AWAITED_SETTLE_S)
        if self._compatibility is not None:
            self._compatibility.node_changed(node)

    def _pod_changed(self, uid: str) -> None:
        self._pods.add(uid, after_s=_PODS_SETTLE_S)
        if self._compatibility is not None:
            self._compatibility.pod_changed(uid)

    def _use_changed(self, node: str) -> None:
        if self._modes.claims_changed(node):
            self._nodes.add(node, after_s=_SETTLE_S)

    def _check_liveness(self) -> None:
        for node in self._informers.slices.doubtful():
            self._nodes.add(node)
        now = time.monotonic()
        for node in self._liveness.changed(now):
            self._nodes.add(node)
            label = node_label(node)
            if self._device_reconciler.was_silent(label) or self._liveness.liveness(node, now) is Liveness.SILENT:
                self._labels.add(label)

    def _resync_if_due(self) -> None:
        now = time.monotonic()
        is_first = self._resynced is None
        if self._resynced is None or now - self._resynced >= self._options.resync_s:
            self._resynced = now
            self._condition.forget()
            self._announcer.forget()
            self._features.forget()
            self._layout.forget()
            self._enqueue_all(is_first=is_first)

    def _enqueue_all(self, *, is_first: bool = False) -> None:
        nodes, labels = self._informers.known()
        _LOG.info("looking at everything", extra={"nodes": len(nodes)})
        for node in nodes:
            self._nodes.add(node)
            if is_first or self._informers.awaiting.of_node(node):
                self._awaited.add(node, after_s=_AWAITED_SETTLE_S)
        for label in labels:
            self._labels.add(label, after_s=_DEVICES_SETTLE_S)

    def _wait_for_first_slices(self) -> None:
        """Wait until all that decides about slices was read, and then until the slices are right, but not for ever."""
        while not self._informers.is_synced:
            if self._stop.wait(_TICK_S / 2):
                return
        end = time.monotonic() + _DEVICES_LATEST_S
        self._stop.wait(_TICK_S + _SETTLE_S)  # by then all nodes are due
        while not self._nodes.is_idle(slow=False) and time.monotonic() < end:
            if self._stop.wait(_TICK_S / 2):
                return

    def _wait_for_slices(self) -> None:
        """Wait before a write of a Device: slices come first, and etcd has other work."""
        self._slices_first.wait()
        self._device_pace.pause()


def _handler(explanations: Explanations | None, placement: PlacementService | None) -> ClusterEventHandler | None:
    if explanations is not None and placement is not None:
        return BothHandlers(explanations.handler, placement.handler)
    if explanations is not None:
        return explanations.handler
    return placement.handler if placement is not None else None
