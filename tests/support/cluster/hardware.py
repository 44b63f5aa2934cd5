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

from tests.support.stub_nvidia import InstalledPrograms
from tests.support.stub_nvidia import build as build_programs
from tests.support.stub_nvml import Machine, StubNvml, StubState, inject_xid, read_state, set_live
from tests.support.stub_nvml.parts import H100_80GB
from tests.support.sysfs_tree import DOWNSTREAM_PORT, SysfsTree, dgx, vf_address

__all__ = ["DRIVER_VERSION", "VFS", "FakeHost", "VfNic", "make_host", "switch_of"]

DRIVER_VERSION: Final = "580.95.05"
# Linux, Documentation/admin-guide/devices.txt; nvidia-uvm, nvidia-caps, rdma_cm and dfl get theirs at run time.
_NVIDIA, _NVIDIA_CONTROL, _NVIDIA_UVM, _NVIDIA_CAPS, _INFINIBAND, _MISC, _DFL = 195, 255, 510, 237, 231, 10, 511
VFS: Final = 4
"""Of each NIC that has VFs."""
_CONNECTX_6_DX: Final = 0x101D
_ETHERNET: Final = 0x020000
_LIBRARIES: Final = ("libcuda.so", "libnvidia-ptxjitcompiler.so", "libcudadebugger.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class VfNic:
    """A RoCE NIC that is given by its virtual functions.

    Attributes:
        address: The PF's PCI address.
        vfs: The PCI addresses of its VFs, by index.
        interfaces: The VFs' network interfaces, by index. A test makes them (veths); sysfs names them always.
        verbs: N of the VFs' ``/dev/infiniband/uverbsN``, by index, likewise of their umad and issm nodes; ``mlx5_N`` is
            their RDMA device.
    """

    address: str
    vfs: tuple[str, ...]
    interfaces: tuple[str, ...]
    verbs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeHost:
    """A host that looks like a DGX to Rootport.

    Attributes:
        root: What to give as ``--host-root`` and ``--device-root``.
        environment: The variable that tells the stub NVML, which is among the driver's files, what to describe.
        gpus: PCI addresses of the GPUs, by index; likewise nics.
        programs: The stand-ins of NVIDIA's programs.
        nvml_state: What the stub NVML keeps of the GPUs (``stub_nvml/state.py``): MIG mode and instances, compute mode;
            and what happens to them: errors, readings.
        vf_nics: NICs with VFs, beside the ones in ``nics``: under the switches of the first GPU and of the last.
        second_nic: The PCI address of one more NIC, under the switch of GPU 3; None without further cards.
        fpga: The PCI address of an FPGA; None likewise.
        tree: The sysfs tree, for tests that change it.
    """

    root: Path
    environment: Mapping[str, str]
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    programs: InstalledPrograms
    nvml_state: Path
    vf_nics: tuple[VfNic, ...]
    second_nic: str | None
    fpga: str | None
    tree: SysfsTree

    def inject_xid(self, gpu_index: int, xid: int) -> None:
        """Let NVIDIA's driver report an error of a GPU to all who listen by now."""
        inject_xid(self.nvml_state, gpu_index, xid)

    def set_live(self, gpu_index: int, **facts: int | str | None) -> None:
        """Change what NVML tells of a GPU from now on, such as ``recovery_action=1`` (:func:`stub_nvml.set_live`)."""
        set_live(self.nvml_state, gpu_index, **facts)

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


def make_host(
    root: Path, stub: StubNvml, *, pairs: int = 8, device_nodes: bool = True, more_cards: bool = False
) -> FakeHost:
    """Write a host of ``pairs`` H100s, each with a ConnectX-7 under the same PCIe switch, on two NUMA nodes.

    Args:
        root: New; the host's ``/``.
        stub: The built stub library.
        device_nodes: Whether to make the nodes in ``dev`` (that needs root).
        more_cards: Whether it has NICs with VFs, one more NIC and an FPGA as well; for 8 pairs.
    """
    tree = dgx(root, switches=pairs, pairs=pairs)
    tree.write("module/nvidia/version", DRIVER_VERSION)
    gpus = tuple(f"0000:{0x13 + 0x10 * number:02x}:00.0" for number in range(pairs))
    nics = tuple(f"0000:{0x14 + 0x10 * number:02x}:00.0" for number in range(pairs))
    tree.netns_mode("shared")
    cards = _MoreCards(tree, first_number=pairs)
    vf_nics = (cards.vf_nic(gpus[0], 0), cards.vf_nic(gpus[-1], 1)) if more_cards else ()
    second_nic = cards.nic(gpus[3]) if more_cards else None
    fpga = cards.fpga(gpus[5]) if more_cards else None
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
        _make_device_nodes(root / "dev", gpus=pairs, rdma_devices=cards.next_number, fpgas=int(more_cards))
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
        root=root,
        environment=environment,
        gpus=gpus,
        nics=nics,
        programs=programs,
        nvml_state=root / "nvml-state",
        vf_nics=vf_nics,
        second_nic=second_nic,
        fpga=fpga,
        tree=tree,
    )


