"""A real device plugin and Rootport on one node, which passes between them: no device is given out twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import EVENTS, PODS
from driver.model.rivals import RIVAL_TAINT
from tests.support.cluster.given_twice import TwiceWatch
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.rival_plugin import RESOURCE, RivalPlugin, rival_pod

Json = dict[str, Any]


def gpus(rootport: RunningRootport) -> dict[str, str]:
    """The UUIDs of the node's GPUs, to their names in the slices."""
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    whole = [device for device in devices if device["attributes"]["type"]["string"] == "gpu"]
    return {device["attributes"]["uuid"]["string"]: device["name"] for device in whole}


def tainted(rootport: RunningRootport) -> set[str]:
    """The devices with the taint of a rival."""
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    return {
        device["name"]
        for device in devices
        if any(taint["key"] == RIVAL_TAINT and taint["effect"] == "NoSchedule" for taint in device.get("taints", ()))
    }


def condition(rootport: RunningRootport) -> tuple[str, str, str]:
    found = rootport.cluster.get("nodeinventory", NODE_NAME)["status"]["conditions"]
    item = next(item for item in found if item["type"] == "NoRivalPlugin")
    return item["status"], item["reason"], item["message"]


def phases(rootport: RunningRootport) -> dict[str, str]:
    return {item["metadata"]["name"]: item["status"].get("phase", "") for item in rootport.cluster.list(PODS)}


