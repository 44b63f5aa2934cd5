"""Device plugins and other DRA drivers that give out the same devices."""

from __future__ import annotations

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.api.resource_v1 import ResourceSlice
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory, InventorySource
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus
from kubeletplugin.publish.rivals import check_rivals
from tests.support.sysfs_tree import dgx

NOTHING = Inventory(node="n", source=InventorySource.LIVE)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    return sysfs.discover(HostRoot(dgx(tmp_path_factory.mktemp("host"), switches=2, pairs=2).root), node="n")


def slice_of(driver: str, **attributes: object) -> ResourceSlice:
    device = {"name": "d", "attributes": {name.replace("__", "/"): {"string": v} for name, v in attributes.items()}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    return ResourceSlice.model_validate(
        {"spec": {"driver": driver, "pool": pool, "nodeName": "n", "devices": [device]}}
    )


def check(inventory: Inventory, capacity: dict[str, str] | None = None, *slices: ResourceSlice) -> ConditionReport:
    return check_rivals(inventory, capacity or {}, slices, "n")


def test_cpu_and_memory_and_our_own_slices_are_no_rivals(inventory: Inventory) -> None:
    ours = resource_slices(inventory)
    assert check(inventory, {"cpu": "8", "memory": "1Ti", "example.com/gpu": "1"}, *ours).status is ConditionStatus.TRUE


@pytest.mark.parametrize(
    ("resource", "helps"),
    [
        ("nvidia.com/gpu", "kubectl label node n nvidia.com/gpu.deploy.device-plugin=false --overwrite"),
        ("nvidia.com/gpu", "where it is HAMi's, that one (kubectl label node n gpu-,"),
        ("nvidia.com/gpu.shared", "nvidia.com/gpu.deploy.device-plugin=false"),
        ("nvidia.com/mig-1g.10gb", "nvidia.com/gpu.deploy.device-plugin=false"),
        ("nvidia.com/gpumem", "DaemonSet"),
        ("koordinator.sh/gpu-core", "Koordinator"),
        ("koordinator.sh/rdma", "Koordinator"),
        ("rdma/hca_shared_devices_a", "DaemonSet"),
    ],
)
def test_a_device_plugin_for_the_same_devices_is_named_with_what_to_do(
    inventory: Inventory, resource: str, helps: str
) -> None:
    found = check(inventory, {resource: "8"})
    assert found.status is ConditionStatus.FALSE
    assert f"{resource}: 8" in found.message
    assert helps in found.message


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "rdma/hca", "koordinator.sh/gpu-core"])
def test_a_device_plugin_for_devices_that_we_do_not_publish_is_none_of_our_business(resource: str) -> None:
    assert check(NOTHING, {resource: "8"}).status is ConditionStatus.TRUE


def test_amds_plugin_is_no_rival_on_a_node_of_nvidia_gpus(inventory: Inventory) -> None:
    assert check(inventory, {"amd.com/gpu": "8"}).status is ConditionStatus.TRUE


def test_what_a_removed_plugin_left_at_zero_is_no_rival(inventory: Inventory) -> None:
    assert check(inventory, {"nvidia.com/gpu": "0"}).status is ConditionStatus.TRUE


@pytest.mark.parametrize("attribute", ["resource.kubernetes.io__pciBusID", "dra.net__pciAddress", "pciBusID", "uuid"])
def test_another_driver_that_publishes_one_of_our_devices_is_named(inventory: Inventory, attribute: str) -> None:
    gpu = inventory.gpus[0]
    value = gpu.uuid if attribute == "uuid" else gpu.address
    found = check(inventory, {}, slice_of("gpu.nvidia.com", **{attribute: value}))
    assert found.status is ConditionStatus.FALSE
    assert f"DRA driver gpu.nvidia.com publishes {gpu.address}" in found.message


def test_another_driver_for_other_devices_is_no_rival(inventory: Inventory) -> None:
    attributes = {"resource.kubernetes.io__pciBusID": "0000:ff:00.0", "model": inventory.gpus[0].address}
    other = slice_of("gpu.nvidia.com", **attributes)
    assert check(inventory, {}, other).status is ConditionStatus.TRUE


def test_many_rivals_are_counted(inventory: Inventory) -> None:
    found = check(inventory, {f"nvidia.com/mig-{n}g.10gb": "1" for n in range(9)})
    assert found.message.endswith("and 4 more")
