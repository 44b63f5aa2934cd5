"""A node's devices are not published before the cluster knows who else gives them out."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import NotFoundError
from driver.model.devices import DeviceName
from driver.model.rivals import DEVICE_PLUGIN, Rival
from driver.objects.written_inventory import node_inventory
from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType
from kubeletplugin.publish.inventory import NodePublisher
from tests.support.machines import gpu, node

Json = dict[str, Any]

NODE = node(gpu("10"), name="n")
RIVAL = Rival(name="nvidia.com/gpu", kind=DEVICE_PLUGIN, devices=(DeviceName("gpu-0000-10-00-0"),), message="there")
READY = ConditionReport(type=ConditionType.READY, status=ConditionStatus.TRUE, reason="Ready", message="all is well")


class StoredInventory:
    """An API server with one NodeInventory, and what a controller would have seen of it after each write."""

    def __init__(self) -> None:
        self.stored: Json | None = None
        self.seen: list[tuple[bool, list[str]]] = []

    def get(self, *_: Any) -> Json:
        if self.stored is None:
            raise NotFoundError("no such thing", reason="NotFound")
        return deepcopy(self.stored)

    def apply(self, _resource: Any, body: Json, *, field_manager: str, subresource: str | None = None) -> Json:
        assert field_manager
        former = self.stored or {"metadata": {"name": "n", "generation": 0}}
        part = "status" if subresource else "spec"
        generation = former["metadata"]["generation"] + (part == "spec")
        self.stored = {**former, part: deepcopy(body[part]), "metadata": {"name": "n", "generation": generation}}
        rivals = [item["name"] for item in self.stored.get("status", {}).get("rivals", [])]
        self.seen.append((bool(self.stored["spec"].get("gpus")), rivals))
        return deepcopy(self.stored)


class World:
    def __init__(self) -> None:
        self.server = StoredInventory()
        self.rivals: tuple[Rival, ...] | None = None
        self.reports: tuple[ConditionReport, ...] = ()
        self.told = 0
        self.former: list[tuple[Rival, ...]] = []
        self.publisher = NodePublisher(
            cast("KubernetesApi", self.server),
            node="n",
            spec=lambda: node_inventory(NODE)["spec"],
            reports=lambda: self.reports,
            rivals=lambda: self.rivals,
            on_told=self._told,
            former_rivals=self.former.append,
            now=lambda: datetime(2026, 3, 1, tzinfo=UTC),
        )

    def _told(self) -> None:
        self.told += 1


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_published_before_anybody_has_looked(world: World) -> None:
    world.publisher.publish()
    assert world.server.stored is None
    assert not world.publisher.has_told()


def test_without_a_rival_the_devices_are_published_at_once(world: World) -> None:
    world.rivals = ()
    world.publisher.publish()
    assert world.server.seen == [(True, [])]
    assert (world.publisher.has_told(), world.told) == (True, 1)


def test_a_rival_is_told_before_the_devices_are_there(world: World) -> None:
    world.rivals = (RIVAL,)
    world.publisher.publish()
    assert (world.server.stored, world.told) == (None, 0)  # no status is written while the plugin starts
    world.reports = (READY,)
    world.publisher.publish()
    assert world.server.seen[0] == (False, [])
    assert all(rivals == ["nvidia.com/gpu"] for has_gpus, rivals in world.server.seen if has_gpus)
    assert world.server.seen[-1] == (True, ["nvidia.com/gpu"])
    assert (world.publisher.has_told(), world.told) == (True, 1)
    writes = len(world.server.seen)
    world.publisher.publish()
    assert (len(world.server.seen), world.told) == (writes, 1)


def test_what_nobody_may_find_out_does_not_keep_the_devices_away_for_good(world: World) -> None:
    world.reports = (READY,)  # after 15 s at latest
    world.publisher.publish()
    assert world.server.seen[-1][0]
    assert world.publisher.has_told()


def test_a_rival_that_has_gone_is_taken_back_and_one_that_is_not_known_yet_stays(world: World) -> None:
    world.rivals, world.reports = (RIVAL,), (READY,)
    world.publisher.publish()
    world.rivals = None
    world.publisher.publish()
    assert world.server.seen[-1] == (True, ["nvidia.com/gpu"])
    world.rivals = ()
    world.publisher.publish()
    assert world.server.seen[-1] == (True, [])


def test_a_plugin_that_comes_back_is_alive_only_once_it_has_told_its_rivals(world: World) -> None:
    world.rivals, world.reports = (), (READY,)
    world.publisher.publish()
    again = World()
    again.server.stored = world.server.stored
    again.publisher.publish()
    assert not again.publisher.has_told()
    again.rivals = (RIVAL,)
    again.publisher.publish()
    assert not again.publisher.has_told()  # no conditions yet
    again.reports = (READY,)
    again.publisher.publish()
    assert again.publisher.has_told()
    assert again.server.seen[-1] == (True, ["nvidia.com/gpu"])


def test_what_is_stored_is_told_on_before_the_rivals_are_asked_for(world: World) -> None:
    world.rivals, world.reports = (RIVAL,), (READY,)
    world.publisher.publish()
    world.publisher.publish()
    assert world.former == [(), (RIVAL,)]
