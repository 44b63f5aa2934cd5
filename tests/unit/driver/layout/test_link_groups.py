"""Pairs, quads and octets with the most links: known machines, any links, and what first fit makes of them.

Known best sets are those of NVIDIA's device plugin (NVIDIA/go-gpuallocator, gpuallocator/staticdgx_policies.go, and the
machines of its tests, common_test.go), by the numbers that nvidia-smi gives the GPUs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from driver.adapters.machines.topology import read_topology
from driver.api.device_policies import DevicePolicies
from driver.api.resource_v1 import Device
from driver.layout.neighbours import link_groups
from driver.layout.slices import resource_slices
from driver.model.devices import Gpu, GpuLink, LinkKind, MigSupport
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress
from tests.support.machines import address, gpu, node, published, value
from tests.support.mig_machines import dgx_h100
from tests.support.slice_validation import validate_slices
from tests.support.topologies import machine_file

LEVELS = {"nvlinkPair": 2, "nvlinkQuad": 4, "nvlinkOctet": 8}
Counts = Mapping[tuple[int, int], int]


def mesh(counts: Counts, *, gpus: int, switches: Sequence[str] = (), kind: LinkKind = LinkKind.NVLINK) -> Inventory:
    """GPUs 0, 1, …, each pair with so many links; ``switches``: the switch of each GPU."""
    made = []
    for index in range(gpus):
        links = tuple(
            GpuLink(kind=kind, peer=address(f"{1 + (b if a == index else a):02x}"), count=count)
            for (a, b), count in counts.items()
            if count and index in {a, b}
        )
        place = {"switches": switches[index], "numa": 2 * index // gpus} if switches else {}
        made.append(replace(gpu(f"{1 + index:02x}", **place), index=index, links=links))
    return node(*made)


def sets(inventory: Inventory, name: str) -> set[frozenset[int]]:
    """The groups of an attribute, by the GPUs' numbers."""
    groups: dict[object, set[int]] = {}
    for device in published(inventory, "gpu"):
        if value(device, name) is not None:
            groups.setdefault(value(device, name), set()).add(int(value(device, "index") or 0))
    return {frozenset(group) for group in groups.values()}


def all_sets(inventory: Inventory) -> dict[str, set[frozenset[int]]]:
    return {name: sets(inventory, name) for name in LEVELS}


def groups_of(text: str) -> set[frozenset[int]]:
    return {frozenset(map(int, group)) for group in text.split()}


DGX_1_V100 = read_topology(machine_file("dgx-1-v100"))
DGX_2 = read_topology(machine_file("dgx-2"))
DGX_1_P100 = mesh(
    {
        **dict.fromkeys(combinations(range(4), 2), 1),
        **dict.fromkeys(combinations(range(4, 8), 2), 1),
        **{(index, index + 4): 1 for index in range(4)},
    },
    gpus=8,
    switches=["f0", "f1", "f0", "f1", "f2", "f3", "f2", "f3"],
)
BRIDGED = mesh({(0, 3): 2, (1, 2): 2}, gpus=4)
"""Four RTX 8000, or A100 PCIe, with NVLink bridges."""
ONE_PLANE = mesh(dict.fromkeys(combinations(range(4), 2), 4), gpus=4)
"""HGX A100 with 4 GPUs, four links each way, and no NVSwitch."""
HIVE = mesh(dict.fromkeys(combinations(range(8), 2), 1), gpus=8, kind=LinkKind.XGMI)
"""Eight MI300X, one xGMI link each way."""
ALL = set(map(frozenset[int], [range(8)]))

