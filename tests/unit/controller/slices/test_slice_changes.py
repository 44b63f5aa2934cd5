"""What is written, in which order, and what a consumer sees meanwhile."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slices.changes import AcceptedLoss, SliceChanges, loss, slice_changes, withdrawal
from controller.slices.taints import foreign_taints
from driver.allocator.features import Features
from driver.allocator.pools import PoolIndex, PoolState
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    Node,
    ObjectMeta,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from driver.layout.names import slice_name

NODE = "node-a"
UID = "11111111-2222-3333-4444-555555555555"


def pool(*contents: Sequence[Device], node: str = NODE) -> tuple[ResourceSlice, ...]:
    """A desired pool: one slice for each tuple of devices."""
    return tuple(
        ResourceSlice(
            spec=ResourceSliceSpec(
                driver="rootport.dev",
                pool=ResourcePool(name=node, generation=1, resource_slice_count=len(contents)),
                node_name=node,
                devices=tuple(devices),
            )
        )
        for devices in contents
    )


def device(name: str, *, taints: tuple[DeviceTaint, ...] = (), memory: str | None = None, **attributes: str) -> Device:
    return Device(
        name=name,
        attributes={key: DeviceAttribute(string_value=value) for key, value in attributes.items()},
        capacity={"memory": DeviceCapacity(value=Quantity(memory))} if memory else {},
        taints=taints,
    )


A, B, C = (device(name) for name in "abc")
TAINT = DeviceTaint(key="rootport.dev/unhealthy", value="xid", effect="NoSchedule")


@dataclass
class Server:
    """As much of an API server as these writes need: versions, preconditions, unique names, defaults."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    clock: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    writes: int = 0

    def stored(self) -> list[dict[str, Any]]:
        return [copy.deepcopy(item) for item in self.objects.values()]

    def steps(self, changes: SliceChanges) -> Iterator[dict[str, Any] | None]:
        """Do one write after the other; gives what the server answers."""
        for deletion in changes.delete:
            there = self.objects.pop(deletion.name)
            assert (there["metadata"]["uid"], there["metadata"]["resourceVersion"]) == (
                deletion.uid,
                deletion.resource_version,
            )
            self.writes += 1
            yield None
        for write in changes.replace:
            former = self.objects[write.name]
            assert write.body["metadata"]["resourceVersion"] == former["metadata"]["resourceVersion"]
            for immutable in ("driver", "nodeName"):
                assert write.body["spec"][immutable] == former["spec"][immutable]
            assert write.body["spec"]["pool"]["name"] == former["spec"]["pool"]["name"]
            yield self._store(write.body, former["metadata"]["uid"])
        for write in changes.create:
            assert write.name not in self.objects
            yield self._store(write.body, f"uid-{next(self.clock)}")

    def apply(self, changes: SliceChanges) -> None:
        for _ in self.steps(changes):
            pass

    def _store(self, body: dict[str, Any], uid: str) -> dict[str, Any]:
        self.writes += 1
        wire: dict[str, Any] = json.loads(json.dumps(body))
        wire["metadata"] |= {"uid": uid, "resourceVersion": str(next(self.clock))}
        for stored_device in wire["spec"].get("devices", ()):
            for taint in stored_device.get("taints", ()):
                taint.setdefault("timeAdded", f"2026-01-01T00:00:{next(self.clock) % 60:02}Z")
        self.objects[wire["metadata"]["name"]] = wire
        return copy.deepcopy(wire)

    def visible(self) -> list[str] | None:
        """The names of the devices that the scheduler's rules show; None while the pool cannot be used."""
        slices = [ResourceSlice.model_validate(item, extra="ignore") for item in self.stored()]
        view = PoolIndex(slices, Features()).view(Node(metadata=ObjectMeta(name=NODE)))
        usable = [item for item in view.pools if item.state is PoolState.USABLE]
        assert all(item.state is not PoolState.INVALID for item in view.pools)
        return [part.device.name for item in usable for one in item.slices for part in one.devices] if usable else None


def publish(server: Server, desired: tuple[ResourceSlice, ...]) -> SliceChanges:
    changes = slice_changes(desired, server.stored(), node_uid=UID)
    server.apply(changes)
    return changes


