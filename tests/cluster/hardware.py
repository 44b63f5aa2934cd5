"""The hardware of a test node, below the libraries: a sysfs tree, device nodes, NVIDIA's driver files and a stub NVML.

Device nodes bear the numbers of the real drivers. No such driver is loaded, so opening one that the container may open
fails with ENXIO, and with EPERM where its device control group does not let it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stub_nvidia import InstalledPrograms
from stub_nvidia import build as build_programs
from stub_nvml import Machine, StubNvml, StubState, read_state
from stub_nvml.parts import H100_80GB
from sysfs_tree import dgx

__all__ = ["DRIVER_VERSION", "FakeHost", "make_host", "switch_of"]

DRIVER_VERSION: Final = "580.95.05"
# Linux, Documentation/admin-guide/devices.txt; those of nvidia-uvm, nvidia-caps and rdma_cm are given out at run time.
_NVIDIA, _NVIDIA_CONTROL, _NVIDIA_UVM, _NVIDIA_CAPS, _INFINIBAND, _MISC = 195, 255, 510, 237, 231, 10
_LIBRARIES: Final = ("libcuda.so", "libnvidia-ptxjitcompiler.so", "libcudadebugger.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHost:
    """A host that looks like a DGX to Rootport.

    Attributes:
        root: What to give as ``--host-root`` and ``--device-root``.
        environment: The variable that tells the stub NVML, which is among the driver's files, what to describe.
        gpus: PCI addresses of the GPUs, by index; likewise nics.
        programs: The stand-ins of NVIDIA's programs.
        nvml_state: What the stub NVML keeps of the GPUs (:mod:`stub_nvml.state`): MIG mode and instances, compute mode.
    """

    root: Path
    environment: Mapping[str, str]
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    programs: InstalledPrograms
    nvml_state: Path

    def gpu_changes(self) -> list[str]:
        """What is not as it was at first: MIG mode, MIG instances and compute mode of each GPU; MPS daemons."""
        changed = {number: read_state(self.nvml_state, number) for number in range(len(self.gpus))}
        return [
            *(f"GPU {number}: {state}" for number, state in changed.items() if state != StubState()),
            *(f"{name} {process}" for process, name in self.programs.processes().items()),
        ]


def switch_of(gpu: str) -> str:
    """The PCI address of the upstream port of the switch that a GPU of :func:`make_host` shares with its NIC."""
    domain, bus, rest = gpu.split(":")
    return f"{domain}:{int(bus, 16) - 2:02x}:{rest}"


def make_host(root: Path, stub: StubNvml, *, pairs: int = 8, device_nodes: bool = True) -> FakeHost:
    """Write a host of ``pairs`` H100s, each with a ConnectX-7 under the same PCIe switch, on two NUMA nodes.

    Args:
        root: New; the host's ``/``.
        stub: The built stub library.
        device_nodes: Whether to make the nodes in ``dev`` (that needs root).
    """
    tree = dgx(root, switches=pairs, pairs=pairs)
    tree.write("module/nvidia/version", DRIVER_VERSION)
    gpus = tuple(f"0000:{0x13 + 0x10 * number:02x}:00.0" for number in range(pairs))
    nics = tuple(f"0000:{0x14 + 0x10 * number:02x}:00.0" for number in range(pairs))
    proc = root / "proc/driver/nvidia"
    proc.mkdir(parents=True, exist_ok=True)
    (proc / "version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER_VERSION}  Tue Sep 16 09:51:29 UTC 2025\n"
    )
    (root / "proc/devices").write_text(
        f"Character devices:\n{_NVIDIA} nvidia\n{_NVIDIA_CAPS} nvidia-caps\n{_NVIDIA_UVM} nvidia-uvm\n"
    )
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    for name in _LIBRARIES:
        (libraries / f"{name}.{DRIVER_VERSION}").write_bytes(f"stands for {name}\n".encode())
        (libraries / f"{name}.1").symlink_to(f"{name}.{DRIVER_VERSION}")
    shutil.copy(stub.directory / "libnvidia-ml.so.1", libraries / f"libnvidia-ml.so.{DRIVER_VERSION}")
    (libraries / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{DRIVER_VERSION}")
    programs = build_programs(stub.directory).install(root)
    if device_nodes:
        _make_device_nodes(root / "dev", pairs)
    machine = Machine(
        driver=DRIVER_VERSION,
        gpus=tuple(H100_80GB.at(n, f"0000{address}") for n, address in enumerate(gpus)),
        # Below the description's folder, wherever a process sees that.
        state="nvml-state",
        capabilities="proc/driver/nvidia/capabilities",
    )
    description = root / "nvml.txt"
    description.write_bytes(machine.description())
    environment = {"ROOTPORT_STUB_NVML": str(description)}
    return FakeHost(
        root=root, environment=environment, gpus=gpus, nics=nics, programs=programs, nvml_state=root / "nvml-state"
    )


def _make_device_nodes(dev: Path, pairs: int) -> None:
    nodes = {
        "nvidiactl": (_NVIDIA, _NVIDIA_CONTROL),
        "nvidia-uvm": (_NVIDIA_UVM, 0),
        "nvidia-uvm-tools": (_NVIDIA_UVM, 1),
        "infiniband/rdma_cm": (_MISC, 58),
    }
    for number in range(pairs):
        nodes[f"nvidia{number}"] = (_NVIDIA, number)
        nodes[f"infiniband/umad{number}"] = (_INFINIBAND, number)
        nodes[f"infiniband/issm{number}"] = (_INFINIBAND, 64 + number)
        nodes[f"infiniband/uverbs{number}"] = (_INFINIBAND, 192 + number)
    for name, (major, minor) in nodes.items():
        path = dev / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        path.chmod(0o666)
