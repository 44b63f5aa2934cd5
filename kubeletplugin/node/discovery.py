"""What this node has now, looked at again and again, and what of it can be used.

A look that fails must not make devices vanish, so what was seen before is kept in memory while the condition
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
from typing import Final, TypeVar

from driver.adapters.host import HostRoot
from driver.adapters.nvml import discovery as nvml
from driver.adapters.sysfs import discovery as sysfs
from driver.errors import NodeError, RootportError
from driver.layout import left_out_notes
from driver.model.devices import Device, Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.lent import LentNames, with_lent
from driver.model.merge import merge_nvml
from driver.model.pci import PciAddress
from driver.objects import node_inventory
from kubeletplugin.internal_errors import guarded
from kubeletplugin.loop import ProcessOutdatedError
from kubeletplugin.node.nvml_library import outdated_version, with_nvml
from kubeletplugin.node.own_devices import hidden_device
from kubeletplugin.node.own_partitions import OwnPartitions, without_own_partitions
from kubeletplugin.node.roots import Roots
from kubeletplugin.node.silent_gpus import silent_gpus, with_silent, without_silent
from kubeletplugin.publish.conditions import Concern, Finding, Findings, State

__all__ = ["Discovery", "Sighting", "look"]

_LOG: Final = logging.getLogger(__name__)
_NVIDIA: Final = "nvidia"
_LATE_S: Final = 60.0  # a look takes less than a second, and some seconds with 16 GPUs whose driver is not kept loaded
_TOLD_FOR_S: Final = 5.0
"""How long the conditions say why, before the process ends. Longer than the margin of own_devices."""
_F = TypeVar("_F", RdmaNic, RdmaVf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look at the node.

    Attributes:
        inventory: What can be used.
        unseen: Why NVIDIA's GPUs could not be looked at, although sysfs has some; None where they could.
        unusable: The devices that are there and cannot be used, and why; one sentence each.
        outdated: Whether a new process, in a container made anew, would see what could not be looked at.
        lent: The RDMA functions that pods have, by name, of which the inventory may tell less than there is.
        silent: The GPUs that NVIDIA's driver has and NVML tells nothing of: they are lost, as a rule. Not among the
            inventory's, and without device nodes.
    """

    inventory: Inventory
    unseen: RootportError | None = None
    unusable: tuple[str, ...] = ()
    outdated: bool = False
    lent: Mapping[str, LentNames] = field(default_factory=dict)
    silent: tuple[Gpu, ...] = ()


def look(
    roots: Roots,
    *,
    node: str,
    own: Path = Path("/"),
    own_partitions: Callable[[], OwnPartitions] = frozenset,
    lent: Callable[[], frozenset[str]] = frozenset,
    lent_names: Callable[[], Mapping[str, LentNames]] = dict,
) -> Sighting:
    """Look at the node's devices.

    Unlike ``rootport topo --live``, which shows all there is, this leaves out NVIDIA GPUs whose driver library does not
    answer, and takes the device nodes from devices whose nodes are missing in ``dev`` (where the root has a ``dev``):
    no container could use either.

    Args:
        roots: Where the node's ``sys``, ``proc`` and ``dev`` are.
        node: The node's name.
        own: This process's own ``/``, whose ``dev`` NVML opens.
        own_partitions: Tells the MIG devices that Rootport makes, which are no part of a GPU's static layout.
        lent: Tells the names of the RDMA functions that are lent to pods: from before one is moved into a network
            namespace until after it is back.
        lent_names: Tells what the lender's state says of them, by name; it may leave any out.

    Raises:
        RootportError: sysfs cannot be read, or tells what no NodeInventory can hold.
    """
    tree, names = _tree(roots, node, lent)
    failure: NodeError | None = None
    cut_up: tuple[str, ...] = ()
    silent: tuple[Gpu, ...] = ()
    try:
        # Asked twice, since one may be made or destroyed while NVML is asked.
        before = own_partitions()
        report = without_own_partitions(_nvml_report(roots), before | own_partitions())
    except NodeError as error:
        failure = error
        others = (gpu for gpu in tree.gpus if gpu.vendor != _NVIDIA)
        found = replace(tree, gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(others)))
        blind = sum(gpu.vendor == _NVIDIA for gpu in tree.gpus)
    else:
        silent = silent_gpus(tree, report.gpus)
        found = without_silent(merge_nvml(tree, report.gpus, report.notes), silent)
        blind = sum(gpu.vendor == _NVIDIA and gpu.minor is None for gpu in found.gpus)
        found, cut_up = _without_cut_up(found, {part.gpu for part in report.partitions_left_out})
    unseen, outdated = _unseen(roots, own, blind, failure) if blind else (None, False)
    inventory, missing = _with_nodes(found, roots.devices(), roots.nvidia_devices())
    unusable = (*cut_up, *missing)
    node_inventory(inventory)  # what cannot be published is a failed look, and so gets into the conditions
    known = lent_names() if names else {}
    return Sighting(
        inventory=inventory,
        unseen=unseen,
        unusable=unusable,
        outdated=outdated,
        lent={name: known.get(name, LentNames()) for name in names},
        silent=silent,
    )


