"""What the plugin writes into ``data`` of a claim's ``status.devices``: what was prepared, for programs.

The plugin writes it, the controller and users' programs read it. Fields that a reader does not know are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from driver.api.quantity import Quantity
from driver.api.resource_v1 import Wire
from driver.api.rootport_v1alpha1 import API_VERSION, DeviceMode

__all__ = ["ISOLATED", "KIND", "PreparedDeviceData", "PreparedIsolation", "device_key"]

KIND: Final = "PreparedDevice"

ISOLATED: Final = "Isolated"
"""The condition's type: whether a program that uses the GPU in the usual way is kept within the claim's share."""


class PreparedIsolation(Wire):
    """Whether the share's limits hold.

    Attributes:
        state: ``enforced``, or ``advisory`` where nothing holds a program to its share.
        by: What enforces it, or would: ``device``, ``MIG``, ``MPS``, ``HAMi-core``, ``time-slicing``.
        version: That one's version.
    """

    model_config = ConfigDict(extra="ignore")

    state: Literal["enforced", "advisory"]
    by: str
    version: str | None = None


class PreparedDeviceData(Wire):
    """One device that is prepared for a claim.

    Attributes:
        api_version: ``rootport.dev/v1alpha1``.
        kind: ``PreparedDevice``.
        gpu: The whole GPU's name in the pool, whatever part of it was allocated.
        mode: How the GPU is given.
        core: Percent of its core; None for a MIG partition.
        memory: Of its memory; None where the GPU's is not known.
        isolation: Whether that holds.
        mig_uuid: The MIG device's UUID.
    """

    model_config = ConfigDict(extra="ignore")

    api_version: Literal["rootport.dev/v1alpha1"]
    kind: Literal["PreparedDevice"]
    gpu: str
    mode: DeviceMode
    core: int | None = None
    memory: Quantity | None = None
    isolation: PreparedIsolation
    mig_uuid: str | None = Field(default=None, alias="migUUID")

    @classmethod
    def of(
        cls,
        *,
        gpu: str,
        mode: DeviceMode,
        core: int | None,
        memory_bytes: int | None,
        isolation: PreparedIsolation,
        mig_uuid: str | None,
    ) -> PreparedDeviceData:
        """The data, with its header."""
        return cls.model_validate(
            {
                "api_version": API_VERSION,
                "kind": KIND,
                "gpu": gpu,
                "mode": mode,
                "core": core,
                "memory": None if memory_bytes is None else Quantity.of(memory_bytes, binary=True),
                "isolation": isolation,
                "mig_uuid": mig_uuid,
            }
        )


def device_key(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    """What tells a driver's devices in a claim apart: pool, device, and share, which is empty where there is none.

    Args:
        entry: One of ``status.allocation.devices.results``, or of ``status.devices``, as the API server stores it.
    """
    return entry["pool"], entry["device"], entry.get("shareID") or ""
