"""The kinds of ``rootport.dev/v1alpha1`` with their defaults; ``RdmaConfig`` is in :mod:`driver.config.rdma`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

from driver.api import API_VERSION
from driver.api.quantity import Quantity
from driver.api.strict import rule
from driver.config.rdma import RdmaConfig
from driver.config.shares import small_amount
from driver.model.devices import DeviceType
from driver.spelling import camel_case

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


def _whole_bytes(value: Quantity, _: object) -> Quantity:
    if not (value.is_whole() and value.nano > 0):
        raise ValueError(f"{value} is not an amount of memory: expected whole bytes, such as 10Gi")
    meant = small_amount("memory", value)
    if meant is not None:
        raise ValueError(f"MPS limits memory in units of 1Mi, and this is {meant}")
    return value


SharingStrategy: TypeAlias = Literal["exclusive", "timeSlicing", "mps", "hamiCore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSlicingSettings:
    """Settings of ``timeSlicing``.

    Attributes:
        interval: How long a program runs on the GPU before the next one's turn; None is ``Default``. It is set for the
            whole GPU: the first share on it decides for those that come after it.
    """

    WIRE: ClassVar[bool] = True

    interval: Literal["Default", "Short", "Medium", "Long"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsSettings:
    """Settings of ``mps``. Each lowers what the claim's share is limited to anyway.

    Attributes:
        active_thread_percentage: Percent of the GPU's multiprocessors that each of the claim's processes may use; None
            is the share's core.
        pinned_device_memory_limit: Device memory of each of the claim's processes; None is the share's memory.
    """

    WIRE: ClassVar[bool] = True

    active_thread_percentage: int | None = rule(default=None, least=1, most=100)
    pinned_device_memory_limit: Quantity | None = rule(default=None, check=_whole_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiCoreSettings:
    """Settings of ``hamiCore``.

    Attributes:
        core_policy: HAMi-core's ``GPU_CORE_UTILIZATION_POLICY``: ``default`` leaves it to HAMi-core, ``force`` always
            limits the core, ``disable`` never does.
    """

    WIRE: ClassVar[bool] = True

    core_policy: Literal["default", "force", "disable"] = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """How the containers that are given a GPU share it.

    Attributes:
        strategy: ``exclusive``: the GPU belongs to the claim alone; ``timeSlicing``: NVIDIA's driver lets programs take
            turns; ``mps``: NVIDIA's Multi-Process Service; ``hamiCore``: HAMi-core's library in the container. None is
            that of the DeviceClass; where that has none either, ``exclusive`` for a whole GPU, and for a share of one
            what the GPU offers.
        time_slicing: Settings of ``timeSlicing``; only with that strategy, as the next two with theirs.
        mps: Settings of ``mps``.
        hami_core: Settings of ``hamiCore``.
    """

    WIRE: ClassVar[bool] = True

    SETTINGS: ClassVar[Mapping[str, SharingStrategy]] = {
        "time_slicing": "timeSlicing",
        "mps": "mps",
        "hami_core": "hamiCore",
    }

    strategy: SharingStrategy | None = None
    time_slicing: TimeSlicingSettings | None = None
    mps: MpsSettings | None = None
    hami_core: HamiCoreSettings | None = None

    @classmethod
    def refused(cls, field: str, found: Mapping[str, Any]) -> str | None:
        """Return why a field cannot be there at all (:mod:`driver.api.strict`): settings go with their strategy."""
        own = cls.SETTINGS.get(field)
        # A strategy that is wrong itself was not found; that error is enough.
        strategy = found.get("strategy", own)
        if strategy is None:  # it is that of the settings
            strategy = next((cls.SETTINGS[name] for name in cls.SETTINGS if found.get(name) is not None), own)
        if strategy == own:
            return None
        wrong = f"is only for strategy {own}, but the strategy is {strategy}"
        return f"{wrong}: set strategy: {own}, or leave out {camel_case(field)}"

    @property
    def meant(self) -> SharingStrategy | None:
        """The strategy, or the one that there are settings of; None where the DeviceClass or the GPU decides."""
        settings = (name for name in self.SETTINGS if getattr(self, name) is not None)
        return self.strategy or next((self.SETTINGS[name] for name in settings), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuConfig:
    """Parameters for GPUs, whole and by share: devices of type ``gpu`` and ``gpu-ratio``.

    Attributes:
        sharing: How the containers that are given a GPU share it.
    """

    WIRE: ClassVar[bool] = True

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["GpuConfig"] = "GpuConfig"
    sharing: GpuSharing = GpuSharing()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigConfig:
    """Parameters for MIG partitions: none yet."""

    WIRE: ClassVar[bool] = True

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["MigConfig"] = "MigConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class FpgaConfig:
    """Parameters for FPGAs: none yet."""

    WIRE: ClassVar[bool] = True

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
