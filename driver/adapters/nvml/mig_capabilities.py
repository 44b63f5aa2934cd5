"""The capabilities in /proc and /dev by which NVIDIA's driver lets a container use a MIG instance.

A process needs two device nodes beside the GPU's own, one for the GPU instance and one for the compute instance:
``/dev/nvidia-caps/nvidia-capN``. N is in ``/proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<id>/access`` and
``.../ci<id>/access``, and the major number in ``/proc/devices`` as ``nvidia-caps``. The nodes may not exist yet:
nvidia-modprobe makes them only for the processes that it sees.

Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"; its nodes of instances are ``cr--r--r--
root root`` (``DeviceFileMode: 292``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from driver.adapters.files.durable_files import os_errors_as_node_errors
from driver.adapters.host import HostRoot
from driver.errors import NodeError

__all__ = ["capability_minors", "make_capability_nodes"]

_CAPABILITIES: Final = "proc/driver/nvidia/capabilities"
_MINOR: Final = re.compile(r"^DeviceFileMinor:\s*(\d{1,9})\s*$", re.MULTILINE | re.ASCII)
_MAJOR: Final = re.compile(r"^\s*(\d{1,9})\s+nvidia-caps\s*$", re.MULTILINE | re.ASCII)
_FOLDER: Final = "dev/nvidia-caps"
_MODE: Final = 0o444


def capability_minors(proc: HostRoot, gpu_minor: int, gpu_instance: int, compute_instance: int) -> tuple[int, int]:
    """Return the minors of the device nodes of a GPU instance and of a compute instance in it.

    Args:
        proc: The folder that contains ``proc``.
        gpu_minor: N of the GPU's ``/dev/nvidiaN``.
        gpu_instance: NVML's id of the GPU instance.
        compute_instance: NVML's id of the compute instance.

    Raises:
        NodeError: The driver does not list them.
    """
    folder = f"{_CAPABILITIES}/gpu{gpu_minor}/mig/gi{gpu_instance}"
    return _minor(proc, f"{folder}/access"), _minor(proc, f"{folder}/ci{compute_instance}/access")


def make_capability_nodes(device_root: HostRoot, proc: HostRoot, minors: Iterable[int]) -> None:
    """Make ``/dev/nvidia-caps/nvidia-capN`` for each minor, if it is missing or another device's.

    Args:
        device_root: The folder that contains ``dev``.
        proc: The folder that contains ``proc``.
        minors: The minors N.

    Raises:
        NodeError: The driver's major number is not known, or a node cannot be made.
    """
    found = _MAJOR.search(proc.fresh().read("proc/devices") or "")
    if found is None:
        raise NodeError(
            "/proc/devices names no nvidia-caps, whose nodes give access to MIG devices",
            hint="NVIDIA's driver has them since 450.80.02; check with lsmod that module nvidia is loaded",
        )
    root = device_root.fresh()
    dev = root.resolve("dev")
    folder = root.path / (root.resolve(_FOLDER) or f"{dev or 'dev'}/nvidia-caps")
    with os_errors_as_node_errors(f"the folder {folder} cannot be made"):
        folder.mkdir(mode=0o755, exist_ok=True)
    for minor in minors:
        path = folder / f"nvidia-cap{minor}"
        with os_errors_as_node_errors(f"the device node {path} cannot be made"):
            _make_node(path, os.makedev(int(found[1]), minor))


def _minor(proc: HostRoot, path: str) -> int:
    found = _MINOR.search(proc.fresh().read(path) or "")
    if found is None:
        raise NodeError(
            f"NVIDIA's driver names no device node of a MIG instance: {path} has no DeviceFileMinor",
            hint="the plugin must see the host's /proc; the driver has the file since 450.80.02",
        )
    return int(found[1])


def _make_node(path: Path, device: int) -> None:
    try:
        there = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if stat.S_ISCHR(there.st_mode) and there.st_rdev == device:
            return
    # By rename, since the name may be that of a device of a driver that was loaded before, and may be in use now.
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    os.mknod(new, _MODE | stat.S_IFCHR, device)
    new.chmod(_MODE)  # independent of the umask
    new.rename(path)
