"""Devices that went missing are unhealthy; what could not be looked at is unknown."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.model.devices import DeviceName
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory
from driver.model.parts import vf_pool
from kubeletplugin.health.pod_status import DevicesHealth
from tests.support.sysfs_tree import dgx

GPU = "gpu-0000-13-00-0"
HEALTHY = {GPU: True, "gpu-0000-23-00-0": True, "rdma-0000-14-00-0": True, "rdma-0000-24-00-0": True}


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    return sysfs.discover(HostRoot(dgx(tmp_path_factory.mktemp("host"), switches=2, pairs=2).root), node="n")


def states(health: DevicesHealth) -> dict[str, bool | None]:
    assert {item.pool for item in health.current()} == {"n"}
    return {item.device: item.healthy for item in health.current()}


def test_every_usable_device_is_healthy(inventory: Inventory) -> None:
    health = DevicesHealth("n")
    health.update(inventory, certain=True)
    assert states(health) == HEALTHY


def test_a_device_that_went_missing_is_unhealthy_and_says_so(inventory: Inventory) -> None:
    health = DevicesHealth("n")
    health.update(inventory, certain=True)
    health.update(replace(inventory, gpus=inventory.gpus[1:]), certain=True)
    assert states(health) == HEALTHY | {GPU: False}
    (missing,) = (item for item in health.current() if not item.healthy)
    assert "no longer found" in missing.message
    health.update(inventory, certain=True)
    assert states(health) == HEALTHY


def test_a_device_without_its_node_is_unhealthy_once_it_was_offered(inventory: Inventory) -> None:
    bare = replace(inventory, gpus=(replace(inventory.gpus[0], minor=None), *inventory.gpus[1:]))
    health = DevicesHealth("n")
    health.update(bare, certain=True)
    assert GPU not in states(health)
    health.update(inventory, certain=True)
    health.update(bare, certain=True)
    assert states(health)[GPU] is False


def test_a_device_that_a_claim_holds_is_told_of_even_if_this_process_never_saw_it(inventory: Inventory) -> None:
    health = DevicesHealth("n", held=lambda: ["gpu-0000-99-00-0", GPU])
    health.update(inventory, certain=True)
    assert states(health) == HEALTHY | {"gpu-0000-99-00-0": False}


@pytest.mark.parametrize("known", [True, False], ids=["seen-before", "never-seen"])
def test_what_could_not_be_looked_at_is_unknown(inventory: Inventory, known: bool) -> None:
    health = DevicesHealth("n", held=lambda: [GPU])
    health.update(inventory if known else None, certain=False)
    assert set(states(health).values()) == {None}


def test_a_change_wakes_who_waits_and_no_change_does_not(inventory: Inventory) -> None:
    health = DevicesHealth("n")
    health.update(inventory, certain=True)
    version = health.version()
    health.update(inventory, certain=True)
    assert health.wait(version, 0.01) == version
    waiter = threading.Thread(target=health.wait, args=(version, 30))
    waiter.start()
    health.update(replace(inventory, nics=()), certain=True)
    waiter.join(5)
    assert not waiter.is_alive()
    assert health.version() == version + 1


def test_a_part_of_a_gpu_that_a_claim_holds_is_as_well_as_its_gpu(inventory: Inventory) -> None:
    gpu = replace(inventory.gpus[0], memory_bytes=1 << 30)
    health = DevicesHealth("n", held=lambda: ["gpu-ratio-0000-13-00-0"])
    health.update(replace(inventory, gpus=(gpu, *inventory.gpus[1:])), certain=True)
    assert states(health) == HEALTHY | {"gpu-ratio-0000-13-00-0": True}
    health.update(replace(inventory, gpus=inventory.gpus[1:]), certain=True)
    assert states(health)["gpu-ratio-0000-13-00-0"] is False


def fault(device: str, effect: Effect = Effect.NO_SCHEDULE) -> NodeHealth:
    found = Fault(
        device=DeviceName(device),
        reason="Xid48",
        effect=effect,
        since=datetime(2026, 3, 1, tzinfo=UTC),
        message="reset it",
    )
    return NodeHealth(faults=(found,))


@pytest.mark.parametrize("certain", [True, False], ids=["looked-at", "not-looked-at"])
def test_a_fault_makes_a_device_and_its_parts_unhealthy_and_says_why(inventory: Inventory, certain: bool) -> None:
    gpu = replace(inventory.gpus[0], memory_bytes=1 << 30)
    health = DevicesHealth("n", held=lambda: ["gpu-ratio-0000-13-00-0"])
    health.update(replace(inventory, gpus=(gpu, *inventory.gpus[1:])), certain=certain)
    version = health.version()
    health.update_health(fault(GPU))
    health.update_health(fault(GPU))
    assert health.version() == version + 1
    unhealthy = {item.device: item.message for item in health.current() if item.healthy is False}
    assert unhealthy == dict.fromkeys([GPU, "gpu-ratio-0000-13-00-0"], "Xid48: reset it")
    health.update_health(NodeHealth())
    assert False not in states(health).values()


def test_a_fault_that_keeps_nobody_away_leaves_a_device_healthy(inventory: Inventory) -> None:
    health = DevicesHealth("n")
    health.update(inventory, certain=True)
    health.update_health(fault(GPU, Effect.NONE))
    assert states(health) == HEALTHY


def test_a_virtual_function_is_as_well_as_its_nic(tmp_path: Path) -> None:
    node = sysfs.discover(HostRoot(dgx(tmp_path, switches=1, pairs=2, vfs=2).root), node="n")
    pool = vf_pool(node.nics[0])
    assert pool is not None
    health = DevicesHealth("n", held=lambda: [pool.name])
    health.update(node, certain=True)
    health.update_health(fault(node.nics[0].name))
    unhealthy = {item.device for item in health.current() if item.healthy is False}
    assert unhealthy == {node.nics[0].name, pool.name, *(vf.name for vf in node.nics[0].vfs)}
