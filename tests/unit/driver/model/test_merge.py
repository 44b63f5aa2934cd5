"""The laws of merging sysfs' inventory with NVML's GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.model.devices import Fpga, Gpu, GpuLink, LinkKind, MigSupport, RdmaNetnsMode, RdmaNic
from driver.model.inventory import Inventory, InventorySource
from driver.model.merge import merge_nvml
from driver.model.pci import PciAddress, PciePath

ADDRESSES = tuple(PciAddress(f"0000:{bus:02x}:00.0") for bus in range(16, 24))
PATH = PciePath(root="pci0000:00", root_port=PciAddress("0000:00:01.0"), numa_node=1)


def in_tree(address: PciAddress, index: int = 0, vendor: str = "nvidia") -> Gpu:
    return Gpu(address=address, pcie=PATH, index=index, vendor=vendor)


def by_nvml(address: PciAddress, index: int = 0) -> Gpu:
    return Gpu(address=address, pcie=PciePath(), index=index, uuid=f"GPU-{address}")


def inventory(*gpus: Gpu) -> Inventory:
    nic = RdmaNic(address=PciAddress("0000:30:00.0"), pcie=PATH, index=0)
    fpga = Fpga(address=PciAddress("0000:40:00.0"), pcie=PATH, index=0)
    return Inventory(
        node="n", source=InventorySource.SYSFS, gpus=gpus, nics=(nic,), fpgas=(fpga,), notes=("from sysfs",)
    )


def test_what_is_not_of_gpus_is_the_trees() -> None:
    tree = replace(inventory(), rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE)
    assert merge_nvml(tree, []) == replace(tree, source=InventorySource.LIVE)


def test_nvml_tells_the_facts_and_sysfs_the_path() -> None:
    below = replace(in_tree(ADDRESSES[0], index=5), model="GH100", minor=7)
    above = replace(by_nvml(ADDRESSES[0], index=2), model="NVIDIA H100 80GB HBM3", mig=MigSupport(enabled=True))
    (gpu,) = merge_nvml(inventory(below), [above]).gpus
    assert gpu == replace(above, pcie=PATH, minor=7)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param(False, False, id="told-as-off"),
        pytest.param(None, True, id="not-told"),
    ],
)
def test_sysfs_fills_only_what_nvml_does_not_tell(told: bool | None, expected: bool) -> None:
    below = replace(in_tree(ADDRESSES[0]), ecc_enabled=True)
    (gpu,) = merge_nvml(inventory(below), [replace(by_nvml(ADDRESSES[0]), ecc_enabled=told)]).gpus
    assert gpu.ecc_enabled is expected


def test_a_gpu_that_only_nvml_knows_is_kept_without_a_path() -> None:
    merged = merge_nvml(inventory(), [by_nvml(ADDRESSES[3])])
    assert merged.gpus == (by_nvml(ADDRESSES[3]),)
    assert merged.notes[-1].startswith("GPU 0000:13:00.0: NVML knows it, sysfs does not")


def test_an_nvidia_gpu_that_nvml_does_not_list_is_left_out_and_named() -> None:
    merged = merge_nvml(inventory(in_tree(ADDRESSES[0]), in_tree(ADDRESSES[1])), [by_nvml(ADDRESSES[0])])
    assert [gpu.address for gpu in merged.gpus] == [ADDRESSES[0]]
    assert merged.notes[-1].startswith("GPU 0000:11:00.0: left out, since sysfs has it and NVML does not list it")


def test_gpus_of_other_vendors_stay_as_sysfs_tells_but_for_the_index() -> None:
    amd = replace(
        in_tree(ADDRESSES[1], index=1, vendor="amd"), links=(GpuLink(kind=LinkKind.XGMI, peer=ADDRESSES[2], count=1),)
    )
    assert merge_nvml(inventory(amd), [by_nvml(ADDRESSES[0])]).gpus == (by_nvml(ADDRESSES[0]), amd)


def test_gpus_of_other_vendors_are_numbered_behind_nvmls_in_pci_order() -> None:
    far = PciAddress("10000:10:00.0")  # behind every domain of four digits
    tree = inventory(
        in_tree(far, 0, "amd"), in_tree(ADDRESSES[0], 1), in_tree(ADDRESSES[1], 2, "amd"), in_tree(ADDRESSES[2], 3)
    )
    merged = merge_nvml(tree, [by_nvml(ADDRESSES[0], 1), by_nvml(ADDRESSES[2], 0)])
    assert [(gpu.index, gpu.address) for gpu in merged.gpus] == [
        (0, ADDRESSES[2]),
        (1, ADDRESSES[0]),
        (2, ADDRESSES[1]),
        (3, far),
    ]


def test_nics_fpgas_name_and_notes_stay_and_the_source_is_live() -> None:
    tree = inventory(in_tree(ADDRESSES[0]))
    merged = merge_nvml(tree, [by_nvml(ADDRESSES[0])], ["from NVML"])
    assert (merged.node, merged.nics, merged.fpgas) == (tree.node, tree.nics, tree.fpgas)
    assert merged.notes == ("from sysfs", "from NVML")
    assert merged.source is InventorySource.LIVE


@given(
    st.sets(st.sampled_from(ADDRESSES)),
    st.permutations(ADDRESSES).flatmap(lambda order: st.integers(0, len(order)).map(lambda n: order[:n])),
    st.sets(st.sampled_from(ADDRESSES)),
)
def test_each_gpu_is_there_once_or_named_in_a_note(
    known: set[PciAddress], listed: list[PciAddress], amd: set[PciAddress]
) -> None:
    tree = inventory(
        *(in_tree(a, n, "amd" if a in amd else "nvidia") for n, a in enumerate(sorted(known - (amd & set(listed)))))
    )
    merged = merge_nvml(tree, [by_nvml(address, index) for index, address in enumerate(listed)])
    kept = [gpu.address for gpu in merged.gpus]
    assert len(kept) == len(set(kept))
    assert [gpu.index for gpu in merged.gpus] == sorted(gpu.index for gpu in merged.gpus)
    assert set(listed) <= set(kept)
    for gpu in tree.gpus:
        left_out = gpu.vendor == "nvidia" and gpu.address not in listed
        assert (gpu.address in kept) is not left_out
        assert any(note.startswith(f"GPU {gpu.address}: left out") for note in merged.notes) is left_out
