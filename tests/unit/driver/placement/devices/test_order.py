"""Which GPUs belong together, and which NICs stand near them."""

from __future__ import annotations

import pytest

from driver import DRIVER_NAME
from driver.allocator.identity import DeviceId
from driver.placement.devices.layout import GpuPlace, NicPlace, NodeLayout
from driver.placement.devices.order import best_set, device_ranks


def _gpu(index: int, *, pair: str = "", quad: str = "", switch: str = "", numa: int = 0, domain: str = "d") -> GpuPlace:
    name = f"gpu-{index}"
    return GpuPlace(
        name=name,
        model="M",
        sizes=((name, ()),),
        partitions=((f"mig-{index}", 500),),
        whole=(name,),
        links=(domain, "", quad, pair),
        switch=switch,
        numa=numa,
        is_open=True,
    )


# Two quads of two pairs each, as a DGX-1 has; a NIC at the switch of each pair of the second quad.
MESH = NodeLayout(
    tuple(
        _gpu(index, pair=f"p{index // 2}", quad=f"q{index // 4}", switch=f"s{index // 2}", numa=index // 4)
        for index in range(8)
    ),
    (NicPlace("nic-0", "s2", 1), NicPlace("nic-1", "s3", 1)),
)


@pytest.mark.parametrize(
    ("among", "count", "chosen"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 2, (0, 1)),
        ([0, 1, 2, 3, 4, 5, 6, 7], 4, (0, 1, 2, 3)),
        ([1, 2, 3, 4, 5, 6, 7], 1, (1,)),  # its pair is broken already
        ([0, 1, 2, 4, 5, 6, 7], 2, (0, 1)),  # the quad that is broken already, and in it a whole pair
        ([0, 1, 3, 4, 5, 6, 7], 4, (4, 5, 6, 7)),  # one whole quad, not parts of two
        ([0, 2, 4, 5], 2, (0, 2)),  # the smaller group has enough, and no NIC beside it
        ([0, 2, 4], 2, (0, 2)),
        ([0, 1, 4, 5, 6], 4, (0, 4, 5, 6)),  # spans quads: all of the larger one, and the rest where it does least harm
    ],
)
def test_gpus_that_are_joined_best_and_break_least(among: list[int], count: int, chosen: tuple[int, ...]) -> None:
    assert tuple(sorted(best_set(MESH, among, count, with_nics=False))) == chosen


def test_gpus_with_nics_beside_them_are_for_those_who_want_nics() -> None:
    everyone = list(range(8))
    assert best_set(MESH, everyone, 2, with_nics=False) == (0, 1)
    assert best_set(MESH, everyone, 2, with_nics=True) == (4, 5)
    assert best_set(MESH, everyone, 1, with_nics=True) == (4,)


def test_behind_switches_any_gpus_are_as_near_and_those_of_one_numa_node_come_together() -> None:
    layout = NodeLayout(tuple(_gpu(index, numa=index % 2) for index in range(6)), ())
    assert best_set(layout, [0, 1, 2, 3, 4, 5], 3, with_nics=False) == (0, 2, 4)


def test_ranks_are_gpus_in_their_order_and_then_the_nearest_nics_one_for_each_gpu() -> None:
    layout = NodeLayout(
        (_gpu(0, switch="a"), _gpu(1, switch="b")),
        (NicPlace("far", "z", 1), NicPlace("b1", "b", 0), NicPlace("a1", "a", 0), NicPlace("a2", "a", 0)),
    )
    ranks = device_ranks(layout, "node", [1, 0], beside=[1, 0])
    names = [device.device for device in sorted(ranks, key=lambda device: ranks[device])]
    assert names == ["gpu-1", "mig-1", "gpu-0", "mig-0", "b1", "a1", "a2"]
    assert DeviceId(DRIVER_NAME, "node", "far") not in ranks
