"""``rootport explain`` on a dump, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.cli.main import main

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = "examples/explain"
Run = Callable[..., Any]

_EXACTLY_TWO_GPUS = """\
      - name: gpus
        exactly:
          deviceClassName: gpu.rootport.dev
          allocationMode: ExactCount
          count: 2
"""


def test_a_claim_that_does_not_fit(rootport: Run) -> None:
    ran = rootport("explain", "claim", "ml/train", "--from", EXAMPLE)
    assert (ran.code, ran.err) == (1, "")
    lines = ran.out.splitlines()
    assert lines[0] == "claim ml/train does not fit on any of 3 nodes: DevicesInUse"
    assert "batch/sweep-7" in ran.out
    assert "kubectl uncordon gpu-3" in ran.out
    assert "What would help" in ran.out
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


def test_the_readme_shows_what_it_prints(rootport: Run) -> None:
    command = "$ .venv/bin/rootport explain claim ml/train --from examples/explain\n"
    shown = (REPO / "README.md").read_text().split(command)[1].split("```")[0]
    printed = rootport("explain", "claim", "ml/train", "--from", EXAMPLE).out
    assert all(part in printed for part in shown.split("…\n"))


def test_a_pod_whose_claim_has_a_typo(rootport: Run) -> None:
    ran = rootport("explain", "pod", "typo-0", "-n", "ml", "--from", EXAMPLE)
    assert ran.code == 1
    assert "SelectorSelectsTooFew" in ran.out
    assert 'model == "H200" is false' in " ".join(ran.out.split())
    assert "NVIDIA H100 80GB HBM3" in ran.out


def test_a_claim_that_has_its_devices(rootport: Run) -> None:
    ran = rootport("explain", "claim", "batch/sweep-7", "--from", EXAMPLE)
    assert ran.code == 0
    assert ran.out.startswith("claim batch/sweep-7: allocated\n")


def test_json_is_for_programs(rootport: Run) -> None:
    ran = rootport("explain", "claim", "ml/train", "--from", EXAMPLE, "-o", "json")
    assert ran.code == 1
    answer = json.loads(ran.out)
    assert (answer["kind"], answer["reason"], answer["fits"]) == ("Explanation", "DevicesInUse", False)
    assert answer["nodes"] == {"total": 3, "fitting": 0}
    assert any(proposal["verified"] for proposal in answer["proposals"])


def test_the_proposals_can_be_left_out(rootport: Run) -> None:
    ran = rootport("explain", "claim", "ml/train", "--from", EXAMPLE, "--no-proposals", "-o", "json")
    assert json.loads(ran.out)["proposals"] == []


def test_a_gate_that_is_off_is_a_reason(rootport: Run, tmp_path: Path) -> None:
    for file in (REPO / EXAMPLE).glob("*.yaml"):
        text = file.read_text()
        first = "firstAvailable: [{name: any, deviceClassName: gpu.rootport.dev, allocationMode: ExactCount, count: 1}]"
        (tmp_path / file.name).write_text(text.replace(_EXACTLY_TWO_GPUS, f"      - name: gpus\n        {first}\n"))
    arguments = ("explain", "claim", "ml/train", "--from", tmp_path, "-o", "json")
    assert json.loads(rootport(*arguments).out)["reason"] != "FeatureOff"
    ran = rootport(*arguments, "--feature-gates", "DRAPrioritizedList=false,DRADeviceTaints=true")
    assert (ran.code, json.loads(ran.out)["reason"]) == (1, "FeatureOff")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m driver.cli.main explain claim ml/train --from {EXAMPLE} | head -1"
    ran = subprocess.run(["bash", "-c", command], cwd=REPO, capture_output=True, text=True, check=True)
    assert ran.stdout == "claim ml/train does not fit on any of 3 nodes: DevicesInUse\n"
    assert ran.stderr == ""


@pytest.mark.parametrize("kind", ["claim", "claims", "resourceclaim", "ResourceClaim"])
def test_the_kind_is_written_as_for_kubectl(rootport: Run, kind: str) -> None:
    assert rootport("explain", kind, "ml/train", "--from", EXAMPLE).code == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["claim", "ml/trian", "--from", EXAMPLE], "did you mean ml/train?"),
        (["claim", "train", "--from", EXAMPLE], "there is no claim default/train"),
        (["node", "gpu-1", "--from", EXAMPLE], "'node' cannot be explained"),
        (["claim", "ml/", "--from", EXAMPLE], "is no name of a claim"),
        (["claim", "/train", "--from", EXAMPLE], "is no name of a claim"),
        (["claim", "a/b/c", "--from", EXAMPLE], "is no name of a claim"),
        (["claim", "ml/train", "-n", "batch", "--from", EXAMPLE], "not in namespace batch"),
        (["claim", "ml/train", "--from", "missing"], "cannot be read"),
        (["claim", "ml/train", "--from", "driver/explain"], "no .yaml, .yml or .json file"),
        (["claim", "ml/train", "--from", EXAMPLE, "--context", "prod"], "leave one of them out"),
        (["claim", "ml/train", "--feature-gates", "DRADeviceTaint=false"], "did you mean DRADeviceTaints?"),
        (["claim", "ml/train", "--feature-gates", "DRADeviceTaints=no"], "write DRADeviceTaints=true or"),
        (["claim", "ml/train", "--kubeconfig", "missing"], "cannot be read"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else None,
)
def test_what_cannot_be_answered_is_one_message_and_exit_code_2(rootport: Run, arguments: list[str], says: str) -> None:
    ran = rootport("explain", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1


def test_nothing_of_a_file_is_acted_on_by_the_terminal(rootport: Run, tmp_path: Path) -> None:
    names = {"kind": "Pod", "metadata": {"namespace": "ml", "name": "tra\x1b]0;owned\x07in-0"}}
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", **names}))
    ran = rootport("explain", "pod", "ml/tra]0;ownedin-0", "--from", tmp_path)
    assert ran.code == 2
    assert "did you mean ml/tra ]0;owned in-0?" in ran.err


def test_without_any_kubeconfig_the_ways_to_name_a_cluster_are_told(
    rootport: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    ran = rootport("explain", "claim", "ml/train")
    assert ran.code == 2
    assert "--kubeconfig" in ran.err
    assert "--from" in ran.err


def test_as_a_kubectl_plugin_it_says_how_it_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-rootport", "explain", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl rootport explain ")


def test_a_dump_is_explained_without_the_kubernetes_client() -> None:
    code = (
        "import sys; from driver.cli.main import cli;"
        f"cli(['explain', 'claim', 'ml/train', '--from', {EXAMPLE!r}], standalone_mode=False);"
        "print(sorted({'kubernetes', 'grpc', 'pynvml'} & set(sys.modules)), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


def test_the_example_is_no_claim_of_make_run(rootport: Run) -> None:
    ran = rootport(
        "simulate", "--topology", "examples/topologies/azure-nd-h100-v5.xml", "--claims", "examples", "-o", "json"
    )
    names = {(claim["namespace"], claim["name"]) for claim in json.loads(ran.out)["claims"]}
    assert ("default", "gpu") in names
    assert ("ml", "train") not in names
