"""How many NICs go with the GPUs of a machine, one for each switch that has some of them."""

from __future__ import annotations

import pytest

from driver.adapters.machines.topology import read_topology
from driver.errors import InputError
from driver.model.inventory import Inventory
from driver.pairs import Scope, nics_per_place
from tests.support.machines import gpu, nic, node
from tests.support.topologies import machine_file


def machine(*gpus: int, without_nic: int = 0) -> Inventory:
    """Switches with so many GPUs each, and a NIC, save the last ones."""
    devices = []
    for switch, count in enumerate(gpus):
        devices += [gpu(f"{16 * switch + number + 16:02x}", switch % 2, f"f{switch}") for number in range(count)]
        if switch < len(gpus) - without_nic:
            devices.append(nic(f"{16 * switch + 31:02x}", switch % 2, f"f{switch}"))
    return node(*devices)


@pytest.mark.parametrize(
    ("gpus", "of", "nics"),
    [
        ((2, 2, 2, 2), 8, 4),
        ((2, 2, 2, 2), 4, 2),
        ((2, 2, 2, 2), 2, 1),
        ((2, 2, 2, 2), 1, 1),
        ((2, 2, 2, 2), 3, 3),
        ((4, 4), 8, 2),
        ((4, 4), 6, 2),
        ((8,), 8, 1),
        ((1,) * 8, 8, 8),
        ((4, 2), 4, 1),
    ],
)
def test_as_few_switches_as_can_have_the_gpus(gpus: tuple[int, ...], of: int, nics: int) -> None:
    assert nics_per_place([machine(*gpus)], of, Scope.SWITCH) == nics


def test_every_machine_has_to_have_room() -> None:
    assert nics_per_place([machine(4, 4, 4, 4), machine(2, 2, 2, 2)], 8, Scope.SWITCH) == 4


def test_a_real_machine_with_a_nic_a_gpu() -> None:
    assert nics_per_place([read_topology(machine_file("azure-nd-h100-v5"))], 8, Scope.SWITCH) == 8


@pytest.mark.parametrize(
    ("inventory", "of", "says"),
    [
        (machine(2, 2, without_nic=1), 4, "have 2 GPUs"),
        (machine(4, 2), 6, "have 4, 2 GPUs"),
        (machine(2, without_nic=1), 2, "no PCIe switch is known to have a GPU and an RDMA NIC"),
    ],
)
def test_what_the_machine_does_not_have_is_told(inventory: Inventory, of: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        nics_per_place([inventory], of, Scope.SWITCH)
