"""Knows what the source of devices does not record: findings that follow from that are no errors.

A topology file has no PCIe roots, rarely models and memory sizes, and never VFs. A claim that asks for one of these
finds nothing there, and may well fit the machine. Of a cluster or dump, objects may be there that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from driver import DRIVER_NAME
from driver.api.policies import may_be_extra
from driver.explain.judge import doubts
from driver.explain.known.cluster import Kind
from driver.explain.known.state import ClusterState
from driver.layout import attributes as a
from driver.lint.findings import LintCode, LintFinding, Severity
from driver.model.devices import DeviceType, Gpu
from driver.model.inventory import Inventory, InventorySource, lacks_nvlinks
from driver.model.parts import mig_mode_is_fixed

__all__ = ["NOTHING", "Unrecorded", "unread", "unrecorded"]

_OF_DEVICES: Final = frozenset({LintCode.SELECTS_TOO_FEW, LintCode.CAPACITY_UNAVAILABLE, LintCode.NEVER_FITS})
"""Findings that the devices of another node could refute."""

_NO_MODEL: Final = "the GPUs' model is not recorded (--gpu-model names it)"
_WITH_MIG: Final = frozenset({"8.0", "9.0", "10.0", "10.3"})
"""CUDA compute capabilities of GPUs with MIG (NVIDIA Multi-Instance GPU User Guide, "Supported GPUs")."""
_LINKED: Final = tuple(
    f"{DRIVER_NAME}/{name}" for name in (a.NVLINK_DOMAIN, a.NVLINK_OCTET, a.NVLINK_QUAD, a.NVLINK_PAIR)
)
_NO_MEMORY: Final = "the GPUs' memory is not recorded (--gpu-memory or --gpu-model gives it)"


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """The attributes, capacities and kinds of devices that are not recorded, each with a clause that says so.

    Attributes:
        names: By full name.
        kinds: By kind of device.
        devices: Why there may be devices that are not known of; empty where all are.
        classes: Likewise of DeviceClasses.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[DeviceType, str] = field(default_factory=dict)
    devices: str = ""
    classes: str = ""

    def weakened(self, findings: Iterable[LintFinding]) -> Iterator[LintFinding]:
        """Return the findings; those about what is not recorded as warnings that say so."""
        for finding in findings:
            yield finding if finding.severity is not Severity.ERROR else self._weakened(finding)

    def because(self, finding: LintFinding) -> str:
        """Return the clause that says what is not recorded of what a finding depends on; empty where all is."""
        clauses = [self.names[name] for name in sorted(finding.names) if name in self.names]
        clauses += [self.kinds[kind] for kind in sorted(finding.kinds) if kind in self.kinds]
        return " and ".join(dict.fromkeys(clauses))

    def _weakened(self, finding: LintFinding) -> LintFinding:
        consequence, hint = "it may fit", finding.hint
        because = self.because(finding)
        if because:
            # The values that are there are not those of the machine.
            hint = "" if finding.code is LintCode.SELECTS_TOO_FEW else hint
        else:
            consequence = "this is not certain"
            because = self.classes if finding.code is LintCode.UNKNOWN_CLASS else ""
            # Which other attributes than Rootport's own there are, only the published devices show.
            if finding.code in _OF_DEVICES or any(map(may_be_extra, finding.names)):
                because = self.devices
        if not because:
            return finding
        message = f"{finding.message}; but {because}, so {consequence}"
        return replace(finding, severity=Severity.WARNING, message=message, hint=hint)


NOTHING: Final = Unrecorded()


def unread(state: ClusterState, *, is_dump: bool = False) -> Unrecorded:
    """Return what a cluster or dump has that could not be read: ResourceSlices, Nodes and DeviceClasses.

    Args:
        state: What was read of it.
        is_dump: A node may be on the cluster that has no Node object here.
    """
    devices = [doubts.unread(state, kind) for kind in (Kind.SLICE, Kind.NODE)]
    if nodes := sorted(state.nodes_of_slices() - state.nodes.keys()) if is_dump else []:
        devices.append(f"there are ResourceSlices of nodes without a Node object, such as {nodes[0][:253]}")
    return Unrecorded(devices=" and ".join(filter(None, devices)), classes=doubts.unread(state, Kind.CLASS))