def test_a_first_pool_is_created_whole_and_owned_by_its_node() -> None:
    server = Server()
    changes = publish(server, pool([A], [B]))
    assert (changes.generation, len(changes.create)) == (1, 2)
    first, second = (server.objects[slice_name(NODE, UID, index)] for index in (0, 1))
    assert first["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": UID, "controller": True}
    ]
    assert first["spec"]["pool"] == second["spec"]["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 2}
    assert server.visible() == ["a", "b"]


def test_a_node_without_devices_has_one_empty_slice() -> None:
    server = Server()
    assert len(publish(server, pool([])).create) == 1
    assert server.visible() == []
    assert not publish(server, pool([]))


def test_one_changed_slice_is_one_update_of_the_same_generation() -> None:
    server = Server()
    publish(server, pool([A], [B]))
    changes = publish(server, pool([A], [device("b", model="X")]))
    assert (changes.generation, len(changes.delete), len(changes.replace), len(changes.create)) == (1, 0, 1, 0)


def test_two_changed_slices_raise_the_generation_of_all() -> None:
    server = Server()
    publish(server, pool([A], [B], [C]))
    changes = publish(server, pool([B], [A], [C]))
    assert (changes.generation, len(changes.replace)) == (2, 3)


def test_a_shrinking_pool_deletes_first() -> None:
    server = Server()
    publish(server, pool([A], [B], [C]))
    changes = slice_changes(pool([A], [B]), server.stored(), node_uid=UID)
    assert ([item.name for item in changes.delete], len(changes.replace), changes.generation) == (
        [slice_name(NODE, UID, 2)],
        2,
        2,
    )


def test_quantities_are_compared_by_value() -> None:
    server = Server()
    publish(server, pool([device("a", memory="1Gi")]))
    assert not publish(server, pool([device("a", memory="1024Mi")]))
    assert publish(server, pool([device("a", memory="1025Mi")]))


def test_the_order_of_devices_counts() -> None:
    server = Server()
    publish(server, pool([A, B]))
    assert len(publish(server, pool([B, A])).replace) == 1


def test_the_time_of_a_taint_is_kept_and_makes_no_difference() -> None:
    server = Server()
    tainted = device("a", taints=(TAINT,))
    publish(server, pool([tainted]))
    assert not publish(server, pool([tainted]))
    added = server.stored()[0]["spec"]["devices"][0]["taints"][0]["timeAdded"]
    publish(server, pool([device("a", taints=(TAINT,), model="X")]))
    assert server.stored()[0]["spec"]["devices"][0]["taints"][0]["timeAdded"] == added


@pytest.mark.parametrize(
    ("seconds", "differs"), [(0, False), (1, False), (2, True)], ids=["equal", "rounded", "another time"]
)
def test_a_time_that_we_set_may_be_rounded(seconds: int, differs: bool) -> None:
    server = Server()
    publish(server, pool([device("a", taints=(TAINT.model_copy(update={"time_added": "2026-01-01T10:00:00Z"}),))]))
    moved = TAINT.model_copy(update={"time_added": f"2026-01-01T10:00:0{seconds}.0Z"})
    assert bool(slice_changes(pool([device("a", taints=(moved,))]), server.stored(), node_uid=UID)) is differs


def test_a_taint_keeps_its_time_in_whichever_slice_its_device_comes_to_be() -> None:
    server = Server()
    tainted = device("b", taints=(TAINT,))
    publish(server, pool([A, tainted]))
    added = server.stored()[0]["spec"]["devices"][1]["taints"][0]["timeAdded"]
    publish(server, pool([A], [tainted]))
    publish(server, pool([A], [C], [tainted]))
    publish(server, pool([tainted]))
    assert server.stored()[0]["spec"]["devices"][0]["taints"][0]["timeAdded"] == added


def test_taints_of_others_are_those_with_keys_that_are_not_ours() -> None:
    server = Server()
    keys = ("rootport.dev/link-down", "example.com/rootport.dev", "service", "gpus.rootport.dev/service")
    taints = tuple(DeviceTaint(key=key, effect="NoSchedule") for key in keys)
    publish(server, pool([A, device("b", taints=taints)], [device("c", taints=(TAINT,))]))
    found = foreign_taints(server.stored())
    assert {name: [taint.key for taint in kept] for name, kept in found.items()} == {"b": list(keys[1:])}
    assert all(taint.time_added for taint in found["b"])


@pytest.mark.parametrize("is_newer_tainted", [True, False])
def test_of_two_generations_the_newer_decides_about_foreign_taints(*, is_newer_tainted: bool) -> None:
    """An administrator takes a taint off, and a write of the pool is left half done."""
    server = Server()
    service = device("a", taints=(DeviceTaint(key="service", effect="NoSchedule"),))
    publish(server, pool([A if is_newer_tainted else service]))
    (older,) = server.stored()
    server.objects.clear()
    publish(server, pool([service if is_newer_tainted else A]))
    (newer,) = server.stored()
    newer["spec"]["pool"]["generation"] = 2
    assert bool(foreign_taints([newer, older])) is bool(foreign_taints([older, newer])) is is_newer_tainted


def test_labels_of_others_survive_an_update() -> None:
    server = Server()
    publish(server, pool([A]))
    next(iter(server.objects.values()))["metadata"]["labels"] = {"team": "x"}
    publish(server, pool([B]))
    assert server.stored()[0]["metadata"]["labels"] == {"team": "x"}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"nodeName": "node-b"}, None),
        ({"pool": {"name": NODE, "generation": 7, "resourceSliceCount": 1}}, "foreign"),
    ],
    ids=["an immutable field differs", "a name that is not ours"],
)
def test_a_slice_that_cannot_become_ours_is_deleted(fields: dict[str, Any], name: str | None) -> None:
    server = Server()
    publish(server, pool([A]))
    (wire,) = server.objects.values()
    wire["spec"] |= fields
    if name:
        server.objects = {name: wire}
        wire["metadata"]["name"] = name
    changes = publish(server, pool([A]))
    assert (len(changes.delete), len(changes.create)) == (1, 1)
    assert server.visible() == ["a"]


