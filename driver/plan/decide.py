"""An allocated claim + the node's inventory → what preparing it takes: every check of the claim, and no files.

This is the last line of defence behind the scheduler: what cannot be prepared as the allocation says is refused here,
before anything is done to the node. It reads nothing but its arguments, and nothing that a claim's author wrote becomes
a path or a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from driver.api.resource_v1 import ClaimReference, DeviceAllocationConfiguration, ObjectMeta, ResourceClaim
from driver.api.validation.errors import FieldError
from driver.config import DeviceConfig, UnsupportedFieldError, as_written, config_for, read_entries
from driver.errors import InputError, UnsupportedError
from driver.model.devices import DeviceName, RdmaFunction
from driver.model.inventory import Inventory, InventorySource
from driver.model.parts import MigPartition, RdmaVfPool
from driver.plan.amounts import Amount, amount_of, request_errors
from driver.plan.device_nodes import device_nodes, pool_nodes, with_assumed_minors
from driver.plan.double_use import refuse_double_use
from driver.plan.effects import CreateMigDevice, Effect
from driver.plan.field_errors import joined
from driver.plan.given import Given, given_devices
from driver.plan.gpu_use import GpuUse
from driver.plan.isolate import isolation_plans, refuse_conflicts
from driver.plan.isolation.interface import IsolationHost, IsolationPlan
from driver.plan.nic_amounts import nic_amount_errors, share_of_bandwidth
from driver.plan.nic_host import NicHost
from driver.plan.nic_use import NicUse
from driver.plan.nics import NicPlan, nic_plans

__all__ = ["DecidedDevice", "Decision", "decide"]

_NO_HOST = IsolationHost()
_NO_NIC_HOST = NicHost()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedDevice:
    """What was decided for one allocation result.

    Attributes:
        given: What the allocation gave.
        nodes: The device nodes that are known before anything is done: all but a MIG device's own.
        use: How the claim uses the GPU; None where it only watches over it, and for what is no GPU.
        plan: How it is isolated; None where ``use`` is.
        nic: What was decided for a NIC or virtual function; None for other devices, and for a pool of virtual functions
            that is only watched over.
    """

    given: Given
    nodes: tuple[str, ...]
    use: GpuUse | None
    plan: IsolationPlan | None
    nic: NicPlan | None = None

    @property
    def function(self) -> RdmaFunction | None:
        """The physical or virtual function of a NIC that the container gets; None where :attr:`nic` is."""
        return self.nic.function if self.nic else None

    @property
    def nic_use(self) -> NicUse | None:
        """How the claim uses the NIC; None where it only watches over it, and for what is no NIC."""
        return self.nic.use if self.nic else None

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What has to be done on the node for it, in an order in which it can be done."""
        return (self.plan.effects if self.plan else ()) + (self.nic.effects if self.nic else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What preparing a claim takes. :func:`driver.plan.finish` makes the plan of it when the effects are done.

    Attributes:
        claim: Which claim.
        metadata: The claim's.
        inventory: What the node has.
        devices: In the allocation's order.
        assume_minors: Whether MIG devices that nobody made are assumed, for simulation.
        notes: What was assumed; one sentence each, for a person.
    """

    claim: ClaimReference
    metadata: ObjectMeta = field(repr=False)
    inventory: Inventory = field(repr=False)
    devices: tuple[DecidedDevice, ...]
    assume_minors: bool = False
    notes: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[GpuUse, ...]:
        """How the claim uses GPUs, in the allocation's order: to be held against what other claims do."""
        return tuple(device.use for device in self.devices if device.use is not None)

    @property
    def nic_uses(self) -> tuple[NicUse, ...]:
        """How the claim uses NICs, in the allocation's order: to be held against what other claims do."""
        return tuple(device.nic_use for device in self.devices if device.nic_use is not None)

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What has to be done on the node, each once, in an order in which it can be done."""
        return tuple(dict.fromkeys(effect for device in self.devices for effect in device.effects))

    @property
    def mig_effects(self) -> Mapping[DeviceName, CreateMigDevice]:
        """Which effect makes which device: what the effect returns is that name's in ``finish(mig_devices=…)``."""
        return {
            device.given.device.name: effect
            for device in self.devices
            if device.plan is not None
            for effect in device.plan.effects
            if isinstance(effect, CreateMigDevice)
        }

    @property
    def has_nvidia_gpu(self) -> bool:
        """Whether containers need the files of NVIDIA's driver."""
        return any(device.given.is_nvidia_gpu for device in self.devices)


def decide(
    claim: ResourceClaim,
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
        assume_minors: Number device nodes by index where the inventory does not tell, and assume MIG devices; for
            simulation only. The notes say so.
        host: What the node has for isolation.
        nics: What the node has for NICs, and which virtual functions are taken.

    Raises:
        InputError: The claim is not allocated, not to this node, gives something twice, or asks for shares or has
            parameters that are wrong.
        UnsupportedError: The claim asks for something that comes with a later version.
        NodeError: A device is not there, its device nodes are not known, its link is down, no virtual function is
            free, or the node lacks what isolation or a network interface takes.
    """
    given = given_devices(claim, inventory)
    reference = claim.reference
    amounts, configs = _read(claim, given, reference)
    bandwidths = [share_of_bandwidth(item) for item in given]
    refuse_double_use(given, amounts, bandwidths)
    plans = isolation_plans(given, amounts, configs, host, reference, inventory.node)
    refuse_conflicts(given, plans, host, reference)
    notes: tuple[str, ...] = ()
    if assume_minors:
        completed = tuple(replace(item, device=with_assumed_minors(item.device)) for item in given)
        notes = _assumption(given, completed, inventory.source)
        given = completed
    of_nics, nic_notes = nic_plans(given, bandwidths, configs, claim, inventory, nics)
    devices = tuple(
        DecidedDevice(
            given=item,
            nodes=_nodes(item, config, nic),
            use=_use(item, amount, plan),
            plan=plan,
            nic=nic,
        )
        for item, amount, config, plan, nic in zip(given, amounts, configs, plans, of_nics, strict=True)
    )
    return Decision(
        claim=reference,
        metadata=claim.metadata,
        inventory=inventory,
        devices=devices,
        assume_minors=assume_minors,
        notes=notes + nic_notes,
    )


def _nodes(item: Given, config: DeviceConfig, nic: NicPlan | None) -> tuple[str, ...]:
    if isinstance(item.device, RdmaVfPool):
        # Who watches over a pool watches over all that it can give.
        functions = item.device.vfs if nic is None else (nic.function,)
        return pool_nodes(item.device, functions, config, item.subject)
    return device_nodes(item.device, config, item.subject)


def _read(
    claim: ResourceClaim, given: Sequence[Given], reference: ClaimReference
) -> tuple[list[Amount | None], list[DeviceConfig]]:
    """How much was given and each device's config; every mistake in the claim is told at once."""
    read = [amount_of(item) for item in given]
    amounts = [item for item in read if not isinstance(item, tuple)]
    allocation = claim.status.allocation
    configuration = as_written(allocation.devices.config, claim.spec.devices) if allocation else ()
    configs, config_errors = _configs(given, configuration)
    errors = [
        *request_errors(claim, given),
        *config_errors,
        *(error for item in read if isinstance(item, tuple) for error in item),
        *(error for item in given for error in nic_amount_errors(item)),
    ]
    if errors:
        later = all(isinstance(error, UnsupportedFieldError) for error in errors)
        kind = UnsupportedError if later else InputError
        raise kind(f"claim {reference}: {joined(errors)}", hint=_hint(errors))
    return amounts, configs


def _hint(errors: Sequence[FieldError]) -> str:
    if all(error.path.startswith("status.allocation.devices.results") for error in errors):
        return "kube-scheduler does not allocate so: delete the claim and create it anew"
    return "correct the parameters and the capacity requests in the claim or its DeviceClass"


def _configs(
    given: Sequence[Given], configuration: Sequence[DeviceAllocationConfiguration]
) -> tuple[list[DeviceConfig], list[FieldError]]:
    entries, errors = read_entries(configuration, "status.allocation.devices.config")
    found = [config_for(entries, item.request, item.device) for item in given]
    # Once for a request, not for each of its devices.
    misfits = {
        (item.path, at.request): item for item, at in zip(found, given, strict=True) if isinstance(item, FieldError)
    }
    return [item for item in found if not isinstance(item, FieldError)], [*errors, *misfits.values()]


def _use(item: Given, amount: Amount | None, plan: IsolationPlan | None) -> GpuUse | None:
    if plan is None or item.gpu is None:
        return None
    partition = item.device if isinstance(item.device, MigPartition) else None
    return GpuUse(
        gpu=item.gpu.name,
        mode=item.device.type,
        whole=amount.whole if amount else False,
        sharing=plan.sharing,
        core=amount.core if amount else None,
        memory_bytes=partition.profile.memory_bytes if partition else amount.memory_bytes if amount else None,
        placement=partition.placement if partition else None,
        gpu_memory_bytes=item.gpu.memory_bytes,
    )


def _assumption(given: Sequence[Given], completed: Sequence[Given], source: InventorySource) -> tuple[str, ...]:
    pairs = zip(given, completed, strict=True)
    assumed = dict.fromkeys(after.device.name for before, after in pairs if after.device is not before.device)
    if not assumed:
        return ()
    return (f"device nodes of {', '.join(assumed)} are numbered by index: the inventory ({source}) names none",)
