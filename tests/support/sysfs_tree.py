"""Writes sysfs trees of machines that nobody has at hand, file by file as Linux lays them out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT_PORT: Final = 0x4
UPSTREAM_PORT: Final = 0x5
DOWNSTREAM_PORT: Final = 0x6

NVIDIA: Final = 0x10DE
MELLANOX: Final = 0x15B3
H100: Final = 0x2330
CONNECTX_7: Final = 0x1021
CONNECTX_VF: Final = 0x101E
INTEL: Final = 0x8086
INTEL_N3000: Final = 0x0B30
# As the kernel writes them (drivers/infiniband/core/sysfs.c); other states are written as they are given.
PORT_STATES: Final = {"down": "1: DOWN", "init": "2: INIT", "armed": "3: ARMED", "active": "4: ACTIVE"}


def config_space(port_type: int | None) -> bytes:
    """256 bytes with a PCI Express capability behind a power management one, or with no capabilities at all."""
    config = bytearray(256)
    if port_type is not None:
        config[0x06] = 0x10
        config[0x34] = 0x40
        config[0x40:0x42] = bytes((0x01, 0x60))
        config[0x60:0x63] = bytes((0x10, 0x00, port_type << 4 | 0x2))
    return bytes(config)


class SysfsTree:
    """A tree under ``root``. Folders are given and returned as paths below ``root/sys``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("bus/pci/devices", "class/infiniband", "class/net", "devices"):
            self.folder(folder)

    def folder(self, path: str) -> str:
        (self.root / "sys" / path).mkdir(parents=True, exist_ok=True)
        return path

    def write(self, path: str, content: str | bytes) -> None:
        file = self.root / "sys" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())

    def link(self, path: str, target: str) -> None:
        """A relative link to another place below sys, as the kernel makes them."""
        self.folder(str(Path(path).parent))
        (self.root / "sys" / path).symlink_to(os.path.relpath(target, Path(path).parent))

    def proc(self, path: str, content: str) -> None:
        file = self.root / "proc" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def host_bridge(self, name: str, *, under: str = "devices") -> str:
        return self.folder(f"{under}/{name}")

    def function(
        self,
        under: str,
        address: str,
        *,
        class_code: int,
        vendor: int,
        device: int,
        numa_node: int = -1,
        config: bytes | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        folder = self.folder(f"{under}/{address}")
        self.write(f"{folder}/class", f"0x{class_code:06x}")
        self.write(f"{folder}/vendor", f"0x{vendor:04x}")
        self.write(f"{folder}/device", f"0x{device:04x}")
        self.write(f"{folder}/numa_node", str(numa_node))
        self.write(f"{folder}/config", config_space(None) if config is None else config)
        for name, value in (attributes or {}).items():
            self.write(f"{folder}/{name}", value)
        self.link(f"bus/pci/devices/{address}", folder)
        return folder

    def bridge(self, under: str, address: str, port_type: int | None, *, readable: bool = True) -> str:
        """A PCI-to-PCI bridge; without ``readable`` its configuration space is cut, as for a reader who is not root."""
        config = config_space(port_type)
        return self.function(
            under,
            address,
            class_code=0x060400,
            vendor=0x1000,
            device=0xC030,
            config=config if readable else config[:64],
        )

    def switch(self, under: str, upstream: str, downstream: Sequence[str], *, readable: bool = True) -> list[str]:
        """A switch; the folders of its downstream ports."""
        port = self.bridge(under, upstream, UPSTREAM_PORT, readable=readable)
        return [self.bridge(port, address, DOWNSTREAM_PORT, readable=readable) for address in downstream]

    def nvidia_gpu(
        self, under: str, address: str, *, numa_node: int = -1, device: int = H100, minor: int | None = None
    ) -> str:
        """An NVIDIA GPU; with a ``minor`` its driver is loaded and tells of it in procfs."""
        if minor is not None:
            self.proc(
                f"driver/nvidia/gpus/{address}/information",
                f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t {uuid_of(minor)}\n"
                f"Bus Type: \t PCIe\nBus Location: \t {address}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
            )
        return self.function(under, address, class_code=0x030200, vendor=NVIDIA, device=device, numa_node=numa_node)

    def rdma_nic(
        self,
        under: str,
        address: str,
        *,
        class_code: int = 0x020700,
        vendor: int = MELLANOX,
        device: int = CONNECTX_7,
        numa_node: int = -1,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """A NIC's PCI function, no driver bound."""
        return self.function(
            under,
            address,
            class_code=class_code,
            vendor=vendor,
            device=device,
            numa_node=numa_node,
            attributes=attributes,
        )

    def rdma_device(
        self,
        function: str,
        name: str,
        *,
        number: int,
        link_layer: str = "InfiniBand",
        state: str = "4: ACTIVE",
        rate: str = "400 Gb/sec (4X NDR)",
        interfaces: Sequence[str] = (),
    ) -> str:
        """What a driver makes of a NIC's function: an RDMA device of one port, its nodes and its interfaces.

        Its GUIDs and the numbers of its device nodes are made from ``number``.
        """
        folder = f"{function}/infiniband/{name}"
        guid = guid_of(number)
        self.write(f"{folder}/node_guid", guid)
        self.write(f"{folder}/node_desc", "node HCA-1")
        self.write(f"{folder}/hca_type", "MT4129")
        self.link(f"{folder}/device", function)
        self.write(f"{folder}/ports/1/link_layer", link_layer)
        self.write(f"{folder}/ports/1/state", state)
        self.write(f"{folder}/ports/1/rate", rate)
        self.write(f"{folder}/ports/1/gids/0", f"fe80:0000:0000:0000:{guid}")
        self.link(f"class/infiniband/{name}", folder)
        self.write(f"{function}/infiniband_verbs/uverbs{number}/ibdev", name)
        for kind in ("umad", "issm"):
            self.write(f"{function}/infiniband_mad/{kind}{number}/ibdev", name)
            self.write(f"{function}/infiniband_mad/{kind}{number}/port", "1")
        for interface in interfaces:
            self.write(f"{function}/net/{interface}/address", "00:00:00:00:00:00")
            self.link(f"class/net/{interface}", f"{function}/net/{interface}")
        return folder

    def port_rate(self, address: str, rate: str | None) -> None:
        """Change the rate of an RDMA NIC's port; None: its driver tells none."""
        (device,) = (self.root / "sys" / self.address_folder(address) / "infiniband").iterdir()
        file = device / "ports/1/rate"
        if rate is None:
            file.unlink()
        else:
            file.write_text(f"{rate}\n")

    def address_folder(self, address: str) -> str:
        """The folder of the PCI function with this address."""
        target = (self.root / "sys/bus/pci/devices" / address).resolve()
        return str(target.relative_to((self.root / "sys").resolve()))

    def port_state(self, address: str, state: str, *, port: int = 1) -> None:
        """The state of a port of a function's RDMA device: ``down``, ``init``, ``armed``, ``active``, or as it is."""
        folder = f"{self.address_folder(address)}/infiniband"
        (name,) = (path.name for path in (self.root / "sys" / folder).iterdir())
        self.write(f"{folder}/{name}/ports/{port}/state", PORT_STATES.get(state, state))

    def netns_mode(self, mode: str) -> None:
        """``shared`` or ``exclusive``: who sees the RDMA devices."""
        self.write("module/ib_core/parameters/netns_mode", {"shared": "Y", "exclusive": "N"}[mode])

    def hide_interfaces(self, address: str) -> None:
        """What the host sees when a function's interfaces are in a pod's network namespace."""
        folder = self.root / "sys" / self.address_folder(address) / "net"
        for interface in folder.iterdir():
            (self.root / "sys/class/net" / interface.name).unlink()
        shutil.rmtree(folder)

    def hide_rdma_device(self, address: str, *, nodes: bool = False) -> None:
        """What the host sees when a function's RDMA device is in a pod's network namespace, in exclusive mode.

        The kernel still shows the device nodes; with ``nodes`` they are gone, as while it makes them anew.
        """
        folder = self.root / "sys" / self.address_folder(address)
        for device in (folder / "infiniband").iterdir():
            (self.root / "sys/class/infiniband" / device.name).unlink()
        for gone in ("infiniband", *(("infiniband_verbs", "infiniband_mad") if nodes else ())):
            shutil.rmtree(folder / gone)

    def fpga(self, under: str, address: str, *, number: int = 0, numa_node: int = -1) -> str:
        """An Intel card with one accelerator, whose users open ``/dev/dfl-port.<number>``."""
        folder = self.function(
            under, address, class_code=0x120000, vendor=INTEL, device=INTEL_N3000, numa_node=numa_node
        )
        region = self.folder(f"{folder}/fpga_region/region{number}")
        self.folder(f"{region}/dfl-fme.{number}")
        self.folder(f"{region}/dfl-port.{number}")
        self.link(f"class/fpga_region/region{number}", region)
        return folder

    def virtual_function(self, physical: str, index: int, address: str, *, class_code: int = 0x020700) -> str:
        """VF ``index`` of a PF; it lies beside its PF."""
        folder = self.function(
            str(Path(physical).parent), address, class_code=class_code, vendor=MELLANOX, device=CONNECTX_VF
        )
        self.link(f"{folder}/physfn", physical)
        self.link(f"{physical}/virtfn{index}", folder)
        return folder


def uuid_of(minor: int) -> str:
    return f"GPU-{minor:08x}-0000-0000-0000-000000000000"


def guid_of(number: int) -> str:
    return f"0002:c903:00a1:{number + 1:04x}"


def vf_address(nic: str, index: int) -> str:
    """The PCI address of VF ``index`` of a NIC of :func:`dgx`."""
    return f"{nic.rpartition(':')[0]}:{(index + 1) // 8:02x}.{(index + 1) % 8}"


def dgx(root: Path, *, switches: int, pairs: int = 8, vfs: int = 0, readable: bool = True) -> SysfsTree:
    """A DGX-like node: pairs of GPU and NIC behind switches, each below a root complex of its own, on 2 NUMA nodes.

    GPU and NIC ``i`` share a switch. Below switch ``s`` at bus ``b`` = 0x10 + 0x10 * s are the root port ``b:01.0``,
    the upstream port ``b+1:00.0``, and for its ``k``-th pair the GPU ``b+3+2k:00.0`` and the NIC ``b+4+2k:00.0``. VFs
    are functions 1 to 7 of the NIC's device, then those of its next device (:func:`vf_address`).

    NIC ``i`` has the RDMA device ``mlx5_<i>``, the interface ``ib<i>`` and the nodes ``uverbs<i>``, ``umad<i>`` and
    ``issm<i>``; its VF ``v`` has the interface ``ib<i>v<v>`` and the number ``pairs + i * vfs + v``. A port's GUID is
    ``guid_of`` its number.
    """
    tree = SysfsTree(root)
    tree.write("module/nvidia/version", "580.95.05")
    per_switch = pairs // switches
    for switch in range(switches):
        bus, numa_node = 0x10 + 0x10 * switch, 2 * switch // switches
        bridge = tree.host_bridge(f"pci0000:{bus:02x}")
        root_port = tree.bridge(bridge, f"0000:{bus:02x}:01.0", ROOT_PORT, readable=readable)
        downstream = tree.switch(
            root_port,
            f"0000:{bus + 1:02x}:00.0",
            [f"0000:{bus + 2:02x}:{slot:02x}.0" for slot in range(2 * per_switch)],
            readable=readable,
        )
        for pair in range(per_switch):
            number = switch * per_switch + pair
            gpu_bus, nic_bus = bus + 3 + 2 * pair, bus + 4 + 2 * pair
            tree.nvidia_gpu(downstream[2 * pair], f"0000:{gpu_bus:02x}:00.0", numa_node=numa_node, minor=number)
            nic = tree.rdma_nic(
                downstream[2 * pair + 1],
                f"0000:{nic_bus:02x}:00.0",
                numa_node=numa_node,
                attributes={"sriov_totalvfs": "16"},
            )
            tree.rdma_device(nic, f"mlx5_{number}", number=number, interfaces=[f"ib{number}"])
            for vf in range(vfs):
                address = vf_address(f"0000:{nic_bus:02x}:00.0", vf)
                virtual = tree.virtual_function(nic, vf, address)
                vf_number = pairs + number * vfs + vf
                tree.rdma_device(virtual, f"mlx5_{vf_number}", number=vf_number, interfaces=[f"ib{number}v{vf}"])
    return tree