def test_a_slice_whose_name_was_taken_gets_the_other_one_and_is_known_by_it() -> None:
    server = Server()
    other = slice_name(NODE, UID, 0, other="0a1b2c3d4e")
    changes = slice_changes(pool([A], [B]), (), node_uid=UID, other_names={slice_name(NODE, UID, 0): other})
    assert [write.name for write in changes.create] == [other, slice_name(NODE, UID, 1)]
    server.apply(changes)
    # The next process does not know who had taken what.
    assert not publish(server, pool([A], [B]))
    changes = publish(server, pool([device("c")], [B]))
    assert ([write.name for write in changes.replace], changes.delete) == ([other], ())
    assert server.visible() == ["c", "b"]


@pytest.mark.parametrize(
    "name",
    [
        slice_name("node-b", UID, 0, other="0a1b2c3d4e"),
        slice_name(NODE, "another", 0, other="0a1b2c3d4e"),
        slice_name(NODE, UID, 1, other="0a1b2c3d4e"),
        "fffff-rootport.dev-node-a",
    ],
)
def test_a_slice_of_the_pool_with_any_other_name_is_deleted(name: str) -> None:
    server = Server()
    publish(server, pool([A]))
    (stored,) = server.objects.values()
    server.objects[name] = copy.deepcopy(stored) | {"metadata": stored["metadata"] | {"name": name}}
    changes = publish(server, pool([A]))
    assert [item.name for item in changes.delete] == [name]
    assert server.visible() == ["a"]


def test_of_two_names_of_one_slice_the_first_one_stays() -> None:
    server = Server()
    publish(server, pool([A]))
    (stored,) = server.objects.values()
    name = slice_name(NODE, UID, 0, other="0a1b2c3d4e")
    server.objects[name] = copy.deepcopy(stored) | {"metadata": stored["metadata"] | {"name": name}}
    assert [item.name for item in publish(server, pool([A])).delete] == [name]


def test_a_lost_owner_is_set_again() -> None:
    server = Server()
    publish(server, pool([A]))
    del next(iter(server.objects.values()))["metadata"]["ownerReferences"]
    assert len(publish(server, pool([A])).replace) == 1
    assert not publish(server, pool([A]))


def test_a_new_node_of_the_same_name_gets_new_slices() -> None:
    server = Server()
    publish(server, pool([A]))
    changes = slice_changes(pool([A]), server.stored(), node_uid="another")
    assert (len(changes.delete), len(changes.create), changes.generation) == (1, 1, 2)


def test_an_unreadable_slice_is_written_anew() -> None:
    server = Server()
    publish(server, pool([A]))
    next(iter(server.objects.values()))["spec"]["devices"] = [{"name": 5}]
    assert len(publish(server, pool([A])).replace) == 1
    assert server.visible() == ["a"]


