"""NICs in the prepare plan: which virtual function a claim gets, how it uses the NIC, what is set up and told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given as every
from hypothesis import strategies as st

from driver.api.resource_v1 import DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim
from driver.errors import InputError, NodeError
from driver.model.devices import DeviceName, LinkLayer
from driver.model.inventory import Inventory
from driver.plan import NicHost, NicUse, decide, finish, prepare_plan
from driver.plan.effects import ConfigureVf, VfSettings
from tests.support.plan.builders import CLAIM_OF, SHARE_IDS, claim, config, given, gpu, nic, node, parameters
from tests.support.plan.nics import NIC, POOL, VFS, any_vf, ethernet_vf, of_bandwidth, port

NODE = node(gpu(0), nic(0, vfs=tuple(ethernet_vf(index) for index in range(4)), ports=(port(),)))
SHARED = node(gpu(0), nic(0, ports=(port(),)))
FULL = 400 * 10**9
NOBODY = NicHost()


def chosen(of: ResourceClaim, nics: NicHost = NOBODY, inventory: Inventory = NODE) -> list[str | None]:
    decision = decide(of, inventory, nics=nics)
    return [device.function.name if device.function else None for device in decision.devices]


def taken(*names: str) -> NicHost:
    return NicHost(taken_vfs={DeviceName(name) for name in names})


def of_class(vf: object) -> DeviceAllocationConfiguration:
    """The settings of a VF that an administrator put into a DeviceClass."""
    return config(parameters("RdmaConfig", vf=vf), source="FromClass")


def test_a_pool_gives_its_free_vf_with_the_lowest_number() -> None:
    assert chosen(claim(any_vf())) == [VFS[0]]
    assert chosen(claim(any_vf()), taken(VFS[0], VFS[2])) == [VFS[1]]


def test_a_claim_never_gets_one_vf_twice() -> None:
    of = claim(any_vf("a", 0), any_vf("a", 1), given("b", VFS[0]))
    assert chosen(of) == [VFS[1], VFS[2], VFS[0]]
    plan = prepare_plan(of, NODE)
    assert plan.spec is not None
    assert len({device.name for device in plan.spec.devices}) == 3


def test_a_claim_that_is_planned_anew_keeps_its_vfs() -> None:
    own = (("a", SHARE_IDS[0], DeviceName(VFS[2])), ("a", SHARE_IDS[1], DeviceName(VFS[0])))
    of = claim(any_vf("b", 2), any_vf("a", 0), any_vf("a", 1))
    assert chosen(of, NicHost(own_vfs=own)) == [VFS[1], VFS[2], VFS[0]]


def test_a_former_vf_that_is_gone_is_replaced() -> None:
    own = (("nic", SHARE_IDS[0], DeviceName("rdma-vf-0000-40-07-7")),)
    assert chosen(claim(any_vf()), NicHost(own_vfs=own)) == [VFS[0]]


def test_a_pool_without_a_free_vf_is_no_fault_of_the_claim() -> None:
    with pytest.raises(NodeError, match=rf"request nic, device {POOL}: none of the 4 virtual functions of NIC {NIC}"):
        decide(claim(any_vf()), NODE, nics=taken(*VFS))


def test_the_container_has_the_device_nodes_of_its_own_vf_alone() -> None:
    plan = prepare_plan(claim(any_vf()), NODE, nics=taken(VFS[0]))
    assert plan.spec is not None
    assert plan.spec.devices[0].device_nodes == ("/dev/infiniband/uverbs11", "/dev/infiniband/rdma_cm")


def test_efa_vfs_of_a_pool_have_no_connection_manager() -> None:
    plan = prepare_plan(claim(any_vf()), node(nic(0, vendor="amazon", vfs=(ethernet_vf(0),))))
    assert plan.device_paths == ("/dev/infiniband/uverbs10",)


def test_who_watches_over_a_pool_has_the_nodes_of_all_and_takes_none() -> None:
    of = claim(any_vf("watch", adminAccess=True), any_vf("nic", 1))
    decision = decide(of, NODE, nics=taken(*VFS[:3]))
    watch, own = decision.devices
    assert (watch.function, watch.nic_use, watch.effects) == (None, None, ())
    assert [path for path in watch.nodes if "uverbs" in path] == [f"/dev/infiniband/uverbs{n}" for n in range(10, 14)]
    assert own.function is not None
    assert own.function.name == VFS[3]


@pytest.mark.parametrize("state", ["down", "init", "armed"])
def test_a_link_that_is_down_is_no_fault_of_the_claim(state: str) -> None:
    with pytest.raises(NodeError, match=rf"device {NIC}: the link is not active \({state}\)"):
        decide(claim(given("nic", NIC)), node(nic(0, ports=(port(state),))))


def test_one_active_port_and_a_state_that_nobody_tells_are_enough() -> None:
    for ports in ((port("down"), port()), (port(None),), ()):
        decide(claim(given("nic", NIC)), node(nic(0, ports=ports)))


@pytest.mark.parametrize("key", ["", "rootport.dev/link-down"], ids=["all-taints", "this-one"])
def test_a_request_may_put_up_with_a_link_that_is_down(key: str) -> None:
    tolerations = [{"key": key, "operator": "Exists", "effect": "NoSchedule"}]
    decide(claim(given("nic", NIC, tolerations=tolerations)), node(nic(0, ports=(port("down"),))))


def test_who_watches_over_a_nic_may_see_that_its_link_is_down() -> None:
    decide(claim(given("nic", NIC, adminAccess=True)), node(nic(0, ports=(port("down"),))))


@pytest.mark.parametrize("of_pf", ["active", None])
@pytest.mark.parametrize("state", ["down", "init", None])
def test_a_vfs_own_link_may_be_down(state: str | None, of_pf: str | None) -> None:
    """The pod that has the VF, or the GUID that it is given, brings it up."""
    vfs = (ethernet_vf(0, ports=(port(state),)), ethernet_vf(1))
    inventory = node(nic(0, vfs=vfs, ports=(port(of_pf),)))
    assert chosen(claim(any_vf()), inventory=inventory) == [VFS[0]]
    assert chosen(claim(given("nic", VFS[0])), inventory=inventory) == [VFS[0]]


@pytest.mark.parametrize("device", [any_vf(), given("nic", VFS[0])], ids=["any-vf", "named-vf"])
def test_a_vf_has_no_link_while_its_nic_has_none(device: DeviceRequestAllocationResult) -> None:
    inventory = node(nic(0, vfs=(ethernet_vf(0), ethernet_vf(1)), ports=(port("down"),)))
    with pytest.raises(NodeError, match=rf"the link of its NIC {NIC} is not active \(down\)"):
        decide(claim(device), inventory)
    tolerations = [{"key": "rootport.dev/link-down", "operator": "Exists"}]
    for puts_up in ({"tolerations": tolerations}, {"adminAccess": True}):
        decide(claim(device.model_validate(device.to_wire() | puts_up)), inventory)


@pytest.mark.parametrize(
    ("of", "inventory", "use"),
    [
        (claim(given("nic", NIC)), SHARED, NicUse(nic=DeviceName(NIC), nic_bandwidth=FULL)),
        (claim(given("nic", NIC)), node(nic(0)), NicUse(nic=DeviceName(NIC))),
        (claim(of_bandwidth("400G")), SHARED, NicUse(nic=DeviceName(NIC), nic_bandwidth=FULL)),
        (
            claim(of_bandwidth("100G")),
            SHARED,
            NicUse(nic=DeviceName(NIC), bandwidth=100 * 10**9, nic_bandwidth=FULL),
        ),
        (claim(of_bandwidth("100G")), node(nic(0)), NicUse(nic=DeviceName(NIC), bandwidth=100 * 10**9)),
        (claim(any_vf()), NODE, NicUse(nic=DeviceName(NIC), vf=DeviceName(VFS[0]), nic_bandwidth=FULL)),
        (
            claim(given("nic", VFS[2])),
            NODE,
            NicUse(nic=DeviceName(NIC), vf=DeviceName(VFS[2]), nic_bandwidth=FULL),
        ),
    ],
    ids=["whole", "speed-unknown", "all-of-it", "share", "share-speed-unknown", "any-vf", "named-vf"],
)
def test_how_a_claim_uses_a_nic_is_told(of: ResourceClaim, inventory: Inventory, use: NicUse) -> None:
    assert decide(of, inventory).nic_uses == (use,)
    (device,) = prepare_plan(of, inventory).devices
    assert device.nic_use == use
    assert device.use is None


def test_shares_of_one_nic_go_together_up_to_its_bandwidth() -> None:
    decide(claim(of_bandwidth("300G", "a", 0), of_bandwidth("100G", "b", 1)), SHARED)
    with pytest.raises(InputError, match=r"the claim's shares of this NIC are 401G of its 400G bits per second"):
        decide(claim(of_bandwidth("300G", "a", 0), of_bandwidth("101G", "b", 1)), SHARED)
    with pytest.raises(InputError, match=r"request b, .* with all of its bandwidth, and to request a as well"):
        decide(claim(of_bandwidth("1G", "a", 0), of_bandwidth("400G", "b", 1)), SHARED)


def test_shares_by_percent_go_together_up_to_100() -> None:
    def of_ratio(amount: str, request: str, number: int) -> DeviceRequestAllocationResult:
        return given(request, NIC, shareID=SHARE_IDS[number], consumedCapacity={"bandwidthRatio": amount})

    unknown = node(nic(0))
    for inventory in (unknown, SHARED):
        decide(claim(of_ratio("50", "a", 0), of_ratio("50", "b", 1)), inventory)
        with pytest.raises(InputError, match="the claim's shares of this NIC are 101 percent of its bandwidth"):
            decide(claim(of_ratio("50", "a", 0), of_ratio("51", "b", 1)), inventory)
    (use,) = decide(claim(of_ratio("100", "a", 0)), unknown).nic_uses
    assert not use.is_part
    for wrong in ("0", "101", "500m"):
        with pytest.raises(InputError, match="expected whole percent from 1 to 100"):
            decide(claim(of_ratio(wrong, "a", 0)), unknown)


def reserving(number: int = 0, device: str = POOL, **amount: str) -> DeviceRequestAllocationResult:
    consumed = {"vfs": "1", **amount}
    return given(f"nic{number}", device, shareID=SHARE_IDS[number], consumedCapacity=consumed)


def test_what_the_vfs_of_a_claim_reserve_is_no_more_than_their_nic_has() -> None:
    decision = decide(claim(reserving(0, bandwidth="300G"), reserving(1, bandwidth="100G"), reserving(2)), NODE)
    assert [use.bandwidth for use in decision.nic_uses] == [300 * 10**9, 100 * 10**9, None]
    assert [use.bandwidth for use in decide(claim(reserving(bandwidth="0")), NODE).nic_uses] == [None]
    with pytest.raises(InputError, match="401G of its 400G bits per second"):
        decide(claim(reserving(0, bandwidth="300G"), reserving(1, bandwidth="101G")), NODE)
    with pytest.raises(InputError, match="two ways to say one amount"):
        decide(claim(reserving(bandwidth="1G", bandwidthRatio="1")), NODE)


@pytest.mark.parametrize(
    ("amount", "limit"),
    [
        pytest.param({"bandwidth": "10G"}, 10_000, id="bits per second"),
        pytest.param({"bandwidth": "1999999"}, 1, id="rounded down"),
        pytest.param({"bandwidth": "1"}, 1, id="never 0, which is no limit"),
        pytest.param({"bandwidthRatio": "33"}, 132_000, id="percent"),
    ],
)
def test_a_class_can_have_a_vf_limited_to_what_it_reserves(amount: dict[str, str], limit: int) -> None:
    decision = decide(claim(reserving(**amount), configs=(of_class({"limitToBandwidth": True}),)), NODE)
    (effect,) = decision.effects
    assert isinstance(effect, ConfigureVf)
    assert (effect.settings, effect.rate_limit) == (VfSettings(), limit)
    name = DeviceName(VFS[0])
    for not_limited, enforced, said in (({}, True, f"{limit} Mb/s"), ({name: "no rates"}, False, "no rates")):
        (device,) = finish(decision, mig_devices={}, not_limited=not_limited).devices
        assert device.isolation is not None
        assert (device.isolation.enforced, device.isolation.by) == (enforced, "SR-IOV")
        assert said in device.isolation.message


def test_a_percentage_of_an_unknown_speed_limits_nothing_and_says_so() -> None:
    unknown = node(nic(0, vfs=tuple(ethernet_vf(index) for index in range(2))))
    decision = decide(claim(reserving(bandwidthRatio="50"), configs=(of_class({"limitToBandwidth": True}),)), unknown)
    assert decision.effects == ()
    (device,) = finish(decision, mig_devices={}).devices
    assert device.isolation is not None
    assert not device.isolation.enforced
    assert "speed is not" in device.isolation.message


def test_a_vf_that_reserves_nothing_is_not_limited() -> None:
    decision = decide(claim(reserving(), configs=(of_class({"limitToBandwidth": True}),)), NODE)
    assert decision.effects == ()
    (device,) = finish(decision, mig_devices={}).devices
    assert device.isolation is None


def test_a_limit_stands_instead_of_rates() -> None:
    settings = {"limitToBandwidth": True, "maxTxRate": 5}
    with pytest.raises(InputError, match="instead of minTxRate and maxTxRate"):
        decide(claim(reserving(bandwidth="1G"), configs=(of_class(settings),)), NODE)


def test_a_link_that_became_slower_than_what_was_allocated_is_no_fault_of_the_claim() -> None:
    with pytest.raises(NodeError, match="was allocated 300G bits per second, but its link has 200G"):
        decide(claim(of_bandwidth("300G")), node(nic(0, ports=(port(speed=200),))))


@pytest.mark.parametrize(
    ("result", "part"),
    [
        (of_bandwidth("0"), "consumedCapacity[bandwidth]: '0': expected whole bits per second, at least 1"),
        (of_bandwidth("1500m"), "consumedCapacity[bandwidth]: '1500m': expected whole bits per second"),
        (given("nic", NIC, consumedCapacity={"bandwidth": "1G"}), "shareID: is missing"),
        (given("nic", NIC, shareID=SHARE_IDS[0]), "consumedCapacity: is missing"),
        (
            given("nic", NIC, shareID=SHARE_IDS[0], consumedCapacity={"bandwidth": "1", "rootport.dev/bandwidth": "1"}),
            "bandwidth is named twice",
        ),
        (
            given("nic", NIC, shareID=SHARE_IDS[0], consumedCapacity={"core": "1"}),
            "a device of type rdma has bandwidth or bandwidthRatio to consume",
        ),
    ],
    ids=["none", "fraction", "no-share", "no-amount", "twice", "another"],
)
def test_an_amount_of_a_nic_that_is_none_is_refused(result: object, part: str) -> None:
    with pytest.raises(InputError) as caught:
        decide(claim(result), SHARED)
    assert part in caught.value.message
    assert f"(request nic, device {NIC})" in caught.value.message


@pytest.mark.parametrize("amount", ["0", "2"])
def test_each_result_is_one_vf(amount: str) -> None:
    with pytest.raises(InputError, match=r"consumedCapacity\[vfs\]: .* expected 1"):
        decide(claim(given("nic", POOL, shareID=SHARE_IDS[0], consumedCapacity={"vfs": amount})), NODE)


def test_what_a_claim_itself_asks_of_a_nic_is_checked() -> None:
    requests = ({"name": "nic", "exactly": {"deviceClassName": "x", "capacity": {"requests": {"bandwidth": "500G"}}}},)
    with pytest.raises(InputError, match=r"requests\[bandwidth\]: '500G' is more than rdma-0000-40-00-0 has \(400G\)"):
        decide(claim(of_bandwidth("400G"), requests=requests), SHARED)


def test_the_settings_of_a_vf_become_an_effect() -> None:
    settings = {"vlan": 100, "vlanQoS": 3, "trust": True, "spoofCheck": False, "minTxRate": 1000, "maxTxRate": 2000}
    of = claim(any_vf(), configs=(of_class(settings),))
    (effect,) = decide(of, NODE, nics=taken(VFS[0])).effects
    assert effect == ConfigureVf(
        function=VFS[1],
        address="0000:40:00.2",
        pf_address="0000:40:00.0",
        index=1,
        settings=VfSettings(vlan=100, vlan_qos=3, trust=True, spoof_check=False, min_tx_rate=1000, max_tx_rate=2000),
    )
    assert effect.target == VFS[1]


def test_a_claim_keeps_the_vlan_of_its_class_and_gives_itself_none() -> None:
    configs = (of_class({"vlan": 5}), config(parameters("RdmaConfig", environment=False)))
    (effect,) = decide(claim(any_vf(), configs=configs), NODE).effects
    assert isinstance(effect, ConfigureVf)
    assert effect.settings == VfSettings(vlan=5)
    own = (config(parameters("RdmaConfig", vf={"vlan": 6})),)
    assert "opaque.parameters.vf: is for administrators: expected in a DeviceClass" in refused(
        claim(any_vf(), configs=own), NODE
    )


@pytest.mark.parametrize("vf", [None, {}, {"vlan": None}], ids=str)
def test_no_setting_is_no_effect(vf: object) -> None:
    configs = (of_class(vf),)
    assert decide(claim(any_vf(), configs=configs), NODE).effects == ()
    assert decide(claim(given("nic", NIC), configs=configs), SHARED).effects == ()


def refused(of: ResourceClaim, inventory: Inventory) -> str:
    with pytest.raises(InputError) as caught:
        decide(of, inventory)
    assert caught.value.message.startswith(CLAIM_OF)
    assert caught.value.hint
    return caught.value.message


def test_a_physical_function_has_no_settings_of_a_vf() -> None:
    of = claim(given("nic", NIC), configs=(of_class({"vlan": 5}),))
    assert "is a physical function: the settings vf of its DeviceClass" in refused(of, SHARED)


@pytest.mark.parametrize(
    ("vf", "layer", "part"),
    [
        ({"guid": "00:11:22:33:44:55:66:77"}, LinkLayer.ETHERNET, "its link is ethernet, which has no guid"),
        (
            {"vlan": 5, "vlanQoS": 1, "spoofCheck": True},
            LinkLayer.INFINIBAND,
            "its link is infiniband, which has no vlan, vlanQoS, spoofCheck",
        ),
        ({"minTxRate": 400_001}, LinkLayer.ETHERNET, "minTxRate 400001 Mb/s is more than the NIC has (400 Gb/s)"),
    ],
    ids=["guid", "vlan", "rate"],
)
def test_a_setting_that_the_link_does_not_have_is_refused(vf: object, layer: LinkLayer, part: str) -> None:
    inventory = node(nic(0, vfs=(ethernet_vf(0, ports=(port(layer=layer),)),), ports=(port(layer=layer),)))
    of = claim(any_vf(), configs=(of_class(vf),))
    assert part in refused(of, inventory)


def test_two_vfs_cannot_have_one_guid() -> None:
    inventory = node(nic(0, vfs=tuple(ethernet_vf(i, ports=(port(layer=LinkLayer.INFINIBAND),)) for i in range(2))))
    configs = (of_class({"guid": "00:11:22:33:44:55:66:77"}),)
    message = refused(claim(any_vf("a", 0), any_vf("b", 1), configs=configs), inventory)
    assert f"would have the GUID 00:11:22:33:44:55:66:77, as request a, device {POOL}" in message


def test_gpu_and_nic_are_told_how_far_they_are() -> None:
    plan = prepare_plan(
        claim(given("gpu", "gpu-0000-10-00-0"), any_vf("n", 0), any_vf("n", 1)), NODE, metadata_root="/m"
    )
    of_gpu, first, second = plan.devices
    assert of_gpu.distances == ((POOL, "NODE"),)
    assert first.distances == second.distances == (("gpu-0000-10-00-0", "NODE"),)
    told = {file.relative_path.partition("/")[2]: json.loads(file.content) for file in plan.files}
    (told_gpu,) = told["gpu.json"]["requests"][0]["devices"]
    assert told_gpu["attributes"]["distances"] == {"string": f"{POOL}=NODE"}


def test_without_both_kinds_nothing_is_told_of_distances() -> None:
    for of in (claim(given("gpu", "gpu-0000-10-00-0")), claim(any_vf())):
        assert [device.distances for device in prepare_plan(of, NODE).devices] == [()]
    watched = claim(given("gpu", "gpu-0000-10-00-0"), given("nic", VFS[0], adminAccess=True))
    assert [device.distances for device in prepare_plan(watched, NODE).devices] == [(), ()]


def test_each_vf_of_a_pool_is_told_by_its_own_facts() -> None:
    plan = prepare_plan(claim(any_vf("nic", 0), any_vf("nic", 1)), NODE, metadata_root="/m")
    devices = json.loads(plan.files[0].content)["requests"][0]["devices"]
    assert [device["name"] for device in devices] == [POOL, POOL]
    facts = [device["attributes"] for device in devices]
    assert [fact["resource.kubernetes.io/pciBusID"]["string"] for fact in facts] == ["0000:40:00.1", "0000:40:00.2"]
    assert [fact["rdmaDevice"]["string"] for fact in facts] == ["mlx5_10", "mlx5_11"]
    assert [fact["ifName"]["string"] for fact in facts] == ["enp64s0v0", "enp64s0v1"]


@every(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=5),
    st.sets(st.sampled_from(VFS)),
    st.lists(st.sampled_from(VFS), max_size=2, unique=True),
)
def test_no_choice_takes_what_is_taken(pooled: list[str], others: set[str], named: list[str]) -> None:
    pool = [any_vf(request, number) for number, request in enumerate(pooled)]
    of = claim(*pool, *(given("named", name) for name in named))
    nics = taken(*(others - set(named)))
    free = [name for name in VFS if name not in others | set(named)]
    try:
        found = chosen(of, nics)
    except NodeError:
        assert len(free) < len(pooled)
        return
    assert found == [*free[: len(pooled)], *named]


def test_vfs_that_are_not_alike_are_given_by_name_alone() -> None:
    vfs = (ethernet_vf(0), ethernet_vf(1, ports=(port(layer=LinkLayer.INFINIBAND),)))
    inventory = node(nic(0, vfs=vfs))
    with pytest.raises(NodeError, match="is not among the"):
        decide(claim(any_vf()), inventory)
    assert chosen(claim(given("nic", VFS[1])), inventory=inventory) == [VFS[1]]
