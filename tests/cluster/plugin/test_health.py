"""The health of devices in a whole plugin: what the driver reports and readings show, and how it is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from kubeletplugin.protocol import dra_health_v1_pb2 as health_pb2
from kubeletplugin.protocol import dra_health_v1_pb2_grpc as health_grpc
from tests.support.cluster.processes import wait_until
from tests.support.plugin_process import GPUS, NICS, Cluster, PluginNode, PluginProcess
from tests.support.stub_nvml import H100_80GB, Machine, StubNvml, inject_xid, set_live
from tests.support.sysfs_tree import SysfsTree

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

GPU, OTHER = "gpu-0000-13-00-0", "gpu-0000-23-00-0"
NIC, OTHER_NIC = "rdma-0000-14-00-0", "rdma-0000-24-00-0"
WATCHED = [GPU, OTHER, NIC, OTHER_NIC]
QUICK = ("--health-interval=1", "--health-hold=0", "--discovery-interval=2")
MakeNode = Callable[[str], PluginNode]


class Watched:
    """A node whose devices' health changes."""

    def __init__(self, cluster: Cluster, node: PluginNode, state: Path) -> None:
        self.cluster, self.node, self.state = cluster, node, state
        self.kubeconfig = cluster.add_node(node.name)

    def start(self, *options: str) -> PluginProcess:
        process = self.node.start(self.kubeconfig, *QUICK, *options)
        process.wait_serving()
        process.wait_log("listening to what")
        return process

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (self.cluster.inventory(self.node.name) or {}).get("status", {})
        return found

    def wait_faults(self, expected: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
        """By device: reason and effect."""

        def reported() -> bool:
            return {f["device"]: (f["reason"], f["effect"]) for f in self.status().get("faults", [])} == expected

        wait_until(f"faults {expected}; now {self.status()}", reported, timeout_s=40, step_s=0.2)
        faults: list[dict[str, Any]] = self.status().get("faults", [])
        return faults

    def unhealthy(self) -> dict[str, str]:
        """As the kubelet is told."""
        with grpc.insecure_channel(f"unix:{self.node.plugins / 'dra-local.sock'}") as channel:
            stream = health_grpc.DRAResourceHealthStub(channel).NodeWatchResources(
                health_pb2.NodeWatchResourcesRequest(), timeout=10
            )
            devices = next(stream).devices
            stream.cancel()
        sick = (device for device in devices if device.health != health_pb2.HealthStatus.HEALTHY)
        return {device.device.device_name: device.message for device in sick}


@pytest.fixture
def watched(cluster: Cluster, make_node: MakeNode, nvml_stub: StubNvml, tmp_path: Path, request: Any) -> Watched:
    node = make_node(request.node.name.removeprefix("test_").replace("_", "-")[:40].strip("-"))
    state = tmp_path / "nvml-state"
    machine = Machine(
        gpus=tuple(H100_80GB.at(number, f"0000{address}") for number, address in enumerate(GPUS)), state=str(state)
    )
    node.environment = nvml_stub.environment(machine)
    return Watched(cluster, node, state)


def test_an_xid_is_told_kept_over_a_restart_and_over_after_a_reset(watched: Watched) -> None:
    process = watched.start()
    wait_until("all is watched", lambda: watched.status().get("watched") == WATCHED, timeout_s=40)
    assert watched.unhealthy() == {}
    set_live(watched.state, 0, recovery_action=1)
    inject_xid(watched.state, 0, 79)
    (fault,) = watched.wait_faults({GPU: ("Xid79", "NoExecute")})
    assert "fallen off the bus" in fault["message"]
    assert watched.unhealthy()[GPU].startswith("Xid79: ")
    assert process.terminate() == 0
    again = watched.start()
    again.wait_log("listening to what")
    assert watched.wait_faults({GPU: ("Xid79", "NoExecute")}) == [fault]
    set_live(watched.state, 0, lost=1)
    again.wait_log("reason=GpuLost")
    set_live(watched.state, 0, lost=None, recovery_action=0)
    watched.wait_faults({})
    assert watched.unhealthy() == {}
    assert watched.status()["watched"] == WATCHED
    assert again.terminate() == 0


def test_a_lost_gpu_stays_listed_and_published(watched: Watched) -> None:
    process = watched.start()
    process.wait_log("inventory published")
    before = (watched.cluster.inventory(watched.node.name) or {})["spec"]
    set_live(watched.state, 1, lost=1)
    watched.wait_faults({OTHER: ("GpuLost", "NoExecute")})
    process.wait_log("note on the devices")  # discovery has looked as well
    after = (watched.cluster.inventory(watched.node.name) or {})["spec"]
    assert after["gpus"] == before["gpus"]
    assert process.terminate() == 0


def test_a_link_that_goes_down_and_up_is_followed(watched: Watched) -> None:
    process = watched.start("--discovery-interval=600")
    wait_until("all is watched", lambda: watched.status().get("watched") == WATCHED, timeout_s=40)
    tree = SysfsTree(watched.node.host)
    tree.port_state(NICS[0], "down")
    watched.wait_faults({NIC: ("LinkDown", "NoSchedule")})

    def states() -> list[str]:
        spec = (watched.cluster.inventory(watched.node.name) or {})["spec"]
        return [nic["ports"][0]["state"] for nic in spec["nics"]]

    # The inventory, of which the taint is made, follows at once, whatever the discovery's interval.
    wait_until("the inventory", lambda: states() == ["down", "active"], timeout_s=20)
    tree.port_state(NICS[0], "active")
    watched.wait_faults({})
    wait_until("the inventory", lambda: states() == ["active", "active"], timeout_s=20)
    assert process.terminate() == 0


def test_an_administrators_word_ends_an_error(watched: Watched) -> None:
    process = watched.start("--health-interval=300")
    process.wait_log("conditions published")
    set_live(watched.state, 0, recovery_action="")
    inject_xid(watched.state, 0, 79)
    (fault,) = watched.wait_faults({GPU: ("Xid79", "NoExecute")})
    word = f"rootport.dev/recovered={GPU}@{fault['since'].replace('Z', '.999Z')}"
    watched.cluster.plane.kubectl("annotate", "nodeinventory", watched.node.name, word)
    assert process.terminate() == 0
    watched.start("--health-interval=300")
    watched.wait_faults({})


def test_what_is_not_watched_is_not_told(watched: Watched) -> None:
    process = watched.node.start(watched.kubeconfig, "--health-interval=0")
    process.wait_serving()
    process.wait_log("conditions published")
    inject_xid(watched.state, 0, 79)
    assert "watched" not in watched.status()
    assert "listening" not in process.text()
    assert not (watched.node.plugins / "health.json").exists()
    assert process.terminate() == 0


def test_a_plugin_that_was_killed_remembers(watched: Watched) -> None:
    process = watched.start()
    set_live(watched.state, 0, recovery_action=1)
    inject_xid(watched.state, 0, 79)
    watched.wait_faults({GPU: ("Xid79", "NoExecute")})
    kept = json.loads((watched.node.plugins / "health.json").read_text())
    assert [(fault["device"], fault["xid"]) for fault in kept["faults"] if fault["xid"]] == [(GPU, 79)]
    process.popen.kill()
    process.popen.wait()
    watched.start().wait_log("reason=Xid79")
    assert [fault["reason"] for fault in watched.wait_faults({GPU: ("Xid79", "NoExecute")})] == ["Xid79"]