def test_fields_that_the_server_drops_are_written_once() -> None:
    server = Server()
    counters = CounterSet(name="gpu", counters={"mode": Counter(value=Quantity("1"))})
    (plain,) = pool([A])
    desired = (plain.model_copy(update={"spec": plain.spec.model_copy(update={"shared_counters": (counters,)})}),)
    (write,) = slice_changes(desired, [], node_uid=UID).create
    answer = json.loads(json.dumps(write.body))
    del answer["spec"]["sharedCounters"]
    answer["metadata"] |= {"uid": "1", "resourceVersion": "1"}
    lost = loss(write, answer)
    assert lost is not None
    server.objects[write.name] = answer
    accepted: dict[str, AcceptedLoss] = {write.name: lost}
    assert not slice_changes(desired, server.stored(), node_uid=UID, accepted=accepted)
    assert slice_changes(desired, server.stored(), node_uid=UID), "without that knowledge it would be written for ever"
    other = (desired[0].model_copy(update={"spec": desired[0].spec.model_copy(update={"devices": (B,)})}),)
    assert slice_changes(other, server.stored(), node_uid=UID, accepted=accepted)


def test_what_the_server_defaults_is_no_loss() -> None:
    server = Server()
    changes = slice_changes(pool([device("a", taints=(TAINT,))]), [], node_uid=UID)
    (answer,) = server.steps(changes)
    assert answer is not None
    assert loss(changes.create[0], answer) is None


def test_withdrawal_deletes_everything() -> None:
    server = Server()
    publish(server, pool([A], [B]))
    server.apply(withdrawal(server.stored()))
    assert not server.objects
    assert not withdrawal([])


@pytest.mark.parametrize(
    "node", ["n", "a.b-c.example", "x" * 253, "a" * 231 + ".b"], ids=["short", "dots", "long", "dot"]
)
@pytest.mark.parametrize("other", ["", "0a1b2c3d4e"])
def test_names_are_names_and_sort_by_index(node: str, other: str) -> None:
    names = [slice_name(node, UID, index, other=other) for index in (0, 1, 15, 16, 255)]
    assert names == sorted(names)
    for name in names:
        assert len(name) <= 253
        assert all(part and part[0].isalnum() and part[-1].isalnum() for part in name.split("."))


DEVICES = st.lists(st.sampled_from("abcdef"), max_size=6, unique=True)


@st.composite
def pools(draw: st.DrawFn) -> tuple[ResourceSlice, ...]:
    """Up to four slices; names are shared between pools, contents differ by a mark."""
    names = draw(DEVICES)
    mark = draw(st.sampled_from(["x", "y"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(names)), max_size=3)))
    parts = [names[start:end] for start, end in itertools.pairwise([0, *cuts, len(names)])]
    return pool(*([device(f"{name}-{mark}") for name in part] for part in parts))


def names_of(desired: tuple[ResourceSlice, ...]) -> list[str]:
    return [item.name for part in desired for item in part.spec.devices]


@given(history=st.lists(st.tuples(pools(), st.integers(0, 8), st.integers(0, 15)), min_size=1, max_size=6))
def test_a_consumer_never_sees_a_mixture(history: list[tuple[tuple[ResourceSlice, ...], int, int]]) -> None:
    """Every pool of the history is written, but a crash ends it after some writes, and kubelet wipes some slices."""
    server = Server()
    before: list[str] | None = None
    for desired, crash_after, wiped in history:
        for _ in itertools.islice(server.steps(slice_changes(desired, server.stored(), node_uid=UID)), crash_after):
            seen = server.visible()
            assert seen in (None, before, names_of(desired))
            before = seen if seen is not None else before
        for index, name in enumerate(sorted(server.objects)):
            if wiped >> index & 1:
                del server.objects[name]
                seen = server.visible()
                assert seen in (None, before)
    desired = history[-1][0]
    publish(server, desired)
    assert server.visible() == names_of(desired)
    generations = {item["spec"]["pool"]["generation"] for item in server.objects.values()}
    counts = {item["spec"]["pool"]["resourceSliceCount"] for item in server.objects.values()}
    assert (len(generations), counts) == (1, {len(server.objects)})
    assert not slice_changes(desired, server.stored(), node_uid=UID)
