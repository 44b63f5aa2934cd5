"""Finds the device nodes that a container needs for a device."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from driver.api.validation.errors import shown
from driver.config import DeviceConfig, RdmaConfig
from driver.errors import NodeError, UnsupportedError
from driver.model.devices import Fpga, Gpu, MigInstance, RdmaFunction, RdmaNic
from driver.model.parts import AllocatableDevice, GpuRatio, MigPartition, RdmaVfPool

__all__ = ["assumed_instance", "device_nodes", "mig_device_nodes", "pool_nodes", "with_assumed_minors"]

_NVIDIA: Final = "nvidia"
_AMD: Final = "amd"
_AMAZON: Final = "amazon"

# The nodes that every CUDA program opens beside the GPU's own, as `nvidia-ctk cdi generate` lists them (NVIDIA
# Container Toolkit); without /dev/nvidia-modeset, which is for displays.
_NVIDIA_CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
# Linux, drivers/gpu/drm/drm_drv.c: render nodes are numbered from 128.
_FIRST_RENDER_MINOR: Final = 128
# What /proc/driver/nvidia-caps/mig-minors lists: "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", then 8 compute instances
# a GPU instance and 15 GPU instances a GPU.
_FIRST_MIG_MINOR: Final = 3
_MINORS_OF_GPU_INSTANCE: Final = 9
_MINORS_OF_GPU: Final = 15 * _MINORS_OF_GPU_INSTANCE
_MIG_UUIDS: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "mig.simulate.rootport.dev")
_DEVICE_PATH: Final = re.compile(r"/dev(?:/(?!\.\.?(?:/|$))[A-Za-z0-9_.:-]+)+", re.ASCII)


def with_assumed_minors(device: AllocatableDevice) -> AllocatableDevice:
    """Return the device with the device node that its index suggests, where the inventory's source names none.

    Only for simulation: a topology file has no minors, and on a real node they need not follow the index. An FPGA gets
    a render node, as a Xilinx card has it. A VF is left as it is, since its index counts within its PF.
    """
    match device:
        case Gpu(minor=None):
            return _numbered(device)
        case GpuRatio(gpu=Gpu(minor=None)) | MigPartition(gpu=Gpu(minor=None)):
            return replace(device, gpu=_numbered(device.gpu))
        case RdmaNic(verbs_minor=None):
            return replace(device, verbs_minor=device.index)
        case Fpga(device_paths=()):
            return replace(device, device_paths=(f"/dev/dri/renderD{_FIRST_RENDER_MINOR + device.index}",))
        case _:
            return device


def _numbered(gpu: Gpu) -> Gpu:
    return replace(gpu, minor=gpu.index + (_FIRST_RENDER_MINOR if gpu.vendor == _AMD else 0))


def assumed_instance(partition: MigPartition) -> MigInstance:
    """Return a MIG device as it could be once it is made; only for simulation, as :func:`with_assumed_minors`.

    Its minors are those of a driver that numbers GPU instances by the memory slice they start at.
    """
    start = partition.placement.start
    gpu_minor = partition.gpu.minor or 0
    first = _FIRST_MIG_MINOR + gpu_minor * _MINORS_OF_GPU + start * _MINORS_OF_GPU_INSTANCE
    return MigInstance(
        profile_id=partition.profile.profile_id,
        placement=partition.placement,
        gpu_instance=start,
        compute_instance=0,
        uuid=f"MIG-{uuid.uuid5(_MIG_UUIDS, f'{partition.gpu.uuid or partition.gpu.address} {partition.name}')}",
        gpu_instance_minor=first,
        compute_instance_minor=first + 1,
    )


def mig_device_nodes(instance: MigInstance) -> tuple[str, ...]:
    """Return a MIG device's own nodes: the right to use its GPU instance and its compute instance.

    Source: NVIDIA's MIG User Guide, "Device Nodes and Capabilities".
    """
    minors = (instance.gpu_instance_minor, instance.compute_instance_minor)
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in minors)


def device_nodes(device: AllocatableDevice, config: DeviceConfig, subject: str) -> tuple[str, ...]:
    """Return the paths of the device nodes, in the order in which the kernel's drivers would make them.

    Args:
        device: What was allocated.
        config: The parameters that apply to it, of class and claim.
        subject: Names claim, request and device in the errors.

    Raises:
        NodeError: The inventory does not name the device's nodes, or names something that is none.
        UnsupportedError: A GPU whose vendor's device nodes are not known here.
    """
    match device:
        case Gpu():
            return _gpu(device, subject)
        case GpuRatio() | MigPartition():
            # A MIG device is reached through its GPU's nodes; its own are added when it is there.
            return _gpu(device.gpu, subject)
        case RdmaFunction():
            return _rdma(device, config, subject)
        case RdmaVfPool():
            return pool_nodes(device, device.vfs, config, subject)
        case Fpga():
            return _fpga(device, subject)


def pool_nodes(
    pool: RdmaVfPool, functions: Sequence[RdmaFunction], config: DeviceConfig, subject: str
) -> tuple[str, ...]:
    """Return the paths of the device nodes of some virtual functions of a pool, each once.

    Args:
        pool: What was allocated.
        functions: Those of its virtual functions that the container gets.
        config: As in :func:`device_nodes`, which raises the same errors.
        subject: As there.
    """
    amazon = pool.nic.vendor == _AMAZON
    return tuple(
        dict.fromkeys(path for function in functions for path in _rdma(function, config, subject, amazon=amazon))
    )


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


def _rdma(device: RdmaFunction, config: DeviceConfig, subject: str, *, amazon: bool = False) -> tuple[str, ...]:
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
    amazon = amazon or (isinstance(device, RdmaNic) and device.vendor == _AMAZON)
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
