"""What the plugin writes into ``data`` of a claim's ``status.devices``: what was prepared, for programs.

The plugin writes it, the controller and users' programs read it. Fields that a reader does not know are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from driver.api.quantity import Quantity
from driver.api.strict import rule

__all__ = [
    "ALIGNED",
    "ISOLATED",
    "KIND",
    "PREPARATION_FAILED",
    "PREPARED",
    "DeviceMode",
    "PreparedDeviceData",
    "PreparedIsolation",
    "device_key",
]

KIND: Final = "PreparedDevice"

_VERSION: Final = "rootport.dev/v1alpha1"

ISOLATED: Final = "Isolated"
"""The condition's type: whether a program that uses the GPU in the usual way is kept within the claim's share."""

ALIGNED: Final = "Aligned"
"""The condition's type: False where a ladder's last rung gave the GPU a NIC that is far from it."""

PREPARED: Final = "Prepared"
"""The binding condition (KEP-5007): the node has prepared the device, so that the pod may be bound to it."""

PREPARATION_FAILED: Final = "PreparationFailed"
"""The binding failure condition (KEP-5007): the node cannot prepare the device; its claim is to have another one."""

DeviceMode: TypeAlias = Literal["whole", "shared", "ratio", "mig"]
"""How a device is given; :class:`driver.api.rootport_v1alpha1.DeviceStatus` describes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedIsolation:
    """Whether the share's limits hold.

    Attributes:
        state: ``enforced``, or ``advisory`` where nothing holds a program to its share.
        by: What enforces it, or would: ``device``, ``MIG``, ``MPS``, ``HAMi-core``, ``time-slicing``; of a VF,
            ``SR-IOV``.
        version: The enforcer's version; None if it has none.
    """

    WIRE: ClassVar[bool] = True

    state: Literal["enforced", "advisory"]
    by: str
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDeviceData:
    """One device that is prepared for a claim: a GPU or a part of one, or a function of an RDMA NIC.

    Attributes:
        api_version: ``rootport.dev/v1alpha1``.
        kind: ``PreparedDevice``.
        gpu: The whole GPU's name in the pool, whatever part of it was allocated; None for NICs, as are the next five
            but ``isolation``.
        mode: How the GPU is given.
        core: Percent of its core; None for a MIG partition.
        memory: Of its memory; None where the GPU's is not known.
        isolation: Whether that holds. Of a VF whose DeviceClass wants that, whether it is limited to its bandwidth.
        mig_uuid: The MIG device's UUID.
        nic: The NIC's (PF's) name in the pool, whatever part of it was allocated; None for GPUs, as are the next three,
            and where it is not known any more: of a VF that an older Rootport prepared.
        vf: The VF's name in the pool, whether the claim named it or was given any one.
        bandwidth: Of the NIC, in bits per second; None where all of it is given, for a VF that has none reserved, and
            where it is given by percent.
        bandwidth_ratio: The same in percent of the NIC's.
        distances: From this device to those of the other kind in the claim: of a GPU to each NIC, of a NIC to each GPU,
            by their names in the pool; ``PIX`` to ``SYS``, as in ``nvidia-smi topo -m``. None without such.
    """

    WIRE: ClassVar[bool] = True

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["PreparedDevice"]
    gpu: str | None = None
    mode: DeviceMode | None = None
    core: int | None = None
    memory: Quantity | None = None
    isolation: PreparedIsolation | None = None
    mig_uuid: str | None = rule(default=None, name="migUUID")
    nic: str | None = None
    vf: str | None = None
    bandwidth: Quantity | None = None
    bandwidth_ratio: int | None = None
    distances: Mapping[str, str] | None = None

    @classmethod
    def of_nic(
        cls,
        *,
        nic: str | None,
        vf: str | None,
        bandwidth: int | None,
        bandwidth_ratio: int | None,
        isolation: PreparedIsolation | None,
        distances: Mapping[str, str],
    ) -> PreparedDeviceData:
        """Return the data of a function of a NIC, with its header."""
        return cls(
            api_version=_VERSION,
            kind=KIND,
            nic=nic,
            vf=vf,
            bandwidth=None if bandwidth is None else Quantity.of(bandwidth),
            bandwidth_ratio=bandwidth_ratio,
            isolation=isolation,
            distances=dict(distances) or None,
        )

    @classmethod
    def of_gpu(
        cls,
        *,
        gpu: str,
        mode: DeviceMode,
        core: int | None,
        memory_bytes: int | None,
        isolation: PreparedIsolation,
        mig_uuid: str | None,
        distances: Mapping[str, str],
    ) -> PreparedDeviceData:
        """Return the data of a GPU or a part of one, with its header."""
        return cls(
            api_version=_VERSION,
            kind=KIND,
            gpu=gpu,
            mode=mode,
            core=core,
            memory=None if memory_bytes is None else Quantity.of(memory_bytes, binary=True),
            isolation=isolation,
            mig_uuid=mig_uuid,
            distances=dict(distances) or None,
        )


def device_key(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what identifies a driver's device in a claim: pool, device, and share, which is empty where there is none.

    Args:
        entry: One of ``status.allocation.devices.results``, or of ``status.devices``, as the API server stores it.
    """
    return entry["pool"], entry["device"], entry.get("shareID") or ""
