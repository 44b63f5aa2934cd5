"""The condition about device plugins and other DRA drivers that give out the same devices."""

from __future__ import annotations

from driver.model.devices import DeviceName
from driver.model.rivals import DEVICE_PLUGIN, Rival
from kubeletplugin.publish.conditions import ConditionStatus
from kubeletplugin.publish.rivals import rival_report


def rivals(*names: str) -> list[Rival]:
    return [
        Rival(name=name, kind=DEVICE_PLUGIN, devices=(DeviceName("gpu-1"),), message=f"{name} is there")
        for name in names
    ]


def test_without_rivals_all_is_well() -> None:
    assert rival_report([]).status is ConditionStatus.TRUE


def test_each_rival_is_told() -> None:
    found = rival_report(rivals("nvidia.com/gpu", "rdma/hca"))
    assert (found.status, found.reason) == (ConditionStatus.FALSE, "RivalPlugin")
    assert "nvidia.com/gpu is there; rdma/hca is there" in found.message


def test_devices_that_claims_have_are_told_first() -> None:
    found = rival_report(rivals("nvidia.com/gpu"), held=("gpu-1", "gpu-2"))
    assert (found.status, found.reason) == (ConditionStatus.FALSE, "DevicesGivenTwice")
    assert found.message.startswith("claims have devices that can be given out a second time (2 such as gpu-1)")


def test_a_long_list_is_cut() -> None:
    found = rival_report(rivals(*(f"nvidia.com/mig-{number}" for number in range(9))))
    assert "; and 4 more" in found.message
    assert len(found.message) < 2048
