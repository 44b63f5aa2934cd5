"""What fits together of a GPU's devices, the first ones first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicy
from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName
from driver.model.inventory import InventorySource
from driver.modes.free_node import free_node
from driver.modes.gpu import fitting, known_modes, modes_in_order
from driver.modes.rule import Layout
from driver.modes.supply import InventoryGpus
from tests.support.machines import node
from tests.support.mig_machines import H100, mig_gpu

MODES = known_modes(mig_gpu("1b", H100), GpuPolicy())


def named(*texts: str) -> list[DeviceName]:
    bus = MODES.gpu.removeprefix("gpu-")
    return [DeviceName(f"{text}-{bus}" if text.startswith("gpu") else f"mig-{bus}-{text}") for text in texts]


def test_the_first_of_what_excludes_each_other_is_kept() -> None:
    names = named("3g-40gb-4", "1g-10gb-5", "1g-10gb-0", "gpu")
    assert fitting(MODES, names) == {*named("3g-40gb-4", "1g-10gb-0")}
    assert fitting(MODES, names, named("1g-10gb-5")) == {*named("1g-10gb-5", "1g-10gb-0")}
    assert fitting(MODES, names, named("gpu-ratio")) == set()


def test_what_the_policies_do_not_offer_is_passed_over() -> None:
    only_whole = known_modes(mig_gpu("1b", H100), GpuPolicy(modes=("gpu",)))
    assert fitting(only_whole, named("1g-10gb-0", "gpu")) == {*named("gpu")}


def test_equal_gpus_share_one_answer() -> None:
    assert known_modes(mig_gpu("1b", H100, uuid="GPU-1"), GpuPolicy()) is known_modes(
        mig_gpu("1b", H100, uuid="GPU-2"), GpuPolicy()
    )


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (InventorySource.SYSFS, ["gpu-0000-1b-00-0"]),
        (InventorySource.NCCL_TOPOLOGY, ["gpu-0000-1b-00-0", "gpu-0000-43-00-0"]),
    ],
)
def test_a_gpu_without_device_nodes_is_left_out_where_the_source_names_them(
    source: InventorySource, left: list[str]
) -> None:
    inventory = replace(node(mig_gpu("1b", H100), mig_gpu("43", H100, minor=None)), source=source)
    assert [modes.gpu for modes in modes_in_order(inventory, DEFAULT_POLICIES)] == left
    supply = InventoryGpus(inventory=inventory, policies=DEFAULT_POLICIES, nic_policies=DEFAULT_NIC_POLICIES)
    assert [modes.gpu for modes in supply.gpus] == left
    slices = resource_slices(inventory)
    names = [device.name for item in slices for device in item.spec.devices]
    assert [name for name in names if name.startswith("gpu-0000")] == left


def test_the_gpu_that_is_published_in_all_modes_ahead_of_demand_has_device_nodes() -> None:
    inventory = node(mig_gpu("1b", H100), mig_gpu("43", H100), mig_gpu("52", H100, minor=None))
    only = free_node(Layout.LEAN, inventory, DEFAULT_POLICIES)
    names = [device.name for item in resource_slices(inventory, only=only) for device in item.spec.devices]
    assert {name[:16] for name in names if name.startswith("mig-")} == {"mig-0000-43-00-0"}
