"""Distances between devices, in the terms of ``nvidia-smi topo -m``."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adapters.machines.topology import read_topology
from driver.errors import InputError
from driver.model.devices import Fpga, Gpu, GpuLink, LinkKind, RdmaNic, RdmaVf
from driver.model.distance import LEGEND, Distance, DistanceMatrix, Level, distance, matrix
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath
from tests.support.topologies import machine_file

A, B = PciAddress("0000:0a:00.0"), PciAddress("0000:0b:00.0")
S, T, U = (PciAddress(f"0000:0{i}:00.0") for i in (1, 2, 3))


def path(
    *switches: PciAddress, root: str | None = None, root_port: str | None = None, numa: int | None = None
) -> PciePath:
    port = None if root_port is None else PciAddress(root_port)
    return PciePath(root=root, root_port=port, switches=switches, numa_node=numa)


def gpu(address: PciAddress, *links: GpuLink, pcie: PciePath = PciePath(), index: int = 0) -> Gpu:  # noqa: B008 - frozen
    return Gpu(address=address, pcie=pcie, index=index, links=links)


def nvlink(peer: PciAddress | None, count: int) -> GpuLink:
    return GpuLink(kind=LinkKind.NVLINK, peer=peer, count=count)


def xgmi(peer: PciAddress, count: int) -> GpuLink:
    return GpuLink(kind=LinkKind.XGMI, peer=peer, count=count)


def node(*gpus: Gpu, nics: tuple[RdmaNic, ...] = (), fpgas: tuple[Fpga, ...] = ()) -> Inventory:
    return Inventory(node="n", source=InventorySource.SYSFS, gpus=gpus, nics=nics, fpgas=fpgas)


def between(a: PciePath, b: PciePath, *others: PciePath) -> str:
    more = [gpu(PciAddress(f"0000:f{i}:00.0"), pcie=other) for i, other in enumerate(others)]
    return str(distance(node(gpu(A, pcie=a), gpu(B, pcie=b), *more), A, B))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(path(S), path(S), "PIX", id="one-common-switch"),
        pytest.param(path(S, T), path(S, T), "PIX", id="the-nearest-common-switch-counts"),
        pytest.param(path(S, T), path(S), "PXB", id="a-switch-more-on-one-side"),
        pytest.param(path(S, T), path(S, U), "PXB", id="a-switch-more-on-each-side"),
        pytest.param(path(S, numa=0), path(S, numa=1), "PIX", id="a-switch-wins-over-numa"),
        pytest.param(path(root_port="p"), path(root_port="p"), "PIX", id="a-root-port-and-no-switch"),
        pytest.param(path(S, root_port="p"), path(root_port="p"), "PXB", id="a-root-port-and-a-switch"),
        pytest.param(path(S, root="r", root_port="p"), path(T, root="r", root_port="q"), "PHB", id="one-root"),
        pytest.param(path(root="r", numa=0), path(root="r", numa=0), "PHB", id="one-root-and-numa-node"),
        pytest.param(path(root="r", numa=0), path(root="r", numa=1), "SYS", id="one-virtual-root-of-two-numa-nodes"),
        pytest.param(path(root="r"), path(root="r", numa=1), "PHB", id="one-root-and-half-a-numa-node"),
        pytest.param(path(root="r", numa=0), path(root="s", numa=0), "NODE", id="one-numa-node"),
        pytest.param(path(root="r", numa=0), path(root="s", numa=1), "SYS", id="two-numa-nodes"),
        pytest.param(path(numa=0), path(numa=0), "NODE", id="unknown-roots-are-not-one-root"),
        pytest.param(path(root="r", numa=0), path(root="s"), "SYS", id="one-numa-node-unknown"),
    ],
)
def test_a_distance_follows_the_pcie_path(a: PciePath, b: PciePath, expected: str) -> None:
    assert between(a, b) == expected
    assert between(b, a) == expected


def test_a_machine_that_tells_no_numa_node_has_one() -> None:
    assert between(path(root="r"), path(root="s")) == "NODE"
    assert between(path(root="r"), path(root="s"), path(root="t", numa=0)) == "SYS"


def test_functions_of_one_card_are_pix() -> None:
    nics = tuple(
        RdmaNic(address=PciAddress(f"0000:0a:00.{i}"), pcie=path(numa=i), index=i) for i in (0, 1)
    )  # a broken NUMA table does not split a card
    assert str(distance(node(nics=nics), nics[0].address, nics[1].address)) == "PIX"


def test_a_device_to_itself_is_x() -> None:
    assert str(distance(node(gpu(A)), A, A)) == "X"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param([nvlink(B, 2)], [nvlink(A, 2)], "NV2", id="direct"),
        pytest.param([nvlink(B, 2)], [], "NV2", id="seen-from-one-end"),
        pytest.param([nvlink(None, 18)], [nvlink(None, 16)], "NV16", id="by-nvswitch-the-smaller"),
        pytest.param([nvlink(None, 18)], [], "PIX", id="one-of-them-on-no-nvswitch"),
        pytest.param([nvlink(S, 4)], [nvlink(S, 4)], "PIX", id="a-common-peer-is-no-link"),
        pytest.param([xgmi(B, 4)], [xgmi(A, 4)], "XGMI4", id="xgmi"),
    ],
)
def test_links_between_gpus_win_over_pcie(a: list[GpuLink], b: list[GpuLink], expected: str) -> None:
    inventory = node(gpu(A, *a, pcie=path(S)), gpu(B, *b, pcie=path(S)))
    assert str(distance(inventory, A, B)) == expected
    assert str(distance(inventory, B, A)) == expected


def test_an_unknown_address_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"node n has no device at PCI address 0000:0b:00\.0"):
        distance(node(gpu(A)), A, B)


def test_nearer_is_less() -> None:
    ordered = [
        Distance(Level.X),
        Distance(Level.NV, 18),
        Distance(Level.NV, 2),
        Distance(Level.XGMI, 4),
        Distance(Level.XGMI, 1),
        Distance(Level.PIX),
        Distance(Level.PXB),
        Distance(Level.PHB),
        Distance(Level.NODE),
        Distance(Level.SYS),
    ]
    assert all(a < b and not b < a for a, b in pairwise(ordered))
    assert sorted(ordered[5:] + ordered[:5]) == ordered
    assert min(ordered[5:]) <= Distance(Level.PIX)


def test_the_legend_explains_every_level() -> None:
    assert [text.removesuffix("#") for text in LEGEND] == [level.name for level in Level]


def rows(name: str) -> dict[str, str]:
    return as_text(matrix(read_topology(machine_file(name))))


def as_text(found: DistanceMatrix) -> dict[str, str]:
    return {row.label: " ".join(str(one) for one in (*row.distances, row.numa_node)) for row in found.rows}


def test_azure_nd_h100_v5_has_one_pair_under_each_switch() -> None:
    # Eight virtual switches, four in each NUMA node, each with one GPU and one InfiniBand NIC.
    numa_0 = ["X NODE NODE NODE", "NODE X NODE NODE", "NODE NODE X NODE", "NODE NODE NODE X"]
    pair_0 = ["PIX NODE NODE NODE", "NODE PIX NODE NODE", "NODE NODE PIX NODE", "NODE NODE NODE PIX"]
    far = "SYS SYS SYS SYS"
    expected = {}
    for kind, other in (("GPU", "NIC"), ("NIC", "GPU")):
        for i in range(4):
            same, across = (numa_0[i], pair_0[i]) if (kind, other) == ("GPU", "NIC") else (pair_0[i], numa_0[i])
            expected[f"{kind}{i}"] = f"{same} {far} {across} {far} 0"
            expected[f"{kind}{i + 4}"] = f"{far} {same} {far} {across} 1"
    assert rows("azure-nd-h100-v5") == expected


def test_aws_p4d_has_two_gpus_and_a_nic_under_each_switch() -> None:
    # Four virtual switches, two in each NUMA node; GPU 2i, GPU 2i+1 and NIC i are on switch i.
    assert rows("aws-p4d.24xlarge") == {
        "GPU0": "X PIX NODE NODE SYS SYS SYS SYS PIX NODE SYS SYS 0",
        "GPU1": "PIX X NODE NODE SYS SYS SYS SYS PIX NODE SYS SYS 0",
        "GPU2": "NODE NODE X PIX SYS SYS SYS SYS NODE PIX SYS SYS 0",
        "GPU3": "NODE NODE PIX X SYS SYS SYS SYS NODE PIX SYS SYS 0",
        "GPU4": "SYS SYS SYS SYS X PIX NODE NODE SYS SYS PIX NODE 1",
        "GPU5": "SYS SYS SYS SYS PIX X NODE NODE SYS SYS PIX NODE 1",
        "GPU6": "SYS SYS SYS SYS NODE NODE X PIX SYS SYS NODE PIX 1",
        "GPU7": "SYS SYS SYS SYS NODE NODE PIX X SYS SYS NODE PIX 1",
        "NIC0": "PIX PIX NODE NODE SYS SYS SYS SYS X NODE SYS SYS 0",
        "NIC1": "NODE NODE PIX PIX SYS SYS SYS SYS NODE X SYS SYS 0",
        "NIC2": "SYS SYS SYS SYS PIX PIX NODE NODE SYS SYS X NODE 1",
        "NIC3": "SYS SYS SYS SYS NODE NODE PIX PIX SYS SYS NODE X 1",
    }


def test_rccl_8p_rome_4nics_has_two_xgmi_hives_and_a_nic_for_two_gpus() -> None:
    # Four NUMA nodes with one switch each: two MI100 and a NIC below it. GPUs 0-3 and 4-7 are linked all to all.
    assert rows("rccl-8p_rome_4nics") == {
        "GPU0": "X XGMI1 XGMI1 XGMI1 SYS SYS SYS SYS PIX SYS SYS SYS 0",
        "GPU1": "XGMI1 X XGMI1 XGMI1 SYS SYS SYS SYS PIX SYS SYS SYS 0",
        "GPU2": "XGMI1 XGMI1 X XGMI1 SYS SYS SYS SYS SYS PIX SYS SYS 1",
        "GPU3": "XGMI1 XGMI1 XGMI1 X SYS SYS SYS SYS SYS PIX SYS SYS 1",
        "GPU4": "SYS SYS SYS SYS X XGMI1 XGMI1 XGMI1 SYS SYS PIX SYS 2",
        "GPU5": "SYS SYS SYS SYS XGMI1 X XGMI1 XGMI1 SYS SYS PIX SYS 2",
        "GPU6": "SYS SYS SYS SYS XGMI1 XGMI1 X XGMI1 SYS SYS SYS PIX 3",
        "GPU7": "SYS SYS SYS SYS XGMI1 XGMI1 XGMI1 X SYS SYS SYS PIX 3",
        "NIC0": "PIX PIX SYS SYS SYS SYS SYS SYS X SYS SYS SYS 0",
        "NIC1": "SYS SYS PIX PIX SYS SYS SYS SYS SYS X SYS SYS 1",
        "NIC2": "SYS SYS SYS SYS PIX PIX SYS SYS SYS SYS X SYS 2",
        "NIC3": "SYS SYS SYS SYS SYS SYS PIX PIX SYS SYS SYS X 3",
    }


def test_rccl_16p1h_crosses_a_second_level_of_switches() -> None:
    # NUMA node 0: switch 41 over the switches 49 (GPUs 0 and 1, NIC 0) and 52 (GPUs 2 and 3, NIC 1).
    found = rows("rccl-16p1h")
    assert found["GPU0"].split()[:5] == ["X", "XGMI4", "XGMI1", "PXB", "XGMI2"]
    assert found["GPU0"].split()[16:19] == ["PIX", "PXB", "SYS"]


def test_aws_g5_is_split_by_numa_node_although_it_has_one_bus() -> None:
    found = rows("aws-g5.48xlarge")
    assert found["GPU0"] == "X PHB PHB PHB SYS SYS SYS SYS SYS 0"
    assert found["NIC0"] == "SYS SYS SYS SYS PHB PHB PHB PHB X 1"


def test_the_matrix_labels_devices_by_type_and_index() -> None:
    pf = PciAddress("0000:0c:00.0")
    vf = RdmaVf(address=PciAddress("0000:0c:00.1"), pcie=path(S), index=0, parent=pf, rdma_device="mlx5_4")
    nics = (
        RdmaNic(address=pf, pcie=path(S), index=0, rdma_device="mlx5_0", vfs=(vf,)),
        RdmaNic(address=PciAddress("0000:0d:00.0"), pcie=path(S), index=1),
    )
    inventory = node(gpu(A), nics=nics, fpgas=(Fpga(address=B, pcie=path(numa=3), index=0),))
    with_vfs = matrix(inventory, virtual_functions=True)
    assert with_vfs.labels == ("GPU0", "NIC0", "NIC0-VF0", "NIC1", "FPGA0")
    assert [row.device.address for row in with_vfs.rows] == [A, pf, vf.address, nics[1].address, B]
    assert [row.numa_node for row in with_vfs.rows] == [None, None, None, None, 3]


def test_an_empty_node_has_an_empty_matrix() -> None:
    assert matrix(node()).rows == ()


_PATHS = st.builds(
    PciePath,
    root=st.sampled_from([None, "pci0000:00", "pci0000:80"]),
    root_port=st.sampled_from([None, PciAddress("0000:00:01.0")]),
    switches=st.lists(st.sampled_from([S, T, U]), unique=True, max_size=3).map(tuple),
    numa_node=st.sampled_from([None, 0, 1]),
)
_LINKS = st.lists(
    st.builds(
        GpuLink,
        kind=st.sampled_from(LinkKind),
        peer=st.sampled_from([None, PciAddress("0000:80:00.0"), PciAddress("0000:81:00.0")]),
        count=st.integers(1, 18),
    ),
    max_size=3,
)


@given(st.lists(st.tuples(_PATHS, _LINKS), max_size=6))
def test_distances_are_symmetric_and_the_matrix_agrees_with_them(devices: list[tuple[PciePath, list[GpuLink]]]) -> None:
    inventory = node(
        *(
            gpu(PciAddress(f"0000:{0x80 + i:02x}:00.0"), *links, pcie=pcie, index=i)
            for i, (pcie, links) in enumerate(devices)
        )
    )
    found = matrix(inventory)
    for i, j in combinations(range(len(devices)), 2):
        a, b = inventory.gpus[i].address, inventory.gpus[j].address
        assert distance(inventory, a, b) == distance(inventory, b, a) > Distance(Level.X)
        assert found.rows[i].distances[j] == found.rows[j].distances[i] == distance(inventory, a, b)
    assert all(row.distances[i] == Distance(Level.X) for i, row in enumerate(found.rows))
