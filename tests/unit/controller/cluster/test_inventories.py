"""Stored NodeInventories: parsed once for all reconcilers, and remembered within a bound."""

from __future__ import annotations

import random
from typing import Any

import pytest

from controller.cluster import inventories
from controller.cluster.inventories import InventoryCache, StoredInventory, Unreadable
from controller.cluster.transforms import transform_inventory
from driver.objects.written_inventory import node_inventory
from tests.support.machines import gpu, nic, node

MACHINE = node(gpu("10"), nic("20"), name="node-a")


def stored(
    cache: InventoryCache, *, uid: str = "u1", version: str = "1", status: Any = None, **spec: Any
) -> StoredInventory:
    wire = node_inventory(MACHINE)
    wire["metadata"] |= {"uid": uid, "resourceVersion": version, "generation": 1}
    wire["spec"] |= spec
    wire["status"] = status or {}
    return StoredInventory(transform_inventory(wire), cache)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The UIDs of the inventories that were parsed."""
    seen: list[str] = []
    real = inventories.parse_node_inventory

    def parse(document: Any) -> Any:
        seen.append(document["metadata"]["uid"])
        return real(document)

    monkeypatch.setattr(inventories, "parse_node_inventory", parse)
    return seen


def test_a_version_is_parsed_once_for_all_reconcilers(parsed: list[str]) -> None:
    cache = InventoryCache()
    first = stored(cache).inventory()
    assert first == MACHINE
    assert stored(cache).inventory() is first
    assert parsed == ["u1"]
    assert stored(cache, version="2").inventory() == MACHINE
    assert stored(cache, uid="u2").inventory() == MACHINE
    assert parsed == ["u1", "u1", "u2"]


def test_what_is_wrong_with_one_is_remembered_as_well(parsed: list[str]) -> None:
    cache = InventoryCache()
    for _ in range(2):
        found = stored(cache, gpus="none").inventory()
        assert isinstance(found, Unreadable)
        assert "spec.gpus" in found.message
    assert parsed == ["u1"]


def test_a_status_that_cannot_be_read_makes_it_unreadable_until_it_is_mended() -> None:
    """The generation stays the same meanwhile."""
    cache = InventoryCache()
    assert isinstance(stored(cache, status={"faults": [{}]}).inventory(), Unreadable)
    assert stored(cache, version="2").inventory() == MACHINE


def test_the_packed_size_of_what_is_remembered_is_bounded(parsed: list[str]) -> None:
    cache = InventoryCache()
    for number in range(300):
        stored(cache, uid=str(number)).inventory()
    parsed.clear()
    for number in range(299, -1, -1):
        cached = cache.get((str(number), "1")) is not None
        assert cached == (number >= 300 - len(cache))
    assert 20 <= len(cache) < 300
    assert not parsed


def test_a_very_large_one_is_not_remembered(parsed: list[str]) -> None:
    cache = InventoryCache()
    stored(cache, uid="small").inventory()
    choose = random.Random(1)
    notes = ["".join(chr(choose.randrange(0x4E00, 0x9FA5)) for _ in range(1000)) for _ in range(200)]
    for _ in range(2):
        stored(cache, uid="large", notes=notes).inventory()
    assert parsed == ["small", "large", "large"]
    assert cache.get(("small", "1")) is not None
