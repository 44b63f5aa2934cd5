"""The kinds of ``rootport.dev/v1alpha1`` that this version knows, with their defaults: the only place for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from driver.api.resource_v1 import Wire
from driver.model.devices import Device, Fpga, Gpu, RdmaNic, RdmaVf

__all__ = [
    "API_VERSION",
    "KINDS",
    "LATER_KINDS",
    "LATER_STRATEGIES",
    "UNSUPPORTED",
    "DeviceConfig",
    "FpgaConfig",
    "GpuConfig",
    "GpuSharing",
    "RdmaConfig",
    "default_config",
]

API_VERSION: Final = "rootport.dev/v1alpha1"

LATER_KINDS: Final[Mapping[str, str]] = {"MigConfig": "comes with MIG partitions; not in this version"}
"""Kinds of the design that this version refuses, and why."""

LATER_STRATEGIES: Final = ("timeSlicing", "mps", "hamiCore")
"""Sharing strategies of the design that this version refuses; each also names the object with its settings."""

UNSUPPORTED: Final = "unsupported"
"""The error type by which a validator says: right, but not in this version."""


class _Parameters(Wire):
    """Read strictly: no text where a number belongs, and no field by another spelling."""

    model_config = ConfigDict(strict=True, populate_by_name=False)


class GpuSharing(_Parameters):
    """How the containers that are given a GPU share it.

    Attributes:
        strategy: ``exclusive``: the GPU belongs to the claim alone.
    """

    strategy: Literal["exclusive"] = "exclusive"

    @field_validator("strategy", mode="before")
    @classmethod
    def _later(cls, value: Any) -> Any:
        if value in LATER_STRATEGIES:
            raise PydanticCustomError(
                UNSUPPORTED, "{strategy} comes with GPU sharing; not in this version", {"strategy": value}
            )
        return value


class GpuConfig(_Parameters):
    """Parameters for whole GPUs."""

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["GpuConfig"] = "GpuConfig"
    sharing: GpuSharing = GpuSharing()


class RdmaConfig(_Parameters):
    """Parameters for RDMA NICs and VFs.

    Attributes:
        rdma_cm: Whether the container is given ``/dev/infiniband/rdma_cm``, the RDMA connection manager. Off is for
            nodes that do not load ``rdma_ucm``: there the device node is missing, and a container that names it
            does not start.
    """

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["RdmaConfig"] = "RdmaConfig"
    rdma_cm: bool = Field(default=True, alias="rdmaCM")


class FpgaConfig(_Parameters):
    """Parameters for FPGAs: none yet."""

    api_version: Literal["rootport.dev/v1alpha1"] = API_VERSION
    kind: Literal["FpgaConfig"] = "FpgaConfig"


DeviceConfig: TypeAlias = GpuConfig | RdmaConfig | FpgaConfig

KINDS: Final[Mapping[str, type[DeviceConfig]]] = {
    "FpgaConfig": FpgaConfig,
    "GpuConfig": GpuConfig,
    "RdmaConfig": RdmaConfig,
}


def default_config(device: Device) -> DeviceConfig:
    """The config of a device for which neither class nor claim has one; its type is the kind that fits the device."""
    match device:
        case Gpu():
            return GpuConfig()
        case RdmaNic() | RdmaVf():
            return RdmaConfig()
        case Fpga():
            return FpgaConfig()
