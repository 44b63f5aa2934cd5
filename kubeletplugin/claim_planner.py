"""Plans claims on this node: :func:`driver.plan.prepare_plan`, given the node's driver files and folders."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.nvidia_driver_files import driver_files_are_there, find_driver_files, kernel_driver_version
from driver.api.resource_v1 import ResourceClaim
from driver.errors import NodeError
from driver.model.inventory import Inventory
from driver.plan import DriverFiles, PreparePlan, prepare_plan
from kubeletplugin.roots import Roots

__all__ = ["ClaimPlanner"]

_LOG: Final = logging.getLogger(__name__)
_FRESH_S: Final = 60.0


class ClaimPlanner:
    """Plans claims; safe to call from several threads.

    NVIDIA's driver files are looked for again when the driver was updated under the running plugin, and after a minute:
    the hook program, or a daemon's socket, may have come later than the driver (GPU Operator).

    Args:
        roots: Where the host is.
        metadata_dir: The folder for device metadata files, by the path that the host knows it by.
        clock: Seconds that never go back.
    """

    def __init__(self, roots: Roots, *, metadata_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = roots
        self._metadata_dir = metadata_dir
        self._lock = threading.Lock()
        self._clock = clock
        self._files: DriverFiles | None = None
        self._looked_at = 0.0

    def __call__(self, claim: ResourceClaim, inventory: Inventory) -> PreparePlan:
        """Decide how to prepare a claim.

        Raises:
            RootportError: As ``prepare_plan`` does; and NodeError where the claim has an NVIDIA GPU whose driver's
                files are not on the node.
        """
        nvidia = {gpu.name for gpu in inventory.gpus if gpu.vendor == "nvidia"}
        # For the others the driver's files are not looked for: trouble with them must not keep a NIC from its claim.
        wanted = claim.status.allocation.devices.results if claim.status.allocation else ()
        needed = any(result.driver == DRIVER_NAME and result.device in nvidia for result in wanted)
        version = self._driver_version(inventory) if needed else None
        files = self._driver_files(version) if version else None
        plan = prepare_plan(
            claim,
            inventory,
            driver_files=files,
            device_root=self._roots.device_root,
            metadata_root=str(self._metadata_dir),
        )
        given = [device.device for device in plan.devices if device.device in nvidia]
        if given and files is None:
            # A container with the device nodes alone would start and find no CUDA driver.
            raise NodeError(
                f"claim {plan.claim}, device {given[0]}: the files of NVIDIA's driver {version or '(none is loaded)'}, "
                f"libcuda first, are not below {self._roots.host.path / self._roots.driver_root.lstrip('/')}",
                hint="install the driver with its libraries on the node; where it is in a container of its own "
                "(GPU Operator), name its folder with --device-root",
            )
        return plan

    def _driver_version(self, inventory: Inventory) -> str | None:
        versions = (gpu.driver_version for gpu in inventory.gpus if gpu.vendor == "nvidia")
        nvml = next((version for version in versions if version), None)
        return kernel_driver_version(self._roots.hardware.fresh()) or nvml

    def _driver_files(self, version: str) -> DriverFiles | None:
        host = self._roots.host.fresh()
        with self._lock:
            known = self._files
            if (
                known is None
                or known.version != version
                or self._clock() - self._looked_at > _FRESH_S
                or not driver_files_are_there(host, known)
            ):
                self._looked_at = self._clock()
                self._files = find_driver_files(host, version, driver_root=self._roots.driver_root)
                found = len(self._files.host_paths) if self._files else 0
                if self._files != known:
                    _LOG.info("looked for NVIDIA's driver files", extra={"version": version, "files": found})
            return self._files
