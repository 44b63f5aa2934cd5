"""How RDMA NICs are published: whole and shared, VFs in pools and by name; links that are down."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.policies import ExtraAttribute
from driver.api.resource_v1 import Device
from driver.layout.devices import device_attributes
from driver.layout.left_out import left_out, left_out_notes
from driver.layout.slices import resource_slices
from driver.model.devices import LinkLayer, RdmaNetnsMode, RdmaNic, RdmaPort
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from tests.support.machines import NAMED_VFS, address, gpu, nic, node, published, value
from tests.support.mig_machines import dgx_h100
from tests.support.slice_validation import validate_slices
from tests.support.topologies import machine_file


def policies(**rule: Any) -> NicPolicies:
    return NicPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "NicPolicies", "policies": [rule]}
    )


def ports(*states: str | None, layer: LinkLayer = LinkLayer.INFINIBAND) -> tuple[RdmaPort, ...]:
    return tuple(
        RdmaPort(number=number, link_layer=layer, state=state, speed_gbps=400) for number, state in enumerate(states, 1)
    )


def with_vf_ports(pf: RdmaNic, *of_vfs: tuple[RdmaPort, ...]) -> RdmaNic:
    return replace(pf, vfs=tuple(replace(vf, ports=its) for vf, its in zip(pf.vfs, of_vfs, strict=True)))


def taints(device: Device) -> list[tuple[str, str, str]]:
    return [(taint.key, taint.value, taint.effect) for taint in device.taints]


# Whole NICs.


@pytest.mark.parametrize(
    ("inventory", "rules"),
    [
        pytest.param(node(nic("0b")), policies(sharing=False), id="the policy"),
        pytest.param(
            replace(node(nic("0b")), rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE), DEFAULT_NIC_POLICIES, id="exclusive mode"
        ),
    ],
)
def test_a_nic_that_cannot_be_shared_is_given_once(inventory: Inventory, rules: NicPolicies) -> None:
    (device,) = published(inventory, nic_policies=rules)
    assert device.name == "rdma-0000-0b-00-0"
    assert device.capacity == {}
    assert not device.allow_multiple_allocations


def test_the_bandwidths_of_shares_are_the_policys() -> None:
    rules = policies(models=["*-7"], bandwidth={"minimum": "50G", "step": "100G"})
    first, other = published(node(nic("0b", model="ConnectX-7"), nic("0c", model="x")), nic_policies=rules)
    assert first.to_wire()["capacity"]["bandwidth"] == {
        "value": "400G",
        "requestPolicy": {"default": "400G", "validRange": {"min": "50G", "max": "400G", "step": "50G"}},
    }
    assert other.to_wire()["capacity"]["bandwidth"]["requestPolicy"]["default"] == "400G"


@pytest.mark.parametrize(
    ("speed", "minimum", "step", "wanted"),
    [
        pytest.param(25, "10G", "10G", {"min": "10G", "max": "25G", "step": "5G"}, id="steps that do not end there"),
        pytest.param(400, "100G", "100G", {"min": "100G", "max": "400G", "step": "100G"}, id="steps that do"),
        pytest.param(10, "25G", "1G", {"min": "10G", "max": "10G"}, id="less than the minimum"),
        pytest.param(10, "1G", "100G", {"min": "1G", "max": "10G", "step": "1G"}, id="less than a step"),
    ],
)
def test_who_names_no_bandwidth_is_given_all_of_it_whatever_the_steps(
    speed: int, minimum: str, step: str, wanted: dict[str, str]
) -> None:
    rules = policies(bandwidth={"minimum": minimum, "step": step})
    (device,) = published(node(nic("0b", ports=(RdmaPort(speed_gbps=speed),))), nic_policies=rules)
    policy = device.to_wire()["capacity"]["bandwidth"]["requestPolicy"]
    assert policy == {"default": f"{speed}G", "validRange": wanted}


@pytest.mark.parametrize(
    ("ports", "rules", "wanted"),
    [
        pytest.param((), policies(), {"min": "1", "max": "100", "step": "1"}, id="speed unknown"),
        pytest.param(
            (RdmaPort(speed_gbps=2**62),), policies(), {"min": "1", "max": "100", "step": "1"}, id="absurd speed"
        ),
        pytest.param(
            (RdmaPort(speed_gbps=400),), policies(unit="percent"), {"min": "1", "max": "100", "step": "1"}, id="policy"
        ),
        pytest.param(
            (),
            policies(bandwidthRatio={"minimum": 30, "step": 20}),
            {"min": "30", "max": "100", "step": "10"},
            id="steps that do not end at 100",
        ),
        pytest.param((), policies(bandwidthRatio={"minimum": 100}), {"min": "100", "max": "100"}, id="100 alone"),
    ],
)
def test_a_nic_is_shared_by_percent_where_its_speed_is_not_known_or_the_policy_says_so(
    ports: tuple[RdmaPort, ...], rules: NicPolicies, wanted: dict[str, str]
) -> None:
    inventory = node(nic("0b", ports=ports))
    (device,) = published(inventory, nic_policies=rules)
    assert device.to_wire()["capacity"] == {
        "bandwidthRatio": {"value": "100", "requestPolicy": {"default": "100", "validRange": wanted}}
    }
    assert validate_slices(resource_slices(inventory, nic_policies=rules)) == ()


@pytest.mark.parametrize(
    ("speed", "rules", "name", "wanted"),
    [
        pytest.param(400, policies(), "bandwidth", ("400G", "400G", "1G"), id="bits per second"),
        pytest.param(
            25,
            policies(bandwidth={"minimum": "10G", "step": "10G"}),
            "bandwidth",
            ("25G", "25G", "5G"),
            id="steps that do not end there",
        ),
        pytest.param(None, policies(), "bandwidthRatio", ("100", "100", "1"), id="speed unknown"),
        pytest.param(400, policies(unit="percent"), "bandwidthRatio", ("100", "100", "1"), id="policy"),
    ],
)
def test_vfs_of_a_pool_reserve_none_of_their_nics_bandwidth_unless_they_name_it(
    speed: int | None, rules: NicPolicies, name: str, wanted: tuple[str, str, str]
) -> None:
    ports = () if speed is None else (RdmaPort(speed_gbps=speed),)
    inventory = node(nic("0b", ports=ports, vfs=2))
    (device,) = published(inventory, nic_policies=rules)
    value, most, step = wanted
    assert device.to_wire()["capacity"][name] == {
        "value": value,
        "requestPolicy": {"default": "0", "validRange": {"min": "0", "max": most, "step": step}},
    }
    assert validate_slices(resource_slices(inventory, nic_policies=rules)) == ()


def test_where_no_device_can_be_shared_vfs_are_published_by_name() -> None:
    slices = resource_slices(node(nic("0a", vfs=2)), has_shares=False)
    names = [device.name for part in slices for device in part.spec.devices]
    assert names == ["rdma-vf-0000-0a-01-0", "rdma-vf-0000-0a-01-1"]


# Pools.


def test_a_pool_says_what_is_so_whichever_vf_a_claim_gets() -> None:
    described = nic(
        "0b", 0, "f1", ports=ports("active"), vfs=3, vendor="nvidia", model="ConnectX-7", rail=3, rdma_device="mlx5_0"
    )
    described = replace(described, pcie=replace(described.pcie, root="pci0000:00"), if_names=("ib0",))
    described = with_vf_ports(described, ports("active"), ports("down"), ports("active"))
    (device,) = published(replace(node(described), rdma_netns_mode=RdmaNetnsMode.EXCLUSIVE))
    assert device.to_wire() == {
        "name": "rdma-vfs-0000-0b-00-0",
        "attributes": {
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "type": {"string": "rdma-vf"},
            "vendor": {"string": "nvidia"},
            "model": {"string": "ConnectX-7"},
            "numaNode": {"int": 0},
            "pcieSwitch": {"string": "0000:f1:00.0"},
            "linkType": {"string": "infiniband"},
            "linkSpeed": {"int": 400},
            "linkState": {"string": "active"},
            "rail": {"int": 3},
            "rdmaNetns": {"string": "exclusive"},
            "parent": {"string": "0000:0b:00.0"},
        },
        "capacity": {
            "vfs": {"value": "3", "requestPolicy": {"default": "1", "validValues": ["1"]}},
            "bandwidth": {
                "value": "400G",
                "requestPolicy": {"default": "0", "validRange": {"min": "0", "max": "400G", "step": "1G"}},
            },
        },
        "allowMultipleAllocations": True,
    }


def test_eight_nics_with_sixteen_vfs_each_cost_eight_devices() -> None:
    inventory = node(*(nic(f"{bus:02x}", bus // 4, vfs=16) for bus in range(8)))
    devices = published(inventory)
    assert len(devices) == 8
    assert {device.capacity["vfs"].value.ceil() for device in devices} == {16}
    assert len(published(inventory, nic_policies=NAMED_VFS)) == 128
    assert validate_slices(resource_slices(inventory)) == ()


def test_vfs_that_are_not_alike_are_published_by_name_whatever_the_policy() -> None:
    mixed = with_vf_ports(nic("0b", vfs=2), ports("active"), ports("active", layer=LinkLayer.ETHERNET))
    assert [device.name for device in published(node(mixed))] == ["rdma-vf-0000-0b-01-0", "rdma-vf-0000-0b-01-1"]


def test_vfs_without_device_nodes_are_in_no_pool_and_left_out() -> None:
    pf = nic("0b", vfs=3)
    bound = replace(pf, vfs=(pf.vfs[0], replace(pf.vfs[1], verbs_minor=None), pf.vfs[2]))
    (device,) = published(node(bound))
    assert device.capacity["vfs"].value.ceil() == 2
    reasons: dict[str, str] = dict(left_out(node(bound)))
    assert reasons.keys() == {"rdma-0000-0b-00-0", "rdma-vf-0000-0b-01-1"}
    assert "no device node" in reasons["rdma-vf-0000-0b-01-1"]
    assert "VFs" in reasons["rdma-0000-0b-00-0"]
    none = replace(pf, vfs=tuple(replace(vf, verbs_minor=None) for vf in pf.vfs))
    assert published(node(none)) == []
    assert len(left_out(node(none))) == 4


def test_vfs_that_a_pool_gives_are_not_left_out() -> None:
    (note,) = left_out_notes(node(nic("0a", vfs=2)))
    assert note.endswith(": rdma-0000-0a-00-0")


def test_a_pool_counts_as_a_nic_beside_a_gpu() -> None:
    inventory = node(gpu("0a", 0, "f0"), gpu("0b", 1, "f1"), nic("0c", 0, "f0", vfs=2))
    assert [device.name for device in published(inventory, "gpu")] == ["gpu-0000-0b-00-0", "gpu-0000-0a-00-0"]


def test_the_attributes_of_a_pool_and_of_its_vfs_can_be_had_by_name() -> None:
    inventory = replace(node(nic("0b", vfs=2, vendor="nvidia")), rdma_netns_mode=RdmaNetnsMode.SHARED)
    pool, vf = "rdma-vfs-0000-0b-00-0", "rdma-vf-0000-0b-01-1"
    found = device_attributes(inventory, [pool, vf])
    wire = {name: {key: value.to_wire() for key, value in values.items()} for name, values in found.items()}
    assert wire == {
        device.name: device.to_wire()["attributes"]
        for device in (published(inventory)[0], published(inventory, nic_policies=NAMED_VFS)[1])
    }
    assert found[vf]["k8s.cni.cncf.io/deviceID"].value == "0000:0b:01.1"


# Links.


@pytest.mark.parametrize(
    ("states", "told", "taint"),
    [
        pytest.param(["active"], "active", None, id="active"),
        pytest.param([None], None, None, id="unknown"),
        pytest.param([], None, None, id="no port"),
        pytest.param(["down"], "down", "down", id="down"),
        pytest.param(["init"], "init", "init", id="init"),
        pytest.param(["down", "active"], "active", None, id="one of two ports"),
        pytest.param(["init", "down"], "init", "init", id="neither of two ports"),
        pytest.param([None, "down"], "down", "down", id="one known"),
        pytest.param(["no such state"], "no such state", "unknown", id="a state that no taint can carry"),
        pytest.param(["x" * 70], None, "unknown", id="a state of any length"),
    ],
)
@pytest.mark.parametrize("rules", [DEFAULT_NIC_POLICIES, NAMED_VFS], ids=["pooled", "named"])
@pytest.mark.parametrize("vfs", [0, 1], ids=["PF", "VF"])
def test_what_has_no_link_is_tainted(
    states: list[str | None], told: str | None, taint: str | None, rules: NicPolicies, vfs: int
) -> None:
    pf = nic("0b", ports=ports(*states), vfs=vfs)
    pf = with_vf_ports(pf, *[ports(*states)] * vfs)
    slices = resource_slices(node(pf), nic_policies=rules)
    assert validate_slices(slices) == ()
    (device,) = slices[0].spec.devices
    assert value(device, "linkState") == told
    assert taints(device) == ([] if taint is None else [("rootport.dev/link-down", taint, "NoSchedule")])


@pytest.mark.parametrize(
    ("of_pf", "of_vf", "is_down"),
    [
        pytest.param("active", "active", False, id="both up"),
        pytest.param("active", "down", False, id="the VF down"),
        pytest.param("active", None, False, id="the VF unknown"),
        pytest.param("down", "active", True, id="the PF down"),
        pytest.param("down", None, True, id="the PF down, the VF unknown"),
        pytest.param(None, "down", False, id="the PF unknown"),
    ],
)
@pytest.mark.parametrize("rules", [DEFAULT_NIC_POLICIES, NAMED_VFS], ids=["pooled", "named"])
def test_a_vf_is_tainted_while_its_nic_has_no_link(
    of_pf: str | None, of_vf: str | None, rules: NicPolicies, *, is_down: bool
) -> None:
    """Its own state changes when a pod has it: its interface is brought up, it is given a GUID."""
    pf = with_vf_ports(nic("0b", ports=ports(of_pf), vfs=2), ports(of_vf), ports(of_vf))
    devices = published(node(pf), nic_policies=rules)
    expected = [("rootport.dev/link-down", "down", "NoSchedule")] if is_down else []
    assert [taints(device) for device in devices] == [expected] * (2 if rules is NAMED_VFS else 1)
    if rules is DEFAULT_NIC_POLICIES:
        assert devices[0].capacity["vfs"].value.ceil() == 2  # a link that flaps changes no amount


def test_a_named_vf_tells_its_nic_s_link_state() -> None:
    pf = with_vf_ports(nic("0b", ports=ports("down"), vfs=3), ports(None), ports("active"), ports("init"))
    devices = published(node(pf), nic_policies=NAMED_VFS)
    assert [value(device, "linkState") for device in devices] == ["down"] * 3


@pytest.mark.parametrize(("down", "sizes"), [(70, [70, 30]), (0, [64, 36])], ids=["behind 64", "the first"])
def test_a_slice_with_a_taint_has_at_most_64_devices(down: int, sizes: list[int]) -> None:
    nics = (nic(f"{bus:02x}", ports=ports("down" if bus == down else "active")) for bus in range(100))
    slices = resource_slices(node(*nics))
    assert validate_slices(slices) == ()
    assert [len(part.spec.devices) for part in slices] == sizes


def test_what_a_claim_may_set_of_a_vf_is_no_attribute_of_it() -> None:
    """Otherwise each pod that comes and goes would have the slices written anew."""
    pf = nic("0a", vfs=1)
    set_up = replace(pf, vfs=(replace(pf.vfs[0], ports=(RdmaPort(state="active", guid="0002:c903:00a1:b2c3"),)),))
    plain = replace(pf, vfs=(replace(pf.vfs[0], ports=(RdmaPort(state="down"),)),))
    assert published(node(set_up), nic_policies=NAMED_VFS) == published(node(plain), nic_policies=NAMED_VFS)


# What a policy says of rails, and publishes beyond Rootport's own attributes.


def rails(*entries: dict[str, Any]) -> list[int | str | None]:
    """What three NICs have by these rules; by convention they have rails 0, 1 and 2."""
    nics = (
        nic("0a", rail=0, rdma_device="mlx5_0", if_names=("eth1", "ib0")),
        nic("0b", rail=1, rdma_device="mlx5_1", if_names=("ib1",)),
        nic("0c", None, "f1", rail=2, rdma_device="mlx5_2"),
    )
    return sorted_by_name(published(node(*nics), nic_policies=policies(rails=entries)))


def sorted_by_name(devices: list[Device]) -> list[int | str | None]:
    return [value(device, "rail") for device in sorted(devices, key=lambda device: device.name)]


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        pytest.param([{"rail": 7, "ifNames": ["ib0"]}, {"rail": 6, "ifNames": ["ib*"]}], [7, 6, None], id="interfaces"),
        pytest.param([{"rail": 5, "rdmaDevices": ["mlx5_[01]"]}], [5, 5, None], id="RDMA devices"),
        pytest.param([{"rail": 4, "pciAddresses": ["0000:0b:00.0"]}], [None, 4, None], id="PCI addresses"),
        pytest.param([{"rail": 3, "pcieSwitches": ["0000:f1:00.0"]}], [None, None, 3], id="switches"),
        pytest.param([{"rail": 3, "ifNames": ["*"], "rdmaDevices": ["mlx5_2"]}], [None, None, 3], id="all must match"),
        pytest.param([], [None, None, None], id="none has a rail"),
    ],
)
def test_a_policy_says_which_nics_are_on_which_rail(entries: list[dict[str, Any]], wanted: list[int | None]) -> None:
    assert rails(*entries) == wanted


def test_without_a_word_of_the_policy_rails_are_by_convention() -> None:
    nics = (nic("0a", model="CX7", rail=0), nic("0b", model="CX6", rail=1))
    rules = policies(models=["CX6"], rails=[{"rail": 9, "ifNames": ["*"]}])
    assert sorted_by_name(published(node(*nics), nic_policies=rules)) == [0, 9]


@pytest.mark.parametrize("vfs", ["pooled", "named"])
def test_vfs_are_on_the_rail_that_the_policy_gives_their_nic(vfs: str) -> None:
    rules = policies(vfs=vfs, rails=[{"rail": 9, "rdmaDevices": ["mlx5_0"]}])
    found = published(node(nic("0a", vfs=2, rdma_device="mlx5_0", rail=0)), nic_policies=rules)
    assert {value(device, "rail") for device in found} == {9}


@pytest.mark.parametrize("vfs", [0, 2])
@pytest.mark.parametrize("mode", ["pooled", "named"])
def test_a_nic_with_every_attribute_has_room_for_as_many_extra_ones_as_there_can_be(mode: str, vfs: int) -> None:
    (described, *_) = eight_nics(vfs)
    described = replace(
        described, vfs=tuple(replace(vf, pcie=described.pcie, rail=0, model="VF", if_names=("e",),
                                     rdma_device="m", ports=described.ports) for vf in described.vfs)
    )  # fmt: skip
    entries = [{"name": f"dra.net/name{number}", "from": "vendor"} for number in range(ExtraAttribute.MOST)]
    inventory = replace(node(described), rdma_netns_mode=RdmaNetnsMode.SHARED)
    slices = resource_slices(inventory, nic_policies=policies(vfs=mode, extraAttributes=entries))
    assert validate_slices(slices) == ()
    for device in (device for part in slices for device in part.spec.devices):
        assert value(device, f"dra.net/name{ExtraAttribute.MOST - 1}") == "nvidia"
        assert len(device.attributes) + len(device.capacity) <= 32


# Size.


def eight_nics(vfs: int = 0) -> tuple[RdmaNic, ...]:
    """As sysfs tells them of a DGX H100: one beside each GPU, with all attributes."""
    made = []
    for index, bus in enumerate(range(0x10, 0x90, 0x10)):
        place = PciePath(root=f"pci0000:{bus:02x}", switches=(address(f"{bus + 1:02x}"),), numa_node=index // 4)
        port = RdmaPort(
            link_layer=LinkLayer.INFINIBAND, speed_gbps=400, state="active", guid=f"946d:ae03:00f1:2a{index:02x}"
        )
        pf = nic(
            f"{bus + 2:02x}",
            vfs=vfs,
            pcie=place,
            index=index,
            rdma_device=f"mlx5_{index}",
            if_names=(f"ibp{bus + 2}s0",),
            vendor="nvidia",
            model="MT2910 Family [ConnectX-7]",
            rail=index,
            ports=(port,),
        )
        made.append(pf)
    return tuple(made)


def size(inventory: Inventory) -> int:
    slices = resource_slices(inventory)
    assert validate_slices(slices) == ()
    return sum(len(json.dumps(part.to_wire(), separators=(",", ":")).encode()) for part in slices)


@pytest.mark.parametrize(("vfs", "limit"), [(0, 8_000), (16, 6_500)], ids=["shared NICs", "pools of 16 VFs"])
def test_eight_nics_add_little_to_the_slices_of_eight_h100s(vfs: int, limit: int) -> None:
    gpus = replace(dgx_h100(), rdma_netns_mode=RdmaNetnsMode.SHARED)
    assert size(replace(gpus, nics=eight_nics(vfs))) - size(gpus) < limit  # docs/design/layout.md quotes the figure


def test_eight_nics_of_unknown_speed_add_little_to_the_slices_of_a_real_machine() -> None:
    topology = machine_file("azure-nd-h100-v5")
    inventory = read_topology(topology, hardware=HardwareFacts(gpu_model="H100"))
    assert (len(inventory.gpus), len(inventory.nics)) == (8, 8)
    gpus = size(replace(inventory, nics=()))
    assert gpus < 100_000
    assert size(inventory) - gpus < 5_200  # docs/design/layout.md quotes the figure


def test_a_device_with_every_attribute_stays_far_from_the_limit_of_32() -> None:
    full = replace(node(*eight_nics()), rdma_netns_mode=RdmaNetnsMode.SHARED)
    assert max(len(device.attributes) + len(device.capacity) for device in published(full)) <= 20


def test_a_pci_domain_of_five_digits_is_whole_in_what_multus_reads() -> None:
    (device,) = published(node(nic("0b", address=PciAddress("10000:0a:00.0"))))
    assert value(device, "k8s.cni.cncf.io/deviceID") == "10000:0a:00.0"
