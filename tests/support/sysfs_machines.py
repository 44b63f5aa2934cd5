"""Sysfs trees of two real machines, with what discovery reads of them.

The facts are from copies of /sys that hwloc publishes (https://github.com/open-mpi/hwloc, tests/hwloc/linux/ at
3b37b024a); ``test_machine_descriptions.py`` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.support.sysfs_tree import ROOT_PORT, SysfsTree, config_space

__all__ = ["SYSFS_MACHINES", "gb10", "xeon"]

# Host bridge -> place, class and PCI id of each function; two spaces deeper is what is below a port.
_XEON: Final = {
    "pci0000:00": """
        00:00.0 060000 8086:3407
        00:03.0 060400 8086:340a
          01:00.0 010400 1000:0079
        00:05.0 060400 8086:340c
          02:00.0 020000 14e4:1639
          02:00.1 020000 14e4:1639
        00:06.0 060400 8086:340d
          03:00.0 020000 14e4:1639
          03:00.1 020000 14e4:1639
        00:07.0 060400 8086:340e
        00:08.0 060400 8086:340f
        00:09.0 060400 8086:3410
        00:0a.0 060400 8086:3411
        00:14.0 080000 8086:342e
        00:14.1 080000 8086:3422
        00:14.2 080000 8086:3423
        00:1a.0 0c0300 8086:3a37
        00:1a.1 0c0300 8086:3a38
        00:1a.7 0c0320 8086:3a3c
        00:1c.0 060400 8086:3a40
        00:1d.0 0c0300 8086:3a34
        00:1d.1 0c0300 8086:3a35
        00:1d.2 0c0300 8086:3a36
        00:1d.7 0c0320 8086:3a3a
        00:1e.0 060401 8086:244e
          09:03.0 030000 102b:0532
        00:1f.0 060100 8086:3a18
        00:1f.2 01018f 8086:3a20
    """,
    "pci0000:40": """
        40:01.0 060400 8086:3408
        40:03.0 060400 8086:340a
          43:00.0 0c0600 1077:7322
        40:05.0 060400 8086:340c
        40:07.0 060400 8086:340e
        40:09.0 060400 8086:3410
        40:14.0 080000 8086:342e
        40:14.1 080000 8086:3422
        40:14.2 080000 8086:3423
    """,
}
_HCA: Final = "0000:43:00.0"


def xeon(root: Path) -> None:
    """A Xeon of 4 NUMA nodes and 2 PCI host bridges, with a QLogic InfiniBand HCA (qib0) and a Matrox VGA controller.

    The configuration space of each function is cut to 64 bytes, as a reader without root's rights gets it, and
    ``class/infiniband_verbs`` and ``class/infiniband_mad`` are missing, while the folders below the function are there.
    """
    tree = SysfsTree(root)
    for bridge, functions in _XEON.items():
        above = [tree.host_bridge(bridge)]
        for line in functions.strip("\n ").split("\n"):
            depth = 1 if line.startswith(" " * 10) else 0
            place, class_code, pci_id = line.split()
            address = f"0000:{place}"
            vendor, device = (int(number, 16) for number in pci_id.split(":"))
            folder = tree.function(
                above[depth],
                address,
                class_code=int(class_code, 16),
                vendor=vendor,
                device=device,
                numa_node=2 if address == _HCA else -1,
                config=config_space(ROOT_PORT)[:64],
            )
            if depth == 0:
                above[1:] = [folder]
    device_folder = tree.rdma_device(
        tree.address_folder(_HCA), "qib0", number=0, rate="40 Gb/sec (4X QDR)", interfaces=["ib0"]
    )
    tree.write(f"{device_folder}/hca_type", "InfiniPath_QLE7340")
    tree.write(f"{device_folder}/node_guid", "0011:7500:0077:cfc8")
    tree.write(f"{device_folder}/ports/1/gids/0", "fe80:0000:0000:0000:0011:7500:0077:cfc8")


def gb10(root: Path) -> None:
    """An NVIDIA DGX GB10 (arm64); its copy of /sys was made without PCI devices."""
    for folder in ("bus/cpu/devices", "bus/node/devices", "bus/soc/devices", "class/dmi", "devices/system"):
        (root / "sys" / folder).mkdir(parents=True)
    (root / "proc").mkdir()


SYSFS_MACHINES: Final[Mapping[str, Callable[[Path], None]]] = {
    "hwloc-40intel64-2g2n4c+pcilocality": xeon,
    "hwloc-nvidia-dgx-gb10": gb10,
}
"""By the name of hwloc's archive: what writes the machine's tree below a folder."""