class _MoreCards:
    """Puts cards under the switches of GPUs; RDMA devices and their nodes are numbered from ``first_number``."""

    def __init__(self, tree: SysfsTree, *, first_number: int) -> None:
        self._tree = tree
        self.next_number = first_number

    def vf_nic(self, gpu: str, which: int) -> VfNic:
        """A NIC with VFs; ``which`` makes the names of its interfaces."""
        port, bus = self._slot(gpu, 2)
        address, numa_node = f"0000:{bus:02x}:00.0", self._numa_node(gpu)
        attributes = {"sriov_totalvfs": "8"}
        nic = self._tree.rdma_nic(
            port,
            address,
            class_code=_ETHERNET,
            device=_CONNECTX_6_DX,
            numa_node=numa_node,
            attributes=attributes,
        )
        self._rdma_device(nic, f"roce{which}")
        vfs, interfaces, verbs = [], [], []
        for index in range(VFS):
            vfs.append(vf_address(address, index))
            interfaces.append(f"roce{which}v{index}")
            virtual = self._tree.virtual_function(nic, index, vfs[-1], class_code=_ETHERNET)
            self._tree.write(f"{virtual}/numa_node", str(numa_node))
            verbs.append(self._rdma_device(virtual, interfaces[-1]))
        return VfNic(address=address, vfs=tuple(vfs), interfaces=tuple(interfaces), verbs=tuple(verbs))

    def nic(self, gpu: str) -> str:
        port, bus = self._slot(gpu, 3)
        address = f"0000:{bus:02x}:00.0"
        nic = self._tree.rdma_nic(
            port, address, class_code=_ETHERNET, device=_CONNECTX_6_DX, numa_node=self._numa_node(gpu)
        )
        self._rdma_device(nic, "roce2")
        return address

    def fpga(self, gpu: str) -> str:
        port, bus = self._slot(gpu, 4)
        self._tree.fpga(port, f"0000:{bus:02x}:00.0", numa_node=self._numa_node(gpu))
        return f"0000:{bus:02x}:00.0"

    def _slot(self, gpu: str, slot: int) -> tuple[str, int]:
        """A further downstream port of the switch of a GPU, and the number of the bus behind it."""
        upstream = switch_of(gpu)
        switch_bus = int(upstream.split(":")[1], 16)
        address = f"0000:{switch_bus + 1:02x}:{slot:02x}.0"
        port = self._tree.bridge(self._tree.address_folder(upstream), address, DOWNSTREAM_PORT)
        return port, switch_bus + 2 + slot

    def _numa_node(self, gpu: str) -> int:
        return int((self._tree.root / "sys/bus/pci/devices" / gpu / "numa_node").read_text())

    def _rdma_device(self, function: str, interface: str) -> int:
        number = self.next_number
        self.next_number += 1
        self._tree.rdma_device(
            function,
            f"mlx5_{number}",
            number=number,
            link_layer="Ethernet",
            rate="100 Gb/sec (4X EDR)",
            interfaces=[interface],
        )
        return number


def _make_device_nodes(dev: Path, *, gpus: int, rdma_devices: int, fpgas: int) -> None:
    nodes = {
        "nvidiactl": (_NVIDIA, _NVIDIA_CONTROL),
        "nvidia-uvm": (_NVIDIA_UVM, 0),
        "nvidia-uvm-tools": (_NVIDIA_UVM, 1),
        "infiniband/rdma_cm": (_MISC, 58),
    }
    for number in range(gpus):
        nodes[f"nvidia{number}"] = (_NVIDIA, number)
    for number in range(fpgas):
        nodes[f"dfl-port.{number}"] = (_DFL, number)
    for number in range(rdma_devices):
        nodes[f"infiniband/umad{number}"] = (_INFINIBAND, number)
        nodes[f"infiniband/issm{number}"] = (_INFINIBAND, 64 + number)
        nodes[f"infiniband/uverbs{number}"] = (_INFINIBAND, 192 + number)
    for name, (major, minor) in nodes.items():
        path = dev / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        path.chmod(0o666)
