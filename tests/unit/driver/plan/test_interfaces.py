"""Which network interfaces and RDMA devices the plan lends to a pod, by which names, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from driver.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference
from driver.config import MAX_INTERFACE_NAME
from driver.errors import InputError, NodeError, UnsupportedError
from driver.model.devices import RdmaNetnsMode
from driver.model.inventory import Inventory
from driver.plan import NicHost, decide, prepare_plan
from driver.plan.effects import ConfigureVf, LendInterface
from tests.support.plan.builders import CLAIM_OF, UID, claim, config, given, nic, node, parameters
from tests.support.plan.nics import NIC, POD, POOL, VFS, WITH_CNI, any_vf, ethernet_vf, of_bandwidth, port

NODE = node(nic(0, vfs=tuple(ethernet_vf(index) for index in range(4))))
PF = node(nic(0, ports=(port(),), if_names=("enp64s0np0",)), nic(1, if_names=("enp65s0np0",)))
EXCLUSIVE = replace(NODE, rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE)


def moved(*results: object, pods: tuple[str, ...] = (POD,), **interface: object) -> ResourceClaim:
    """A claim whose interfaces are moved."""
    return claim(*results, configs=(config(parameters("RdmaConfig", interface=interface)),), pods=pods)


def lent(of: ResourceClaim, inventory: Inventory = NODE) -> list[LendInterface]:
    effects = decide(of, inventory, nics=WITH_CNI).effects
    return [effect for effect in effects if isinstance(effect, LendInterface)]


def refused(
    of: ResourceClaim, kind: type[InputError | NodeError], inventory: Inventory = NODE, nics: NicHost = WITH_CNI
) -> str:
    with pytest.raises(kind) as caught:
        decide(of, inventory, nics=nics)
    assert type(caught.value) is kind
    assert caught.value.message.startswith(CLAIM_OF)
    return str(caught.value)


def test_an_interface_goes_to_the_claims_pod() -> None:
    (effect,) = lent(moved(any_vf(), name="rdma0", mtu=9000))
    assert effect == LendInterface(
        function=VFS[0],
        address="0000:40:00.1",
        interface="enp64s0v0",
        pod_uid=POD,
        claim_uid=UID,
        name_in_pod="rdma0",
        mtu=9000,
        rdma_device=None,
    )
    assert effect.target == VFS[0]


def test_without_a_name_it_keeps_its_own() -> None:
    (effect,) = lent(moved(given("nic", NIC)), PF)
    assert (effect.interface, effect.name_in_pod, effect.mtu) == ("enp64s0np0", "enp64s0np0", None)


def test_the_interfaces_of_a_request_with_several_devices_are_numbered() -> None:
    of = moved(any_vf("nics", 0), any_vf("nics", 1), any_vf("nics", 2), name="rdma")
    assert [(effect.interface, effect.name_in_pod) for effect in lent(of)] == [
        ("enp64s0v0", "rdma0"),
        ("enp64s0v1", "rdma1"),
        ("enp64s0v2", "rdma2"),
    ]


def test_an_interface_of_a_request_that_does_not_ask_for_it_stays() -> None:
    of = claim(
        any_vf("a", 0), any_vf("b", 1), configs=(config(parameters("RdmaConfig", interface={}), "b"),), pods=(POD,)
    )
    assert [effect.interface for effect in lent(of)] == ["enp64s0v1"]


def test_a_vf_is_configured_before_it_is_lent() -> None:
    configs = (config(parameters("RdmaConfig", interface={}, vf={"vlan": 5}), source="FromClass"),)
    effects = decide(claim(any_vf(), configs=configs, pods=(POD,)), NODE, nics=WITH_CNI).effects
    assert [type(effect) for effect in effects] == [ConfigureVf, LendInterface]


def test_the_container_is_told_the_names_in_the_pod() -> None:
    plan = prepare_plan(
        moved(any_vf("nics", 0), any_vf("nics", 1), name="rdma"), NODE, nics=WITH_CNI, metadata_root="/m"
    )
    assert plan.spec is not None
    assert "ROOTPORT_TRAIN__NICS_IFNAME=rdma0,rdma1" in plan.spec.devices[0].env
    devices = json.loads(plan.files[0].content)["requests"][0]["devices"]
    assert [device["attributes"]["ifName"] for device in devices] == [{"string": "rdma0"}, {"string": "rdma1"}]
    still = prepare_plan(claim(any_vf()), NODE)
    assert still.spec is not None
    assert not any("IFNAME" in variable for variable in still.spec.devices[0].env)


@pytest.mark.parametrize(
    ("name", "results"),
    [("eth", (any_vf("n", 0), any_vf("n", 1))), ("x" * MAX_INTERFACE_NAME, (any_vf("n", 0), any_vf("n", 1)))],
    ids=["the-pods-own", "too-long-with-its-number"],
)
def test_a_number_behind_a_name_may_make_it_wrong(name: str, results: tuple[object, ...]) -> None:
    message = refused(moved(*results, name=name), InputError)
    assert f"device {POOL}: the name of interface 0 of the request in the pod, '{name}0'" in message
    assert "set interface.name" in message


def test_a_name_of_the_host_that_no_pod_can_have_is_refused() -> None:
    azure = node(nic(0, if_names=("eth0",)))
    assert "'eth0' is taken in every pod" in refused(moved(given("nic", NIC)), InputError, azure)
    (effect,) = lent(moved(given("nic", NIC), name="rdma0"), azure)
    assert effect.interface == "eth0"


def test_two_requests_cannot_have_one_name() -> None:
    message = refused(moved(any_vf("a", 0), any_vf("b", 1), name="rdma"), InputError)
    assert f"request b, device {POOL}: its network interface would be rdma in the pod, as that of request a" in message


@pytest.mark.parametrize(
    ("pods", "part"),
    [((), "nobody holds the claim"), ((POD, "other"), f"2 hold the claim (pods 'pod-{POD}', pods 'pod-other')")],
    ids=["nobody", "two-pods"],
)
def test_an_interface_goes_to_exactly_one_pod(pods: tuple[str, ...], part: str) -> None:
    message = refused(moved(any_vf(), pods=pods), InputError)
    assert part in message
    assert "by a ResourceClaimTemplate" in message
    decide(claim(any_vf(), pods=pods), NODE)


@pytest.mark.parametrize(
    "holder",
    [
        {"api_group": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"},
        {"api_group": "example.com", "resource": "pods", "name": "p", "uid": "u"},
    ],
    ids=["pod-group", "another-groups-pods"],
)
def test_what_is_no_pod_is_given_no_interface(holder: dict[str, str]) -> None:
    of = moved(any_vf())
    status = of.status.model_copy(update={"reserved_for": (ResourceClaimConsumerReference(**holder),)})
    assert "exactly one pod" in refused(of.model_copy(update={"status": status}), InputError)


@pytest.mark.parametrize("uid", ["", "../../etc", "a/b", "A", "x" * 64, "a\n", ".."])
def test_a_pods_uid_that_is_none_never_becomes_a_path(uid: str) -> None:
    message = refused(moved(any_vf(), pods=(uid,)), InputError)
    assert "cannot come from Kubernetes: status.reservedFor[0].uid" in message


def test_a_share_of_a_nic_has_no_interface_to_move_but_all_of_it_has() -> None:
    message = refused(moved(of_bandwidth("100G")), InputError, PF)
    assert f"device {NIC} is a share of a NIC: its network interface cannot be moved into one pod" in message
    assert [effect.interface for effect in lent(moved(of_bandwidth("400G")), PF)] == ["enp64s0np0"]


def test_a_device_without_an_interface_is_no_fault_of_the_claim() -> None:
    message = refused(moved(any_vf()), NodeError, node(nic(0, vfs=(ethernet_vf(0, if_names=()),))))
    assert f"{VFS[0]} has no network interface to move into the pod" in message


def test_a_device_with_two_interfaces_comes_later() -> None:
    message = refused(moved(given("nic", NIC)), UnsupportedError, node(nic(0, if_names=("a", "b"))))
    assert "has the network interfaces a, b" in message


def test_a_node_without_the_cni_plugin_lends_nothing() -> None:
    message = refused(moved(any_vf()), NodeError, nics=NicHost())
    assert "Rootport's CNI plugin, which moves network interfaces into pods, is not part of the node's network" in (
        message
    )
    assert "--cni-conf-dir" in message
    assert "Multus" in message
    assert decide(claim(any_vf()), NODE).effects == ()


def test_a_simulation_assumes_the_plugin_and_a_pod_and_says_so() -> None:
    plan = prepare_plan(moved(any_vf(), pods=()), NODE, nics=NicHost(simulated=True))
    assert plan.notes == ("Rootport's CNI plugin is assumed on the node: it moves enp64s0v0 into the pod",)
    assert prepare_plan(claim(any_vf()), NODE, nics=NicHost(simulated=True)).notes == ()


def test_who_watches_over_a_nic_is_lent_nothing() -> None:
    of = moved(given("watch", NIC, adminAccess=True), pods=())
    assert decide(of, PF).effects == ()


def test_in_exclusive_mode_the_rdma_device_goes_along() -> None:
    (effect,) = lent(moved(any_vf(), name="rdma0"), EXCLUSIVE)
    assert (effect.interface, effect.name_in_pod, effect.rdma_device) == ("enp64s0v0", "rdma0", "mlx5_10")


def test_in_exclusive_mode_the_rdma_device_is_lent_without_its_interface_as_well() -> None:
    (effect,) = lent(claim(any_vf(), pods=(POD,)), EXCLUSIVE)
    assert (effect.interface, effect.name_in_pod, effect.mtu, effect.rdma_device) == ("", "", None, "mlx5_10")
    assert "exactly one pod" in refused(claim(any_vf(), pods=(POD, "other")), InputError, EXCLUSIVE)


def test_in_exclusive_mode_a_node_without_the_cni_plugin_leaves_the_rdma_device_to_multus() -> None:
    of = claim(any_vf("nics", 0), any_vf("nics", 1), pods=(POD, "other"))
    plan = prepare_plan(of, EXCLUSIVE, nics=NicHost())
    assert [device.effects for device in decide(of, EXCLUSIVE, nics=NicHost()).devices] == [(), ()]
    (note,) = plan.notes
    assert "Rootport's CNI plugin is not part of the node's network" in note
    assert "the pod can use mlx5_10, mlx5_11 only if Multus with rdma-cni moves that into it" in note
    watching = claim(given("watch", VFS[0], adminAccess=True))
    for quiet, inventory, host in ((of, NODE, NicHost()), (watching, EXCLUSIVE, NicHost())):
        assert prepare_plan(quiet, inventory, nics=host).notes == ()


def test_in_exclusive_mode_an_interface_still_needs_the_cni_plugin() -> None:
    message = refused(moved(any_vf()), NodeError, EXCLUSIVE, NicHost())
    assert "Rootport's CNI plugin, which moves network interfaces into pods, is not part of the node's network" in (
        message
    )


def test_a_simulation_of_exclusive_mode_assumes_the_plugin() -> None:
    plan = prepare_plan(claim(any_vf()), EXCLUSIVE, nics=NicHost(simulated=True))
    assert plan.notes == ("Rootport's CNI plugin is assumed on the node: it moves mlx5_10 into the pod",)


def test_in_exclusive_mode_a_nic_is_not_shared_and_has_a_device_to_lend() -> None:
    exclusive = replace(PF, rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE)
    for nics in (WITH_CNI, NicHost()):
        message = refused(claim(of_bandwidth("100G"), pods=(POD,)), NodeError, exclusive, nics)
        assert "is a share of a NIC, but the node's RDMA devices are each in one network namespace" in message
    bare = replace(node(nic(0, rdma_device=None)), rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE)
    assert f"names no RDMA device of {NIC}" in refused(claim(given("nic", NIC), pods=(POD,)), NodeError, bare)
