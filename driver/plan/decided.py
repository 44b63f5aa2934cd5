"""The record of one device of a claim, to which each step of :mod:`driver.plan.decide` adds what it decides."""

from __future__ import annotations

from dataclasses import dataclass

from driver.api.claim_reference import ClaimReference
from driver.config import DeviceConfig
from driver.model.devices import RdmaFunction, RdmaVf
from driver.model.parts import MigPartition
from driver.plan.allocated import AllocatedDevice
from driver.plan.amounts import GpuAmount
from driver.plan.effects import ConfigureVf, Effect, LendInterface
from driver.plan.isolation.provider import IsolationPlan
from driver.plan.nic_amounts import NicAmount
from driver.plan.uses import GpuUse, HeldDevice, NicUse

__all__ = ["DecidedDevice", "NicPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPlan:
    """What was decided for one NIC or virtual function.

    Attributes:
        function: The function that the container gets.
        effects: What has to be done on the node, in this order.
        in_environment: Whether the variables of NCCL, UCX and NVSHMEM name it.
    """

    function: RdmaFunction
    effects: tuple[ConfigureVf | LendInterface, ...] = ()
    in_environment: bool = False

    @property
    def name_in_pod(self) -> str | None:
        """Its network interface's name in the pod; None where it stays on the host."""
        return next((effect.name_in_pod or None for effect in self.effects if isinstance(effect, LendInterface)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedDevice:
    """What was decided for one allocation result.

    Attributes:
        allocated: The device that was allocated.
        config: The parameters that apply to it, of class and claim.
        amount: How much of a GPU; None for MIG partitions and for other devices.
        nic_amount: How much of a NIC's bandwidth.
        isolation: How the GPU's share is isolated; None where :attr:`gpu_use` is, and before that is decided.
        nic: What was decided for a NIC or virtual function; None for other devices, for a pool of virtual functions
            that is only watched over, and before that is decided.
        nodes: The device nodes that are known before anything is done: all but a MIG device's own.
    """

    allocated: AllocatedDevice
    config: DeviceConfig
    amount: GpuAmount | None
    nic_amount: NicAmount = NicAmount()  # noqa: RUF009 - frozen
    isolation: IsolationPlan | None = None
    nic: NicPlan | None = None
    nodes: tuple[str, ...] = ()

    @property
    def function(self) -> RdmaFunction | None:
        """The physical or virtual function of a NIC that the container gets.

        None for other devices, and for a pool of which no function is chosen.
        """
        if self.nic is not None:
            return self.nic.function
        device = self.allocated.device
        return device if isinstance(device, RdmaFunction) else None

    @property
    def gpu_use(self) -> GpuUse | None:
        """How the claim uses the GPU; None where it only watches over it, and for what is no GPU."""
        item = self.allocated
        if item.gpu is None or item.admin_access:
            return None
        partition = item.device if isinstance(item.device, MigPartition) else None
        amount = self.amount
        return GpuUse(
            gpu=item.gpu.name,
            mode=item.device.type,
            whole=amount.whole if amount else False,
            sharing=self.isolation.sharing if self.isolation else "",
            core=amount.core if amount else None,
            memory_bytes=partition.profile.memory_bytes if partition else amount.memory_bytes if amount else None,
            placement=partition.placement if partition else None,
            gpu_memory_bytes=item.gpu.memory_bytes,
        )

    @property
    def nic_use(self) -> NicUse | None:
        """How the claim uses the NIC; None where it only watches over it, and where :attr:`function` is."""
        function, nic = self.function, self.allocated.nic
        if function is None or self.allocated.admin_access:
            return None
        return NicUse(
            nic=nic.name if nic is not None else function.name,
            vf=function.name if isinstance(function, RdmaVf) else None,
            bandwidth=self.nic_amount.bandwidth,
            bandwidth_ratio=self.nic_amount.ratio,
            nic_bandwidth=nic.bandwidth if nic is not None else None,
        )

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What has to be done on the node for it, in an order in which it can be done."""
        return (self.isolation.effects if self.isolation else ()) + (self.nic.effects if self.nic else ())

    def held_by(self, claim: ClaimReference, pool: str) -> HeldDevice:
        """Return what the claim holds by it.

        Args:
            claim: The claim.
            pool: The node's pool.
        """
        item = self.allocated
        return HeldDevice(
            claim=claim,
            requests=(item.base_request,),
            pool=pool,
            device=item.device.name,
            share_id=item.share_id,
            admin_access=item.admin_access,
            gpu_use=self.gpu_use,
            nic_use=self.nic_use,
        )
