"""The two conditions of a NodeInventory about what is published: written together, and only if they change."""

from __future__ import annotations

from typing import Any, cast

from controller.cluster.inventories import StoredInventory
from controller.slices.published_condition import ALL_MODES_PUBLISHED, PUBLISHED, PublishedCondition
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import JsonObject, Resource
from driver.api.gpu_policies import GpuPolicies
from driver.modes.rule import Choice, Layout
from tests.unit.controller.slices.test_lost_counters import World as Published

FULL = Choice(layout=Layout.FULL, reason="SmallCluster", message="few Nodes")
LEAN = Choice(layout=Layout.LEAN, reason="LargeCluster", message="many Nodes")


class Inventory:
    """A NodeInventory as the watch shows it."""

    name, uid, generation = "node-a", "uid-1", 3

    def __init__(self) -> None:
        self.conditions: dict[str, JsonObject] = {}

    def condition(self, type_: str) -> JsonObject | None:
        return self.conditions.get(type_)


class Api:
    def __init__(self) -> None:
        self.applied: list[list[JsonObject]] = []

    def apply(self, _resource: Resource, body: JsonObject, **_: Any) -> None:
        self.applied.append(body["status"]["conditions"])


class World:
    def __init__(self) -> None:
        self.api, self.inventory = Api(), Inventory()
        self.condition = PublishedCondition(cast("KubernetesApi", self.api))

    def put(self, *, ok: bool = True, message: str = "m", choice: Choice | None = FULL) -> dict[str, str] | None:
        """Put the condition; the statuses that were written by type, or None if nothing was."""
        reason = "Published" if ok else "InvalidInventory"
        stored = cast("StoredInventory", self.inventory)
        if not self.condition.put(stored, ok=ok, reason=reason, message=message, choice=choice):
            return None
        return {item["type"]: item["status"] for item in self.api.applied[-1]}


def test_a_first_install_is_one_write() -> None:
    world = World()
    assert world.put() == {PUBLISHED: "True", ALL_MODES_PUBLISHED: "True"}
    assert world.put() is None
    (conditions,) = world.api.applied
    assert conditions[1]["message"] == "layout full: few Nodes"
    assert conditions[1]["reason"] == "SmallCluster"
    assert conditions[1]["observedGeneration"] == 3


def test_a_restart_with_nothing_changed_writes_nothing() -> None:
    world = World()
    world.put()
    world.inventory.conditions = {item["type"]: item for item in world.api.applied[0]}
    world.condition = PublishedCondition(cast("KubernetesApi", world.api))
    assert world.put() is None


def test_another_layout_keeps_the_time_of_the_other_condition() -> None:
    world = World()
    world.put()
    world.inventory.conditions = {
        item["type"]: item | {"lastTransitionTime": "2026-01-01T00:00:00Z"} for item in world.api.applied[0]
    }
    world.condition.forget()
    assert world.put(choice=LEAN) == {PUBLISHED: "True", ALL_MODES_PUBLISHED: "False"}
    published, modes = world.api.applied[-1]
    assert published["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert modes["lastTransitionTime"] != "2026-01-01T00:00:00Z"


def test_while_nothing_is_published_the_layout_stays() -> None:
    world = World()
    assert world.put(ok=False, choice=None) == {PUBLISHED: "False"}
    world.put()
    assert world.put(ok=False, choice=None) == {PUBLISHED: "False", ALL_MODES_PUBLISHED: "True"}


def test_a_node_that_has_lost_its_gpus_has_no_layout() -> None:
    world = World()
    world.put()
    assert world.put(choice=None) == {PUBLISHED: "True"}
    assert world.put(choice=None) is None


def test_gpu_policies_whose_gate_the_controller_was_not_given_are_told() -> None:
    published = Published()
    published.reconcile()
    assert "nodeAllocatable" not in published.message
    policy = {"maxShares": 1, "nodeAllocatable": {"cpu": "14"}}
    published.policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [policy]}
    )
    published.reconcile()
    assert "GpuPolicies have nodeAllocatable: the controller's --feature-gates lacks" in published.message
