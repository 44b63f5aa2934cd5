"""Decides what preparing an allocated claim takes on a node: makes every check of the claim, and no files.

This is the last line of defence behind the scheduler: what cannot be prepared as the allocation says is refused here,
before anything is done to the node. It reads nothing but its arguments, and nothing that a claim's author wrote becomes
a path or a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from driver.api.allocated_claim import AnyClaim, AnyMetadata
from driver.api.claim_reference import ClaimReference
from driver.api.validation.errors import FieldError, joined_errors
from driver.config import UnsupportedFieldError, as_written, config_for, read_entries
from driver.errors import InputError, UnsupportedError
from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.model.parts import RdmaVfPool
from driver.plan.allocated import AllocatedDevice, allocated_devices
from driver.plan.amounts import amount_of, request_errors
from driver.plan.decided import DecidedDevice
from driver.plan.device_nodes import device_nodes, pool_nodes, with_assumed_minors
from driver.plan.effects import CreateMigDevice, Effect
from driver.plan.host import NicHost
from driver.plan.isolate import refuse_conflicts, with_isolation
from driver.plan.isolation.provider import IsolationHost
from driver.plan.nic_amounts import nic_amount_errors, nic_amount_of
from driver.plan.nics import with_nics
from driver.plan.sharing import refuse_double_use, refuse_nics_twice
from driver.plan.uses import GpuUse, HeldDevice, NicUse

__all__ = ["Decision", "decide"]

_NO_HOST = IsolationHost()
_NO_NIC_HOST = NicHost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What preparing a claim takes. :func:`driver.plan.finish` makes the plan of it when the effects are done.

    Attributes:
        claim: The claim.
        metadata: The claim's metadata.
        inventory: What the node has.
        devices: In the allocation's order.
        assume_minors: Whether MIG devices that nobody made are assumed, for simulation.
        notes: What was assumed; one sentence each, for a person.
    """

    claim: ClaimReference
    metadata: AnyMetadata = field(repr=False)
    inventory: Inventory = field(repr=False)
    devices: tuple[DecidedDevice, ...]
    assume_minors: bool = False
    notes: tuple[str, ...] = ()

    @property
    def held_devices(self) -> tuple[HeldDevice, ...]:
        """What the claim would hold, in the allocation's order: to be compared with what other claims hold."""
        return tuple(device.held_by(self.claim, self.inventory.node) for device in self.devices)

    @property
    def uses(self) -> tuple[GpuUse, ...]:
        """How the claim uses GPUs, in the allocation's order."""
        return tuple(use for device in self.devices if (use := device.gpu_use) is not None)

    @property
    def nic_uses(self) -> tuple[NicUse, ...]:
        """How the claim uses NICs, in the allocation's order."""
        return tuple(use for device in self.devices if (use := device.nic_use) is not None)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What has to be done on the node, each once, in an order in which it can be done."""
        return tuple(dict.fromkeys(effect for device in self.devices for effect in device.effects))

    @property
    def mig_effects(self) -> Mapping[DeviceName, CreateMigDevice]:
        """The effect that makes each MIG device; ``finish(mig_devices=…)`` takes what it returns, by the same names."""
        return {
            device.allocated.device.name: effect
            for device in self.devices
            for effect in device.effects
            if isinstance(effect, CreateMigDevice)
        }

    @property
    def has_nvidia_gpu(self) -> bool:
        """Whether containers need the files of NVIDIA's driver."""
        return any(device.allocated.is_nvidia_gpu for device in self.devices)


