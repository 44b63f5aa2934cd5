"""Discovers the node's devices again and again, and decides which of them can be used.

A discovery that fails must not make devices vanish, so what was seen before is kept in memory while the condition
Discovered says what is wrong. Nothing is kept over a restart: what this process has never seen it cannot prepare.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from driver.adapters.host import HostRoot
from driver.adapters.kubernetes.resources import JsonObject
from driver.adapters.machines import live
from driver.adapters.nvml import discovery as nvml
from driver.adapters.sysfs.default_route import with_default_route
from driver.adapters.sysfs.reader import SysfsReader
from driver.errors import NodeError, RootportError
from driver.layout.left_out import left_out_notes
from driver.model.devices import Gpu
from driver.model.inventory import Inventory
from driver.model.lent import LentNames, with_lent
from driver.model.merge import merge_nvml
from driver.objects.written_inventory import node_inventory
from kubeletplugin.internal_errors import guarded
from kubeletplugin.loop import ProcessOutdatedError
from kubeletplugin.node.nvml_library import outdated_version, with_nvml
from kubeletplugin.node.own_devices import hidden_device
from kubeletplugin.node.own_partitions import OwnPartitions, without_own_partitions
from kubeletplugin.node.roots import Roots
from kubeletplugin.node.silent_gpus import silent_gpus, with_silent, without_silent
from kubeletplugin.node.usable import with_device_nodes, without_cut_up_gpus
from kubeletplugin.publish.conditions import ConditionReport, ConditionReports, ConditionStatus, ConditionType

__all__ = ["DiscoveredNode", "Discovery", "discover"]

_LOG: Final = logging.getLogger(__name__)
_NVIDIA: Final = "nvidia"
# A discovery takes less than a second, and some seconds with 16 GPUs whose driver is not kept loaded.
_LATE_S: Final = 60.0
_REPORTED_FOR_S: Final = 5.0
"""How long the condition gives the reason, before the process ends. Longer than the margin of own_devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveredNode:
    """The result of one discovery.

    Attributes:
        inventory: The devices that can be used, and those that are there and cannot, without their device nodes.
        unseen: Why NVIDIA's GPUs could not be read, although sysfs has some; None if they could.
        unusable: The devices that are there and cannot be used, and why; one sentence each.
        outdated: Whether a new process, in a container made anew, would see what could not be read.
        lent: The RDMA functions that pods have, by name. The inventory may know less of them than there is.
        silent: The GPUs that NVIDIA's driver has and NVML does not report, as a rule because they are lost. They are
            not in the inventory, and have no device nodes.
    """

    inventory: Inventory
    unseen: RootportError | None = None
    unusable: tuple[str, ...] = ()
    outdated: bool = False
    lent: Mapping[str, LentNames] = field(default_factory=dict)
    silent: tuple[Gpu, ...] = ()


def discover(
    roots: Roots,
    *,
    node: str,
    own: Path = Path("/"),
    own_partitions: Callable[[], OwnPartitions] = frozenset,
    lent: Callable[[], frozenset[str]] = frozenset,
    lent_names: Callable[[], Mapping[str, LentNames]] = dict,
    next_hops: Callable[[], Collection[str]] = tuple,
) -> DiscoveredNode:
    """Discover the node's devices.

    Unlike ``rootport topo --live``, which shows everything, this leaves out NVIDIA GPUs whose driver library does not
    answer, and takes the device nodes from devices whose nodes are missing in ``dev`` (where the root has a ``dev``):
    no container could use either.

    Args:
        roots: Where the node's ``sys``, ``proc`` and ``dev`` are.
        node: The node's name.
        own: This process's own ``/``, whose ``dev`` NVML opens.
        own_partitions: Returns the MIG devices that Rootport makes, which are no part of a GPU's static layout.
        lent: As for :func:`driver.adapters.machines.live.read`.
        lent_names: Returns the names that the lender's records have for them; some may be missing.
        next_hops: As for :func:`driver.adapters.sysfs.default_route.with_default_route`.

    Raises:
        RootportError: sysfs cannot be read.
    """

    def read_gpus(host: HostRoot) -> nvml.NvmlReport:
        # Asked twice, since one may be made or destroyed while NVML is asked.
        before = own_partitions()
        report = with_nvml(roots, lambda: nvml.read_gpus(host.fresh()))
        return without_own_partitions(report, before | own_partitions())

    reading = live.read(roots.hardware, node=node, lent=lent, read_gpus=read_gpus)
    tree, report = reading.tree, reading.report
    failure: NodeError | None = None
    cut_up: tuple[str, ...] = ()
    silent: tuple[Gpu, ...] = ()
    if isinstance(report, NodeError):
        failure = report
        others = (gpu for gpu in tree.gpus if gpu.vendor != _NVIDIA)
        found = replace(tree, gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(others)))
        blind = sum(gpu.vendor == _NVIDIA for gpu in tree.gpus)
    else:
        silent = silent_gpus(tree, report.gpus)
        found = without_silent(merge_nvml(tree, report.gpus, report.notes), silent)
        blind = sum(gpu.vendor == _NVIDIA and gpu.minor is None for gpu in found.gpus)
        found, cut_up = without_cut_up_gpus(found, {part.gpu for part in report.partitions_left_out})
    unseen, outdated = _unseen(roots, own, blind, failure) if blind else (None, False)
    inventory, missing = with_device_nodes(found, roots.devices(), roots.nvidia_devices())
    reader = SysfsReader.open(roots.hardware.fresh())
    inventory = replace(inventory, nics=with_default_route(reader, inventory.nics, next_hops=next_hops))
    known = lent_names() if reading.lent else {}
    return DiscoveredNode(
        inventory=inventory,
        unseen=unseen,
        unusable=(*cut_up, *missing),
        outdated=outdated,
        lent={name: known.get(name, LentNames()) for name in reading.lent},
        silent=silent,
    )


