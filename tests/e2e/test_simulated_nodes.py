"""More nodes than one: plugins without kubelets, beside the real one, and one controller for all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.driver import start_plugin
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import Process, wait_until
from tests.support.cluster.rootport import RunningRootport

NODES = ("simulated-1", "simulated-2")


def published(rootport: RunningRootport) -> set[str]:
    return {part["spec"]["nodeName"] for part in rootport.slices()}


@pytest.fixture
def folders() -> Iterator[Path]:
    """A short path: a socket's has at most 107 bytes, and pytest's own temporary folders are too deep for that."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def plugins(rootport: RunningRootport, folders: Path) -> Iterator[dict[str, Process]]:
    plane = rootport.cluster.control_plane
    taint = {"key": "simulated", "effect": "NoSchedule"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}} for name in NODES
    ]
    plane.kubectl("create", "--filename=-", input=manifest(*nodes))
    started = {
        name: start_plugin(
            plane,
            rootport.cluster.processes,
            rootport.host,
            node=name,
            folders=folders / name,
            options=("--heartbeat-interval=1",),
        )
        for name in NODES
    }
    yield started
    for plugin in started.values():
        if plugin.alive():
            plugin.stop()
    plane.kubectl("delete", "nodes", *NODES, "--ignore-not-found")
    wait_until("the simulated nodes' slices are gone", lambda: not published(rootport) & set(NODES), timeout_s=60)


def test_every_node_is_published_and_one_that_vanishes_takes_its_objects_along(
    rootport: RunningRootport, plugins: dict[str, Process]
) -> None:
    cluster = rootport.cluster
    wait_until("all nodes are published", lambda: published(rootport) == {"node-1", *NODES}, timeout_s=60)

    plugins[NODES[0]].stop()
    cluster.kubectl("delete", "node", NODES[0])

    wait_until("the vanished node has no slices", lambda: published(rootport) == {"node-1", NODES[1]}, timeout_s=60)
    of_node = f"--selector=rootport.dev/node={NODES[0]}"
    wait_until(
        "and no Device objects",
        lambda: not cluster.kubectl("get", "devices.rootport.dev", of_node, "--output=name").strip(),
        timeout_s=60,
    )
    wait_until(
        "and no inventory",
        lambda: f"/{NODES[0]}" not in cluster.kubectl("get", "nodeinventories", "--output=name"),
        timeout_s=60,
    )
    assert plugins[NODES[1]].alive()
