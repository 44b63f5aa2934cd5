"""Sets a GPU's compute mode for an MPS daemon, by NVML."""

from __future__ import annotations

import logging
from typing import Final

from driver.adapters.nvml.device import gpu_address, set_compute_mode
from driver.adapters.nvml.driver_files import kernel_driver_version
from driver.adapters.nvml.session import NvmlUnavailableError
from driver.errors import NodeError
from driver.model.devices import DeviceType, device_name
from kubeletplugin.node.nvml_library import with_nvml
from kubeletplugin.node.roots import Roots

__all__ = ["ComputeModes"]

_LOG: Final = logging.getLogger(__name__)


class ComputeModes:
    """Sets the compute modes of this host's GPUs; as often as one likes.

    Args:
        roots: Where NVML's library is where this process has none.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def __call__(self, gpu: str, uuid: str, *, exclusive_process: bool) -> None:
        """Set EXCLUSIVE_PROCESS or DEFAULT. A GPU that is no longer there, or has no driver, has DEFAULT already.

        Args:
            gpu: The GPU's name in the pool.
            uuid: Its UUID.
            exclusive_process: Whether one process alone may use the GPU.

        Raises:
            NodeError: What NVML said and what helps; or the GPU is not there and should be set to EXCLUSIVE_PROCESS.
        """
        try:
            with_nvml(self._roots, lambda: self._set(gpu, uuid, exclusive_process=exclusive_process))
        except NvmlUnavailableError:
            # A driver that is loaded anew has every GPU in DEFAULT.
            if exclusive_process or kernel_driver_version(self._roots.hardware.fresh()) is not None:
                raise

    def _set(self, gpu: str, uuid: str, *, exclusive_process: bool) -> None:
        address = gpu_address(uuid)
        # The name of a GPU in another slot is another's.
        if address is not None and device_name(DeviceType.GPU, address) == gpu:
            set_compute_mode(address, exclusive_process=exclusive_process)
        elif exclusive_process:
            raise NodeError(
                f"{gpu} ({uuid}) is no longer there",
                hint="it was taken out or has fallen off the bus: see nvidia-smi and dmesg on the node",
            )
        else:
            _LOG.warning("the GPU of an MPS daemon is gone, and so is its compute mode", extra={"device": gpu})
