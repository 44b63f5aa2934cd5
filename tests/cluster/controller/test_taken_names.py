"""Where somebody else's object has the name of a node's slice: at a real API server without Rootport's policies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cluster.slice_cache import SliceCache
from controller.slices.writer import NameTakenError, SliceWriter
from driver.adapters.kubernetes.errors import AlreadyExistsError
from driver.adapters.kubernetes.resources import NODES, RESOURCE_SLICES, JsonObject
from driver.layout.names import slice_name
from driver.layout.slices import resource_slices
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import gpu, nic, node
from tests.support.paths import REPO
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

CRDS = REPO / "resourceclasses/crd"
MACHINE = node(gpu("10"), nic("20"), name="node-a")


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> ControlPlane:
    control_plane.kubectl("apply", f"--filename={CRDS}")
    control_plane.wait_for_crds()
    control_plane.kubectl("create", "namespace", NAMESPACE)
    return control_plane


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


def take(nodes: Nodes, name: str) -> JsonObject:
    """As another node's kubelet may."""
    pool = {"name": "node-b", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "other.example.com", "nodeName": "node-b", "pool": pool, "devices": []}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    return nodes.api.create(RESOURCE_SLICES, body)


def writer(nodes: Nodes) -> SliceWriter:
    """One that has read nothing yet."""
    return SliceWriter(nodes.api, SliceCache(lambda _name: None), threading.Event())


def node_uid(nodes: Nodes) -> str:
    return str(
        nodes.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}})["metadata"]["uid"]
    )


def test_a_node_whose_slices_name_is_taken_is_published_under_another_and_the_object_stays(
    nodes: Nodes, tmp_path: Path
) -> None:
    foreign = take(nodes, slice_name("node-a", node_uid(nodes), 0))
    nodes.add(MACHINE, with_node=False)
    controller = Controller(nodes.kubeconfig, tmp_path / "controller.log")
    try:
        eventually("slices", lambda: len(nodes.visible("node-a")) == 2)
        eventually("the condition", lambda: nodes.published("node-a").get("status") == "True")
        assert (
            nodes.api.get(RESOURCE_SLICES, foreign["metadata"]["name"])["metadata"]["uid"] == foreign["metadata"]["uid"]
        )
        assert controller.logged("the name of a slice is taken.*other.example.com")
        (published,) = nodes.slices("node-a")
        # The next controller knows the slice by its name.
        controller.stop()
        controller = Controller(nodes.kubeconfig, tmp_path / "next.log", identity="next")
        with nodes.beating("node-a"):
            eventually("it leads", controller.leads)
            eventually("all was looked at", lambda: controller.logged("looking at everything"))
            nodes.report(node(gpu("10", model="B200"), nic("20"), name="node-a"))
            eventually("an update", lambda: "B200" in str(nodes.slices("node-a")))
        (updated,) = nodes.slices("node-a")
        assert updated["metadata"]["uid"] == published["metadata"]["uid"]
    finally:
        controller.kill()


def test_if_the_next_name_is_taken_as_well_the_condition_has_that_and_the_next_attempt_another_name(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.slices.writer.secrets.token_bytes", bytes)  # so that the next name can be foreseen
    uid = node_uid(nodes)
    desired = resource_slices(MACHINE)
    take(nodes, slice_name("node-a", uid, 0))
    writer(nodes).publish(desired, (), node_uid=uid)
    (other,) = (item["metadata"]["name"] for item in nodes.slices("node-a"))
    nodes.api.delete(RESOURCE_SLICES, other)
    take(nodes, other)
    late = writer(nodes)
    with pytest.raises(NameTakenError, match=f"{other} is taken by a ResourceSlice of driver other.example.com"):
        late.publish(desired, (), node_uid=uid)
    assert nodes.slices("node-a") == []
    late.publish(desired, (), node_uid=uid)
    assert len(nodes.slices("node-a")) == 1


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_slice_that_the_cache_does_not_show_yet_is_not_created_twice(nodes: Nodes, *, is_taken: bool) -> None:
    uid = node_uid(nodes)
    if is_taken:
        take(nodes, slice_name("node-a", uid, 0))
    one = writer(nodes)
    for _ in range(2):
        one.publish(resource_slices(MACHINE), (), node_uid=uid)
        with pytest.raises(AlreadyExistsError):
            one.publish(resource_slices(MACHINE), (), node_uid=uid)
        assert len(nodes.slices("node-a")) == 1
        for item in nodes.slices("node-a"):
            nodes.api.delete(RESOURCE_SLICES, item["metadata"]["name"])
