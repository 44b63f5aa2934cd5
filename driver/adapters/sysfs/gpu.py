"""Reads GPUs from sysfs, and the little that NVIDIA's driver writes to procfs.

MIG, ECC, NVLink and xGMI links are in neither; NVML knows them (``driver.adapters.nvml.discovery``).

Sources: Documentation/gpu/amdgpu/driver-misc.rst and Documentation/gpu/amdgpu/thermal.rst of Linux for amdgpu's
attributes; NVIDIA open-gpu-kernel-modules 570.144, kernel-open/nvidia/nv-procfs.c for ``information``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from driver.adapters.catalogue import gpu_facts
from driver.adapters.sysfs.pci import PciFunction
from driver.adapters.sysfs.reader import SysfsReader
from driver.model.devices import Gpu
from driver.model.pci import PciAddress, PciePath

__all__ = ["gpu_functions", "gpus", "render_minor"]

_NVIDIA: Final = 0x10DE
_AMD: Final = 0x1002
# PCI Code and ID Assignment Specification: VGA, 3D and other display controllers.
_DISPLAY_CLASSES: Final = frozenset({0x0300, 0x0302, 0x0380})
# AMD's data centre GPUs from MI300 on call themselves a processing accelerator.
_GPU_CLASSES: Final = {_NVIDIA: _DISPLAY_CLASSES, _AMD: _DISPLAY_CLASSES | {0x1200}}
_RENDER_NODE: Final = re.compile(r"renderD(0|[1-9][0-9]{0,6})", re.ASCII)
_NVIDIA_UUID: Final = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_MINOR: Final = re.compile(r"[0-9]{1,7}", re.ASCII)


def gpu_functions(reader: SysfsReader, functions: Mapping[PciAddress, PciFunction]) -> tuple[PciFunction, ...]:
    """Return the PCI functions that are GPUs, in PCI order."""
    found = []
    for function in functions.values():
        if function.class_code not in _GPU_CLASSES.get(function.vendor_id, frozenset()):
            if function.class_code in _DISPLAY_CLASSES:
                reader.note(
                    f"{function.address}: a display controller of vendor 0x{function.vendor_id:04x}; only GPUs of "
                    "NVIDIA and AMD are supported, so it was left out"
                )
        elif reader.host.resolve(f"{function.folder}/physfn") is not None:
            reader.note(f"{function.address}: a virtual function of a GPU; it was left out")
        else:
            found.append(function)
    return tuple(found)


def gpus(
    reader: SysfsReader, functions: tuple[PciFunction, ...], paths: Mapping[PciAddress, PciePath]
) -> tuple[Gpu, ...]:
    """Return the inventory's GPUs.

    Args:
        reader: Reads sysfs, and collects the notes.
        functions: The node's GPUs, in PCI order.
        paths: The PCIe path of each.
    """
    read = {_NVIDIA: _nvidia_gpu, _AMD: _amd_gpu}
    return tuple(
        read[function.vendor_id](reader, function, paths[function.address], index)
        for index, function in enumerate(functions)
    )


def render_minor(reader: SysfsReader, folder: str) -> int | None:
    """Return N of a PCI function's ``/dev/dri/renderDN``."""
    matches = (_RENDER_NODE.fullmatch(name) for name in reader.names(f"{folder}/drm"))
    return next((int(match[1]) for match in matches if match), None)


def _nvidia_gpu(reader: SysfsReader, function: PciFunction, pcie: PciePath, index: int) -> Gpu:
    facts = gpu_facts(pci_id=f"{function.vendor_id:04x}:{function.device_id:04x}")
    # procfs is there where the root is a host's, not where it is its sys folder alone.
    information = reader.host.read(f"proc/driver/nvidia/gpus/{function.address}/information") if reader.sysfs else None
    fields = {}
    for line in (information or "").splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    # The UUID is a row of question marks until the GPU is initialised.
    uuid, minor = fields.get("GPU UUID", ""), fields.get("Device Minor", "")
    return Gpu(
        address=function.address,
        pcie=pcie,
        index=index,
        minor=int(minor) if _MINOR.fullmatch(minor) else None,
        vendor="nvidia",
        uuid=uuid if _NVIDIA_UUID.fullmatch(uuid) else None,
        model=reader.printable(fields.get("Model")) or facts.model,
        memory_bytes=facts.memory_bytes,
        architecture=facts.architecture,
        cuda_compute_capability=facts.cuda_compute_capability,
        driver_version=reader.text(f"{reader.sysfs}module/nvidia/version"),
    )


def _amd_gpu(reader: SysfsReader, function: PciFunction, pcie: PciePath, index: int) -> Gpu:
    facts = gpu_facts(pci_id=f"{function.vendor_id:04x}:{function.device_id:04x}")
    unique_id = reader.hexadecimal(f"{function.folder}/unique_id")
    memory = reader.decimal(f"{function.folder}/mem_info_vram_total")
    # Absent where the memory is the processor's as well (MI300A).
    if not (memory and memory > 0) and facts.memory_note:
        reader.note(f"{facts.memory_note}.")
    return Gpu(
        address=function.address,
        pcie=pcie,
        index=index,
        minor=render_minor(reader, function.folder),
        vendor="amd",
        # As ROCm writes it: hsa_ext_amd.h, HSA_AMD_AGENT_INFO_UUID.
        uuid=f"GPU-{unique_id:016x}" if unique_id else None,
        model=reader.text(f"{function.folder}/product_name") or facts.model,
        memory_bytes=memory if memory and memory > 0 else facts.memory_bytes,
        architecture=facts.architecture,
        driver_version=reader.text(f"{reader.sysfs}module/amdgpu/version"),
    )
