"""What is remembered of a node must not outlive its truth: use changes, claims have names, kinds of claims are many."""

from __future__ import annotations

import pytest

from driver.allocator import AllocationError, Features
from driver.allocator.candidates import Scene, gather
from driver.allocator.demands import read_claim
from driver.allocator.ledger import Holding, Ledger
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.api.resource_v1 import DeviceClass, ObjectMeta
from tests.unit.driver.allocator.builders import allocator, claim, device, exactly, given, node, resource_slice

ANY = DeviceClass(metadata=ObjectMeta(name="any"))
D = 'device.attributes["d"]'


def test_what_a_node_offers_is_not_what_is_free() -> None:
    asked = allocator(resource_slice(device("a"), device("b")))
    wanted = [claim(exactly("r"))]
    first = asked.allocate(node(), wanted)
    assert first is not None
    asked.commit(first)
    second = asked.allocate(node(), wanted)
    asked.release(first)
    third = asked.allocate(node(), wanted)
    names = [[name[-1] for name in found[0]] for found in map(given, (first, second, third)) if found]
    assert names == [["a"], ["b"], ["a"]]


def test_each_claim_is_named_in_the_error_of_its_selector() -> None:
    asked = allocator(resource_slice(device("a")))
    for name in ("one", "two"):
        with pytest.raises(AllocationError, match=f"claim team/{name}, request r"):
            asked.allocate(node(), [claim(exactly("r", 1, f"{D}.gone == 1"), name=name)])


def test_a_view_remembers_few_kinds_of_demands_and_answers_all() -> None:
    features = Features()
    index = PoolIndex([resource_slice(*(device(f"d{number:02}", i=number) for number in range(30)))], features)
    scene = Scene(index.view(node()), Ledger(features), features, Selections(features))
    for number in range(30):
        wanted = claim(exactly("r", 1, f"{D}.i == {number}"))
        (request,) = read_claim(wanted, {"any": ANY}, features).requests
        found = gather(scene, request.alternatives[0], claim="c")
        assert [item.device.id.device for item in found.items] == [f"d{number:02}"]
        assert len(scene.view.offers) <= 8


def test_devices_of_two_pools_with_one_name_are_used_apart() -> None:
    features = Features()
    ledger = Ledger(features)
    index = PoolIndex([resource_slice(device("a"), name=name, pool=name) for name in ("p", "q")], features)
    scene = Scene(index.view(node()), ledger, features, Selections(features))
    held = Holding(index.view(node()).devices[0].id)
    (request,) = read_claim(claim(exactly("r")), {"any": ANY}, features).requests
    ledger.add([held])
    assert [item.device.id.pool for item in gather(scene, request.alternatives[0], claim="c").items] == ["q"]
    ledger.remove([held])
    assert [item.device.id.pool for item in gather(scene, request.alternatives[0], claim="c").items] == ["p", "q"]
