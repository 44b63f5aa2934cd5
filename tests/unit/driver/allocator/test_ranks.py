"""Devices that are to be tried first: another choice among those that serve, and never another answer to what fits."""

from __future__ import annotations

import random

from driver.allocator import Features
from driver.allocator.candidates import Scene
from driver.allocator.demands import read_claim
from driver.allocator.identity import DeviceId
from driver.allocator.ledger import Ledger
from driver.allocator.on_node import allocate_on
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.api.resource_v1 import ResourceClaim
from tests.unit.driver.allocator.builders import claim, device, device_class, exactly, match, node, resource_slice

DEVICES = [device(f"d{number}", pair=number // 2, odd=number % 2) for number in range(6)]


def _allocated(of: ResourceClaim, ranks: dict[DeviceId, int]) -> list[str] | None:
    features = Features()
    scene = Scene(
        PoolIndex([resource_slice(*DEVICES)], features).view(node()), Ledger(features), features, Selections(features)
    )
    classes = {"any": device_class("any")}
    found = allocate_on(scene, [of], [read_claim(of, classes, features)], classes=classes, ranks=ranks)
    return None if found is None else [item.device for item in found[0].devices.results]


def _ranks(*names: str) -> dict[DeviceId, int]:
    return {DeviceId("d", "p", name): rank for rank, name in enumerate(names)}


def test_ranked_devices_come_first_and_the_others_in_the_nodes_order() -> None:
    three = claim(exactly("r", 3))
    assert _allocated(three, {}) == ["d0", "d1", "d2"]
    assert _allocated(three, _ranks("d4", "d2")) == ["d4", "d2", "d0"]


def test_what_does_not_serve_is_passed_over() -> None:
    pair = claim(exactly("r", 2), constraints=[match("d/pair")])
    assert _allocated(pair, _ranks("d1", "d2", "d4")) == ["d1", "d0"]
    odd = claim(exactly("r", 2, 'device.attributes["d"].odd == 1'))
    assert _allocated(odd, _ranks("d4", "d5")) == ["d5", "d1"]


def test_whether_it_fits_does_not_depend_on_ranks() -> None:
    draw = random.Random(7)
    for _ in range(60):
        requests = [exactly(f"r{number}", draw.randint(1, 3)) for number in range(draw.randint(1, 3))]
        held = [match("d/pair"), match("d/odd")][: draw.randint(0, 2)]
        of = claim(*requests, constraints=held)
        plain = _allocated(of, {})
        names = [item["name"] for item in DEVICES]
        ranked = _allocated(of, _ranks(*draw.sample(names, draw.randint(1, 6))))
        assert (plain is None) == (ranked is None)
        if ranked is not None:
            assert len(set(ranked)) == len(ranked)
