"""Data Direct functions of NICs in NCCL's files, where they are NICs of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.machines.topology import read_topology
from driver.model.distance import Level, distance
from driver.model.inventory import Inventory

NIC = """<pci busid="0002:01:00.0" class="0x020700" vendor="0x15b3" device="0x1023"><nic>
  <net name="mlx5_0" dev="0" port="1" speed="800000" guid="0x1"/></nic></pci>"""
FILE = """<system version="1"><cpu numaid="0">
{nic}
<pci busid="0009:01:00.0" class="0x060400">
  <pci busid="0009:03:00.0" class="0x080000" vendor="0x15b3" device="0x2100"><nic>
    <net name="mlx5_0_dma" dev="1" port="1" speed="800000" guid="0x1"/></nic></pci>
  <pci busid="0009:04:00.0" class="0x060400">
    <pci busid="0009:06:00.0" class="0x030200"><gpu dev="0" sm="103"/></pci>
  </pci>
</pci>
</cpu></system>
"""


def read(tmp_path: Path, nic: str) -> Inventory:
    path = tmp_path / "topo.xml"
    path.write_text(FILE.format(nic=nic))
    return read_topology(path)


def test_the_function_is_a_second_path_of_its_nic(tmp_path: Path) -> None:
    inventory = read(tmp_path, NIC)
    (nic,) = inventory.nics
    assert (nic.address, nic.rdma_device, nic.index) == ("0002:01:00.0", "mlx5_0", 0)
    assert nic.pcie.direct is not None
    assert (nic.pcie.direct.address, nic.pcie.direct.switches) == ("0009:03:00.0", ("0009:01:00.0",))
    assert distance(inventory, inventory.gpus[0].address, nic.address).level is Level.PIX


def test_where_the_file_has_the_function_alone_it_is_the_nic_with_a_note(tmp_path: Path) -> None:
    inventory = read(tmp_path, "")
    (nic,) = inventory.nics
    assert (nic.address, nic.rdma_device, nic.pcie.direct) == ("0009:03:00.0", "mlx5_0", None)
    assert any("Data Direct function 0009:03:00.0 alone" in note for note in inventory.notes)


@pytest.mark.parametrize("name", ["mlx5_dma_0", "dma"])
def test_other_names_are_nics_of_their_own(tmp_path: Path, name: str) -> None:
    assert len(read(tmp_path, NIC.replace("mlx5_0", name)).nics) == 2