def ran(rootport: RunningRootport, *argv: str) -> tuple[int, str]:
    """What ``rootport`` prints, and its exit code."""
    kubeconfig = f"--kubeconfig={rootport.cluster.control_plane.kubeconfig}"
    program = Path(sys.executable).with_name("rootport")
    done = subprocess.run([program, *argv, kubeconfig], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def migrated(rootport: RunningRootport, *options: str) -> tuple[int, Json]:
    """The exit code of ``rootport migrate``, and its steps' states by name with the next one's command."""
    code, text = ran(rootport, "migrate", NODE_NAME, "--output=json", *options)
    answer = json.loads(text)
    states: Json = {step["name"]: step["state"] for step in answer["steps"]}
    return code, states | {"next": (answer["next"] or {}).get("name"), "command": (answer["next"] or {}).get("command")}


@pytest.fixture
def rival(rootport: RunningRootport, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RivalPlugin]:
    """A device plugin for all of the node's GPUs, not running yet."""
    nodes = {
        uuid: rootport.host.root / f"dev/nvidia{number}"
        for number, uuid in enumerate(sorted(gpus(rootport), key=gpus(rootport).__getitem__))
    }
    made = RivalPlugin(rootport.cluster, tmp_path_factory.mktemp("rival") / "plugin", nodes)
    yield made
    rootport.cluster.kubectl("uncordon", NODE_NAME)
    rootport.cluster.kubectl("delete", "pods", "--all", "--timeout=60s")
    made.stop()
    wait_until("nothing is tainted any more", lambda: not tainted(rootport), timeout_s=40)


def apply(rootport: RunningRootport, *objects: Json) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def events(rootport: RunningRootport, name: str) -> set[str]:
    """The reasons of the Events on the pod."""
    return {item["reason"] for item in rootport.cluster.list(EVENTS) if item["involvedObject"]["name"] == name}


def test_a_device_plugin_and_rootport_pass_a_node_back_and_forth(rootport: RunningRootport, rival: RivalPlugin) -> None:
    names = gpus(rootport)
    assert len(names) == 8
    with TwiceWatch(rootport.cluster, names) as watch:
        a_rival_starts_while_claims_have_devices(rootport, rival, set(names.values()))
        both_run_and_the_rival_alone_gives_out_gpus(rootport)
        a_plugin_that_is_away_may_come_back(rootport, rival, set(names.values()))
        what_its_pods_hold_stays_theirs_when_it_withdraws(rootport, rival, set(names.values()))
        the_node_goes_back(rootport, rival)
        rootport_returns_while_the_rival_is_there(rootport, rival, set(names.values()))
    assert watch.found == []
    assert watch.looks > 100
    assert {"ours", "new", "waits"} <= watch.seen
    assert len(watch.seen - {"ours", "new", "waits"}) >= 4
    assert len(rival.allocations()) == 5


def a_rival_starts_while_claims_have_devices(rootport: RunningRootport, rival: RivalPlugin, names: set[str]) -> None:
    """It is told at once, and loudly: nothing else can be done."""
    cluster = rootport.cluster
    apply(rootport, claim("ours", gpu=2), pod("ours", claim="ours"))
    cluster.wait_for_pod("ours", "Running")
    cluster.kubectl("cordon", NODE_NAME)
    rival.start()
    wait_until("each GPU has the taint", lambda: names <= tainted(rootport), timeout_s=15)
    assert not any(name.startswith(("rdma", "fpga")) for name in tainted(rootport))
    wait_until("it is told", lambda: condition(rootport)[1] == "DevicesGivenTwice", timeout_s=10)
    assert RESOURCE in condition(rootport)[2]
    wait_until("an Event tells the pod", lambda: "RivalPlugin" in events(rootport, "ours"), timeout_s=15)

    code, states = migrated(rootport, "--back")
    assert (code, states["cordon"], states["next"]) == (1, "Done", "drain")
    assert states["command"].startswith(f"kubectl drain {NODE_NAME} ")
    cluster.kubectl("delete", "pod/ours", "resourceclaim/ours")
    wait_until("claims hold nothing", lambda: not rootport.leftovers(), timeout_s=30)


def both_run_and_the_rival_alone_gives_out_gpus(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    cluster.kubectl("uncordon", NODE_NAME)
    apply(rootport, *(rival_pod(f"old-{number}") for number in range(3)))
    apply(rootport, claim("new", gpu=1), pod("new", claim="new"))
    for number in range(3):
        cluster.wait_for_pod(f"old-{number}", "Running")
    assert phases(rootport)["new"] == "Pending"
    code, text = ran(rootport, "explain", "claim", "default/new")
    assert code == 1
    assert "DeviceTainted" in text
    assert RESOURCE in text
    assert "deploy.device-plugin=false" in text
    code, states = migrated(rootport)
    assert (code, states["next"], states["drain"], states["plugin-off"]) == (1, "cordon", "ToDo", "ToDo")


def a_plugin_that_is_away_may_come_back(rootport: RunningRootport, rival: RivalPlugin, names: set[str]) -> None:
    rival.kill()
    wait_until("the kubelet gives out none", lambda: rival.allocatable() == 0, timeout_s=30)
    assert rival.capacity() == 8
    assert names <= tainted(rootport)
    assert phases(rootport)["new"] == "Pending"
    rival.start()


def what_its_pods_hold_stays_theirs_when_it_withdraws(
    rootport: RunningRootport, rival: RivalPlugin, names: set[str]
) -> None:
    cluster = rootport.cluster
    rival.withdraw()
    wait_until("the rest is free", lambda: len(names & tainted(rootport)) == 3, timeout_s=40)
    cluster.wait_for_pod("new", "Running")
    code, states = migrated(rootport)
    assert (code, states["drain"], states["plugin-off"]) == (1, "ToDo", "Done")
    cluster.kubectl("delete", "pods", "--selector=test=rival", "--timeout=60s")
    wait_until("all is Rootport's", lambda: not tainted(rootport), timeout_s=40)
    assert condition(rootport)[0] == "True"
    code, states = migrated(rootport)
    assert (code, states["next"]) == (0, None)


def the_node_goes_back(rootport: RunningRootport, rival: RivalPlugin) -> None:
    cluster = rootport.cluster
    cluster.kubectl("delete", "pod/new", "resourceclaim/new")
    wait_until("claims hold nothing", lambda: not rootport.leftovers(), timeout_s=30)
    assert rootport.plugin is not None
    rootport.plugin.stop()
    wait_until("Rootport's devices are gone", lambda: not gpus(rootport), timeout_s=90)
    rival.start()
    apply(rootport, *(rival_pod(f"old-{number}", count=2) for number in range(2)))
    apply(rootport, claim("waits", gpu=4), pod("waits", claim="waits"))
    for number in range(2):
        cluster.wait_for_pod(f"old-{number}", "Running")
    code, states = migrated(rootport, "--back")
    assert (code, states["rootport-off"], states["withdrawn"], states["offered"]) == (0, "Done", "Done", "Done")


def rootport_returns_while_the_rival_is_there(rootport: RunningRootport, rival: RivalPlugin, names: set[str]) -> None:
    """A claim has waited for it all the time, and is given nothing that the rival has."""
    rootport.start_plugin()
    assert names <= tainted(rootport)  # from the first slice on
    assert phases(rootport)["waits"] == "Pending"
    rival.withdraw()
    rootport.cluster.wait_for_pod("waits", "Running")
