"""Reads the hardware for the health monitor: NVML with the host's library, and the host's sysfs."""

from __future__ import annotations

from collections.abc import Sequence

from driver.adapters.nvml_health import read_gpu_health
from driver.adapters.nvml_session import session
from driver.adapters.sysfs_rdma_health import read_nic_health
from driver.errors import NodeError
from driver.health.readings import GpuReading, NicReading
from driver.model.devices import Gpu, RdmaNic
from kubeletplugin.nvml_library import with_nvml
from kubeletplugin.roots import Roots

__all__ = ["HostReader"]


class HostReader:
    """Reads the host's devices.

    Args:
        roots: Where sysfs is, and the host's NVML.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def gpus(self, gpus: Sequence[Gpu]) -> tuple[GpuReading, ...]:
        """Read NVIDIA's GPUs; where NVML cannot be asked at all, that is each GPU's reading."""

        def read() -> tuple[GpuReading, ...]:
            with session():
                return read_gpu_health(gpus)

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
        return read_nic_health(self._roots.hardware.fresh(), nics) if nics else ()
