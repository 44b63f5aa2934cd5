"""The kinds of ``rootport.dev/v1alpha1`` with their defaults; ``RdmaConfig`` is in :mod:`driver.config.rdma`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from driver.api import API_VERSION
from driver.api.quantity import Quantity
from driver.api.resource_v1 import StrictWire
from driver.api.validation.wording import PLAIN_ERROR
from driver.config.rdma import RdmaConfig
from driver.config.shares import small_amount
from driver.model.devices import DeviceType

__all__ = [
    "KINDS",
    "DeviceConfig",
    "FpgaConfig",
    "GpuConfig",
    "GpuSharing",
    "HamiCoreSettings",
    "MigConfig",
    "MpsSettings",
    "SharingStrategy",
    "TimeSlicingSettings",
    "config_kind",
]

SharingStrategy: TypeAlias = Literal["exclusive", "timeSlicing", "mps", "hamiCore"]


class TimeSlicingSettings(StrictWire):
    """Settings of ``timeSlicing``.

    Attributes:
        interval: How long a program runs on the GPU before the next one's turn. It is set for the whole GPU, so all who
            share one must ask for the same.
    """

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class MpsSettings(StrictWire):
    """Settings of ``mps``. Each lowers what the claim's share is limited to anyway.

    Attributes:
        active_thread_percentage: Percent of the GPU's multiprocessors that each of the claim's processes may use; None
            is the share's core.
        pinned_device_memory_limit: Device memory of each of the claim's processes; None is the share's memory.
    """

    active_thread_percentage: Annotated[int, Field(ge=1, le=100)] | None = None
    pinned_device_memory_limit: Quantity | None = None

    @field_validator("pinned_device_memory_limit")
    @classmethod
    def _whole_bytes(cls, value: Quantity | None) -> Quantity | None:
        if value is not None and not (value.is_whole() and value.nano > 0):
            raise PydanticCustomError(
                PLAIN_ERROR,
                "{found} is not an amount of memory: expected whole bytes, such as 10Gi",
                {"found": str(value)},
            )
        meant = None if value is None else small_amount("memory", value)
        if meant is not None:
            raise PydanticCustomError(
                PLAIN_ERROR, "MPS limits memory in units of 1Mi, and this is {meant}", {"meant": meant}
            )
        return value


class HamiCoreSettings(StrictWire):
    """Settings of ``hamiCore``.

    Attributes:
        core_policy: HAMi-core's ``GPU_CORE_UTILIZATION_POLICY``: ``default`` leaves it to HAMi-core, ``force`` always
            limits the core, ``disable`` never does.
    """

    core_policy: Literal["default", "force", "disable"] = "default"


class GpuSharing(StrictWire):
    """How the containers that are given a GPU share it.

    Attributes:
        strategy: ``exclusive``: the GPU belongs to the claim alone; ``timeSlicing``: NVIDIA's driver lets programs take
            turns; ``mps``: NVIDIA's Multi-Process Service; ``hamiCore``: HAMi-core's library in the container. None is
            ``exclusive`` for a whole GPU and ``timeSlicing`` for a share of one.
        time_slicing: Only beside its own strategy, as the next two.
        mps: See :class:`MpsSettings`.
        hami_core: See :class:`HamiCoreSettings`.
    """

    SETTINGS: ClassVar[Mapping[str, SharingStrategy]] = {
        "time_slicing": "timeSlicing",
        "mps": "mps",
        "hami_core": "hamiCore",
    }

    strategy: SharingStrategy | None = None
    time_slicing: TimeSlicingSettings | None = None
    mps: MpsSettings | None = None
    hami_core: HamiCoreSettings | None = None

    @field_validator("time_slicing", "mps", "hami_core", mode="before")
    @classmethod
    def _beside_its_strategy(cls, value: Any, info: ValidationInfo) -> Any:
        # A strategy that is wrong itself is not among the data; that error is enough.
        strategy = info.data.get("strategy", "wrong")
        own = cls.SETTINGS[str(info.field_name)]
        if strategy in ("wrong", own):
            return value
        raise PydanticCustomError(
            PLAIN_ERROR,
            "is only for strategy {own}, but the strategy is {found}",
            {"own": own, "found": strategy or "not set"},
        )


class GpuConfig(StrictWire):
    """Parameters for GPUs, whole and by share: devices of type ``gpu`` and ``gpu-ratio``."""

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["GpuConfig"] = "GpuConfig"
    sharing: GpuSharing = GpuSharing()


class MigConfig(StrictWire):
    """Parameters for MIG partitions: none yet."""

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["MigConfig"] = "MigConfig"


class FpgaConfig(StrictWire):
    """Parameters for FPGAs: none yet."""

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["FpgaConfig"] = "FpgaConfig"


DeviceConfig: TypeAlias = GpuConfig | MigConfig | RdmaConfig | FpgaConfig

KINDS: Final[Mapping[str, type[DeviceConfig]]] = {
    "FpgaConfig": FpgaConfig,
    "GpuConfig": GpuConfig,
    "MigConfig": MigConfig,
    "RdmaConfig": RdmaConfig,
}


def config_kind(type_: DeviceType) -> type[DeviceConfig]:
    """Return the kind of parameters that devices of a type take."""
    match type_:
        case DeviceType.GPU | DeviceType.GPU_RATIO:
            return GpuConfig
        case DeviceType.MIG:
            return MigConfig
        case DeviceType.RDMA | DeviceType.RDMA_VF:
            return RdmaConfig
        case DeviceType.FPGA:
            return FpgaConfig
