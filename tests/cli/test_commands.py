"""The other commands, and what all have in common."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sysfs_tree import dgx

from driver.api.resource_v1 import ResourceSlice
from driver.api.validation import validate_slices

REPO = Path(__file__).resolve().parents[2]
TOPOLOGIES = sorted([*REPO.glob("examples/topologies/*.xml"), *REPO.glob("tests/data/topologies/nccl/*.xml")])
H100 = "examples/topologies/azure-nd-h100-v5.xml"
Run = Callable[..., Any]


def test_there_are_topologies_to_test() -> None:
    assert len(TOPOLOGIES) == 10


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_topo_shows_every_machine(rootport: Run, file: Path) -> None:
    ran = rootport("topo", file)
    assert ran.code == 0, ran.err
    assert "GPU0" in ran.out
    assert "PIX" in ran.out or "NODE" in ran.out or "PHB" in ran.out


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_slices_of_every_machine_are_what_the_api_server_takes(rootport: Run, file: Path) -> None:
    ran = rootport("slices", "--topology", file)
    assert ran.code == 0, ran.err
    slices = [ResourceSlice.model_validate(document) for document in yaml.safe_load_all(ran.out)]
    assert validate_slices(slices) == ()
    assert any(resource_slice.spec.devices for resource_slice in slices)


def test_slices_take_a_node_name(rootport: Run) -> None:
    ran = rootport("slices", "--topology", H100, "--node", "worker-1", "-o", "json")
    [resource_slice] = json.loads(ran.out)["items"]
    assert resource_slice["spec"]["nodeName"] == "worker-1"
    assert resource_slice["spec"]["pool"]["name"] == "worker-1"


def test_topo_gives_the_inventory_as_data(rootport: Run) -> None:
    as_json = json.loads(rootport("topo", H100, "-o", "json").out)
    assert as_json == yaml.safe_load(rootport("topo", H100, "-o", "yaml").out)
    assert as_json["gpus"][0]["address"] == "0001:00:00.0"


def test_topo_reads_a_sysfs_folder(rootport: Run, tmp_path: Path) -> None:
    dgx(tmp_path, switches=4, vfs=8)
    ran = rootport("topo", "--sysfs", tmp_path)
    assert ran.code == 0, ran.err
    assert "8 GPUs, 8 RDMA NICs with 64 VFs" in ran.out


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_topo_tells_who_sees_the_rdma_devices(rootport: Run, tmp_path: Path, mode: str) -> None:
    dgx(tmp_path, switches=1, pairs=1).netns_mode(mode)
    assert f"RDMA devices in network namespaces: {mode}" in rootport("topo", "--sysfs", tmp_path).out
    assert json.loads(rootport("topo", "--sysfs", tmp_path, "-o", "json").out)["rdma_netns_mode"] == mode


def test_topo_reads_this_machine(rootport: Run) -> None:
    assert rootport("topo", "--live").code == 0


@pytest.mark.parametrize(
    "arguments", [[], [H100, "--live"], ["--live", "--sysfs", "/"], ["--live", "--gpu-model", "H100"]], ids=str
)
def test_topo_wants_one_source(rootport: Run, arguments: list[str]) -> None:
    ran = rootport("topo", *arguments)
    assert ran.code == 2
    assert "topology FILE" in ran.err


def test_allocate_answers_a_problem_a_line(rootport: Run, tmp_path: Path) -> None:
    slices = json.loads(rootport("slices", "--topology", H100, "--node", "n", "-o", "json").out)["items"]
    claim = {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}},
    }
    problem = {
        "id": "one",
        "nodes": [{"metadata": {"name": "n"}}],
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "claims": [claim],
    }
    file = tmp_path / "problems.jsonl"
    file.write_text(json.dumps(problem) + "\n" + json.dumps(problem | {"id": "two", "slices": []}) + "\n")
    ran = rootport("allocate", "--problems", file)
    assert ran.code == 0, ran.err
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["id"], first["node"]) == ("one", "n")
    assert first["result"][0]["devices"]["results"][0]["device"] == slices[0]["spec"]["devices"][0]["name"]
    assert (second["id"], second["result"]) == ("two", None)


@pytest.mark.parametrize(
    ("content", "says"),
    [("", ""), ("{\n", ":1"), ("[]\n", ":1"), ('{"id": 1}\n', ":1"), ("\xff\n", ":1"), ("{}\n" * 2, ":1")],
    ids=["empty", "truncated", "not an object", "wrong type", "not UTF-8", "no fields"],
)
def test_bad_problems_are_told_by_line(rootport: Run, tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "problems.jsonl"
    file.write_bytes(content.encode("latin-1"))
    ran = rootport("allocate", "--problems", file)
    assert ran.code == (2 if says else 0)
    assert says in ran.err


@pytest.mark.parametrize("command", ["", "explain", "lint", "simulate", "pairs", "topo", "slices", "allocate"])
def test_help_teaches(rootport: Run, command: str) -> None:
    ran = rootport(*command.split(), "--help")
    assert ran.code == 0
    assert "Usage: " in ran.out
    assert all(len(line) <= 100 for line in ran.out.splitlines())


@pytest.mark.parametrize("arguments", [["simulat"], ["--frobnicate"], ["topo", "a", "b"]], ids=str)
def test_a_wrong_command_line_is_told(rootport: Run, arguments: list[str]) -> None:
    ran = rootport(*arguments)
    assert ran.code == 2
    assert "Error: " in ran.err


def test_help_imports_nothing_heavy() -> None:
    heavy = {"celpy", "rich", "yaml", "pydantic", "pynvml", "defusedxml"}
    code = f"import sys, driver.cli.main; print(sorted({heavy!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    rootport = f"{sys.executable} -m driver.cli.main"
    command = command.replace("rootport", rootport)
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=REPO, capture_output=True, text=True, check=False
    )


def test_a_reader_that_leaves_early_is_no_error() -> None:
    ran = shell(f"rootport simulate --topology {H100} --nodes 3000 -o yaml | head -1")
    assert (ran.returncode, ran.stdout) == (0, "nodes:\n")
    assert ran.stderr == ""


def test_output_that_cannot_be_written_is_one_message() -> None:
    ran = shell(f"rootport slices --topology {H100} >/dev/full")
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_terminal_without_the_arrow_shows_the_rest() -> None:
    ran = shell(f"PYTHONIOENCODING=ascii rootport simulate --topology {H100} --claims examples/gpu.yaml")
    assert ran.returncode == 0, ran.stderr
    assert "default/gpu" in ran.stdout
