"""Which machine a command is about: the same ways to say it for all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.sysfs_tree import dgx
from tests.support.topologies import nccl_file

Run = Callable[..., Any]

GPU = Path("examples/gpu.yaml").resolve()
COMMANDS = {
    "topo": ["topo"],
    "slices": ["slices"],
    "simulate": ["simulate", "--claims", GPU],
    "pairs": ["pairs"],
    "lint": ["lint", GPU],
}
ALL = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "worker-1"
    folder.mkdir()
    dgx(folder, switches=2, vfs=0)
    return folder


@ALL
def test_every_command_takes_a_sysfs_tree(rootport: Run, tree: Path, command: list[object]) -> None:
    ran = rootport(*command, "--sysfs", tree)
    assert ran.code == 0, ran.err


@ALL
def test_every_command_takes_this_machine(rootport: Run, command: list[object]) -> None:
    ran = rootport(*command, "--live")
    # What it has is not known here; it was read, and the answer is about it.
    assert ran.code in {0, 1}, ran.err
    assert "Usage: " not in ran.err


@ALL
def test_every_command_takes_a_topology_file(rootport: Run, command: list[object]) -> None:
    ran = rootport(*command, "--topology", nccl_file("azure-nd-h100-v5"))
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("command", [COMMANDS[name] for name in ("topo", "slices", "simulate", "pairs")], ids=str)
def test_a_topology_file_needs_no_option_where_no_other_file_is_meant(rootport: Run, command: list[object]) -> None:
    file = nccl_file("azure-nd-h100-v5")
    assert rootport(*command, file) == rootport(*command, "--topology", file)


@ALL
def test_a_source_that_shows_the_gpus_itself_takes_no_flag_for_them(
    rootport: Run, tree: Path, command: list[object]
) -> None:
    for source in (["--sysfs", tree], ["--live"]):
        ran = rootport(*command, *source, "--gpu-model", "H100")
        assert ran.code == 2
        assert "--gpu-model goes with --topology FILE" in ran.err
        assert ran.out == ""


def test_a_flag_for_a_node_of_sysfs_is_refused_beside_a_topology_file(rootport: Run, tree: Path) -> None:
    both = ("simulate", nccl_file("azure-nd-h100-v5"), "--sysfs", tree)
    assert rootport(*both, "--gpu-model", "H100").code == 0
    ran = rootport(*both, "--gpu-model", "worker-1=H100")
    assert ran.code == 2
    assert "goes with --topology FILE" in ran.err


@pytest.mark.parametrize("below", ["", "sys"])
def test_a_sysfs_tree_is_named_after_its_folder(rootport: Run, tree: Path, below: str) -> None:
    assert json.loads(rootport("topo", "--sysfs", tree / below, "-o", "json").out)["node"] == "worker-1"


def test_machines_of_all_kinds_are_simulated_together(rootport: Run, tree: Path) -> None:
    ran = rootport("simulate", nccl_file("azure-nd-h100-v5"), "--sysfs", tree, "--nodes", 2, "-o", "json")
    names = [node["name"] for node in json.loads(ran.out)["nodes"]]
    assert names == ["azure-nd-h100-v5-1", "azure-nd-h100-v5-2", "worker-1-1", "worker-1-2"]


def test_two_sources_of_one_name_are_refused(rootport: Run, tree: Path) -> None:
    ran = rootport("simulate", "--sysfs", tree, "--sysfs", tree / "sys")
    assert ran.code == 2
    assert "both make a node named worker-1" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", ""], ["lint", GPU, "--from", ""], ["explain", "claim", "x", "--from", ""], ["topo", ""],
        ["topo", "--sysfs", ""], ["slices", "--topology", ""], ["simulate", "MACHINE", "--claims", ""],
        ["simulate", "MACHINE", "--out", ""], ["slices", "MACHINE", "--gpu-policies", ""],
    ],
    ids=str,
)  # fmt: skip
def test_an_empty_name_is_not_the_current_folder(rootport: Run, arguments: list[object]) -> None:
    ran = rootport(*(nccl_file("fpga-server") if part == "MACHINE" else part for part in arguments))
    assert ran.code == 2
    assert "the name is empty" in ran.err
    assert ran.out == ""


def test_slices_of_a_sysfs_tree_take_a_node_name(rootport: Run, tree: Path) -> None:
    ran = rootport("slices", "--sysfs", tree, "--node", "other")
    assert {part["spec"]["nodeName"] for part in yaml.safe_load_all(ran.out)} == {"other"}
    ran = rootport("slices", "--sysfs", tree, "--node", "not a name")
    assert ran.code == 2
    assert "--node" in ran.err


def test_the_hint_for_a_missing_topology_file_names_both_forms(rootport: Run) -> None:
    ran = rootport("topo", "missing.xml")
    assert ran.code == 2
    assert "name an NCCL topology file (XML), or a machine description (.yaml)" in ran.err
