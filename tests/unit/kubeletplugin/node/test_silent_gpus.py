"""A GPU that NVML tells nothing of any more stays what it was, and takes nothing from the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.model.inventory import Inventory
from kubeletplugin.node.silent_gpus import silent_gpus, with_silent, without_silent
from tests.support.sysfs_tree import dgx


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    return sysfs.discover(HostRoot(dgx(tmp_path_factory.mktemp("host"), switches=1, pairs=3).root), node="n")


def test_a_gpu_that_nvml_lists_is_not_silent(node: Inventory) -> None:
    assert silent_gpus(node, node.gpus) == ()
    assert [gpu.address for gpu in silent_gpus(node, node.gpus[1:])] == [node.gpus[0].address]


def test_a_gpu_that_nvml_cannot_name_is_silent(node: Inventory) -> None:
    told = (replace(node.gpus[0], uuid=None), *node.gpus[1:])
    silent = silent_gpus(node, told)
    assert [gpu.address for gpu in silent] == [node.gpus[0].address]
    assert without_silent(node, silent).gpus == node.gpus[1:]


def test_a_gpu_without_nvidias_driver_is_gone(node: Inventory) -> None:
    tree = replace(node, gpus=(replace(node.gpus[0], minor=None), *node.gpus[1:]))  # bound to vfio-pci
    assert silent_gpus(tree, node.gpus[1:]) == ()


def test_what_was_known_stays(node: Inventory) -> None:
    silent = silent_gpus(node, node.gpus[:2])
    now = replace(node, gpus=node.gpus[:2])
    assert with_silent(now, silent, node) == node
    assert with_silent(now, (), node) == now


def test_an_index_that_another_gpu_has_by_now_is_that_gpus(node: Inventory) -> None:
    silent = silent_gpus(node, node.gpus[1:])
    now = replace(node, gpus=tuple(replace(gpu, index=gpu.index - 1) for gpu in node.gpus[1:]))
    found = with_silent(now, silent, node)
    assert [(gpu.address, gpu.index) for gpu in found.gpus] == [
        (gpu.address, index) for index, gpu in enumerate((*node.gpus[1:], node.gpus[0]))
    ]


def test_a_gpu_that_was_never_seen_is_listed_and_cannot_be_given(node: Inventory) -> None:
    found = with_silent(replace(node, gpus=node.gpus[1:]), silent_gpus(node, node.gpus[1:]), None)
    assert {gpu.address: gpu.device_nodes_known for gpu in found.gpus} == {
        gpu.address: gpu is not node.gpus[0] for gpu in node.gpus
    }


def test_its_notes_say_that_it_is_kept(node: Inventory) -> None:
    address = node.gpus[0].address
    found = replace(node, notes=(f"GPU {address}: left out, since", "another"))
    notes = without_silent(found, node.gpus[:1]).notes
    assert notes == ("another", f"GPU {address}: NVML tells nothing of it; what was known of it before stays")
