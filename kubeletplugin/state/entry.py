"""What the plugin remembers of a claim it prepared, as it stands in the checkpoint and in the claim's CDI spec."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from driver.api.resource_v1 import ClaimReference
from driver.model.devices import DeviceName, DeviceType, MigPlacement
from driver.plan import PreparedDevice
from driver.plan.effects import Effect, LendInterface
from driver.plan.isolation import Isolation
from driver.plan.uses import GpuUse, NicUse
from kubeletplugin.service import ClaimPrepared

__all__ = ["Entry", "EntryDevice", "EntryFile", "EntryIsolation", "EntryNicUse", "EntryPlacement", "EntryUse"]


class _Model(BaseModel):
    # Every field is in the file: none has a default, so that a file that lacks one does not pass.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EntryPlacement(_Model):
    """A MIG partition's place: :class:`driver.model.devices.MigPlacement` as it stands in the file."""

    start: int
    size: int


class EntryUse(_Model):
    """How the claim uses a GPU: :class:`driver.plan.uses.GpuUse` as it stands in the file."""

    gpu: str
    mode: Literal["gpu", "gpu-ratio", "mig"]
    whole: bool
    sharing: str
    core: int | None
    memory_bytes: int | None
    placement: EntryPlacement | None
    gpu_memory_bytes: int | None

    @classmethod
    def of(cls, use: GpuUse) -> EntryUse:
        """The file's form of a use."""
        place = use.placement
        return cls.model_validate(
            {
                "gpu": use.gpu,
                "mode": use.mode.value,
                "whole": use.whole,
                "sharing": use.sharing,
                "core": use.core,
                "memory_bytes": use.memory_bytes,
                "placement": EntryPlacement(start=place.start, size=place.size) if place else None,
                "gpu_memory_bytes": use.gpu_memory_bytes,
            }
        )

    @property
    def use(self) -> GpuUse:
        """The use."""
        place = self.placement
        return GpuUse(
            gpu=DeviceName(self.gpu),
            mode=DeviceType(self.mode),
            whole=self.whole,
            sharing=self.sharing,
            core=self.core,
            memory_bytes=self.memory_bytes,
            placement=MigPlacement(start=place.start, size=place.size) if place else None,
            gpu_memory_bytes=self.gpu_memory_bytes,
        )


class EntryNicUse(_Model):
    """How the claim uses an RDMA NIC: :class:`driver.plan.uses.NicUse` as it stands in the file."""

    nic: str
    vf: str | None
    bandwidth: int | None
    nic_bandwidth: int | None

    @classmethod
    def of(cls, use: NicUse) -> EntryNicUse:
        """The file's form of a use."""
        return cls(nic=use.nic, vf=use.vf, bandwidth=use.bandwidth, nic_bandwidth=use.nic_bandwidth)

    @property
    def use(self) -> NicUse:
        """The use."""
        return NicUse(
            nic=DeviceName(self.nic),
            vf=None if self.vf is None else DeviceName(self.vf),
            bandwidth=self.bandwidth,
            nic_bandwidth=self.nic_bandwidth,
        )


class EntryIsolation(_Model):
    """Whether the share's limits hold: :class:`driver.plan.isolation.Isolation` as it stands in the file."""

    enforced: bool
    by: str
    version: str | None
    message: str

    @classmethod
    def of(cls, isolation: Isolation) -> EntryIsolation:
        """The file's form of it."""
        return cls(enforced=isolation.enforced, by=isolation.by, version=isolation.version, message=isolation.message)

    @property
    def isolation(self) -> Isolation:
        """What it says."""
        return Isolation(enforced=self.enforced, by=self.by, version=self.version, message=self.message)


class EntryDevice(_Model):
    """One device of the answer to the kubelet: :class:`driver.plan.PreparedDevice` as it stands in the file."""

    request_names: tuple[str, ...]
    pool: str
    device: str
    cdi_device_ids: tuple[str, ...]
    share_id: str | None
    admin_access: bool
    use: EntryUse | None
    isolation: EntryIsolation | None
    mig_uuid: str | None
    nic_use: EntryNicUse | None
    distances: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, device: PreparedDevice) -> EntryDevice:
        """The file's form of a device."""
        return cls(
            request_names=device.request_names,
            pool=device.pool,
            device=device.device,
            cdi_device_ids=device.cdi_device_ids,
            share_id=device.share_id,
            admin_access=device.admin_access,
            use=EntryUse.of(device.use) if device.use else None,
            isolation=EntryIsolation.of(device.isolation) if device.isolation else None,
            mig_uuid=device.mig_uuid,
            nic_use=EntryNicUse.of(device.nic_use) if device.nic_use else None,
            distances=device.distances,
        )

    @property
    def prepared(self) -> PreparedDevice:
        """The device."""
        return PreparedDevice(
            request_names=self.request_names,
            pool=self.pool,
            device=self.device,
            cdi_device_ids=self.cdi_device_ids,
            share_id=self.share_id,
            admin_access=self.admin_access,
            use=self.use.use if self.use else None,
            isolation=self.isolation.isolation if self.isolation else None,
            mig_uuid=self.mig_uuid,
            nic_use=self.nic_use.use if self.nic_use else None,
            distances=self.distances,
        )


class EntryFile(_Model):
    """A file that containers of the claim see: device metadata (KEP-5304), or what isolates a share.

    Attributes:
        path: Relative to the folder for such files.
        content: The file's text.
    """

    path: str
    content: str


class Entry(_Model):
    """A claim that is prepared.

    Attributes:
        uid: The claim's UID: the only thing that identifies it.
        namespace: For messages, and to find the claim in the API.
        name: As namespace.
        state: ``prepared``: what it says is what the kubelet was told. ``rebuilt``: read back from the claim's CDI file
            after the checkpoint was lost. ``outdated``: a MIG device of the claim had to be made anew and is another
            one now. In the latter two states it is planned anew from the claim before the kubelet is told again.
        boot_id: The boot of the node it was prepared in: after another boot device nodes may be numbered anew, and no
            effect is left.
        devices: The answer to the kubelet, in its order.
        effects: What was done to the node for it, in its order.
        cdi_spec: The content of the claim's CDI file.
        files: The claim's other files.
    """

    uid: str
    namespace: str
    name: str
    state: Literal["prepared", "rebuilt", "outdated"]
    boot_id: str
    devices: tuple[EntryDevice, ...]
    effects: tuple[Effect, ...]
    cdi_spec: str
    files: tuple[EntryFile, ...]

    @property
    def claim(self) -> ClaimReference:
        """Which claim it is."""
        return ClaimReference(namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def answer(self) -> ClaimPrepared:
        """What the kubelet is told."""
        return ClaimPrepared(devices=tuple(device.prepared for device in self.devices))

    @property
    def uses(self) -> tuple[GpuUse, ...]:
        """How it uses GPUs; watching over one by admin access is no use of it (KEP-5018)."""
        return tuple(device.use.use for device in self.devices if device.use and not device.admin_access)

    @property
    def nic_uses(self) -> tuple[NicUse, ...]:
        """How it uses RDMA NICs; as above."""
        return tuple(device.nic_use.use for device in self.devices if device.nic_use and not device.admin_access)

    @property
    def lent_to(self) -> frozenset[str]:
        """The UIDs of the pods that network interfaces are lent to; there is one at most."""
        return frozenset(effect.pod_uid for effect in self.effects if isinstance(effect, LendInterface))
