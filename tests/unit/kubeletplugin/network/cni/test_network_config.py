"""The node's network configuration, with rootport-cni behind it: on real folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from driver.errors import InputError, NodeError
from kubeletplugin.network.cni import network_config
from kubeletplugin.network.cni.network_config import NetworkConfig

BRIDGE = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "disableCheck": True,
    "plugins": [{"type": "bridge", "mtu": 1450, "note": "Grüße"}, {"type": "portmap", "capabilities": {"x": True}}],
}
OURS = {"type": "rootport-cni"}


class Node:
    def __init__(self, folder: Path) -> None:
        self.conf_dir, self.bin_dir, self.program = folder / "net.d", folder / "bin", folder / "image" / "rootport-cni"
        for made in (self.conf_dir, self.bin_dir, self.program.parent):
            made.mkdir()
        self.program.write_bytes(b"\x7fELF one")

    @property
    def installed(self) -> Path:
        return self.bin_dir / "rootport-cni"

    def write(self, name: str, content: Any) -> Path:
        path = self.conf_dir / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def config(self, file_name: str | None = None) -> NetworkConfig:
        return NetworkConfig(self.conf_dir, bin_dir=self.bin_dir, program=self.program, file_name=file_name)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_is_chained_behind_the_nodes_network_and_everything_else_stays(node: Node) -> None:
    path = node.write("10-net.conflist", BRIDGE)
    path.chmod(0o640)
    other = node.write("20-other.conflist", BRIDGE)
    before = other.read_bytes()
    assert not node.config().is_chained()
    node.config().ensure()
    assert json.loads(path.read_text()) == {**BRIDGE, "plugins": [*BRIDGE["plugins"], OURS]}
    assert list(json.loads(path.read_text())) == list(BRIDGE)
    assert path.stat().st_mode & 0o777 == 0o640
    assert (node.installed.read_bytes(), node.installed.stat().st_mode & 0o777) == (b"\x7fELF one", 0o755)
    assert other.read_bytes() == before
    assert sorted(x.name for x in node.conf_dir.iterdir()) == ["10-net.conflist", "20-other.conflist"]
    assert node.config().is_chained()


def test_what_is_there_already_is_not_written_again(node: Node) -> None:
    path = node.write("10-net.conflist", BRIDGE)
    node.config().ensure()
    before = [(x.stat().st_ino, x.stat().st_mtime_ns) for x in (path, node.installed)]
    node.config().ensure()
    assert [(x.stat().st_ino, x.stat().st_mtime_ns) for x in (path, node.installed)] == before


def test_it_is_chained_again_after_the_networks_owner_wrote_its_file_anew(node: Node) -> None:
    config = node.config()
    path = node.write("10-net.conflist", BRIDGE)
    config.ensure()
    node.write("10-net.conflist", BRIDGE)
    assert not config.is_chained()
    config.ensure()
    assert json.loads(path.read_text())["plugins"][-1] == OURS


def test_what_the_owner_writes_at_the_same_moment_is_not_lost(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    path = node.write("10-net.conflist", BRIDGE)
    newer = {**BRIDGE, "name": "newer"}
    dumps = json.dumps
    written: list[str] = []

    def meanwhile(*arguments: Any, **options: Any) -> str:
        if not written:
            written.append("once")
            path.write_text(dumps(newer))
        return dumps(*arguments, **options)

    monkeypatch.setattr(network_config.json, "dumps", meanwhile)
    node.config().ensure()
    monkeypatch.undo()
    assert json.loads(path.read_text()) == {**newer, "plugins": [*BRIDGE["plugins"], OURS]}


def test_another_program_of_the_image_replaces_the_installed_one_while_it_runs(node: Node) -> None:
    node.write("10-net.conflist", BRIDGE)
    node.config().ensure()
    former = node.installed.open("rb")
    node.program.write_bytes(b"\x7fELF two")
    node.config().ensure()
    with former:
        assert former.read() == b"\x7fELF one"
    assert node.installed.read_bytes() == b"\x7fELF two"


def test_a_program_that_lost_its_permissions_gets_them_back(node: Node) -> None:
    node.write("10-net.conflist", BRIDGE)
    node.config().ensure()
    node.installed.chmod(0o644)
    node.config().ensure()
    assert node.installed.stat().st_mode & 0o777 == 0o755


def test_a_chain_without_its_program_does_not_count(node: Node) -> None:
    node.write("10-net.conflist", BRIDGE)
    node.config().ensure()
    node.installed.unlink()
    assert not node.config().is_chained()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param("", "it is not valid JSON", id="empty"),
        pytest.param(json.dumps(BRIDGE)[:-9], "it is not valid JSON", id="half written"),
        pytest.param("[]", "no JSON object", id="a list"),
        pytest.param({"cniVersion": "1.0.0", "type": "bridge"}, "no list of plugins", id="a single plugin"),
        pytest.param({**BRIDGE, "plugins": []}, "no list of plugins", id="no plugin"),
        pytest.param({**BRIDGE, "plugins": [*BRIDGE["plugins"], "x"]}, "no list of plugins", id="a word for a plugin"),
        pytest.param({**BRIDGE, "cniVersion": "2.0.0"}, "cniVersion is '2.0.0'", id="a version from the future"),
        pytest.param({**BRIDGE, "cniVersion": ["1.0.0"]}, "cniVersion is", id="a list for a version"),
        pytest.param('{"a": 1, "a": 2}', "one key twice", id="a key twice"),
        pytest.param('{"a": NaN}', "it is not valid JSON", id="NaN"),
        pytest.param('{"a": 1e999}', "too large", id="a number that cannot be kept"),
        pytest.param("[" * 100_000, "it is not valid JSON", id="nested without end"),
        pytest.param(" " * (2**20 + 1), "more than 1 MiB", id="too large"),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(node: Node, content: Any, why: str) -> None:
    path = node.write("10-net.conflist", content)
    before = path.read_bytes()
    with pytest.raises(NodeError, match=why) as caught:
        node.config().ensure()
    assert str(path) in str(caught.value)
    assert not node.config().is_chained()
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["00-multus.conf", "05-one.json"])
def test_a_single_plugin_before_the_lists_is_told(node: Node, name: str) -> None:
    node.write(name, {"cniVersion": "0.3.1", "type": "multus"})
    path = node.write("10-net.conflist", BRIDGE)
    with pytest.raises(NodeError, match=f"{name} is a single plugin"):
        node.config().ensure()
    assert json.loads(path.read_text()) == BRIDGE


def test_with_multus_the_clusters_own_network_is_named(node: Node) -> None:
    node.write("00-multus.conf", {"cniVersion": "0.3.1", "type": "multus"})
    path = node.write("10-net.conflist", BRIDGE)
    config = node.config("10-net.conflist")
    config.ensure()
    assert config.is_chained()
    assert json.loads(path.read_text())["plugins"][-1] == OURS


@pytest.mark.parametrize("name", ["../10-net.conflist", "10-net.conf", "", "a/b.conflist"])
def test_the_named_file_is_a_plain_name(node: Node, name: str) -> None:
    with pytest.raises(InputError, match="no plain file name"):
        node.config(name)


def test_a_link_is_not_followed(node: Node, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps(BRIDGE))
    (node.conf_dir / "10-net.conflist").symlink_to(elsewhere)
    with pytest.raises(NodeError, match="no regular file"):
        node.config().ensure()
    assert json.loads(elsewhere.read_text()) == BRIDGE


def test_a_node_without_a_network_yet_is_told(node: Node) -> None:
    with pytest.raises(NodeError, match="no network configuration yet"):
        node.config().ensure()


def test_nothing_is_chained_where_the_program_cannot_be_installed(node: Node) -> None:
    path = node.write("10-net.conflist", BRIDGE)
    node.bin_dir.rmdir()
    with pytest.raises(NodeError, match="cannot be installed"):
        node.config().ensure()
    assert json.loads(path.read_text()) == BRIDGE


def test_a_file_system_without_space_leaves_the_network_as_it_was(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    path = node.write("10-net.conflist", BRIDGE)
    config = node.config()
    config.ensure()
    node.write("10-net.conflist", BRIDGE)

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NodeError, match="cannot be written: No space left"):
        config.ensure()
    assert [x.name for x in node.conf_dir.iterdir()] == ["10-net.conflist"]
    assert json.loads(path.read_text()) == BRIDGE