KNOWN = {
    "dgx-1-v100": (DGX_1_V100, groups_of("03 12 47 56"), groups_of("0123 4567"), ALL),
    "dgx-1-p100": (DGX_1_P100, groups_of("02 13 46 57"), groups_of("0123 4567"), ALL),
    "bridged pairs": (BRIDGED, groups_of("03 12"), set(), set()),
    "a mesh of four": (ONE_PLANE, set(), groups_of("0123"), set()),
    "a hive of eight": (HIVE, set(), set(), ALL),
    "NVSwitch": (node(*(gpu(f"{1 + index:02x}", links=[None] * 18) for index in range(8))), set(), set(), set()),
    "dgx-2": (DGX_2, set(), set(), set()),
    "mi250": (
        read_topology(machine_file("rccl-8p_90a")), groups_of("01 23 45 67"), groups_of("0123 4567"), ALL,
    ),
    "a ring of four": (
        mesh(dict.fromkeys([(0, 1), (1, 2), (2, 3), (0, 3)], 1), gpus=4),
        groups_of("01 23"), groups_of("0123"), set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_known_machines_have_their_known_groups(name: str) -> None:
    inventory, pairs, quads, octets = KNOWN[name]
    assert all_sets(inventory) == {"nvlinkPair": pairs, "nvlinkQuad": quads, "nvlinkOctet": octets}


@pytest.mark.parametrize("name", KNOWN)
def test_groups_do_not_depend_on_the_order_of_discovery(name: str) -> None:
    inventory = KNOWN[name][0]
    found = link_groups(inventory.gpus)
    for seed in range(5):
        assert link_groups(random.Random(seed).sample(inventory.gpus, len(inventory.gpus))) == found


def test_percent_devices_have_the_groups_of_their_gpus() -> None:
    devices = published(node(*(replace(gpu, memory_bytes=16 << 30) for gpu in DGX_1_V100.gpus)))
    by_type = {
        kind: {
            value(device, "index"): value(device, "nvlinkPair") for device in devices if value(device, "type") == kind
        }
        for kind in ("gpu", "gpu-ratio")
    }
    assert by_type["gpu"] == by_type["gpu-ratio"]


def test_a_link_that_only_one_of_its_ends_reports_counts() -> None:
    counts = {(0, 1): 2, (2, 3): 2, (0, 2): 1, (1, 3): 1}
    seen = mesh(counts, gpus=4)
    last = replace(seen.gpus[3], links=seen.gpus[3].links[-1:])  # it sees its link to GPU 1 alone
    assert [link.peer for link in last.links] == [address("02")]
    assert all_sets(replace(seen, gpus=(*seen.gpus[:3], last))) == all_sets(seen)


def test_a_gpu_that_fell_off_the_bus_breaks_its_own_groups_alone() -> None:
    rest = replace(DGX_1_V100, gpus=tuple(gpu for gpu in DGX_1_V100.gpus if gpu.index != 2))
    assert all_sets(rest) == {
        "nvlinkPair": groups_of("03 47 56"), "nvlinkQuad": groups_of("4567"), "nvlinkOctet": set(),
    }  # fmt: skip


def test_a_group_is_never_of_gpus_that_only_others_join() -> None:
    # The two with the most links each are far apart.
    chain = mesh({(0, 1): 10, (1, 2): 1, (2, 3): 1, (3, 4): 10}, gpus=5)
    assert sets(chain, "nvlinkQuad") == groups_of("0123")
    assert sets(mesh({(0, 1): 1, (0, 2): 1, (0, 3): 1}, gpus=4), "nvlinkPair") == groups_of("01")


# Whatever links a node reports.


@st.composite
def any_mesh(draw: st.DrawFn) -> tuple[int, Counts]:
    size = draw(st.integers(2, 8) | st.integers(9, 18))
    weights = draw(st.sampled_from([(0, 1), (0, 1, 2), (0, 0, 0, 4), (1, 2), (0, 65535)]))
    pairs = list(combinations(range(size), 2))
    return size, dict(
        zip(pairs, draw(st.lists(st.sampled_from(weights), min_size=len(pairs), max_size=len(pairs))), strict=True)
    )


@given(any_mesh())
def test_groups_are_nested_connected_and_of_their_size(drawn: tuple[int, Counts]) -> None:
    size, counts = drawn
    groups = link_groups(mesh(counts, gpus=size).gpus)
    named: dict[str, dict[PciAddress, set[PciAddress]]] = {"pair": {}, "quad": {}, "octet": {}, "domain": {}}
    for member, of in groups.items():
        for level, members in named.items():
            if getattr(of, level) is not None:
                members.setdefault(getattr(of, level), set()).add(member)
    sizes = {"pair": 2, "quad": 4, "octet": 8}
    for level, wanted in sizes.items():
        for name, members in named[level].items():
            assert (name, len(members)) == (min(members), wanted)
            assert len({groups[member].domain for member in members}) == 1
            inside = {
                pair: count for pair, count in counts.items() if {address(f"{1 + end:02x}") for end in pair} <= members
            }
            assert len(reached(inside, next(iter(inside))[0])) == wanted
            for wider in ("quad", "octet"):
                found = {getattr(groups[member], wider) for member in members} - {None}
                # The GPUs of a smaller group are of one wider group, or of none.
                assert len(found) <= 1 or sizes[wider] <= wanted


def reached(counts: Counts, start: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        one = waiting.pop()
        for (a, b), count in counts.items():
            if count and one in {a, b} and not {a, b} <= found:
                waiting.append(b if one == a else a)
                found |= {a, b}
    return found


def links_of(group: Iterable[int], counts: Counts) -> int:
    """The links inside; none where these do not connect the group."""
    members = sorted(group)
    inside = {pair: counts.get(pair, 0) for pair in combinations(members, 2)}
    return sum(inside.values()) if len(reached(inside, members[0])) == len(members) else 0


@given(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=28, max_size=28))
def test_no_two_quads_of_eight_gpus_have_more_links_and_no_pairs_in_them_either(weights: list[int]) -> None:
    counts = dict(zip(combinations(range(8), 2), weights, strict=True))
    inventory = mesh(counts, gpus=8)
    assume(len(reached(counts, 0)) == 8 and len(set(weights)) > 1)
    quads = sum(links_of(quad, counts) for quad in sets(inventory, "nvlinkQuad"))
    pairs = sum(links_of(pair, counts) for pair in sets(inventory, "nvlinkPair"))
    best = max(scores(counts))
    assert (quads, pairs) == best


def scores(counts: Counts) -> Iterable[tuple[int, int]]:
    """Links in quads and in pairs of each nested division of eight GPUs."""
    for rest in combinations(range(1, 8), 3):
        halves = ({0, *rest}, set(range(8)) - {0, *rest})
        pairs = [
            max(
                counts.get((min(half), other), 0) + links_of(half - {min(half), other}, counts)
                for other in half - {min(half)}
            )
            for half in halves
        ]
        yield sum(links_of(half, counts) for half in halves), sum(pairs)


def test_the_links_of_a_node_that_reports_the_dearest_ones_are_divided_in_a_moment() -> None:
    """Sixty-four GPUs in four domains of sixteen, in which every division is as good as the next but for one link."""
    counts = {
        (16 * domain + a, 16 * domain + b): 7 if (a, b) == (0, 1 + domain) else 6
        for domain in range(4)
        for a, b in combinations(range(16), 2)
    }
    inventory = mesh(counts, gpus=64)
    began = time.process_time()
    assert len({of.octet for of in link_groups(inventory.gpus).values()}) == 8
    assert time.process_time() - began < 5, "it takes 0.8 s"


def test_a_domain_without_nvswitches_that_is_larger_than_any_machines_has_no_groups() -> None:
    too_many = mesh(dict.fromkeys(combinations(range(17), 2), 1) | {(0, 1): 2}, gpus=17)
    assert all_sets(too_many) == {name: set() for name in LEVELS}


# What first fit makes of them.


def taken(free: list[Device], count: int, attribute: str | None = None) -> frozenset[int] | None:
    """What a request for so many GPUs gets, with a constraint or none, by the GPUs' numbers; None if it does not fit.

    kube-scheduler goes on from the first device to the next that matches, and starts again with the second device where
    too few do.
    """
    for first in free:
        wanted = value(first, attribute) if attribute else None
        alike = [d for d in free if attribute is None or (wanted is not None and value(d, attribute) == wanted)]
        if len(alike) >= count:
            return frozenset(int(value(device, "index") or 0) for device in alike[:count])
    return None


FRESH = {
    "dgx-1-v100": (DGX_1_V100, {2: groups_of("03 12 47 56"), 4: groups_of("0123 4567"), 8: ALL}),
    "dgx-1-p100": (DGX_1_P100, {2: groups_of("02 13 46 57"), 4: groups_of("0123 4567"), 8: ALL}),
    "dgx-2": (
        DGX_2,
        {size: {frozenset(range(first, first + size)) for first in range(0, 16, size)} for size in (2, 4, 8, 16)},
    ),
}


@pytest.mark.parametrize(("name", "size"), [(name, size) for name in FRESH for size in FRESH[name][1]])
def test_first_fit_alone_gives_the_known_best_sets_until_the_machine_is_used_up(name: str, size: int) -> None:
    inventory, best = FRESH[name]
    free, found = published(inventory, "gpu"), []
    while free:
        group = taken(free, size)
        assert group is not None
        found.append(group)
        free = [device for device in free if value(device, "index") not in group]
    assert sorted(map(sorted, found)) == sorted(map(sorted, best[size]))


@pytest.mark.parametrize("name", ["dgx-1-v100", "dgx-1-p100"])
@pytest.mark.parametrize("attribute", LEVELS)
def test_a_constraint_gives_a_best_set_as_long_as_one_is_free(name: str, attribute: str) -> None:
    inventory, best = FRESH[name]
    size = LEVELS[attribute]
    for seed in range(200):
        draw = random.Random(seed)
        used = set(draw.sample(range(8), draw.randrange(8)))
        free = [device for device in published(inventory, "gpu") if value(device, "index") not in used]
        found = taken(free, size, attribute)
        possible = {group for group in best[size] if not group & used}
        assert found in possible if possible else found is None


def test_partitions_of_a_shared_nvswitch_fabric_can_be_told_by_device_policies() -> None:
    """docs/operator/gpu-policies.md, "NVSwitch partitions"."""
    gpus = dgx_h100().gpus
    table = [(0, 1), (2, 3), (4, 5), (6, 7), (0, 1, 2, 3), (4, 5, 6, 7)]
    policies = [
        {
            "types": ["gpu"],
            "pciAddresses": [gpus[index].address for index in partition],
            "attributes": {f"example.com/partitionOf{len(partition)}": str(number)},
        }
        for number, partition in enumerate(table)
    ]
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "DevicePolicies", "policies": policies}
    slices = resource_slices(node(*gpus), device_policies=DevicePolicies.model_validate(document))
    assert validate_slices(slices) == ()
    whole = [device for part in slices for device in part.spec.devices if value(device, "type") == "gpu"]
    for seed in range(50):
        used = set(random.Random(seed).sample(range(8), seed % 6))
        free = [device for device in whole if value(device, "index") not in used]
        for size in (2, 4):
            found = taken(free, size, f"example.com/partitionOf{size}")
            possible = {
                frozenset(partition) for partition in table if len(partition) == size and not used & {*partition}
            }
            assert found in possible if possible else found is None


def counts_of(gpus: Sequence[Gpu]) -> Counts:
    """The links of each two GPUs, by their numbers."""
    number = {gpu.address: gpu.index for gpu in gpus}
    return {
        (gpu.index, number[link.peer]): link.count
        for gpu in gpus
        for link in gpu.links
        if link.peer in number and gpu.index < number[link.peer]
    }


def shortfall(size: int, *, order: Sequence[int], attributes: Sequence[str | None]) -> tuple[float, float]:
    """What is lost on a DGX-1 with V100 of which one to six GPUs are in use, any of them as likely as the others.

    Returns:
        The links inside what a claim gets, as a share of the most that any free GPUs have; and how often it gets the
        most. A claim asks for the constraints one after the other, as a prioritized list does.
    """
    counts = counts_of(DGX_1_V100.gpus)
    by_index = {int(value(device, "index") or 0): device for device in published(DGX_1_V100, "gpu")}
    got = most = best = claims = 0
    for used in (used for number in range(1, 7) for used in combinations(range(8), number)):
        free = [by_index[index] for index in order if index not in used]
        if len(free) < size:
            continue
        optimum = max(inside(group, counts) for group in combinations(sorted(set(range(8)) - set(used)), size))
        found = next(filter(None, (taken(free, size, attribute) for attribute in attributes)))
        claims += 1
        got, most = got + inside(found, counts), most + optimum
        best += inside(found, counts) == optimum
    return got / most, best / claims


def inside(group: Iterable[int], counts: Counts) -> int:
    return sum(counts.get(pair, 0) for pair in combinations(sorted(group), 2))


OURS = [int(value(device, "index") or 0) for device in published(DGX_1_V100, "gpu")]
LADDER = ["nvlinkPair", "nvlinkQuad", "nvlinkDomain"]


def test_after_any_gpus_are_taken_a_ladder_of_constraints_gives_nearly_the_best_that_is_free() -> None:
    """docs/design/layout.md quotes these figures."""
    assert shortfall(2, order=OURS, attributes=LADDER) == pytest.approx((0.96, 0.93), abs=0.005)
    assert shortfall(4, order=OURS, attributes=LADDER[1:]) == pytest.approx((0.935, 0.75), abs=0.005)


def test_after_any_gpus_are_taken_first_fit_alone_gives_more_links_than_in_the_order_of_the_gpus_numbers() -> None:
    assert shortfall(2, order=OURS, attributes=[None]) == pytest.approx((0.71, 0.58), abs=0.005)
    assert shortfall(2, order=range(8), attributes=[None]) == pytest.approx((0.64, 0.45), abs=0.005)
    for order in (OURS, range(8)):
        assert shortfall(4, order=order, attributes=[None]) == pytest.approx((0.885, 0.67), abs=0.005)


def test_a_gpu_that_nobody_can_have_whole_is_in_no_one_elses_way() -> None:
    partitioned = replace(DGX_1_V100.gpus[1], mig=MigSupport(enabled=True))
    rest = replace(DGX_1_V100, gpus=(DGX_1_V100.gpus[0], partitioned, *DGX_1_V100.gpus[2:]))
    order = [value(device, "index") for device in published(rest, "gpu")]
    assert order == [2, 0, 3, 4, 7, 5, 6], "singles come from the pair and the quad that are broken already"
