"""Rivals that the kubelet has forgotten, and that have not gone: for some time, and as long as pods have devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.model.devices import DeviceName
from driver.model.rivals import DEVICE_PLUGIN, DRA_DRIVER, Rival
from driver.rivals.decide import KubeletDevices
from driver.rivals.memory import RivalMemory

GPU = "nvidia.com/gpu"
OFFERED = KubeletDevices(offered={GPU: frozenset({"GPU-1", "GPU-2"})})
NOTHING = KubeletDevices()
DRIVER = Rival(name="gpu.nvidia.com", kind=DRA_DRIVER, devices=(DeviceName("gpu-1"),), message="publishes")
PLUGIN = Rival(name=GPU, kind=DEVICE_PLUGIN, devices=(DeviceName("gpu-2"),), message="there")


@pytest.fixture
def memory() -> RivalMemory:
    return RivalMemory(300)


@pytest.mark.parametrize("capacity", [{GPU: "0"}, {}])
def test_a_plugins_devices_stay_its_own_over_a_restart_of_the_kubelet(
    memory: RivalMemory, capacity: dict[str, str]
) -> None:
    memory.plugins(OFFERED, {GPU: "2"}, now=0)
    away = memory.plugins(NOTHING, capacity, now=299)
    assert (away.offered, away.away) == (OFFERED.offered, {GPU})
    back = memory.plugins(OFFERED, {GPU: "2"}, now=299.5)
    assert (back.offered, back.away) == (OFFERED.offered, frozenset())
    assert memory.plugins(NOTHING, capacity, now=599).offered == OFFERED.offered
    assert memory.plugins(NOTHING, capacity, now=600).offered == {}


def test_a_plugin_that_is_away_is_waited_for_while_the_node_has_its_resource(memory: RivalMemory) -> None:
    memory.plugins(OFFERED, {GPU: "2"}, now=0)
    assert memory.plugins(NOTHING, {GPU: "2"}, now=310).offered == OFFERED.offered
    assert memory.plugins(NOTHING, {GPU: "0"}, now=311).offered == {}


def test_what_a_plugin_offers_no_more_goes_after_the_same_time(memory: RivalMemory) -> None:
    memory.plugins(OFFERED, {GPU: "2"}, now=0)
    fewer = KubeletDevices(offered={GPU: frozenset({"GPU-1"})})
    assert memory.plugins(fewer, {GPU: "1"}, now=299).offered == OFFERED.offered
    assert memory.plugins(fewer, {GPU: "1"}, now=300).offered == fewer.offered


def test_a_driver_whose_slices_have_gone_is_remembered_and_kept_while_pods_have_its_claims(memory: RivalMemory) -> None:
    assert memory.completed([DRIVER], NOTHING, now=0) == (DRIVER,)
    used = KubeletDevices(drivers=frozenset({DRIVER.name}))
    (gone,) = memory.completed([], used, now=1000)
    assert gone.devices == DRIVER.devices
    assert "pods still have its claims" in gone.message
    assert memory.completed([DRIVER], NOTHING, now=2000) == (DRIVER,)
    (soon,) = memory.completed([], NOTHING, now=2299)
    assert "may come back" in soon.message
    assert memory.completed([], NOTHING, now=2300) == ()


def test_what_a_former_process_knew_counts_until_the_kubelet_has_answered_and_some_time(memory: RivalMemory) -> None:
    memory.note([PLUGIN], now=0)
    (known,) = memory.completed([], None, now=10000)
    assert (known.name, known.devices) == (GPU, PLUGIN.devices)
    assert "has not said yet" in known.message
    assert memory.completed([], NOTHING, now=10000) == ()
    memory.note([PLUGIN], now=10000)
    shown = replace(PLUGIN, devices=(DeviceName("gpu-1"),), message="by its name")
    (both,) = memory.completed([shown], NOTHING, now=10299)
    assert (both.devices, both.message) == (("gpu-1", "gpu-2"), "by its name")


def test_without_a_time_only_the_present_counts() -> None:
    memory = RivalMemory(0)
    assert memory.plugins(OFFERED, {}, now=1).offered == OFFERED.offered
    assert memory.plugins(NOTHING, {}, now=1).offered == {}
    assert memory.completed([DRIVER], NOTHING, now=1) == (DRIVER,)
    assert memory.completed([], NOTHING, now=2) == ()


def test_names_without_end_do_not_fill_the_memory(memory: RivalMemory) -> None:
    for number in range(3000):
        memory.plugins(KubeletDevices(offered={f"a.com/{number}": frozenset({"x"})}), {}, now=1)
        memory.note([replace(DRIVER, name=f"d{number}")], now=1)
    ids = frozenset(map(str, range(8192)))
    memory.plugins(KubeletDevices(offered={"a.com/0": ids}), {}, now=2)
    found = memory.plugins(KubeletDevices(offered={"a.com/0": frozenset(map(str, range(9000, 17000)))}), {}, now=3)
    assert len(found.offered) == 1024
    assert len(found.offered["a.com/0"]) <= 8192
    assert len(memory.completed([], NOTHING, now=3)) == 1024
