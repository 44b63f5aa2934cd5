"""An API server that stops keeping counters: a GPU is not left open in several modes without them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.cluster.liveness import Liveness
from controller.cluster.slice_cache import SliceCache
from controller.modes.claim_lists import ClaimLists
from controller.modes.layout_in_force import LayoutInForce
from controller.modes.node_modes import NodeModes, NodePlan
from controller.modes.wishes import Wishes
from controller.slices.features import SliceFeatures
from controller.slices.reconciler import SliceReconciler
from controller.slices.writer import CountersLostError, SliceWriter
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.pages import Listing
from driver.adapters.kubernetes.resources import JsonObject, Resource
from driver.api.gpu_policies import DEFAULT_POLICIES
from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.model.health import NodeHealth
from tests.support.machines import node
from tests.support.mig_machines import A30, mig_gpu

NODE = "node-a"
GPU = "gpu-0000-10-00-0"


class Server:
    """Stores slices without the fields that it drops."""

    def __init__(self) -> None:
        self.dropped: set[str] = set()
        self.stored: dict[str, JsonObject] = {}
        self.writes = 0
        self.dry_runs = 0

    def create(self, resource: Resource, body: JsonObject, *, dry_run: bool = False) -> JsonObject:
        if not dry_run:
            return self.replace(resource, body)
        self.dry_runs += 1
        return self._kept(body)

    def replace(self, _resource: Resource, body: JsonObject) -> JsonObject:
        self.writes += 1
        answer = self._kept(body)
        name = body["metadata"]["name"]
        answer["metadata"] = body["metadata"] | {"uid": name, "resourceVersion": str(self.writes)}
        self.stored[name] = answer
        return answer

    def delete(self, _resource: Resource, name: str, **_: Any) -> None:
        del self.stored[name]

    def server_minor(self) -> int:
        return 37

    def list(self, _resource: Resource) -> Listing:
        return Listing(items=(), resource_version="1")  # DeviceClasses

    def _kept(self, body: JsonObject) -> JsonObject:
        spec = {key: value for key, value in body["spec"].items() if key not in self.dropped}
        if "devices" in spec:
            spec["devices"] = [
                {key: value for key, value in item.items() if key not in self.dropped} for item in spec["devices"]
            ]
        return body | {"spec": spec}


class World:
    def __init__(self) -> None:
        self.server = Server()
        api = cast("KubernetesApi", self.server)
        self.slices = SliceCache(self.server.stored.get)
        self.features = SliceFeatures(api)
        self.conditions: list[str] = []
        self.message = ""
        self.policies = DEFAULT_POLICIES
        inventory = node(mig_gpu("10", A30), name=NODE)
        reported = SimpleNamespace(name=NODE, health=NodeHealth(), inventory=lambda: inventory)
        informers = SimpleNamespace(
            slices=self.slices,
            inventory=lambda _node: reported,
            node_uid=lambda _node: "uid-1",
            node_was_seen=lambda _node: True,
        )
        liveness = SimpleNamespace(
            is_heard=lambda *_: True, liveness=lambda *_: Liveness.FRESH, has_beaten=lambda _node: True
        )
        condition = SimpleNamespace(of=lambda _inventory: None, put=self._put)
        self.modes = NodeModes(
            layout=LayoutInForce(api, has_counters=lambda: self.features.has_counters, nodes=lambda: 1),
            lists=ClaimLists(api, enqueue=lambda _node: None),
            wishes=Wishes(),
            in_use=lambda _node: (),
            policies=lambda: DEFAULT_POLICIES,
            has_taints=lambda: self.features.has_taints,
        )
        self.reconciler = SliceReconciler(
            api,
            namespace="rootport",
            informers=cast("Any", informers),
            liveness=cast("Any", liveness),
            writer=SliceWriter(api, self.slices, threading.Event()),
            features=self.features,
            condition=cast("Any", condition),
            policies=lambda: self.policies,
            nic_policies=lambda: DEFAULT_NIC_POLICIES,
            modes=self.modes,
        )

    def _put(self, _inventory: object, *, reason: str, message: str, **_: object) -> None:
        self.conditions.append(reason)
        self.message = message

    def reconcile(self) -> float | None:
        return self.reconciler.reconcile(NODE)

    @property
    def devices(self) -> list[JsonObject]:
        return [item for wire in self.slices.pool(NODE) for item in wire["spec"].get("devices") or ()]

    @property
    def opened(self) -> set[str]:
        return {item["name"] for item in self.devices if not item.get("taints")}


COUNTERS = {"consumesCounters", "sharedCounters"}


@pytest.mark.parametrize("dropped", [COUNTERS, {"consumesCounters"}, {"sharedCounters"}])
def test_a_write_that_loses_its_counters_fails_and_the_node_is_laid_out_without(dropped: set[str]) -> None:
    world = World()
    assert world.features.has_counters
    world.server.dropped = dropped
    with pytest.raises(CountersLostError) as error:
        world.reconcile()
    assert error.value.retry_helps
    assert world.conditions == []
    world.server.dropped = COUNTERS
    assert world.reconcile() == 30.0  # what may have been allocated meanwhile is closed first
    assert world.opened == {GPU}
    assert world.conditions == ["Published"]
    writes = world.server.writes
    world.reconcile()
    assert world.server.writes == writes


def test_it_is_asked_again_once_for_each_loss() -> None:
    world = World()
    for dry_runs in (3, 6, 9):
        assert world.features.has_counters
        world.server.dropped = COUNTERS
        with pytest.raises(CountersLostError):
            world.reconcile()
        assert world.server.dry_runs == dry_runs
        world.server.dropped = set()  # another replica answers the dry run


def test_the_loss_of_other_fields_is_expected_from_then_on() -> None:
    world = World()
    assert world.features.has_counters
    world.server.dropped = {"allowMultipleAllocations"}
    assert world.reconcile() is None
    assert world.conditions == ["Published"]
    writes = world.server.writes
    world.reconcile()
    assert world.server.writes == writes


def test_slices_go_by_the_answer_that_the_plan_went_by(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    plan = world.modes.plan

    def then_downgraded(*arguments: Any) -> NodePlan:
        planned = plan(*arguments)
        world.features.forget()
        world.server.dropped = COUNTERS
        return planned

    monkeypatch.setattr(world.modes, "plan", then_downgraded)
    with pytest.raises(CountersLostError):  # they were sent
        world.reconcile()
    monkeypatch.undo()
    assert world.reconcile() == 30.0
    assert world.opened == {GPU}