class Discovery:
    """Keeps the latest inventory. Safe to use from any thread; :meth:`run` only from one at a time.

    Args:
        look: Looks at the node.
        findings: Gets the condition Discovered.
        on_change: Called after the inventory has changed.
        late_s: Seconds after which a look that has not ended is told: NVML may hang for good on a broken GPU.
        told_for_s: Seconds for which it is told that this process is outdated, before :meth:`run` ends it.
    """

    def __init__(
        self,
        look: Callable[[], Sighting],
        *,
        findings: Findings,
        on_change: Callable[[], None],
        late_s: float = _LATE_S,
        told_for_s: float = _TOLD_FOR_S,
    ) -> None:
        self._look = look
        self._findings = findings
        self._on_change = on_change
        self._lock = threading.Lock()
        self._latest: Inventory | None = None
        self._certain = False
        self._failure: RootportError | None = None
        self._late_s = late_s
        self._told_for_s = told_for_s
        self._outdated_since: float | None = None
        self._telling = threading.Lock()  # so that what a timer tells of a look never stands after the look's result
        self._looks = 0

    def inventory(self) -> Inventory:
        """The latest inventory.

        Raises:
            NodeError: No look has succeeded yet.
        """
        with self._lock:
            latest, failure = self._latest, self._failure
        if latest is None:
            why = f": {failure}" if failure else ""
            raise NodeError(f"the node's devices are not known yet{why}", hint="it is looked for again and again")
        return latest

    def latest(self) -> Inventory | None:
        """The latest inventory; None where no look has succeeded yet."""
        with self._lock:
            return self._latest

    def certain(self) -> bool:
        """Whether the latest look saw everything; else the inventory may hold what was there before."""
        with self._lock:
            return self._certain

    def run(self) -> None:
        """Look once.

        Raises:
            RootportError: sysfs could not be read, or NVIDIA's GPUs not be looked at; what was known of them is kept.
            ProcessOutdatedError: The GPUs can be looked at by a new process only.
        """
        try:
            with self._told_when_late(), guarded("look", "the node's hardware"):
                sighting = self._look()
        except RootportError as error:
            with self._lock:
                self._failure, self._certain = error, False
            self._findings.report(_finding(State.FALSE, "DiscoveryFailed", str(error)))
            self._on_change()
            raise
        with self._lock:
            kept = self._latest.gpus if self._latest is not None and sighting.unseen is not None else ()
            seen = with_silent(_with_kept(sighting.inventory, kept), sighting.silent, self._latest)
            inventory = with_lent(seen, self._latest, sighting.lent)
            changed = (inventory, sighting.unseen is None) != (self._latest, self._certain)
            self._latest, self._certain, self._failure = inventory, sighting.unseen is None, sighting.unseen
        self._findings.report(_told(sighting, inventory))
        if changed:
            counts = {"gpus": len(inventory.gpus), "nics": len(inventory.nics), "fpgas": len(inventory.fpgas)}
            _LOG.info("devices", extra=counts)
            for note in inventory.notes:
                _LOG.info("note on the devices", extra={"note": note})
            self._on_change()
        if sighting.unseen is not None:
            self._end_if_outdated(sighting)
            raise sighting.unseen
        self._outdated_since = None

    def _end_if_outdated(self, sighting: Sighting) -> None:
        now = time.monotonic()
        if not sighting.outdated:
            self._outdated_since = None
        elif self._outdated_since is None:
            self._outdated_since = now
        elif now - self._outdated_since >= self._told_for_s:
            raise ProcessOutdatedError(str(sighting.unseen))

    @contextmanager
    def _told_when_late(self) -> Iterator[None]:
        timer = threading.Timer(self._late_s, self._tell_late, [self._looks])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._telling:
                self._looks += 1

    def _tell_late(self, look: int) -> None:
        with self._telling:
            if look != self._looks:
                return
            with self._lock:
                self._certain = False
            message = (
                f"a look at the hardware has not ended after {self._late_s:g} s; what was known before is kept. NVML "
                "hangs on some broken GPUs: see nvidia-smi and dmesg on the node"
            )
            self._findings.report(_finding(State.FALSE, "LookHangs", message))
        _LOG.warning("a look at the hardware does not end", extra={"seconds": self._late_s})
        self._on_change()


def _tree(roots: Roots, node: str, lent: Callable[[], frozenset[str]]) -> tuple[Inventory, frozenset[str]]:
    """What sysfs tells, and which functions were lent meanwhile."""
    before = lent()
    tree = sysfs.discover(roots.hardware, node=node, lent=before)
    after = lent()
    if not after <= before:
        # One that went while sysfs was read may have taken its NIC with it.
        tree = sysfs.discover(roots.hardware, node=node, lent=before | after)
    return replace(tree, source=InventorySource.LIVE), before | after