class Discovery:
    """Keeps the latest inventory. Safe to use from any thread; :meth:`run` only from one at a time.

    Args:
        discover: Discovers the node's devices.
        reports: Receives the condition Discovered.
        on_change: Called after the inventory has changed.
        late_s: Seconds after which a discovery that has not ended is reported: NVML may hang for good on a broken GPU.
        reported_for_s: Seconds for which the condition says that this process is outdated, before :meth:`run` ends it.
    """

    def __init__(
        self,
        discover: Callable[[], DiscoveredNode],
        *,
        reports: ConditionReports,
        on_change: Callable[[], None],
        late_s: float = _LATE_S,
        reported_for_s: float = _REPORTED_FOR_S,
    ) -> None:
        self._discover = discover
        self._reports = reports
        self._on_change = on_change
        self._lock = threading.Lock()
        self._latest: Inventory | None = None
        self._spec: JsonObject | None = None
        self._certain = False
        self._failure: RootportError | None = None
        self._late_s = late_s
        self._reported_for_s = reported_for_s
        self._outdated_since: float | None = None
        self._reporting = threading.Lock()  # so that a timer's report never replaces that of the discovery's result
        self._runs = 0

    def inventory(self) -> Inventory:
        """Return the latest inventory.

        Raises:
            NodeError: No discovery has succeeded yet.
        """
        with self._lock:
            latest, failure = self._latest, self._failure
        if latest is None:
            why = f": {failure}" if failure else ""
            raise NodeError(f"the node's devices are not known yet{why}", hint="it is looked for again and again")
        return latest

    def latest(self) -> Inventory | None:
        """Return the latest inventory; None if no discovery has succeeded yet."""
        with self._lock:
            return self._latest

    def spec(self) -> JsonObject | None:
        """Return the latest inventory as the spec of a NodeInventory; None as for :meth:`latest`."""
        with self._lock:
            return self._spec

    def certain(self) -> bool:
        """Whether the latest discovery saw everything; if not, the inventory may hold what was there before."""
        with self._lock:
            return self._certain

    def run(self) -> None:
        """Discover once.

        Raises:
            RootportError: sysfs could not be read, no NodeInventory can hold the devices, or NVIDIA's GPUs could not be
                read; what was known of them is kept.
            ProcessOutdatedError: The GPUs can be read by a new process only.
        """
        try:
            with self._reported_when_late(), guarded("look", "the node's hardware"):
                discovered = self._discover()
                inventory = self._merged(discovered)
                # Here, so that a node that cannot be published has a failed discovery, and a condition that says so.
                spec = node_inventory(inventory)["spec"]
        except RootportError as error:
            with self._lock:
                self._failure, self._certain = error, False
            self._reports.report(_report(ConditionStatus.FALSE, "DiscoveryFailed", str(error)))
            self._on_change()
            raise
        with self._lock:
            changed = (inventory, discovered.unseen is None) != (self._latest, self._certain)
            self._latest, self._spec = inventory, spec
            self._certain, self._failure = discovered.unseen is None, discovered.unseen
        self._reports.report(_report_of(discovered, inventory))
        if changed:
            counts = {"gpus": len(inventory.gpus), "nics": len(inventory.nics), "fpgas": len(inventory.fpgas)}
            _LOG.info("devices", extra=counts)
            for note in inventory.notes:
                _LOG.info("note on the devices", extra={"note": note})
            self._on_change()
        if discovered.unseen is not None:
            self._end_if_outdated(discovered)
            raise discovered.unseen
        self._outdated_since = None

    def _merged(self, discovered: DiscoveredNode) -> Inventory:
        """Return what was discovered, with what was known before of devices that could not be read now."""
        latest = self.latest()
        kept = latest.gpus if latest is not None and discovered.unseen is not None else ()
        seen = with_silent(_with_kept(discovered.inventory, kept), discovered.silent, latest)
        return with_lent(seen, latest, discovered.lent)

    def _end_if_outdated(self, discovered: DiscoveredNode) -> None:
        now = time.monotonic()
        if not discovered.outdated:
            self._outdated_since = None
        elif self._outdated_since is None:
            self._outdated_since = now
        elif now - self._outdated_since >= self._reported_for_s:
            raise ProcessOutdatedError(str(discovered.unseen))

    @contextmanager
    def _reported_when_late(self) -> Iterator[None]:
        timer = threading.Timer(self._late_s, self._report_late, [self._runs])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._reporting:
                self._runs += 1

    def _report_late(self, run: int) -> None:
        with self._reporting:
            if run != self._runs:
                return
            with self._lock:
                self._certain = False
            message = (
                f"a look at the hardware has not ended after {self._late_s:g} s; what was known before is kept. NVML "
                "hangs on some broken GPUs: see nvidia-smi and dmesg on the node"
            )
            self._reports.report(_report(ConditionStatus.FALSE, "LookHangs", message))
        _LOG.warning("a look at the hardware does not end", extra={"seconds": self._late_s})
        self._on_change()


