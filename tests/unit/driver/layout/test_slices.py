"""The slices around the devices: names, limits, equal bytes for equal hardware."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.files.policies_file import read_policies
from driver.adapters.machines.topology import read_topology
from driver.api.gpu_policies import ExtraGpuAttribute, GpuPolicies
from driver.api.nic_policies import ExtraNicAttribute, NicPolicies
from driver.api.policies import ExtraAttribute
from driver.api.resource_v1 import ResourceSlice
from driver.errors import InputError
from driver.layout import attributes
from driver.layout.left_out import left_out
from driver.layout.names import slice_name
from driver.layout.slices import resource_slices
from driver.model.devices import (
    Fpga,
    Gpu,
    GpuLink,
    LinkKind,
    LinkLayer,
    MigInstance,
    MigPlacement,
    MigProfile,
    MigSupport,
    RdmaNetnsMode,
    RdmaNic,
    RdmaPort,
    RdmaVf,
)
from driver.model.inventory import Inventory, InventorySource
from driver.model.parts import vf_pool
from driver.model.pci import PciAddress, PciePath
from tests.support.machines import NAMED_VFS, fpga, gpu, nic, node, path
from tests.support.mig_machines import A30, A100, H100, mig_gpu
from tests.support.paths import REPO
from tests.support.slice_validation import validate_slices
from tests.support.topologies import REAL_MACHINE_FILES, machine_file

GOLDEN = REPO / "tests" / "data" / "layout" / "azure-nd-h100-v5.yaml"


def to_bytes(slices: tuple[ResourceSlice, ...]) -> bytes:
    return json.dumps([item.to_wire() for item in slices]).encode()


@pytest.mark.parametrize("topology", REAL_MACHINE_FILES, ids=lambda topology: topology.stem)
def test_every_topology_file_gives_valid_slices(topology: Path) -> None:
    assert validate_slices(resource_slices(read_topology(topology))) == ()


def test_azure_nd_h100_v5_gives_the_reviewed_slices() -> None:
    topology = machine_file(GOLDEN.stem)
    facts = HardwareFacts(gpu_model="NVIDIA H100 80GB HBM3", gpu_memory_bytes=80 << 30)
    policies = read_policies(GOLDEN.parent / "without-mig.yaml", GpuPolicies)
    slices = resource_slices(read_topology(topology, node="h100", hardware=facts), policies=policies)
    assert [item.to_wire() for item in slices] == list(yaml.safe_load_all(GOLDEN.read_text()))


def test_a_node_without_devices_has_one_empty_slice_the_driver_is_up() -> None:
    (item,) = resource_slices(node())
    assert item.to_wire() == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name("node-a", "", 0)},
        "spec": {
            "driver": "rootport.dev",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
        },
    }


@pytest.mark.parametrize(("vfs", "sizes"), [(127, [127]), (128, [128]), (129, [128, 1]), (240, [128, 112])])
def test_a_slice_has_at_most_128_devices(vfs: int, sizes: list[int]) -> None:
    slices = resource_slices(node(nic("01", vfs=vfs)), nic_policies=NAMED_VFS)
    assert [len(item.spec.devices) for item in slices] == sizes
    assert {item.spec.pool.resource_slice_count for item in slices} == {len(sizes)}


def test_the_names_sort_in_the_order_of_allocation() -> None:
    slices = resource_slices(node(*(nic(f"{bus:02x}", vfs=128) for bus in range(1, 13))), nic_policies=NAMED_VFS)
    names = [item.metadata.name for item in slices]
    assert len(names) == 12
    assert names == sorted(names)


@pytest.mark.parametrize("length", [200, 235, 236, 253])
def test_a_long_node_name_gives_valid_names_that_differ(length: int) -> None:
    names = {resource_slices(node(name="a" * (length - 1) + end))[0].metadata.name for end in "bc"}
    assert len(names) == 2
    assert validate_slices(resource_slices(node(name="a" * (length - 2) + ".b"))) == ()


def test_equal_hardware_shares_its_devices_between_nodes() -> None:
    inventory = node(gpu("01"), nic("02", vfs=200))
    first, second = (resource_slices(inventory.renamed(name), nic_policies=NAMED_VFS) for name in ("node-b", "node-c"))
    assert all(a.spec.devices is b.spec.devices for a, b in zip(first, second, strict=True))
    assert {item.spec.node_name for item in second} == {"node-c"}


def test_different_hardware_does_not() -> None:
    (first,), (second,) = resource_slices(node(gpu("01", 0))), resource_slices(node(gpu("01", 1)))
    assert first.spec.devices != second.spec.devices


# Random nodes.

SWITCHES = st.lists(st.sampled_from([PciAddress(f"0000:{bus:02x}:00.0") for bus in range(8)]), max_size=3, unique=True)
PATHS = st.builds(
    PciePath,
    root=st.none() | st.sampled_from(["pci0000:00", "pci0000:80"]),
    switches=SWITCHES.map(tuple),
    numa_node=st.none() | st.integers(0, 3),
)
TEXT = st.none() | st.text(max_size=90)
PORTS = st.lists(
    st.builds(
        RdmaPort,
        number=st.integers(1, 4),
        link_layer=st.none() | st.sampled_from(LinkLayer),
        speed_gbps=st.none() | st.integers(0, 800) | st.just(2**62),
        state=st.none() | st.sampled_from(["active", "down", "init", "", "no such state", "x" * 64]),
        guid=st.none() | st.text(max_size=90),
    ),
    max_size=2,
).map(tuple)

PLACES = st.lists(st.builds(MigPlacement, start=st.integers(-1, 33), size=st.integers(0, 9)), max_size=5).map(tuple)
ENGINES = st.integers(-1, 5) | st.just(2**62)
ODD_PROFILES = st.builds(
    MigProfile,
    name=st.text(max_size=70) | st.sampled_from(["1g.10gb", "1g.10gb+me", "1g 10gb", "2g.20gb"]),
    profile_id=st.integers(0, 4),
    compute_slices=ENGINES,
    memory_bytes=st.sampled_from([0, 1, 10 << 30, 2**63]),
    max_instances=st.integers(0, 7),
    placements=PLACES,
    multiprocessors=ENGINES,
    decoders=ENGINES,
    ofa_engines=ENGINES,
)
PROFILES = st.sampled_from([H100, A100, A30, ()]) | st.lists(ODD_PROFILES, max_size=4).map(tuple)
INSTANCES = st.builds(
    MigInstance,
    profile_id=st.integers(0, 20),
    placement=st.builds(MigPlacement, start=st.integers(0, 7), size=st.integers(1, 8)),
    gpu_instance=st.integers(0, 9),
    compute_instance=st.just(0),
    uuid=st.just("MIG-1"),
    gpu_instance_minor=st.just(1),
    compute_instance_minor=st.just(2),
)
MIG = st.builds(
    MigSupport,
    enabled=st.booleans(),
    profiles=PROFILES,
    instances=st.just(()) | st.lists(INSTANCES, max_size=2).map(tuple),
)
PERCENTS = st.sampled_from([{}, {"minimum": 10, "step": 15}, {"minimum": 100}, {"minimum": 50, "step": 50}])


def extra_attributes(entry: type[ExtraAttribute]) -> st.SearchStrategy[list[dict[str, str]]]:
    """Up to as many as there can be, of sources that devices of the kind may have."""
    sources = st.sampled_from(get_args(entry.model_fields["source"].annotation))
    names = st.sampled_from([f"gpu.nvidia.com/name{number}" for number in range(ExtraAttribute.MOST)])
    entries = st.fixed_dictionaries({"name": names, "from": sources})
    return st.lists(entries, max_size=ExtraAttribute.MOST, unique_by=lambda entry: entry["name"])


AMOUNTS = st.sampled_from(["1", "1Mi", "7k", "3Gi", "80Gi", "1Ei"])
RULES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "models": st.sampled_from([["*"], ["?"], ["*0*"]]),
            "modes": st.lists(st.sampled_from(["gpu", "gpu-ratio", "mig"]), min_size=1, unique=True),
            "core": PERCENTS,
            "memoryRatio": PERCENTS,
            "memory": st.fixed_dictionaries({}, optional={"minimum": AMOUNTS, "step": AMOUNTS}),
            "maxShares": st.integers(1, 100),
            "extraAttributes": extra_attributes(ExtraGpuAttribute),
        },
    ),
    max_size=3,
).map(
    lambda rules: GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": rules}
    )
)


NIC_RULES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "vfs": st.sampled_from(["pooled", "named"]),
            "sharing": st.booleans(),
            "bandwidth": st.fixed_dictionaries({}, optional={"minimum": AMOUNTS, "step": AMOUNTS}),
            "extraAttributes": extra_attributes(ExtraNicAttribute),
        },
    ),
    max_size=1,
).map(
    lambda rules: NicPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "NicPolicies", "policies": rules}
    )
)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """0 to about 300 devices; addresses differ, all else is free."""
    bus = 0x1000  # the domain counts up: no two devices share an address

    def new_address() -> PciAddress:
        nonlocal bus
        bus += 1
        return PciAddress(f"{bus:04x}:01:00.0")

    addresses = [new_address() for _ in range(draw(st.integers(0, 12)))]
    peers = st.none() | st.sampled_from([*addresses, new_address()])
    links = st.builds(GpuLink, kind=st.sampled_from(LinkKind), peer=peers, count=st.just(1))
    gpus = tuple(
        Gpu(
            address=one,
            pcie=draw(PATHS),
            index=index,
            uuid=draw(TEXT),
            model=draw(TEXT),
            memory_bytes=draw(st.none() | st.sampled_from([24 << 30, 80 << 30, 1, 0, 2**63])),
            minor=draw(st.sampled_from([None, index, index])),
            cuda_compute_capability=draw(st.sampled_from([None, "8.0", "9.0", "10.0"])),
            driver_version=draw(TEXT | st.sampled_from(["580.159.03", "9.0"])),
            mig=draw(st.none() | MIG),
            links=tuple(draw(st.lists(links, max_size=2))),
        )
        for index, one in enumerate(addresses)
    )
    nics = []
    for index in range(draw(st.integers(0, 6))):
        pf, place = new_address(), draw(PATHS)
        vfs = tuple(
            RdmaVf(
                address=new_address(),
                pcie=place,
                index=number,
                parent=pf,
                verbs_minor=draw(st.sampled_from([None, number])),
                ports=draw(PORTS),
            )
            for number in range(draw(st.sampled_from([0, 0, 3, 16])))
        )
        minor = draw(st.sampled_from([None, index]))
        ports = draw(PORTS)
        vendor = draw(TEXT)
        nics.append(
            RdmaNic(address=pf, pcie=place, index=index, vendor=vendor, ports=ports, verbs_minor=minor, vfs=vfs)
        )
    fpgas = tuple(Fpga(address=new_address(), pcie=draw(PATHS), index=i) for i in range(draw(st.integers(0, 3))))
    mode = draw(st.none() | st.sampled_from(RdmaNetnsMode))
    source = node().source
    return Inventory(node="node-a", source=source, gpus=gpus, nics=tuple(nics), fpgas=fpgas, rdma_netns_mode=mode)


@settings(max_examples=60, deadline=None)
@given(inventories(), RULES, NIC_RULES, st.integers(0, 2**32))
def test_any_node_gives_valid_slices_and_the_same_bytes_in_whatever_order_it_is_told(
    inventory: Inventory, policies: GpuPolicies, nic_policies: NicPolicies, seed: int
) -> None:
    draw = random.Random(seed)
    shuffled = replace(
        inventory,
        gpus=tuple(draw.sample(inventory.gpus, len(inventory.gpus))),
        nics=tuple(draw.sample(inventory.nics, len(inventory.nics))),
        fpgas=tuple(draw.sample(inventory.fpgas, len(inventory.fpgas))),
    )
    slices = resource_slices(inventory, policies=policies, nic_policies=nic_policies)
    assert validate_slices(slices) == ()
    other = resource_slices(shuffled, policies=policies, nic_policies=nic_policies)
    assert to_bytes(slices) == to_bytes(other)


@settings(max_examples=60, deadline=None)
@given(inventories())
def test_any_node_publishes_each_device_once_and_never_a_nic_beside_its_own_vfs(inventory: Inventory) -> None:
    others = [*(one for pf in inventory.nics for one in (pf.vfs or (pf,))), *inventory.fpgas]
    for given_as in (inventory, replace(inventory, source=InventorySource.NCCL_TOPOLOGY)):
        slices = resource_slices(given_as, nic_policies=NAMED_VFS)
        names = [device.name for item in slices for device in item.spec.devices]
        told = given_as is inventory
        left = left_out(given_as)
        assert sorted(name for name in names if not name.startswith(("gpu", "mig"))) == sorted(
            device.name for device in others if device.device_nodes_known or not told
        )
        wholes = {name for name in names if name.startswith("gpu-") and not name.startswith("gpu-ratio-")}
        # Each GPU is there, or it is told why not.
        assert wholes == {gpu.name for gpu in inventory.gpus} - left.keys()
        assert len(set(names)) == len(names)


@settings(max_examples=60, deadline=None)
@given(inventories(), NIC_RULES)
def test_any_node_gives_each_vf_once_by_its_name_or_from_a_pool_or_says_why_not(
    inventory: Inventory, nic_policies: NicPolicies
) -> None:
    devices = [device for item in resource_slices(inventory, nic_policies=nic_policies) for device in item.spec.devices]
    names = {device.name for device in devices}
    on_offer = names | left_out(inventory).keys()
    for pf in inventory.nics:
        pool = vf_pool(pf)
        pooled = {vf.name for vf in pool.vfs} if pool is not None and pool.name in names else set()
        for vf in pf.vfs:
            assert (vf.name in pooled) + (vf.name in on_offer) == 1


def test_random_nodes_reach_more_than_one_slice() -> None:
    big = node(*(nic(f"{bus:02x}", pcie=path(), vfs=100) for bus in range(1, 4)), gpu("0a"), fpga("0b"))
    assert len(resource_slices(big, nic_policies=NAMED_VFS)) == 3


def test_a_node_that_would_have_more_devices_in_its_slices_than_any_machine_is_refused() -> None:
    wide = tuple(
        MigProfile(
            name=f"{size}g",
            profile_id=size,
            compute_slices=0,
            memory_bytes=size << 30,
            max_instances=99,
            placements=tuple(MigPlacement(start=start, size=size) for start in range(33 - size)),
        )
        for size in (1, 17, 18)
    )
    gpus = [mig_gpu(f"{bus:02x}", wide) for bus in range(1, 65)]
    with pytest.raises(InputError, match="more than 4096 devices, or these would consume more than 16384 counters"):
        resource_slices(node(*gpus))


def test_attributes_are_documented_for_users() -> None:
    page = (REPO / "docs" / "user" / "attributes.md").read_text()
    missing = [name for constant in attributes.__all__ if f"`{(name := getattr(attributes, constant))}`" not in page]
    assert not missing
