"""The other commands, and what all have in common."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from driver.api.resource_v1 import ResourceSlice
from driver.cli.main import cli
from tests.support.paths import REPO
from tests.support.slice_validation import validate_slices
from tests.support.sysfs_tree import dgx
from tests.support.topologies import REAL_MACHINE_FILES, machine_file, nccl_file

H100 = str(machine_file("azure-nd-h100-v5"))
Run = Callable[..., Any]


@pytest.mark.parametrize("file", REAL_MACHINE_FILES, ids=lambda file: file.stem)
def test_topo_shows_every_machine(rootport: Run, file: Path) -> None:
    ran = rootport("topo", file)
    assert ran.code == 0, ran.err
    assert "GPU0" in ran.out
    assert "PIX" in ran.out or "NODE" in ran.out or "PHB" in ran.out


@pytest.mark.parametrize("file", REAL_MACHINE_FILES, ids=lambda file: file.stem)
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


def slices_of(rootport: Run, *options: str) -> list[Any]:
    ran = rootport("slices", "--topology", H100, "--gpu-model", "H100", "--node", "n", "-o", "json", *options)
    assert ran.code == 0, ran.err
    items: list[Any] = json.loads(ran.out)["items"]
    assert validate_slices([ResourceSlice.model_validate(item) for item in items]) == ()
    return items


def test_slices_are_printed_in_every_layout_as_of_a_node_whose_gpus_are_free(rootport: Run) -> None:
    """Of all in their only mode or the first one; in the layout lean, the last GPU in all its modes."""

    def kinds(layout: str) -> dict[str, int]:
        devices = [
            device for item in slices_of(rootport, "--gpu-layout", layout) for device in item["spec"].get("devices", ())
        ]
        return dict(Counter(device["attributes"]["type"]["string"] for device in devices))

    assert slices_of(rootport) == slices_of(rootport, "--gpu-layout", "full")
    assert kinds("full") == {"gpu": 8, "gpu-ratio": 8, "mig": 200, "rdma": 8}
    assert kinds("lean") == {"gpu": 8, "gpu-ratio": 1, "mig": 7, "rdma": 8}
    assert kinds("one") == {"gpu": 8, "rdma": 8}
    assert not any("sharedCounters" in item["spec"] for item in slices_of(rootport, "--gpu-layout", "one"))


def test_slices_price_is_how_much_there_is_in_each_layout(rootport: Run) -> None:
    given = ("slices", "--topology", H100, "--gpu-model", "H100", "--node", "n", "--price")
    ran = rootport(*given, "-o", "json")
    prices = json.loads(ran.out)
    assert list(prices) == ["full", "lean", "one"]
    assert yaml.safe_load(rootport(*given).out) == prices
    assert "note: what kube-scheduler takes for a pod with each layout" in ran.err
    assert "docs/operator/gpu-modes.md" in ran.err
    for layout, price in prices.items():
        items = slices_of(rootport, "--gpu-layout", layout)
        devices = [device for item in items for device in item["spec"].get("devices", ())]
        sets = [each for item in items for each in item["spec"].get("sharedCounters", ())]
        consumed = [each for device in devices for each in device.get("consumesCounters", ())]
        assert price == {
            "devices": len(devices),
            "attributes": sum(len(device["attributes"]) for device in devices),
            "counters": sum(len(each["counters"]) for each in sets),
            "consumed": sum(len(each["counters"]) for each in consumed),
            "slices": len(items),
            "bytes": sum(len(json.dumps(item, separators=(",", ":"))) for item in items),
        }


def test_topo_says_that_rails_are_a_convention(rootport: Run) -> None:
    assert "note: Rails are a convention, not the cabling" in rootport("topo", nccl_file("azure-nd-h100-v5")).out
    assert "Rails are" not in rootport("topo", nccl_file("rccl-8p_90a")).out  # without NICs


def test_topo_shows_the_best_linked_gpus_of_a_machine_without_nvswitches(rootport: Run) -> None:
    dgx_1 = machine_file("dgx-1-v100")
    text = rootport("topo", dgx_1).out
    assert "nvlinkPair: GPU0+GPU3, GPU1+GPU2, GPU4+GPU7, GPU5+GPU6\n" in text
    assert "nvlinkQuad: GPU0+GPU1+GPU2+GPU3, GPU4+GPU5+GPU6+GPU7\n" in text
    groups = json.loads(rootport("topo", dgx_1, "-o", "json").out)["linkGroups"]
    assert groups["nvlinkPair"] == [["GPU0", "GPU3"], ["GPU1", "GPU2"], ["GPU4", "GPU7"], ["GPU5", "GPU6"]]
    assert "nvlink" not in rootport("topo", machine_file("dgx-2")).out


def test_topo_gives_the_inventory_as_data(rootport: Run) -> None:
    as_json = json.loads(rootport("topo", H100, "-o", "json").out)
    assert as_json == yaml.safe_load(rootport("topo", H100, "-o", "yaml").out)
    gpu = as_json["gpus"][0]
    assert (gpu["address"], gpu["name"], gpu["label"]) == ("0001:00:00.0", "gpu-0001-00-00-0", "GPU0")
    assert gpu["pcie"]["numaNode"] == 0


def test_the_data_of_topo_are_spelled_as_kubernetes_spells_and_hold_the_distances(rootport: Run) -> None:
    text = rootport("topo", nccl_file("aws-p4d.24xlarge"), "-o", "json").out
    assert re.findall(r'"[a-z]+_[a-z_]+":', text) == []
    data = json.loads(text)
    names = [device["name"] for kind in ("gpus", "nics") for device in data[kind]]
    assert set(data["distances"]) == set(names)
    gpu, nic = data["gpus"][1]["name"], data["nics"][0]["name"]
    assert data["distances"][gpu][nic] == data["distances"][nic][gpu] == "PIX"
    assert data["distances"][gpu][gpu] == "X"
    assert data["distances"][gpu][data["nics"][3]["name"]] == "SYS"


def test_the_matrix_of_topo_has_the_names_and_the_order_of_the_tree(rootport: Run) -> None:
    # Its GPUs are numbered in another order than they stand in the tree.
    text = rootport("topo", nccl_file("rccl-4p4h")).out
    tree, matrix, legend, *_ = text.split("\n\n")
    in_tree = re.findall(r"─ (GPU\d+|NIC\d+)  (\S+)", tree)
    gpus_first = sorted(in_tree, key=lambda found: found[0][:3])
    assert [label for label, _ in in_tree if label.startswith("GPU")] != [f"GPU{number}" for number in range(8)]
    assert [line.split()[0] for line in matrix.splitlines()[1:]] == [label for label, _ in gpus_first]
    assert [tuple(line.split()[:2]) for line in legend.splitlines()] == [(f"{one}:", name) for one, name in gpus_first]


def test_topo_names_the_models_of_nics(rootport: Run, tmp_path: Path) -> None:
    dgx(tmp_path, switches=2)
    tree = rootport("topo", "--sysfs", tmp_path).out.partition("\n\n")[0]
    nics = json.loads(rootport("topo", "--sysfs", tmp_path, "-o", "json").out)["nics"]
    assert all(f"{nic['rdmaDevice']}  {nic['model']}  " in tree for nic in nics)


def test_a_matrix_in_a_file_is_in_one_piece_unless_columns_says_how_wide(
    rootport: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    file = nccl_file("rccl-16p1h")
    header = next(line for line in rootport("topo", file).out.splitlines() if line.endswith("NUMA"))
    assert len(header) > 140
    assert header.split()[0] == "GPU0"
    assert {"GPU15", "NIC0"} <= set(header.split())
    monkeypatch.setenv("COLUMNS", "80")
    lines = rootport("topo", file).out.partition("note:")[0].splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.endswith("NUMA") for line in lines) > 1


@pytest.mark.parametrize("columns", ["", "0", "wide", "9" * 30, "-5"])
def test_columns_that_say_nothing_are_not_obeyed(rootport: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = rootport("topo", H100).out
    with monkeypatch.context() as while_it_runs:  # pytest's own lines obey it, and fail by a number too large
        while_it_runs.setenv("COLUMNS", columns)
        shown = rootport("topo", H100).out
    assert shown == usual


def test_topo_reads_a_sysfs_folder(rootport: Run, tmp_path: Path) -> None:
    dgx(tmp_path, switches=4, vfs=8)
    ran = rootport("topo", "--sysfs", tmp_path)
    assert ran.code == 0, ran.err
    assert "8 GPUs, 8 RDMA NICs with 64 VFs" in ran.out


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_topo_tells_who_sees_the_rdma_devices(rootport: Run, tmp_path: Path, mode: str) -> None:
    dgx(tmp_path, switches=1, pairs=1).netns_mode(mode)
    assert f"RDMA devices in network namespaces: {mode}" in rootport("topo", "--sysfs", tmp_path).out
    assert json.loads(rootport("topo", "--sysfs", tmp_path, "-o", "json").out)["rdmaNetnsMode"] == mode


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


@pytest.mark.parametrize("command", ["", *cli.list_commands(click.Context(cli))])
def test_help_teaches(rootport: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = rootport(*command.split(), "--help")
    assert ran.code == 0
    assert "Usage: " in ran.out
    _, _, below = ran.out.partition("Options:")
    assert f"rootport {command}".strip() + " " in below  # commands to copy
    assert all(len(line) <= 100 for line in ran.out.splitlines())
    # Examples may be wider than a terminal, and are copied all the same; text is not.
    assert [line for line in ran.out.splitlines() if len(line) > 80 and not line.startswith("    ")] == []


def test_help_names_the_commands_that_read_a_dump(rootport: Run) -> None:
    text = " ".join(rootport("--help").out.split())
    _, _, sentence = text.partition("ask a cluster, ")
    commands = cli.list_commands(click.Context(cli))
    reading = [name for name in commands if re.search(r"^  --from ", rootport(name, "--help").out, re.MULTILINE)]
    assert {"explain", "status"} < set(reading)
    assert [name for name in reading if name not in sentence.partition(".")[0]] == []


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


# Presses Ctrl-C where the first line says, in a process of its own: how fast it runs does not matter.
_INTERRUPTED = """
import signal, sys
{when}
from driver.cli.entry import main
sys.argv[0] = "rootport"
main()
"""
_BEFORE_THE_IMPORT_OF_CLICK = """
class Presses:
    def find_spec(self, name, *_):
        if name == "click":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Presses())