def _unseen(roots: Roots, own: Path, blind: int, failure: NodeError | None) -> tuple[NodeError | None, bool]:
    """Return why GPUs cannot be read, None if NVML just reports little; and whether a new process would see them."""
    subject = f"{blind} NVIDIA GPUs cannot be looked at"
    ends = "the plugin ends itself, so that the kubelet makes its container anew"
    if failure is not None and (version := outdated_version(roots)) is not None:
        return NodeError(f"{subject}: another driver runs since this process loaded NVML {version}", hint=ends), True
    hidden = hidden_device(roots.host.path, own)
    if hidden is not None:
        return NodeError(
            f"{subject}: the host has {hidden.path} and the plugin's container has not, as when NVIDIA's driver was "
            "loaded after it was made",
            hint=ends if hidden.newer_than_process else "delete the plugin's pod, which must be a privileged one",
        ), hidden.newer_than_process
    if isinstance(failure, nvml.NvmlUnavailableError):
        return NodeError(
            f"{subject}: {failure.message}",
            hint="install NVIDIA's driver on the node; where it is in a container of its own, name its folder with "
            "--device-root",
        ), False
    return (NodeError(f"{subject}: {failure.message}", hint=failure.hint) if failure is not None else None), False


def _with_kept(inventory: Inventory, kept: tuple[Gpu, ...]) -> Inventory:
    """Return the inventory with NVIDIA's GPUs as they were seen before; the others' indices follow theirs."""
    nvidia = tuple(gpu for gpu in kept if gpu.vendor == _NVIDIA)
    if not nvidia:
        return inventory
    behind = max(gpu.index for gpu in nvidia) + 1
    others = (replace(gpu, index=index) for index, gpu in enumerate(inventory.gpus, start=behind))
    return replace(inventory, gpus=(*nvidia, *others))


def _report_of(discovered: DiscoveredNode, inventory: Inventory) -> ConditionReport:
    unseen = discovered.unseen
    if unseen is not None:
        kept = inventory != discovered.inventory
        fate = "what was known of them before is kept" if kept else "they are not published"
        reason = "ContainerOutdated" if discovered.outdated else "GpusNotSeen"
        return _report(ConditionStatus.FALSE, reason, f"{unseen}; until then {fate}")
    if discovered.unusable:
        return _report(ConditionStatus.FALSE, "DeviceNodesMissing", "; ".join(discovered.unusable))
    counts = f"{len(inventory.gpus)} GPUs, {len(inventory.nics)} RDMA NICs, {len(inventory.fpgas)} FPGAs"
    return _report(ConditionStatus.TRUE, "Discovered", "; ".join((counts, *left_out_notes(inventory))))


def _report(status: ConditionStatus, reason: str, message: str) -> ConditionReport:
    return ConditionReport(type=ConditionType.DISCOVERED, status=status, reason=reason, message=message)