def unrecorded(inventories: Iterable[Inventory]) -> Unrecorded:
    """Return what these machines' sources leave out; nothing of machines that were read themselves."""
    names: dict[str, str] = {}
    kinds: dict[DeviceType, str] = {}
    for inventory in inventories:
        if inventory.source is InventorySource.LIVE:
            continue
        for name, clause in _names(inventory):
            names.setdefault(name, clause)
        if inventory.source is InventorySource.NCCL_TOPOLOGY and not any(nic.vfs for nic in inventory.nics):
            kinds[DeviceType.RDMA_VF] = "a topology file records no VFs (--vfs-per-nic assumes some)"
        if any(gpu.memory_bytes is None for gpu in inventory.gpus):
            kinds[DeviceType.GPU_RATIO] = _NO_MEMORY
        if clause := _of_partitions(inventory.gpus):
            kinds[DeviceType.MIG] = clause
    return Unrecorded(names, kinds)


def _of_partitions(gpus: Sequence[Gpu]) -> str:
    if any(gpu.model is None for gpu in gpus):
        return _NO_MODEL
    if any(gpu.mig is not None and mig_mode_is_fixed(gpu.cuda_compute_capability) for gpu in gpus):
        return "MIG mode is not recorded, and a GPU older than Hopper has partitions only where it is on"
    unknown = (gpu for gpu in gpus if gpu.mig is None and gpu.cuda_compute_capability in _WITH_MIG)
    return next((f"the MIG partitions of {gpu.model} are not known" for gpu in unknown), "")


def _names(inventory: Inventory) -> Iterator[tuple[str, str]]:
    gpus, nics = inventory.gpus, inventory.nics
    if any(gpu.memory_bytes is None for gpu in gpus):
        yield f"{DRIVER_NAME}/{a.MEMORY}", _NO_MEMORY
        yield f"{DRIVER_NAME}/{a.MEMORY_RATIO}", _NO_MEMORY
    if any(gpu.model is None for gpu in gpus):
        for name in (a.MODEL, a.ARCHITECTURE, a.CUDA_COMPUTE_CAPABILITY):
            yield f"{DRIVER_NAME}/{name}", _NO_MODEL
    other_makers = len(gpus) > 1 and any(gpu.vendor != "nvidia" for gpu in gpus) and not any(gpu.links for gpu in gpus)
    if lacks_nvlinks(gpus) or other_makers:
        yield from ((name, "no NVLinks are recorded") for name in _LINKED)
    for name in (a.UUID, a.DRIVER_VERSION, a.CUDA_DRIVER_VERSION):
        yield f"{DRIVER_NAME}/{name}", "the GPUs' driver was not asked"
    if any(port.speed_gbps is None for nic in nics for port in nic.ports):
        for name in (a.BANDWIDTH, a.LINK_SPEED):
            yield f"{DRIVER_NAME}/{name}", "the NICs' speed is not recorded (--nic-speed gives it)"
    if any(port.link_layer is None for nic in nics for port in nic.ports):
        yield f"{DRIVER_NAME}/{a.LINK_TYPE}", "the NICs' link type is not recorded"
    if any(nic.rdma_device is None for nic in nics):
        yield f"{DRIVER_NAME}/{a.RDMA_DEVICE}", "the names of the RDMA devices are not recorded"
    if inventory.source is InventorySource.NCCL_TOPOLOGY:
        yield a.STANDARD_PCIE_ROOT, "PCIe roots are not recorded"
        yield f"{DRIVER_NAME}/{a.RAIL}", "a topology file does not record rails"
        for name in (a.IF_NAME, a.LINK_STATE, a.GUID, a.RDMA_NETNS):
            yield f"{DRIVER_NAME}/{name}", f"a topology file does not record {name}"