"""
_IN_THE_SERIALIZER = """
from driver.api.quantity import Quantity
Quantity.__str__ = lambda _: signal.raise_signal(signal.SIGINT) or "0"
"""
_IN_CODE_THAT_TAKES_IT_FOR_BAD_INPUT = """
from driver.errors import InputError
def read(*_, **__):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise InputError("unreadable") from error
import driver.cli.machines
driver.cli.machines.read_topology = read
"""


@pytest.mark.parametrize(
    "when",
    [_BEFORE_THE_IMPORT_OF_CLICK, _IN_THE_SERIALIZER, _IN_CODE_THAT_TAKES_IT_FOR_BAD_INPUT],
    ids=["at the start", "within a library", "within a try"],
)
def test_ctrl_c_is_quiet_at_any_moment(when: str) -> None:
    program = _INTERRUPTED.format(when=when)
    file = nccl_file("azure-nd-h100-v5")
    command = [sys.executable, "-c", program, "slices", "--gpu-model", "H100", "--topology", file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "rootport: interrupted\n")


@pytest.mark.parametrize(("typed", "meant"), [("topoo", "topo"), ("simulat", "simulate"), ("explian", "explain")])
def test_a_command_with_a_typo_is_named(rootport: Run, typed: str, meant: str) -> None:
    assert f"No such command '{typed}'. Did you mean {meant}?" in rootport(typed).err
    assert "Did you mean" not in rootport("frobnicate").err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rootport to", {"plain,top", "plain,topo"}),
        ("rootport topo --gpu-", {"plain,--gpu-model", "plain,--gpu-memory"}),
        ("rootport topo machines/", {"file,machines/"}),
        ("rootport --v", {"plain,--version"}),
    ],
)
def test_a_shell_completes_commands_options_and_files(
    rootport: Run, monkeypatch: pytest.MonkeyPatch, line: str, offered: set[str]
) -> None:
    monkeypatch.setenv("_ROOTPORT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    ran = rootport()
    assert ran.code == 0
    assert set(ran.out.split()) == offered


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(rootport: Run, name: str) -> None:
    ran = rootport("completion", name)
    assert ran.code == 0
    assert f"_ROOTPORT_COMPLETE={name}_complete" in ran.out


def test_the_script_for_bash_is_one(rootport: Run) -> None:
    script = rootport("completion", "bash").out + "\ncomplete -p rootport\n"
    ran = subprocess.run(["bash", "--norc"], input=script, capture_output=True, text=True, check=False)
    assert "_rootport_completion" in ran.stdout, ran.stderr


def shell(command: str) -> subprocess.CompletedProcess[str]:
    command = re.sub(r"\brootport (?=simulate|slices)", f"{sys.executable} -m driver.cli.main ", command)
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
