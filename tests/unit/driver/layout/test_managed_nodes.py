"""The devices of a managed node have a taint that keeps kube-scheduler from them."""

from __future__ import annotations

from driver.api.resource_v1 import Device, DeviceTaint
from driver.layout.slices import resource_slices
from driver.model.managed_nodes import TAINT
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.slice_validation import validate_slices


def devices(name: str, *, managed: bool) -> list[Device]:
    machine = node(gpu("1a"), mig_gpu("3b"), nic("4c", vfs=2), name=name)
    slices = resource_slices(machine, managed=managed)
    assert validate_slices(slices) == ()
    return [device for item in slices for device in item.spec.devices]


def test_every_device_of_a_managed_node_has_the_taint() -> None:
    found = devices("n1", managed=True)
    assert found
    assert all(device.taints == (DeviceTaint(key=TAINT, effect="NoSchedule"),) for device in found)


def test_the_devices_are_those_of_any_other_node() -> None:
    managed, other = devices("n1", managed=True), devices("n1", managed=False)
    assert [device.model_copy(update={"taints": ()}) for device in managed] == other


def test_equal_managed_nodes_share_their_devices() -> None:
    pairs = zip(devices("n1", managed=True), devices("n2", managed=True), strict=True)
    assert any(one is other for one, other in pairs)
