"""The plugin's part in pods' networks: loaded where it is needed, told in the conditions, known to discovery."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from driver.model.lent import LentNames
from driver.plan.effects import LendInterface
from kubeletplugin.network.netdev.records import InPod, Record, Records
from kubeletplugin.network.node_network import NodeNetwork
from kubeletplugin.node.roots import Roots
from kubeletplugin.publish.conditions import ConditionStatus

POD = "0d9ac3e4-7b12-4c5e-9d0f-a1b2c3d4e5f6"
VF = "rdma-vf-0000-41-00-1"
LENT = LendInterface(
    function=VF,
    address="0000:41:00.1",
    interface="ens1v0",
    pod_uid=POD,
    claim_uid="claim",
    name_in_pod="net1",
    mtu=None,
    rdma_device="mlx5_10",
)


class Node:
    """A host's folders; the sockets need short paths."""

    def __init__(self, host: Path) -> None:
        self.host = host
        self.config = host / "net.d"
        self.programs = host / "bin"
        self.program = host / "rootport-cni"
        self.state = host / "run/rootport/cni"
        self.changes = 0
        self.unchained = 0
        for folder in (self.config, self.programs):
            folder.mkdir()
        self.program.write_bytes(b"\x7fELF")

    def network(self, *, with_plugin: bool = True) -> NodeNetwork:
        return NodeNetwork(
            Roots.of(self.host, ""),
            config_dir=self.config if with_plugin else None,
            program_dir=self.programs if with_plugin else None,
            on_change=self._changed,
            on_unchained=self._unchained,
            program=self.program,
        )

    def configure(self) -> Path:
        path = self.config / "10-pods.conflist"
        path.write_text(json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge"}]}))
        return path

    def call(self, command: str) -> bytes:
        """As rootport-cni calls."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.fspath(self.state / "cni.sock"))
            call = {"version": 1, "command": command, "podUID": POD, "netns": "/run/netns/none"}
            client.sendall(json.dumps(call).encode())
            client.shutdown(socket.SHUT_WR)
            return client.recv(65536)

    def _changed(self) -> None:
        self.changes += 1

    def _unchained(self) -> None:
        self.unchained += 1


@pytest.fixture
def node() -> Iterator[Node]:
    with tempfile.TemporaryDirectory(prefix="rp-") as folder:
        yield Node(Path(folder))


def test_nothing_that_moves_interfaces_is_loaded_where_none_is_lent(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from kubeletplugin.network.node_network import NodeNetwork
from kubeletplugin.node.roots import Roots
roots = Roots.of(Path({os.fspath(tmp_path)!r}), "")
network = NodeNetwork(roots, config_dir=None, program_dir=None, program=Path("/none"), on_change=print)
network.start()
assert network.check() is None
assert not network.has_cni_plugin()
assert (network.lent(), network.lent_names(), network.of_claim("claim")) == (frozenset(), {{}}, {{}})
network.stop()
print([name for name in sys.modules if name.startswith(("kubeletplugin.network.netdev", "kubeletplugin.network.cni"))])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_lent_is_known_by_name_from_before_it_moves_until_it_is_back(node: Node) -> None:
    network, records = node.network(with_plugin=False), Records(node.state)
    record = Record(effect=LENT)
    records.write(record)
    assert network.lent() == {VF}
    assert network.lent_names() == {VF: LentNames(interface="ens1v0", rdma_device="mlx5_10")}
    assert network.of_claim("claim") == {}
    records.write(replace(record, in_pod=InPod(name="net1", mac="02:00:00:00:00:01", addresses=())))
    (told,) = network.of_claim("claim").values()
    assert (told.name, told.mac, told.addresses) == ("net1", "02:00:00:00:00:01", ())
    assert network.of_claim("another") == {}
    records.lose(record)
    records.remove(record)
    assert network.lent() == network.lent_names().keys() == {VF}
    records.found(record)
    assert network.lent() == frozenset()


def test_a_damaged_record_hides_neither_its_function_nor_the_node(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    Records(node.state).write(Record(effect=LENT))
    (path,) = (node.state / "pods" / POD).iterdir()
    path.write_text("{")
    network = node.network(with_plugin=False)
    assert network.lent() == {VF}
    assert network.lent_names() == {}
    assert os.fspath(path) in caplog.text


def test_the_plugin_is_chained_and_chained_again_where_the_networks_owner_took_it_out(node: Node) -> None:
    network = node.network()
    assert not network.has_cni_plugin()
    missing = network.check()
    assert missing is not None
    assert (missing.status, missing.reason) == (ConditionStatus.FALSE, "NotChained")
    assert "no network configuration yet" in missing.message
    path = node.configure()
    assert node.unchained == 0
    for times in (1, 2):
        found = network.check()
        assert found is not None
        assert found.status is ConditionStatus.TRUE
        assert network.has_cni_plugin()
        assert json.loads(path.read_text())["plugins"] == [{"type": "bridge"}, {"type": "rootport-cni"}]
        node.configure()
        assert not network.has_cni_plugin()
        assert not network.has_cni_plugin()
        assert node.unchained == times  # told once
    assert not (node.state / "cni.sock").exists()  # nothing is served before it is started


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may call")
def test_calls_are_served_and_changes_told_until_the_end(node: Node) -> None:
    network = node.network()
    node.configure()
    network.start()
    assert json.loads(node.call("ADD")) == {"version": 1, "result": {}}
    assert json.loads(node.call("DEL")) == {"version": 1, "result": {}}
    assert node.changes == 2
    node.call("CHECK")
    assert node.changes == 2
    # A newer process took the socket over and ended.
    (node.state / "cni.sock").unlink()
    found = network.check()
    assert found is not None
    assert found.status is ConditionStatus.TRUE
    assert json.loads(node.call("ADD")) == {"version": 1, "result": {}}
    network.stop()
    assert not (node.state / "cni.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may call")
def test_pods_with_interfaces_can_end_after_the_plugin_was_switched_off(node: Node) -> None:
    record, records = Record(effect=LENT), Records(node.state)
    records.write(record)
    network = node.network(with_plugin=False)
    network.start()
    records.remove(record)  # brought back
    assert json.loads(node.call("DEL")) == {"version": 1, "result": {}}
    (node.state / "cni.sock").unlink()
    assert network.check() is None
    assert not network.has_cni_plugin()
    assert json.loads(node.call("DEL")) == {"version": 1, "result": {}}
    network.stop()
    assert not (node.state / "cni.sock").exists()


def test_a_socket_that_cannot_be_made_is_told_and_keeps_nobody_from_starting(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.configure()
    network = node.network()
    (node.state / "cni.lock").mkdir(parents=True)  # a folder in the file's place
    network.start()
    assert "the CNI plugin's calls cannot be served" in caplog.text
    found = network.check()
    assert found is not None
    assert found.status is ConditionStatus.FALSE
    (node.state / "cni.lock").rmdir()
    found = network.check()
    assert found is not None
    assert found.status is ConditionStatus.TRUE
    network.stop()