def decide(
    claim: AnyClaim,
    inventory: Inventory,
    *,
    assume_minors: bool = False,
    host: IsolationHost = _NO_HOST,
    nics: NicHost = _NO_NIC_HOST,
) -> Decision:
    """Decide how to prepare a claim on a node. The same arguments give the same decision.

    Args:
        claim: The claim, allocated.
        inventory: What the node has.
        assume_minors: Whether to number device nodes by index where the inventory names none, and to assume MIG
            devices; for simulation only. The notes say so.
        host: What the node has for isolation.
        nics: What the node has for NICs, and which virtual functions are taken.

    Raises:
        InputError: The claim is not allocated, not to this node, gives something twice, or asks for shares or has
            parameters that are wrong.
        UnsupportedError: The claim asks for something that comes with a later version.
        NodeError: A device is not there, its device nodes are not known, its link is down, no virtual function is
            free, or the node lacks what isolation or a network interface takes.
    """
    reference = claim.reference
    devices = _read(claim, allocated_devices(claim, inventory), host, inventory.node)
    refuse_double_use([device.held_by(reference, inventory.node) for device in devices])
    devices = with_isolation(devices, host, reference, inventory.node)
    refuse_conflicts(devices, host, reference)
    notes: tuple[str, ...] = ()
    if assume_minors:
        devices, notes = _with_assumed_minors(devices, inventory)
    devices, nic_notes = with_nics(devices, claim, inventory, nics)
    refuse_nics_twice([device.held_by(reference, inventory.node) for device in devices])
    return Decision(
        claim=reference,
        metadata=claim.metadata,
        inventory=inventory,
        devices=tuple(replace(device, nodes=_nodes(device)) for device in devices),
        assume_minors=assume_minors,
        notes=notes + nic_notes,
    )


def _read(
    claim: AnyClaim, allocated: Sequence[AllocatedDevice], host: IsolationHost, node: str
) -> tuple[DecidedDevice, ...]:
    """Read each device's config and amount; every mistake in the claim is in one error."""
    allocation = claim.status.allocation
    configuration = as_written(allocation.devices.config, claim.spec.devices) if allocation else ()
    entries, entry_errors = read_entries(configuration, "status.allocation.devices.config")
    read = [
        (item, amount_of(item, host.policy_of(item.gpu, node)), config_for(entries, item.request, item.device))
        for item in allocated
    ]
    # Once for a request, not for each of its devices.
    misfits = {(config.path, item.request): config for item, _, config in read if isinstance(config, FieldError)}
    errors = [
        *request_errors(claim, allocated),
        *entry_errors,
        *misfits.values(),
        *(error for _, amount, _ in read if isinstance(amount, tuple) for error in amount),
        *(error for item in allocated for error in nic_amount_errors(item)),
    ]
    if errors:
        later = all(isinstance(error, UnsupportedFieldError) for error in errors)
        kind = UnsupportedError if later else InputError
        raise kind(f"claim {claim.reference}: {joined_errors(errors)}", hint=_hint(errors))
    return tuple(
        DecidedDevice(allocated=item, config=config, amount=amount, nic_amount=nic_amount_of(item))
        for item, amount, config in read
        if not isinstance(amount, tuple) and not isinstance(config, FieldError)
    )


def _hint(errors: Sequence[FieldError]) -> str:
    if all(error.path.startswith("status.allocation.devices.results") for error in errors):
        return "kube-scheduler does not allocate so: delete the claim and create it anew"
    return "correct the parameters and the capacity requests in the claim or its DeviceClass"


def _nodes(device: DecidedDevice) -> tuple[str, ...]:
    item = device.allocated
    if isinstance(item.device, RdmaVfPool):
        # Who watches over a pool watches over all that it can give.
        functions = item.device.vfs if device.nic is None else (device.nic.function,)
        return pool_nodes(item.device, functions, device.config, item.subject)
    return device_nodes(item.device, device.config, item.subject)


def _with_assumed_minors(
    devices: Sequence[DecidedDevice], inventory: Inventory
) -> tuple[tuple[DecidedDevice, ...], tuple[str, ...]]:
    """Number the device nodes that the inventory does not name, and return a note that says so."""
    completed = []
    assumed: dict[DeviceName, None] = {}
    for device in devices:
        numbered = with_assumed_minors(device.allocated.device)
        if numbered is not device.allocated.device:
            assumed[numbered.name] = None
        completed.append(replace(device, allocated=replace(device.allocated, device=numbered)))
    if not assumed:
        return tuple(completed), ()
    names = ", ".join(assumed)
    note = f"device nodes of {names} are numbered by index: the inventory ({inventory.source}) names none"
    return tuple(completed), (note,)
