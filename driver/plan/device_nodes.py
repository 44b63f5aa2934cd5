"""Which device nodes a container needs for a device."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from driver.api.validation.errors import shown
from driver.config import DeviceConfig, RdmaConfig
from driver.errors import NodeError, UnsupportedError
from driver.model.devices import Device, Fpga, Gpu, RdmaFunction, RdmaNic

__all__ = ["device_nodes", "with_assumed_minors"]

_NVIDIA: Final = "nvidia"
_AMD: Final = "amd"
_AMAZON: Final = "amazon"

# The nodes that every CUDA program opens beside the GPU's own, as `nvidia-ctk cdi generate` lists them (NVIDIA
# Container Toolkit); without /dev/nvidia-modeset, which is for displays.
_NVIDIA_CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
# Linux, drivers/gpu/drm/drm_drv.c: render nodes are numbered from 128.
_FIRST_RENDER_MINOR: Final = 128
_DEVICE_PATH: Final = re.compile(r"/dev(?:/(?!\.\.?(?:/|$))[A-Za-z0-9_.:-]+)+", re.ASCII)


def with_assumed_minors(device: Device) -> Device:
    """The device with the device node that its index suggests, where the inventory's source tells none.

    Only for simulation: a topology file has no minors, and on a real node they need not follow the index. An FPGA gets
    a render node, as a Xilinx card has it. A VF is left as it is, since its index counts within its PF.
    """
    match device:
        case Gpu(minor=None):
            return replace(device, minor=device.index + (_FIRST_RENDER_MINOR if device.vendor == _AMD else 0))
        case RdmaNic(verbs_minor=None):
            return replace(device, verbs_minor=device.index)
        case Fpga(device_paths=()):
            return replace(device, device_paths=(f"/dev/dri/renderD{_FIRST_RENDER_MINOR + device.index}",))
        case _:
            return device


def device_nodes(device: Device, config: DeviceConfig, subject: str) -> tuple[str, ...]:
    """The paths of the device nodes, in the order in which the kernel's drivers would make them.

    Args:
        device: What was allocated.
        config: What class and claim say about it.
        subject: Names claim, request and device in the errors.

    Raises:
        NodeError: The inventory does not tell the device's nodes, or tells something that is none.
        UnsupportedError: A GPU whose vendor's device nodes are not known here.
    """
    match device:
        case Gpu():
            return _gpu(device, subject)
        case RdmaFunction():
            return _rdma(device, config, subject)
        case Fpga():
            return _fpga(device, subject)


def _gpu(gpu: Gpu, subject: str) -> tuple[str, ...]:
    if gpu.vendor not in (_NVIDIA, _AMD):
        raise UnsupportedError(
            f"{subject}: the device nodes of GPUs of vendor {gpu.vendor} are not known to this version",
            hint="allocate a GPU of vendor nvidia or amd",
        )
    if not gpu.device_nodes_known:
        raise NodeError(
            f"{subject}: the node's inventory names no device node of this GPU",
            hint="check on the node that the GPU's kernel driver is loaded and that nvidia-smi or rocm-smi lists it",
        )
    if gpu.vendor == _NVIDIA:
        return (f"/dev/nvidia{gpu.minor}", *_NVIDIA_CONTROL)
    # ROCm: kfd for compute, the render node for the GPU; the card node is for displays.
    return ("/dev/kfd", f"/dev/dri/renderD{gpu.minor}")


def _rdma(device: RdmaFunction, config: DeviceConfig, subject: str) -> tuple[str, ...]:
    if not device.device_nodes_known:
        raise NodeError(
            f"{subject}: the node's inventory names no /dev/infiniband/uverbs node of this device",
            hint="check on the node that the device's RDMA driver is bound and that ib_uverbs is loaded",
        )
    nodes = [f"/dev/infiniband/uverbs{device.verbs_minor}"]
    nodes += [f"/dev/infiniband/umad{minor}" for minor in device.umad_minors]
    nodes += [f"/dev/infiniband/issm{minor}" for minor in device.issm_minors]
    # EFA has no connection manager: librdmacm does not work on it (ofiwg/libfabric#5850), and nodes with nothing but
    # EFA need not have the device node.
    amazon = isinstance(device, RdmaNic) and device.vendor == _AMAZON
    if isinstance(config, RdmaConfig) and config.rdma_cm and not amazon:
        nodes.append("/dev/infiniband/rdma_cm")
    return tuple(nodes)


def _fpga(fpga: Fpga, subject: str) -> tuple[str, ...]:
    if not fpga.device_nodes_known:
        raise NodeError(
            f"{subject}: the node's inventory names no device node of this FPGA",
            hint="check on the node that the FPGA's kernel driver is loaded",
        )
    for path in fpga.device_paths:
        if _DEVICE_PATH.fullmatch(path) is None:
            raise NodeError(
                f"{subject}: {shown(path)} in the node's inventory is not the path of a device node",
                hint="expected a path below /dev; read the node's inventory again",
            )
    return fpga.device_paths