def _unseen(roots: Roots, own: Path, blind: int, failure: NodeError | None) -> tuple[NodeError | None, bool]:
    """Why GPUs cannot be looked at, None where they just tell little; and whether a new process would see them."""
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


def _nvml_report(roots: Roots) -> nvml.NvmlReport:
    return with_nvml(roots, lambda: nvml.read_gpus(roots.hardware.fresh()))


def _with_kept(inventory: Inventory, kept: tuple[Gpu, ...]) -> Inventory:
    """The inventory with NVIDIA's GPUs as they were seen before; the others' indices go behind theirs."""
    nvidia = tuple(gpu for gpu in kept if gpu.vendor == _NVIDIA)
    if not nvidia:
        return inventory
    behind = max(gpu.index for gpu in nvidia) + 1
    others = (replace(gpu, index=index) for index, gpu in enumerate(inventory.gpus, start=behind))
    return replace(inventory, gpus=(*nvidia, *others))


def _without_cut_up(inventory: Inventory, gpus: Collection[PciAddress]) -> tuple[Inventory, tuple[str, ...]]:
    """The inventory in which a GPU has no node where an administrator's GPU instances are all that it has.

    None of them can be given to anybody, and nor can the GPU: CUDA does not work on the whole of it, and a partition
    would be made in their place. Returned too is which GPUs that concerns.
    """
    found = {
        gpu.address: gpu
        for gpu in inventory.gpus
        if gpu.address in gpus and gpu.mig is not None and not gpu.mig.instances
    }
    notes = tuple(
        f"{gpu.name} cannot be used, since it has GPU instances that Rootport did not make and cannot give to anybody: "
        "`nvidia-smi mig -lgi` lists them"
        for gpu in found.values()
    )
    checked = tuple(replace(gpu, minor=None) if gpu.address in found else gpu for gpu in inventory.gpus)
    return replace(inventory, gpus=checked, notes=(*inventory.notes, *notes)), notes


def _with_nodes(inventory: Inventory, host: HostRoot, nvidia: HostRoot) -> tuple[Inventory, tuple[str, ...]]:
    """The inventory in which a device has no node where that is missing in the root's ``dev``, and what that concerns.

    Such a device still exists: it is shown, and not published.
    """
    if not host.is_folder("dev"):
        return inventory, ()
    missing: list[str] = []

    def there(device: Device, path: str, root: HostRoot = host) -> bool:
        found = root.resolve(path.lstrip("/")) is not None
        if not found:
            missing.append(f"{device.name} cannot be used, since {path} is missing on the node")
        return found

    def gpu_checked(gpu: Gpu) -> Gpu:
        path, root = f"/dev/dri/renderD{gpu.minor}", host
        if gpu.vendor == _NVIDIA:
            path, root = f"/dev/nvidia{gpu.minor}", nvidia
        return gpu if gpu.minor is None or there(gpu, path, root) else replace(gpu, minor=None)

    def function_checked(function: _F) -> _F:
        path = f"/dev/infiniband/uverbs{function.verbs_minor}"
        usable = function.verbs_minor is None or there(function, path)
        return function if usable else replace(function, verbs_minor=None)

    def fpga_checked(fpga: Fpga) -> Fpga:
        return fpga if all(there(fpga, path) for path in fpga.device_paths) else replace(fpga, device_paths=())

    checked = replace(
        inventory,
        gpus=tuple(gpu_checked(gpu) for gpu in inventory.gpus),
        nics=tuple(
            replace(function_checked(nic), vfs=tuple(function_checked(vf) for vf in nic.vfs)) for nic in inventory.nics
        ),
        fpgas=tuple(fpga_checked(fpga) for fpga in inventory.fpgas),
    )
    return replace(checked, notes=(*inventory.notes, *missing)), tuple(missing)


def _told(sighting: Sighting, inventory: Inventory) -> Finding:
    if sighting.unseen is not None:
        kept = "what was known of them before is kept" if inventory != sighting.inventory else "they are not published"
        reason = "ContainerOutdated" if sighting.outdated else "GpusNotSeen"
        return _finding(State.FALSE, reason, f"{sighting.unseen}; until then {kept}")
    if sighting.unusable:
        return _finding(State.FALSE, "DeviceNodesMissing", "; ".join(sighting.unusable))
    counts = f"{len(inventory.gpus)} GPUs, {len(inventory.nics)} RDMA NICs, {len(inventory.fpgas)} FPGAs"
    return _finding(State.TRUE, "Discovered", "; ".join((counts, *left_out_notes(inventory))))


def _finding(state: State, reason: str, message: str) -> Finding:
    return Finding(concern=Concern.DISCOVERED, state=state, reason=reason, message=message)
