"""Makes and destroys the MIG devices of prepared claims."""

from __future__ import annotations

import logging
from typing import Final

from driver.adapters.nvml.device import gpu_address
from driver.adapters.nvml.mig import create_mig_device, destroy_mig_device, leave_mig_mode, refuse_others
from driver.adapters.nvml.mig_capabilities import make_capability_nodes
from driver.errors import NodeError
from driver.model.devices import DeviceType, MigInstance, device_name
from driver.plan.effects import CreateMigDevice, LeaveMigMode
from kubeletplugin.node.nvml_library import with_nvml
from kubeletplugin.node.roots import Roots

__all__ = ["MigDevices"]

_LOG: Final = logging.getLogger(__name__)


class MigDevices:
    """Makes and destroys MIG devices, and switches MIG mode off; as often as one likes, and after a crash anywhere.

    Args:
        roots: Where ``proc`` and the ``dev`` of NVIDIA's GPUs are, and NVML's library where this process has none.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots

    def refuse_others(self, effect: CreateMigDevice | LeaveMigMode) -> None:
        """Refuse a place where somebody else has made an instance since the inventory was taken.

        Raises:
            NodeError: Somebody has; or what is in the way.
        """
        if isinstance(effect, CreateMigDevice):
            with_nvml(self._roots, lambda: self._refuse_others(effect))

    def do(self, effect: CreateMigDevice | LeaveMigMode) -> MigInstance | None:
        """Make the MIG device, or find it, and make its device nodes where the node lacks them; or leave MIG mode.

        Raises:
            NodeError: What is in the way, and what helps.
        """
        return with_nvml(self._roots, lambda: self._do(effect))

    def undo(self, effect: CreateMigDevice | LeaveMigMode) -> None:
        """Destroy the MIG device. A GPU that is no longer there has none.

        Raises:
            NodeError: What is in the way, and what helps.
        """
        if isinstance(effect, CreateMigDevice):
            with_nvml(self._roots, lambda: self._undo(effect))

    def _refuse_others(self, effect: CreateMigDevice) -> None:
        address = gpu_address(effect.uuid)
        if address is not None:  # else making it says what is wrong
            refuse_others(address, profile_id=effect.profile_id, start=effect.start, size=effect.size)

    def _do(self, effect: CreateMigDevice | LeaveMigMode) -> MigInstance | None:
        address = gpu_address(effect.uuid)
        if address is None:
            raise NodeError(
                f"NVML has no GPU {effect.uuid} ({effect.gpu})",
                hint="it was taken out or has fallen off the bus: see nvidia-smi and dmesg on the node",
            )
        if device_name(DeviceType.GPU, address) != effect.gpu:
            raise NodeError(
                f"GPU {effect.uuid} is {device_name(DeviceType.GPU, address)} by now, and {effect.gpu} was allocated",
                hint="delete the claim and make it anew",
            )
        if isinstance(effect, LeaveMigMode):
            leave_mig_mode(address)
            return None
        instance = create_mig_device(
            address,
            profile_id=effect.profile_id,
            start=effect.start,
            size=effect.size,
            capabilities=self._roots.hardware,
        )
        minors = (instance.gpu_instance_minor, instance.compute_instance_minor)
        make_capability_nodes(self._roots.nvidia_devices(), self._roots.hardware, minors)
        return instance

    def _undo(self, effect: CreateMigDevice) -> None:
        address = gpu_address(effect.uuid)
        # The name of a GPU in another slot is another's, whose MIG devices are not this claim's.
        if address is None or device_name(DeviceType.GPU, address) != effect.gpu:
            _LOG.warning("the GPU of a MIG device is gone, and so is that", extra={"gpu": effect.gpu})
            return
        destroy_mig_device(address, profile_id=effect.profile_id, start=effect.start, size=effect.size)
