"""Decides which discovered devices a container could use. Its only I/O is to check that device nodes exist."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, TypeVar

from driver.adapters.host import HostRoot
from driver.model.devices import Device, Fpga, Gpu, RdmaNic, RdmaVf
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress

__all__ = ["with_device_nodes", "without_cut_up_gpus"]

_NVIDIA: Final = "nvidia"
_F = TypeVar("_F", RdmaNic, RdmaVf)


def without_cut_up_gpus(inventory: Inventory, gpus: Collection[PciAddress]) -> tuple[Inventory, tuple[str, ...]]:
    """Take the device node from GPUs whose only GPU instances are an administrator's that cannot be allocated.

    None of those instances can be allocated, and nor can the GPU: CUDA does not work on the whole of it, and a
    partition would be made in their place.

    Args:
        inventory: What was discovered.
        gpus: The GPUs that have such instances.

    Returns:
        The inventory with notes on those GPUs, and the notes alone.
    """
    found = {
        gpu.address: gpu
        for gpu in inventory.gpus
        if gpu.address in gpus and gpu.mig is not None and not gpu.mig.instances
    }
    notes = tuple(
        f"{gpu.name} cannot be used, since it has GPU instances that Rootport did not make and cannot give to anybody: "
        "`nvidia-smi mig -lgi` lists them"
        for gpu in found.values()
    )
    checked = tuple(replace(gpu, minor=None) if gpu.address in found else gpu for gpu in inventory.gpus)
    return replace(inventory, gpus=checked, notes=(*inventory.notes, *notes)), notes


def with_device_nodes(inventory: Inventory, host: HostRoot, nvidia: HostRoot) -> tuple[Inventory, tuple[str, ...]]:
    """Take the device node from devices whose node is missing in ``dev``, where the root has a ``dev``.

    Such a device still exists: it is shown, and not published.

    Args:
        inventory: What was discovered.
        host: What holds ``dev``.
        nvidia: What holds the ``dev`` of NVIDIA's GPUs.

    Returns:
        The inventory with notes on those devices, and the notes alone.
    """
    if not host.is_folder("dev"):
        return inventory, ()
    missing: list[str] = []

    def there(device: Device, path: str, root: HostRoot = host) -> bool:
        found = root.resolve(path.lstrip("/")) is not None
        if not found:
            missing.append(f"{device.name} cannot be used, since {path} is missing on the node")
        return found

    def gpu_checked(gpu: Gpu) -> Gpu:
        path, root = f"/dev/dri/renderD{gpu.minor}", host
        if gpu.vendor == _NVIDIA:
            path, root = f"/dev/nvidia{gpu.minor}", nvidia
        return gpu if gpu.minor is None or there(gpu, path, root) else replace(gpu, minor=None)

    def function_checked(function: _F) -> _F:
        path = f"/dev/infiniband/uverbs{function.verbs_minor}"
        usable = function.verbs_minor is None or there(function, path)
        return function if usable else replace(function, verbs_minor=None)

    def fpga_checked(fpga: Fpga) -> Fpga:
        return fpga if all(there(fpga, path) for path in fpga.device_paths) else replace(fpga, device_paths=())

    checked = replace(
        inventory,
        gpus=tuple(gpu_checked(gpu) for gpu in inventory.gpus),
        nics=tuple(
            replace(function_checked(nic), vfs=tuple(function_checked(vf) for vf in nic.vfs)) for nic in inventory.nics
        ),
        fpgas=tuple(fpga_checked(fpga) for fpga in inventory.fpgas),
    )
    return replace(checked, notes=(*inventory.notes, *missing)), tuple(missing)
