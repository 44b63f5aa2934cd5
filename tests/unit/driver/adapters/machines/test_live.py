"""The running node: a sysfs tree that the test writes and the real pynvml on the stub, in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.errors import NodeError
from driver.model.inventory import Inventory, InventorySource
from tests.support.stub_nvml import GB10, H100_80GB, Machine, StubNvml, run
from tests.support.sysfs_tree import SysfsTree, dgx

pytestmark = pytest.mark.needs_cc

DISCOVER = "driver.adapters.machines.live:discover"
Discover = Callable[[Path, Machine], Inventory]


@pytest.fixture
def discover(nvml_stub: StubNvml) -> Discover:
    def discover_node(root: Path, machine: Machine) -> Inventory:
        inventory = nvml_stub.call(machine, DISCOVER, HostRoot(root), node="n")
        assert isinstance(inventory, Inventory)
        return inventory

    return discover_node


def without_library(root: Path) -> Inventory:
    """As on a node without an NVIDIA driver, or in a container that does not see it; whatever this machine has."""
    hidden = root / "lib"
    hidden.mkdir()
    (hidden / "libnvidia-ml.so.1").write_bytes(b"no library")
    inventory = run({**os.environ, "LD_LIBRARY_PATH": str(hidden)}, DISCOVER, HostRoot(root), node="n")
    assert isinstance(inventory, Inventory)
    return inventory


def dgx_of(inventory: Inventory) -> Machine:
    """The machine whose GPUs stand where the tree has them, in the opposite order."""
    addresses = [f"0000{gpu.address.upper()}" for gpu in reversed(inventory.gpus)]
    return Machine(gpus=tuple(H100_80GB.at(number, address) for number, address in enumerate(addresses)))


def test_a_gpu_has_its_facts_and_index_from_nvml_and_its_path_from_sysfs(tmp_path: Path, discover: Discover) -> None:
    tree = sysfs.discover(HostRoot(dgx(tmp_path, switches=4).root), node="n")
    live = discover(tmp_path, dgx_of(tree))
    assert live.source is InventorySource.LIVE
    assert [gpu.address for gpu in live.gpus] == [gpu.address for gpu in reversed(tree.gpus)]
    assert [gpu.pcie for gpu in live.gpus] == [gpu.pcie for gpu in reversed(tree.gpus)]
    assert all(gpu.pcie.switch and gpu.mig and gpu.driver_version == "580.159.03" for gpu in live.gpus)
    assert [gpu.uuid for gpu in live.gpus] == [f"GPU-{n:08x}-0000-4000-8000-{n:012x}" for n in range(8)]
    assert (live.node, live.nics, live.notes) == ("n", tree.nics, tree.notes)


def test_a_lost_gpu_is_left_out_and_named_by_index_and_by_address(tmp_path: Path, discover: Discover) -> None:
    tree = sysfs.discover(HostRoot(dgx(tmp_path, switches=4).root), node="n")
    gpus = list(dgx_of(tree).gpus)
    gpus[2] = gpus[2].failing("nvmlDeviceGetHandleByIndex_v2", "NVML_ERROR_GPU_IS_LOST")
    live = discover(tmp_path, Machine(gpus=tuple(gpus)))
    lost = tree.gpus[5].address
    assert {gpu.address for gpu in tree.gpus} - {gpu.address for gpu in live.gpus} == {lost}
    assert [gpu.index for gpu in live.gpus] == [0, 1, 3, 4, 5, 6, 7]
    assert "NVML GPU 2: nvmlDeviceGetHandleByIndex: GPU is lost" in live.notes
    assert live.notes[-1].startswith(f"GPU {lost}: left out, since sysfs has it and NVML does not list it")


def test_a_gpu_that_sysfs_does_not_show_is_kept(tmp_path: Path, discover: Discover) -> None:
    live = discover(SysfsTree(tmp_path).root, Machine(gpus=(GB10,)))
    assert [gpu.address for gpu in live.gpus] == ["000f:01:00.0"]
    assert live.notes[-1].startswith("GPU 000f:01:00.0: NVML knows it, sysfs does not")


def test_without_a_driver_the_node_is_what_sysfs_tells_with_a_note(tmp_path: Path) -> None:
    tree = sysfs.discover(HostRoot(dgx(tmp_path, switches=4).root), node="n")
    live = without_library(tmp_path)
    assert live.source is InventorySource.LIVE
    assert (live.gpus, live.nics, live.fpgas) == (tree.gpus, tree.nics, tree.fpgas)
    assert live.notes[:-1] == tree.notes
    assert live.notes[-1].startswith("libnvidia-ml.so.1 not found: no NVIDIA driver here, or not mounted")


BROKEN = Machine(fail={"nvmlInitWithFlags": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"})


def test_a_broken_driver_is_an_error_where_the_node_has_nvidia_gpus(tmp_path: Path, discover: Discover) -> None:
    with pytest.raises(NodeError, match="are of different versions"):
        discover(dgx(tmp_path, switches=4).root, BROKEN)


def test_a_broken_driver_is_a_note_where_the_node_has_no_nvidia_gpu(tmp_path: Path, discover: Discover) -> None:
    tree = SysfsTree(tmp_path)
    tree.rdma_device(tree.rdma_nic(tree.host_bridge("pci0000:10"), "0000:10:01.0"), "mlx5_0", number=0)
    live = discover(tmp_path, BROKEN)
    assert [nic.rdma_device for nic in live.nics] == ["mlx5_0"]
    assert "are of different versions" in live.notes[-1]
