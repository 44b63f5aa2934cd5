"""Reads the hardware for the health monitor: NVML with the host's library, and the host's sysfs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from driver.adapters.nvml.health import read_gpu_health
from driver.adapters.nvml.session import session
from driver.adapters.sysfs.rdma_health import read_nic_health
from driver.errors import NodeError
from driver.health.readings import GpuReading, NicReading
from driver.model.devices import Gpu, RdmaNic
from kubeletplugin.internal_errors import InternalError, guarded
from kubeletplugin.node.nvml_library import with_nvml
from kubeletplugin.node.roots import Roots

__all__ = ["HostReader"]

_Device = TypeVar("_Device", Gpu, RdmaNic)
_Reading = TypeVar("_Reading", GpuReading, NicReading)


class HostReader:
    """Reads the host's devices.

    Args:
        roots: Where sysfs is, and the host's NVML.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def gpus(self, gpus: Sequence[Gpu]) -> tuple[GpuReading, ...]:
        """Read NVIDIA's GPUs; if NVML itself fails, each GPU's reading says so."""

        def read() -> tuple[GpuReading, ...]:
            with session():
                return tuple(_each("gpu health", gpus, read_gpu_health))

        if not gpus:
            return ()
        try:
            return with_nvml(self._roots, read)
        except NodeError as error:
            return tuple(GpuReading(device=gpu.name, not_answering=str(error)) for gpu in gpus)

    def nics(self, nics: Sequence[RdmaNic]) -> tuple[NicReading, ...]:
        """Read the NICs.

        Raises:
            InputError: The host root holds no sysfs.
        """
        host = self._roots.hardware.fresh()
        return tuple(_each("nic health", nics, partial(read_nic_health, host)))


def _each(
    part: str, devices: Sequence[_Device], read: Callable[[Sequence[_Device]], Sequence[_Reading]]
) -> Iterator[_Reading]:
    """Yield the readings of the devices; one whose reading fails unexpectedly has none."""
    for device in devices:
        with suppress(InternalError), guarded(part, device.name):
            yield from read([device])
