"""Devices that the node's plugin prepares before a pod is bound have binding conditions (KEP-5007)."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import Device
from driver.layout.slices import resource_slices
from driver.model.health import NodeHealth
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.slice_validation import validate_slices


def devices(*types: str, name: str = "n1", kept: bool = True) -> list[Device]:
    machine = node(gpu("1a"), mig_gpu("3b"), nic("4c", vfs=2), nic("5d"), name=name)
    health = NodeHealth(prepares_before_binding=frozenset(types))
    slices = resource_slices(machine, health=health, has_binding_conditions=kept)
    assert validate_slices(slices) == ()
    return [device for item in slices for device in item.spec.devices]


def waiting(found: list[Device]) -> set[str]:
    """The beginnings of the names of the devices that have conditions, all of which have both kinds."""
    with_any = [device for device in found if device.binding_conditions or device.binding_failure_conditions]
    assert all(device.binding_conditions == ("Prepared",) for device in with_any)
    assert all(device.binding_failure_conditions == ("PreparationFailed",) for device in with_any)
    assert all(device.binds_to_node is None for device in with_any)
    return {device.name.partition("-0000")[0] for device in with_any}


@pytest.mark.parametrize(
    ("types", "expected"),
    [((), set()), (("mig",), {"mig"}), (("rdma-vf",), {"rdma-vfs"}), (("mig", "rdma-vf"), {"mig", "rdma-vfs"})],
    ids=["none", "partitions", "VFs", "both"],
)
def test_devices_of_the_types_that_the_plugin_names_wait(types: tuple[str, ...], expected: set[str]) -> None:
    assert waiting(devices(*types)) == expected


def test_the_devices_are_those_of_a_node_that_prepares_none_early() -> None:
    none: dict[str, object] = {"binding_conditions": (), "binding_failure_conditions": ()}
    assert [device.model_copy(update=none) for device in devices("mig", "rdma-vf")] == devices()


def test_where_the_api_server_drops_the_fields_nothing_waits() -> None:
    assert devices("mig", kept=False) == devices()


def test_equal_nodes_share_their_devices() -> None:
    pairs = zip(devices("mig", name="n1"), devices("mig", name="n2"), strict=True)
    assert any(one is other for one, other in pairs if one.binding_conditions)
