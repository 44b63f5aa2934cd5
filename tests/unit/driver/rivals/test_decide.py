"""Who else gives out a node's devices, and which of them: by names, by the kubelet's ids, by other drivers' slices."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest

from driver.api.bounds import MAX_RIVALS
from driver.api.resource_v1 import ResourceSlice
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.model.rivals import Rival
from driver.rivals.decide import KubeletDevices, bounded, held_twice, rivals_of
from tests.support.machines import nic, node
from tests.support.mig_machines import mig_gpu

NOTHING = node(name="n")


def uuid(number: int) -> str:
    return f"GPU-0000000{number}-1111-2222-3333-444455556666"


@pytest.fixture(scope="module")
def inventory() -> Inventory:
    gpus = [replace(mig_gpu(bus), vendor="nvidia", uuid=uuid(number)) for number, bus in enumerate(("10", "11"))]
    return node(*gpus, nic("20"), nic("21", vfs=4), name="n")


def slice_of(driver: str, **attributes: object) -> ResourceSlice:
    device = {"name": "d", "attributes": {name.replace("__", "/"): {"string": v} for name, v in attributes.items()}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    return ResourceSlice.model_validate(
        {"spec": {"driver": driver, "pool": pool, "nodeName": "n", "devices": [device]}}
    )


def find(
    inventory: Inventory,
    capacity: Mapping[str, str] | None = None,
    *slices: ResourceSlice,
    offered: Mapping[str, frozenset[str]] | None = None,
    held: Mapping[str, Mapping[str, frozenset[str]]] | None = None,
    tolerated: tuple[str, ...] = (),
) -> tuple[Rival, ...]:
    kubelet = KubeletDevices(offered=offered or {}, held=held or {})
    found = rivals_of(inventory, capacity=capacity or {}, slices=slices, kubelet=kubelet, tolerated=tolerated)
    return bounded(found, inventory)


def test_cpu_and_memory_and_our_own_slices_are_no_rivals(inventory: Inventory) -> None:
    ours = resource_slices(inventory)
    assert find(inventory, {"cpu": "8", "memory": "1Ti", "example.com/gpu": "1", "hugepages-2Mi": "4"}, *ours) == ()


@pytest.mark.parametrize(
    ("resource", "kind", "helps"),
    [
        ("nvidia.com/gpu", "gpu", "kubectl label node n nvidia.com/gpu.deploy.device-plugin=false --overwrite"),
        ("nvidia.com/gpu", "gpu", "where it is HAMi's, that one (kubectl label node n gpu-,"),
        ("nvidia.com/gpu.shared", "gpu", "nvidia.com/gpu.deploy.device-plugin=false"),
        ("nvidia.com/mig-1g.10gb", "gpu", "nvidia.com/gpu.deploy.device-plugin=false"),
        ("nvidia.com/gpumem", "gpu", "DaemonSet"),
        ("koordinator.sh/gpu-core", "gpu", "Koordinator"),
        ("kubernetes.io/gpu-memory-ratio", "gpu", "Koordinator"),
        ("koordinator.sh/rdma", "nic", "Koordinator"),
        ("tke.cloud.tencent.com/qgpu-core", "gpu", "DaemonSet"),
        ("elasticgpu.io/gpu-memory", "gpu", "DaemonSet"),
        ("tencent.com/vcuda-core", "gpu", "DaemonSet"),
        ("aliyun.com/gpu-mem", "gpu", "DaemonSet"),
        ("volcano.sh/vgpu-number", "gpu", "DaemonSet"),
        ("rdma/hca_shared_devices_a", "nic", "DaemonSet"),
    ],
)
def test_a_device_plugin_is_known_by_the_name_of_its_resource(
    inventory: Inventory, resource: str, kind: str, helps: str
) -> None:
    (found,) = find(inventory, {resource: "8"})
    assert (found.name, found.kind) == (resource, "DevicePlugin")
    assert f"{resource}: 8" in found.message
    assert helps in found.message
    assert "not known" not in found.message
    cards = inventory.gpus if kind == "gpu" else inventory.nics
    assert found.devices == tuple(sorted(card.name for card in cards))


@pytest.mark.parametrize(
    "resource", ["openshift.io/storage", "intel.com/sriov", "mellanox.com/roce", "nvidia.com/hostdev"]
)
def test_of_a_name_that_an_administrator_chose_it_is_said_that_nothing_is_certain(
    inventory: Inventory, resource: str
) -> None:
    (found,) = find(inventory, {resource: "8"})
    assert found.devices == tuple(sorted(nic.name for nic in inventory.nics))
    assert "is not known" in found.message
    assert "--tolerate-rivals" in found.message


@pytest.mark.parametrize("tolerated", ["openshift.io/storage", "openshift.io/*", "*"])
def test_an_administrator_knows_better(inventory: Inventory, tolerated: str) -> None:
    assert find(inventory, {"openshift.io/storage": "8"}, tolerated=(tolerated,)) == ()
    more = {"openshift.io/storage": "8", "rdma/hca": "1"}
    assert len(find(inventory, more, tolerated=("openshift.io/*",))) == 1


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "rdma/hca", "koordinator.sh/gpu-core"])
def test_a_device_plugin_for_devices_that_we_do_not_publish_is_none_of_our_business(resource: str) -> None:
    assert find(NOTHING, {resource: "8"}) == ()


def test_amds_plugin_is_no_rival_on_a_node_of_nvidia_gpus(inventory: Inventory) -> None:
    assert find(inventory, {"amd.com/gpu": "8", "amd.com/cpx_nps4": "8"}) == ()


def test_what_a_removed_plugin_left_at_zero_is_no_rival(inventory: Inventory) -> None:
    assert find(inventory, {"nvidia.com/gpu": "0"}) == ()


def test_an_extended_resource_of_a_device_class_is_no_rival(inventory: Inventory) -> None:
    # KEP-5004: no Node has it and no plugin offers it; a pod holds it by a claim that the scheduler made.
    assert find(inventory, {"cpu": "8"}, *resource_slices(inventory), offered={}, held={}) == ()


@pytest.mark.parametrize("form", ["{}", "{}::3", "{}-3"])
def test_the_kubelets_ids_say_which_gpus_are_meant(inventory: Inventory, form: str) -> None:
    first = inventory.gpus[0]
    ids = frozenset({form.format(first.uuid)})
    (found,) = find(inventory, {"nvidia.com/gpu": "1"}, offered={"nvidia.com/gpu": ids})
    assert found.devices == (first.name,)


def test_what_the_kubelet_knows_counts_before_the_node_has_it(inventory: Inventory) -> None:
    ids = frozenset(gpu.uuid or "" for gpu in inventory.gpus)
    (found,) = find(inventory, {}, offered={"nvidia.com/gpu": ids})
    assert len(found.devices) == len(inventory.gpus)
    assert "nvidia.com/gpu: 2" in found.message


def test_any_name_is_a_rival_whose_ids_are_our_devices_and_none_whose_ids_are_others(inventory: Inventory) -> None:
    ours, other = inventory.nics[0], "0000:f1:00.0"
    (found,) = find(inventory, {"acme.com/net": "1"}, offered={"acme.com/net": frozenset({ours.address})})
    assert found.devices == (ours.name,)
    assert find(inventory, {"openshift.io/storage": "1"}, offered={"openshift.io/storage": frozenset({other})}) == ()


def test_ids_that_say_nothing_leave_it_at_the_name(inventory: Inventory) -> None:
    offered = {"rdma/hca": frozenset({"0", "1"}), "acme.com/x": frozenset({"0"})}
    (found,) = find(inventory, {"rdma/hca": "2", "acme.com/x": "1"}, offered=offered)
    assert found.devices == tuple(sorted(nic.name for nic in inventory.nics))


def test_a_plugin_of_virtual_functions_concerns_these_alone(inventory: Inventory) -> None:
    nic_with_vfs = inventory.nics[1]
    first, second, *_ = nic_with_vfs.vfs
    (found,) = find(inventory, {"intel.com/vfs": "1"}, offered={"intel.com/vfs": frozenset({second.address})})
    assert found.devices == (second.name,)
    pool = nic_with_vfs.name.replace("rdma-", "rdma-vfs-", 1)
    # Which function of the pool a claim has is not looked up: it may be that one.
    assert held_twice(inventory, [found], {pool, inventory.nics[0].name}) == (pool,)
    assert held_twice(inventory, [found], {first.name, second.name}) == (second.name,)


def test_what_pods_hold_after_the_plugin_has_gone_is_not_free(inventory: Inventory) -> None:
    first = inventory.gpus[0]
    held = {"nvidia.com/gpu": {"ml/train": frozenset({first.uuid or ""})}}
    (found,) = find(inventory, {"nvidia.com/gpu": "0"}, held=held)
    assert found.devices == (first.name,)
    assert "end ml/train" in found.message


@pytest.mark.parametrize(
    "attribute", ["resource.kubernetes.io__pciBusID", "dra.net__pciAddress", "x__pciAddr", "pciBusID", "uuid"]
)
def test_another_driver_that_publishes_one_of_our_devices_concerns_that_one(
    inventory: Inventory, attribute: str
) -> None:
    gpu = inventory.gpus[0]
    value = gpu.uuid if attribute == "uuid" else gpu.address
    (found,) = find(inventory, {}, slice_of("gpu.nvidia.com", **{attribute: value}))
    assert (found.name, found.kind, found.devices) == ("gpu.nvidia.com", "DRADriver", (gpu.name,))
    assert f"DRA driver gpu.nvidia.com publishes {gpu.address} as well" in found.message


def test_another_driver_for_other_devices_is_no_rival(inventory: Inventory) -> None:
    assert find(inventory, {}, slice_of("dra.net", pciAddress="0000:ff:00.0", ifName=inventory.gpus[0].address)) == ()


def test_a_part_that_a_claim_has_counts_for_its_gpu(inventory: Inventory) -> None:
    gpu, other = inventory.gpus
    (found,) = find(inventory, {"nvidia.com/gpu": "1"}, offered={"nvidia.com/gpu": frozenset({gpu.uuid or ""})})
    ratio = gpu.name.replace("gpu-", "gpu-ratio-", 1)
    assert held_twice(inventory, [found], {ratio, other.name, "gone"}) == (ratio,)


def test_a_rival_names_so_many_devices_and_no_more() -> None:
    crowded = node(*(nic(f"{bus:02x}", vfs=16) for bus in range(40)), name="n")
    ids = frozenset(vf.address for item in crowded.nics for vf in item.vfs)
    (found,) = find(crowded, {"intel.com/vfs": "640"}, offered={"intel.com/vfs": ids})
    assert found.devices == tuple(sorted(item.name for item in crowded.nics))


def test_a_message_is_printable_and_short(inventory: Inventory) -> None:
    pods = {f"ml/{number}-\x1b[31m": frozenset({"x"}) for number in range(5000)}
    (found,) = find(inventory, {}, held={"nvidia.com/gpu": pods})
    assert found.message.isprintable()
    assert len(found.message) <= 1024


def test_of_too_many_rivals_the_last_stands_for_all_the_others(inventory: Inventory) -> None:
    gpu, *_ = inventory.gpus
    many = {f"a.com/{number:03}": "1" for number in range(200)}
    offered = {name: frozenset({inventory.nics[0].address}) for name in many}
    offered["z.com/last"] = frozenset({gpu.address})
    found = find(inventory, many, offered=offered)
    assert len(found) == MAX_RIVALS
    assert found[-1].devices == (gpu.name, inventory.nics[0].name)
    assert found[-1].message.startswith("170 more rivals give out devices: a.com/031,")
    # What is folded already, as a former process told it, is folded again and not told twice.
    again = bounded((*found, *find(inventory, {"rdma/x": "1"})), inventory)
    assert len(again) == len({item.name for item in again}) == MAX_RIVALS
    assert {name for item in again for name in item.devices} >= {gpu.name}


def test_what_no_kubelet_owns_is_told_with_the_command_that_takes_it_away(inventory: Inventory) -> None:
    for resource in ("koordinator.sh/gpu", "aliyun.com/gpu-count", "nvidia.com/gpu"):
        (found,) = find(inventory, {resource: "100"})
        assert len(found.devices) == 2
        assert f"the Node has {resource}: 100, of which the kubelet lists no device" in found.message
        words = shlex.split(found.message[found.message.index("kubectl patch node") :])
        assert words[2:7] == ["node", "n", "--subresource=status", "--type=json", "-p"]
        name = resource.replace("/", "~1")
        expected = [{"op": "remove", "path": f"/status/{kind}/{name}"} for kind in ("capacity", "allocatable")]
        assert json.loads(words[7]) == expected
    (not_asked,) = rivals_of(inventory, capacity={"koordinator.sh/gpu": "100"}, slices=(), kubelet=None)
    assert "kubectl patch" not in not_asked.message
