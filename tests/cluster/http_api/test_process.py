"""The controller as a process with its own rights: what its HTTPS server shows of a real API server's objects."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.leader.label import LEADER_LABEL
from tests.support.api_client import Client
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE, start_controller
from tests.support.cluster.processes import Process, Processes
from tests.support.machines import gpu, nic, node
from tests.support.ports import free_port
from tests.support.simulated_nodes import Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

_POD = "rootport-controller-0"
_QUICK = ("--fresh-for=2.5", "--grace-period=5", "--log-level=debug")


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    made.clear()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def start(installed: ControlPlane, processes: Processes) -> Callable[..., tuple[Process, int]]:
    """Starts a controller; gives where it serves HTTPS as well."""

    def start(*options: str, name: str = "controller", pod: str = "") -> tuple[Process, int]:
        port = free_port()
        env = {"POD_NAME": pod} if pod else {}
        asked = (f"--https-port={port}", *_QUICK, *options)
        return start_controller(installed, processes, *asked, name=name, env=env), port

    return start


@pytest.fixture
def pod(installed: ControlPlane) -> Iterator[str]:
    """The controller's own pod, which somebody else has labelled, with the label of a container that crashed."""
    spec = {"serviceAccountName": "rootport-controller", "containers": [{"name": "controller", "image": "rootport"}]}
    metadata = {"name": _POD, "namespace": NAMESPACE, "labels": {"app": "x", LEADER_LABEL: "true"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    installed.kubectl("create", "--filename=-", input=json.dumps(body))
    yield _POD
    installed.kubectl("delete", "pod", _POD, f"--namespace={NAMESPACE}", "--force", "--grace-period=0")


def labels(plane: ControlPlane) -> dict[str, str]:
    found: dict[str, str] = json.loads(plane.kubectl("get", "pod", _POD, f"--namespace={NAMESPACE}", "--output=json"))[
        "metadata"
    ]["labels"]
    return found


def shown(client: Client) -> list[Any]:
    try:
        said = client.get("/api/v1/nodes")
    except OSError:
        return []  # not listening yet
    return list(said.json["nodes"]) if said.status == 200 else []


def test_a_controller_shows_its_nodes_and_their_changes(
    nodes: Nodes, start: Callable[..., tuple[Process, int]], token_with: Callable[..., str]
) -> None:
    machine = node(gpu("10"), gpu("11"), nic("20"), name="node-a")
    nodes.add(machine)
    controller, port = start()
    viewer = Client(port, token_with("rootport-viewer"))
    with nodes.beating("node-a", "node-b"):
        (found,) = eventually("a node", lambda: shown(viewer))
        assert (found["name"], found["state"], len(found["devices"])) == ("node-a", "Ready", 3)
        names = [device["metadata"]["name"] for device in viewer.get("/api/v1/nodes/node-a").json["devices"]]
        assert len(names) == 3
        with viewer.events("/api/v1/events") as stream:
            next(stream)
            nodes.add(replace(machine, node="node-b"))
            assert next(event for event in stream if event.kind == "node").data["name"] == "node-b"
    assert controller.stop() == 0
    log = controller.log.read_text()
    assert "Traceback" not in log


def test_the_leader_has_the_label_and_the_data_and_another_one_names_the_leader(
    installed: ControlPlane,
    nodes: Nodes,
    pod: str,
    start: Callable[..., tuple[Process, int]],
    token_with: Callable[..., str],
) -> None:
    nodes.add(node(gpu("10"), name="node-a"))
    first, port = start(name="first", pod=pod)
    viewer = token_with("rootport-viewer")
    with nodes.beating("node-a"):
        eventually("a node", lambda: shown(Client(port, viewer)))
        eventually("the label", lambda: labels(installed).get(LEADER_LABEL) == "true")
        _, other = start(name="second")
        said = eventually("another controller", lambda: _answer(Client(other, viewer)))
        eventually("a word of who leads", lambda: "first_" in Client(other, viewer).get("/api/v1/nodes").text)
        assert said == 503
    assert first.stop() == 0
    assert labels(installed) == {"app": "x"}


def _answer(client: Client) -> int:
    try:
        return client.get("/api/v1/nodes").status
    except OSError:
        return 0


def test_a_label_that_a_crash_left_behind_is_removed_at_the_start(
    installed: ControlPlane, nodes: Nodes, pod: str, start: Callable[..., tuple[Process, int]]
) -> None:
    # Another one leads already, as it does after a crash of the leader.
    leader, _ = start(name="leader")
    eventually("a leader", lambda: "elected" in leader.log.read_text())
    start(name="again", pod=pod)
    eventually("no label", lambda: labels(installed) == {"app": "x"})
    assert nodes is not None


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "y"}}},
        {"metadata": {"labels": {LEADER_LABEL: "true", "other": "x"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {"containers": [{"name": "controller", "image": "evil"}]}},
        {"metadata": {"finalizers": ["example.com/x"]}},
    ],
    ids=str,
)
def test_the_controller_changes_nothing_else_of_a_pod(
    installed: ControlPlane, controller_kubeconfig: Path, pod: str, change: dict[str, Any]
) -> None:
    def patched(body: dict[str, Any]) -> str:
        command = ("patch", "pod", pod, f"--namespace={NAMESPACE}", "--type=merge", "--dry-run=server", "--patch")
        return installed.kubectl(*command, json.dumps(body), kubeconfig=controller_kubeconfig, check=False)

    end = time.monotonic() + 30
    while "nothing else of it" not in (said := patched(change)):
        assert time.monotonic() < end, said  # the API server takes a policy up by a watch
        time.sleep(0.05)
    assert "patched" in patched({"metadata": {"labels": {LEADER_LABEL: None}}})


def test_a_webhook_without_https_is_refused(start: Callable[..., tuple[Process, int]]) -> None:
    controller, _ = start("--webhook", "--https-port=0")
    eventually("the message", lambda: "--webhook needs --https-port" in controller.log.read_text())
