"""Which claims a node is to prepare: one write for those that come, and none for those that go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from controller.binding.announcer import ClaimAnnouncer
from controller.cluster.claim_index import AwaitingClaims
from controller.cluster.inventories import StoredInventory
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.adapters.kubernetes.resources import JsonObject, Resource
from driver.api.bounds import MAX_CLAIMS_TO_PREPARE
from driver.api.claim_reference import ClaimReference


class Inventory:
    def __init__(self, uid: str = "i1", listed: Iterable[str] = ()) -> None:
        self.uid, self.claims_to_prepare = uid, frozenset(listed)


class World:
    def __init__(self) -> None:
        self.applied: list[tuple[str, list[str]]] = []
        self.inventory: Inventory | None = Inventory()
        self.is_gone = False
        self.now = 0.0
        self.awaiting = AwaitingClaims()
        self.announcer = ClaimAnnouncer(
            cast("KubernetesApi", self),
            awaiting=self.awaiting.of_node,
            inventory=lambda _node: cast("StoredInventory | None", self.inventory),
            clock=lambda: self.now,
        )

    def apply(self, _resource: Resource, body: JsonObject, **_: Any) -> None:
        if self.is_gone:
            raise NotFoundError("gone", status=404, reason="NotFound")
        claims = body["status"]["claimsToPrepare"]
        self.applied.append((body["metadata"]["uid"], [claim["uid"] for claim in claims]))

    def waits(self, number: int, *nodes: str) -> frozenset[str]:
        claim = ClaimReference(namespace="ml", name=f"c{number:03}", uid=f"u{number}")
        return self.awaiting.refresh(f"ml/c{number:03}", claim, nodes)

    def reconcile(self) -> float | None:
        return self.announcer.reconcile("n1")


def test_a_claim_is_named_at_once_and_leaves_with_the_next_one() -> None:
    world = World()
    assert world.waits(1, "n1") == {"n1"}
    assert world.reconcile() is None
    assert world.reconcile() == 60, "the watch does not show it yet"
    assert world.waits(1) == {"n1"}
    assert world.reconcile() == 60
    world.waits(2, "n1")
    assert world.reconcile() is None
    assert world.applied == [("i1", ["u1"]), ("i1", ["u2"])]


def test_the_last_claim_leaves_a_minute_later() -> None:
    world = World()
    world.waits(1, "n1")
    world.reconcile()
    world.waits(1)
    assert world.reconcile() == 60
    assert world.reconcile() is None
    assert world.applied[-1] == ("i1", [])


def test_what_another_leader_wrote_counts() -> None:
    world = World()
    world.inventory = Inventory(listed=["u1"])
    world.waits(1, "n1")
    world.reconcile()
    assert world.applied == []


def test_a_list_that_somebody_has_emptied_is_written_again_once_a_minute() -> None:
    world = World()
    world.waits(1, "n1")
    world.reconcile()
    world.inventory = Inventory(listed=["u1"])
    assert world.reconcile() is None
    world.inventory, world.now = Inventory(), 20.0
    assert world.reconcile() == 40
    assert len(world.applied) == 1
    world.now = 60.0
    assert world.reconcile() is None
    assert world.applied == [("i1", ["u1"])] * 2
    world.now = 61.0
    assert world.reconcile() == 59


def test_a_new_inventory_is_written_again_and_one_that_is_gone_is_not() -> None:
    world = World()
    world.waits(1, "n1")
    world.reconcile()
    world.inventory = Inventory("i2")
    world.reconcile()
    assert world.applied == [("i1", ["u1"]), ("i2", ["u1"])]
    world.inventory = None
    assert world.reconcile() is None
    world.inventory, world.is_gone = Inventory("i3"), True
    assert world.reconcile() is None
    assert len(world.applied) == 2


def test_more_claims_than_fit_wait_their_turn() -> None:
    world = World()
    for number in range(MAX_CLAIMS_TO_PREPARE + 5):
        world.waits(number, "n1")
    world.reconcile()
    assert len(world.applied[-1][1]) == MAX_CLAIMS_TO_PREPARE
    world.waits(0)
    world.reconcile()
    assert f"u{MAX_CLAIMS_TO_PREPARE}" in world.applied[-1][1]


def test_a_claim_that_waits_for_another_node_changes_both() -> None:
    world = World()
    world.waits(1, "n1")
    assert world.waits(1, "n1") == frozenset()
    assert world.waits(1, "n2") == {"n1", "n2"}
    assert world.awaiting.of_node("n1") == ()
    assert world.awaiting.refresh("ml/c001", None, ()) == {"n2"}
