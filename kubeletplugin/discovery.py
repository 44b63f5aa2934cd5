"""What this node has now, looked at again and again, and what of it can be used.

A look that fails must not make devices vanish, so what was seen before is kept in memory while the condition
Discovered says what is wrong. Nothing is kept over a restart: what this process has never seen it cannot prepare.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from driver.adapters import nvml, sysfs
from driver.adapters.host import HostRoot
from driver.errors import NodeError, RootportError
from driver.layout import left_out_notes
from driver.model.devices import Device, Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory, InventorySource
from driver.model.merge import merge_nvml
from driver.objects import node_inventory
from kubeletplugin.conditions import Concern, Finding, Findings, State
from kubeletplugin.nvml_library import load_from_host
from kubeletplugin.roots import Roots

__all__ = ["Discovery", "Sighting", "look"]

_LOG: Final = logging.getLogger(__name__)
_NVIDIA: Final = "nvidia"
_F = TypeVar("_F", RdmaNic, RdmaVf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One look at the node.

    Attributes:
        inventory: What can be used.
        unseen: Why NVIDIA's GPUs could not be looked at, although sysfs has some; None where they could.
        unusable: The devices that are there and cannot be used, and why; one sentence each.
    """

    inventory: Inventory
    unseen: RootportError | None = None
    unusable: tuple[str, ...] = ()


def look(roots: Roots, *, node: str) -> Sighting:
    """Look at the node's devices.

    Unlike ``rootport topo --live``, which shows all there is, this leaves out NVIDIA GPUs whose driver library does not
    answer, and takes the device nodes from devices whose nodes are missing in ``dev`` (where the root has a ``dev``):
    no container could use either.

    Args:
        roots: Where the node's ``sys``, ``proc`` and ``dev`` are.
        node: The node's name.

    Raises:
        RootportError: sysfs cannot be read, or tells what no NodeInventory can hold.
    """
    tree = replace(sysfs.discover(roots.hardware, node=node), source=InventorySource.LIVE)
    unseen: RootportError | None = None
    try:
        report = _nvml_report(roots)
    except NodeError as error:
        missing = sum(gpu.vendor == _NVIDIA for gpu in tree.gpus)
        if missing:
            unseen = NodeError(
                f"{missing} NVIDIA GPUs cannot be looked at: {error.message}",
                hint="install NVIDIA's driver on the node; where it is in a container of its own, name its folder with "
                "--device-root"
                if isinstance(error, nvml.NvmlUnavailableError)
                else error.hint,
            )
        others = (gpu for gpu in tree.gpus if gpu.vendor != _NVIDIA)
        found = replace(tree, gpus=tuple(replace(gpu, index=index) for index, gpu in enumerate(others)))
    else:
        found = merge_nvml(tree, report.gpus, report.notes)
    inventory, unusable = _with_nodes(found, roots.devices())
    node_inventory(inventory)  # what cannot be published is a failed look, and so gets into the conditions
    return Sighting(inventory=inventory, unseen=unseen, unusable=unusable)


class Discovery:
    """Keeps the latest inventory. Safe to use from any thread; :meth:`run` only from one at a time.

    Args:
        look: Looks at the node.
        findings: Gets the condition Discovered.
        on_change: Called after the inventory has changed.
    """

    def __init__(self, look: Callable[[], Sighting], *, findings: Findings, on_change: Callable[[], None]) -> None:
        self._look = look
        self._findings = findings
        self._on_change = on_change
        self._lock = threading.Lock()
        self._latest: Inventory | None = None
        self._certain = False
        self._failure: RootportError | None = None

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
        """
        try:
            sighting = self._look()
        except RootportError as error:
            with self._lock:
                self._failure, self._certain = error, False
            self._findings.report(_finding(State.FALSE, "DiscoveryFailed", str(error)))
            self._on_change()
            raise
        with self._lock:
            kept = self._latest.gpus if self._latest is not None and sighting.unseen is not None else ()
            inventory = _with_kept(sighting.inventory, kept)
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
            raise sighting.unseen


def _nvml_report(roots: Roots) -> nvml.NvmlReport:
    try:
        return nvml.read_gpus()
    except nvml.NvmlUnavailableError:
        if not load_from_host(roots):
            raise
        return nvml.read_gpus()


def _with_kept(inventory: Inventory, kept: tuple[Gpu, ...]) -> Inventory:
    """The inventory with NVIDIA's GPUs as they were seen before; the others' indices go behind theirs."""
    nvidia = tuple(gpu for gpu in kept if gpu.vendor == _NVIDIA)
    if not nvidia:
        return inventory
    behind = max(gpu.index for gpu in nvidia) + 1
    others = (replace(gpu, index=index) for index, gpu in enumerate(inventory.gpus, start=behind))
    return replace(inventory, gpus=(*nvidia, *others))


def _with_nodes(inventory: Inventory, host: HostRoot) -> tuple[Inventory, tuple[str, ...]]:
    """The inventory in which a device has no node where that is missing in the root's ``dev``, and what that concerns.

    Such a device still exists: it is shown, and not published.
    """
    if not host.is_folder("dev"):
        return inventory, ()
    missing: list[str] = []

    def there(device: Device, path: str) -> bool:
        found = host.resolve(path.lstrip("/")) is not None
        if not found:
            missing.append(f"{device.name} cannot be used, since {path} is missing on the node")
        return found

    def gpu_checked(gpu: Gpu) -> Gpu:
        path = f"/dev/nvidia{gpu.minor}" if gpu.vendor == _NVIDIA else f"/dev/dri/renderD{gpu.minor}"
        return gpu if gpu.minor is None or there(gpu, path) else replace(gpu, minor=None)

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
        return _finding(State.FALSE, "GpusNotSeen", f"{sighting.unseen}; until then {kept}")
    if sighting.unusable:
        return _finding(State.FALSE, "DeviceNodesMissing", "; ".join(sighting.unusable))
    counts = f"{len(inventory.gpus)} GPUs, {len(inventory.nics)} RDMA NICs, {len(inventory.fpgas)} FPGAs"
    return _finding(State.TRUE, "Discovered", "; ".join((counts, *left_out_notes(inventory))))


def _finding(state: State, reason: str, message: str) -> Finding:
    return Finding(concern=Concern.DISCOVERED, state=state, reason=reason, message=message)
