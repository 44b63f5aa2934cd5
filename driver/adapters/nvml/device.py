"""Finds a GPU in NVML by address or UUID, sets its compute mode, and puts NVML's errors into words.

Changes need root.
"""

from __future__ import annotations

from typing import Any, Final

import pynvml

from driver.adapters.nvml.session import ABSENT, NvmlCallError, call, session
from driver.errors import NodeError
from driver.model.pci import PciAddress, parse_pci_address

__all__ = ["DEFAULT_HINT", "HINTS", "NO_GPU", "device_at", "gpu_address", "nvml_error", "set_compute_mode"]

# A GPU that is not there has no MIG devices; nor has one that has fallen off the bus, since they do not outlive the
# reset that brings it back.
NO_GPU: Final = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_GPU_IS_LOST})
"""The errors that mean that there is no such GPU."""

DEFAULT_HINT: Final = "`nvidia-smi` and `dmesg` on the node tell more; it is tried again"
HINTS: Final = {
    pynvml.NVML_ERROR_IN_USE: (
        "end what uses the GPU, it is tried again: `nvidia-smi` and `fuser -v /dev/nvidia*` list the processes; "
        "monitors such as DCGM and its exporter, nvidia-persistenced and a display server hold a GPU as well"
    ),
    pynvml.NVML_ERROR_RESET_REQUIRED: (
        "MIG mode of this GPU changes with a reset only: drain the node, switch the mode with `nvidia-smi -mig`, and "
        "reset the GPU with `nvidia-smi --gpu-reset`; in a virtual machine reboot that"
    ),
    pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES: (
        "instances that Rootport did not make are in the way: `nvidia-smi mig -lgi` lists them, and "
        "`nvidia-smi mig -dgi` destroys them"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "the plugin must run as root in a privileged container",
    pynvml.NVML_ERROR_GPU_IS_LOST: "the GPU has fallen off the bus: see dmesg on the node, then reset it or reboot",
    pynvml.NVML_ERROR_NOT_FOUND: "the GPU is no longer there: see nvidia-smi and dmesg on the node",
}
"""What to do, by NVML's error code."""


def device_at(address: PciAddress) -> Any:
    """Return NVML's handle of a GPU, within a session.

    Raises:
        NvmlCallError: NVML has no such GPU, or did not answer.
    """
    return call(pynvml.nvmlDeviceGetHandleByPciBusId, str(address))


def gpu_address(uuid: str) -> PciAddress | None:
    """Return the PCI address of the GPU with this UUID; None if NVML has no such GPU.

    Raises:
        NodeError: NVML failed; the message says how, and what helps.
    """
    with session():
        try:
            device = call(pynvml.nvmlDeviceGetHandleByUUID, uuid)
            return parse_pci_address(call(pynvml.nvmlDeviceGetPciInfo, device).busId)
        except NvmlCallError as error:
            if error.code in NO_GPU:
                return None
            raise nvml_error(f"GPU {uuid}: its PCI address cannot be read", error) from error
        except ValueError as error:  # UnicodeDecodeError is one
            raise NodeError(f"GPU {uuid}: its PCI address cannot be read: {error}", hint=DEFAULT_HINT) from error


def set_compute_mode(address: PciAddress, *, exclusive_process: bool) -> None:
    """Set a GPU's compute mode, unless it has it already, or has no modes and DEFAULT is wanted.

    Args:
        address: The GPU's address.
        exclusive_process: True for EXCLUSIVE_PROCESS, in which one process at a time (an MPS server) may use the GPU;
            False for DEFAULT.

    Raises:
        NodeError: NVML failed; the message says how, and what helps.
    """
    mode = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS if exclusive_process else pynvml.NVML_COMPUTEMODE_DEFAULT
    with session():
        try:
            device = device_at(address)
            if call(pynvml.nvmlDeviceGetComputeMode, device) != mode:
                call(pynvml.nvmlDeviceSetComputeMode, device, mode)
        except NvmlCallError as error:
            # Without modes (a virtual GPU, a GPU of a system on a chip) nothing was ever set that is to be set back.
            if error.code in ABSENT and not exclusive_process:
                return
            raise nvml_error(f"GPU {address}: its compute mode cannot be set", error) from error


def nvml_error(what: str, error: NvmlCallError | NodeError | UnicodeDecodeError, left: str = "") -> NodeError:
    """Return the error to raise for an error of NVML.

    Args:
        what: What failed, and for which GPU.
        error: The error.
        left: What could not be undone; empty if nothing is left.
    """
    if isinstance(error, NodeError):
        return NodeError(f"{what}: {error.message}{left}", hint=error.hint)
    if isinstance(error, NvmlCallError):
        return NodeError(f"{what}: {error}{left}", hint=HINTS.get(error.code, DEFAULT_HINT))
    return NodeError(f"{what}: NVML's answer is not UTF-8{left}", hint=DEFAULT_HINT)
