"""What is known of rivals, also over a plugin that is away and a kubelet that does not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.model.rivals import DEVICE_PLUGIN, Rival
from driver.rivals.decide import KubeletDevices, PublishedSlice, _Attribute, _Device, _Spec
from kubeletplugin.publish.conditions import ConditionReports, ConditionStatus, ConditionType
from kubeletplugin.publish.rival_checks import RivalChecks
from tests.support.machines import gpu, nic, node

UUID = "GPU-00000000-1111-2222-3333-444455556666"
NODE = node(replace(gpu("10"), vendor="nvidia", uuid=UUID), replace(gpu("11"), vendor="nvidia"), nic("20"), name="n")
OFFERED = KubeletDevices(offered={"nvidia.com/gpu": frozenset({UUID})})


class World:
    def __init__(self) -> None:
        self.inventory: Inventory | None = NODE
        self.kubelet: KubeletDevices | None = KubeletDevices()
        self.held: list[str] = []
        self.changes = 0
        self.now = 0.0
        self.reports = ConditionReports(lambda: None)
        self.checks = RivalChecks(
            inventory=lambda: self.inventory,
            kubelet=lambda: self.kubelet,
            held=lambda: self.held,
            tolerated=("openshift.io/*",),
            hold_s=300,
            reports=self.reports,
            on_change=self._changed,
            clock=lambda: self.now,
        )

    def _changed(self) -> None:
        self.changes += 1

    def devices(self) -> list[str]:
        return [name for rival in self.checks.rivals() or () for name in rival.devices]

    def reason(self) -> str:
        return self.reports._latest[ConditionType.NO_RIVAL_PLUGIN].reason


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_known_before_the_api_server_was_asked_and_the_devices_were_discovered(world: World) -> None:
    world.checks.check()
    assert world.checks.rivals() is None
    world.inventory = None
    world.checks.take({}, [])
    assert world.checks.rivals() is None
    world.inventory = NODE
    world.checks.check()
    assert (world.checks.rivals(), world.changes, world.reason()) == ((), 1, "NoRival")


def test_the_kubelets_word_counts_at_once_and_only_a_change_is_told_on(world: World) -> None:
    world.checks.take({}, [])
    world.kubelet = OFFERED
    for _ in range(3):
        world.checks.check()
    assert (world.devices(), world.changes, world.reason()) == (["gpu-0000-10-00-0"], 2, "RivalPlugin")
    world.held = ["gpu-0000-10-00-0"]
    world.checks.check()
    assert (world.changes, world.reason()) == (2, "DevicesGivenTwice")


def test_while_a_plugin_is_away_its_devices_stay_its_own(world: World) -> None:
    world.kubelet = OFFERED
    world.checks.take({"nvidia.com/gpu": "1"}, [])
    world.kubelet = KubeletDevices()
    world.checks.check()
    assert world.devices() == ["gpu-0000-10-00-0"]
    # A kubelet that restarts writes 0 until the plugin has registered again.
    world.checks.take({"nvidia.com/gpu": "0"}, [])
    assert world.devices() == ["gpu-0000-10-00-0"]
    world.now = 300
    world.checks.check()
    assert world.devices() == []


def test_a_kubelet_that_does_not_answer_changes_nothing(world: World) -> None:
    world.kubelet = OFFERED
    world.checks.take({}, [])
    world.kubelet = None
    world.checks.check()
    assert world.devices() == ["gpu-0000-10-00-0"]


def test_who_is_tolerated_is_none(world: World) -> None:
    world.checks.take({"openshift.io/storage": "4"}, [])
    assert world.checks.rivals() == ()
    world.checks.take({"intel.com/storage": "4"}, [])
    assert world.devices() == ["rdma-0000-20-00-0"]


def test_a_driver_that_unregisters_keeps_what_its_pods_have(world: World) -> None:
    attribute = _Attribute(string_value="0000:10:00.0")
    device = _Device(attributes={"resource.kubernetes.io/pciBusID": attribute})
    world.checks.take({}, [PublishedSlice(spec=_Spec(driver="gpu.nvidia.com", devices=(device,)))])
    world.kubelet = KubeletDevices(drivers=frozenset({"gpu.nvidia.com"}))
    world.now = 1000
    world.checks.take({}, [])
    assert world.devices() == ["gpu-0000-10-00-0"]
    world.kubelet = KubeletDevices()
    world.checks.check()
    assert world.devices() == []


FORMER = Rival(name="nvidia.com/gpu", kind=DEVICE_PLUGIN, devices=(DeviceName("gpu-0000-11-00-0"),), message="there")


def test_a_restart_while_the_kubelet_is_silent_forgets_no_rival(world: World) -> None:
    world.kubelet = None
    world.checks.take({"rdma/hca": "1"}, [])
    tolerated = Rival(name="openshift.io/x", kind=DEVICE_PLUGIN, devices=FORMER.devices, message="")
    world.checks.take_former([FORMER, tolerated])
    world.now = 1000
    world.checks.take({"rdma/hca": "1"}, [])
    assert world.devices() == ["gpu-0000-11-00-0", "rdma-0000-20-00-0"]
    world.checks.take_former([])  # what is stored by now is this process's own
    assert world.reason() == "RivalPlugin"
    world.kubelet = KubeletDevices()
    world.checks.take({}, [])
    assert (world.devices(), world.reason()) == ([], "NoRival")


def test_without_any_answer_of_the_kubelet_nobody_knows(world: World) -> None:
    world.kubelet = None
    world.checks.take_former([])
    world.checks.take({}, [])
    report = world.reports._latest[ConditionType.NO_RIVAL_PLUGIN]
    assert (report.status, report.reason) == (ConditionStatus.UNKNOWN, "KubeletDoesNotAnswer")
    world.kubelet = KubeletDevices()
    world.checks.check()
    assert world.reason() == "NoRival"
    world.kubelet = None  # an update of it takes a moment
    world.checks.check()
    assert world.reason() == "NoRival"
