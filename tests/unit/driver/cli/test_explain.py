"""``rootport explain`` on a dump, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.cli.main import main
from driver.cli.render import console
from tests.support.paths import REPO

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
    assert answer["nodes"] == {"total": 3, "fitting": 0, "unknown": 0}
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


def test_gates_that_do_not_decide_may_be_given_as_the_cluster_has_them(rootport: Run) -> None:
    gates = "DRAResourcePoolStatus=true,DRAExtendedResource=true,DRADerivedAttributes=false,ResourceHealthStatus=false"
    plain = rootport("explain", "claim", "ml/train", "--from", EXAMPLE)
    assert rootport("explain", "claim", "ml/train", "--from", EXAMPLE, "--feature-gates", gates) == plain


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
        (
            ["claim", "ml/train", "--feature-gates", "DRADerivedAttributes=true"],
            "does not know how the scheduler decides",
        ),
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


@pytest.mark.parametrize(
    "arguments",
    [["pod/train-0", "-n", "ml"], ["pod", "train-0", "-n", "ml"], ["po/ml/train-0"], ["pods", "ml/train-0"]],
    ids=" ".join,
)
def test_a_pod_is_named_as_for_kubectl(rootport: Run, arguments: list[str]) -> None:
    ran = rootport("explain", *arguments, "--from", EXAMPLE)
    assert (ran.code, ran.out.splitlines()[0]) == (1, "pod ml/train-0 does not fit on any of 3 nodes: DevicesInUse")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ml/train"], "is that a claim or a pod? (write claim ml/train, or pod ml/train)"),
        (["pod/"], "write pod/NAME"),
        (["train"], "'train' cannot be explained"),
        (["claim", "ml/train", "ml/typo"], "name one claim or pod"),
        (["claim", "ml/train", "-A"], "leave one of them out"),
        (["-A", "-n", "ml"], "leave one of them out"),
        (["claim", "ml/train-0"], "there is a pod of that name: explain pod ml/train-0"),
        (["pod", "ml/train"], "there is a claim of that name: explain claim ml/train"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_not_named_as_it_should_be_is_one_message(rootport: Run, arguments: list[str], says: str) -> None:
    ran = rootport("explain", *arguments, "--from", EXAMPLE)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert says in ran.err


def test_with_no_name_all_that_is_pending_has_a_line_that_fits_the_terminal(
    rootport: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = console()
    shown.width = 80
    monkeypatch.setattr("driver.cli.explain_report.console", lambda: shown)
    ran = rootport("explain", "--from", EXAMPLE)
    assert (ran.code, ran.err) == (1, "")
    heading, *lines, more = ran.out.splitlines()
    assert heading.split() == ["PENDING", "REASON", "WHY"]
    assert [line.split()[1:3] for line in lines] == [
        ["ml/train-0", "DevicesInUse"],
        ["ml/typo-0", "SelectorSelectsTooFew"],
    ]
    assert "  0 of 3 nodes fit, gpu-1 lacks 1 device" in lines[0]
    assert lines[0].endswith("…")
    assert max(map(len, lines)) <= 80
    assert more == f"`rootport explain pod ml/train-0 --from {EXAMPLE}` tells more"


@pytest.mark.parametrize(
    ("arguments", "pending"),
    [
        ([], ["Pod train-0", "Pod typo-0"]),
        (["-A"], ["Pod train-0", "Pod typo-0"]),
        (["-n", "batch"], []),
        (["claims"], ["ResourceClaim train", "ResourceClaim typo"]),
        (["pod", "-n", "ml"], ["Pod train-0", "Pod typo-0"]),
    ],
    ids=lambda value: " ".join(value) or "none",
)
def test_all_that_is_pending_is_json_too(rootport: Run, arguments: list[str], pending: list[str]) -> None:
    ran = rootport("explain", *arguments, "--from", EXAMPLE, "-o", "json")
    answer = json.loads(ran.out)
    assert (answer["apiVersion"], answer["kind"]) == ("rootport.dev/v1alpha1", "ExplanationList")
    subjects = [item["subject"] for item in answer["items"]]
    assert [f"{subject['kind']} {subject['name']}" for subject in subjects] == pending
    assert all(item["summary"].startswith("0 of 3 nodes fit: ") for item in answer["items"])
    assert (answer["notExplained"], ran.code) == ([], 1 if pending else 0)


def test_where_nothing_is_pending_it_says_so(rootport: Run) -> None:
    ran = rootport("explain", "-n", "batch", "--from", EXAMPLE)
    assert (ran.code, ran.out.startswith("Nothing is pending in namespace batch")) == (0, True)


@pytest.mark.parametrize(
    ("left_out", "asked", "lacks"),
    [
        (("pods", "resourceclaims", "resourceslices"), (), "no Pod and no ResourceClaim"),
        (("pods",), (), "no Pod"),
        (("resourceclaims",), ("claims",), "no ResourceClaim"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_of_a_dump_without_pods_or_claims_it_is_not_known_whether_anything_is_pending(
    rootport: Run, tmp_path: Path, left_out: tuple[str, ...], asked: tuple[str, ...], lacks: str
) -> None:
    dump = a_dump(tmp_path)
    for kind in left_out:
        (dump / f"{kind}.yaml").unlink()
    ran = rootport("explain", *asked, "-n", "elsewhere", "--from", dump)
    assert ran.code == 3
    where = "in namespace elsewhere (-A: in all)"
    assert f"Not known whether anything is pending {where}: the dump has {lacks}\n" in ran.out
    assert "Nothing is pending" not in ran.out
    assert rootport("explain", *asked, "-n", "elsewhere", "--from", dump, "-o", "json").code == 3


def test_what_there_was_no_time_for_is_counted_and_not_known(rootport: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driver.cli.explain._ALL_S", 0.0)
    ran = rootport("explain", "--from", EXAMPLE)
    assert ran.code == 3
    assert "2 more are pending, and there was no time to explain them, such as pod ml/train-0" in ran.out
    assert len(json.loads(rootport("explain", "--from", EXAMPLE, "-o", "json").out)["notExplained"]) == 2


def test_how_far_it_has_come_is_counted(rootport: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[tuple[str, int | None], int] = {}

    @contextmanager
    def counted(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
        def step() -> None:
            steps[what, total] = steps.get((what, total), 0) + 1

        yield step

    monkeypatch.setattr("driver.cli.explain.progress", counted)
    monkeypatch.setattr("driver.cli.cluster_or_dump.progress", counted)
    rootport("explain", "--from", EXAMPLE)
    assert steps.pop(("reading objects", None)) > 2
    assert steps == {("explaining what is pending", 2): 2}


def a_dump(folder: Path, *more: dict[str, Any], version: str = "resource.k8s.io/v1") -> Path:
    """The example's, in some version, and more objects."""
    for file in (REPO / EXAMPLE).glob("*.yaml"):
        (folder / file.name).write_text(file.read_text().replace("resource.k8s.io/v1\n", f"{version}\n"))
    for number, item in enumerate(more):
        (folder / f"z{number}.json").write_text(json.dumps(item))
    return folder


@pytest.mark.parametrize("subject", ["claim", "pod"])
def test_a_dump_of_an_old_version_is_not_said_to_lack_what_it_has(rootport: Run, tmp_path: Path, subject: str) -> None:
    name = {"claim": "ml/train", "pod": "ml/train-0"}[subject]
    ran = rootport("explain", subject, name, "--from", a_dump(tmp_path, version="resource.k8s.io/v1beta1"))
    answer = " ".join(ran.out.partition("\n\n")[0].split())
    assert ran.code == 3
    assert "the dump has it as resource.k8s.io/v1beta1, which is not read" in answer
    assert "kubectl get resourceclaims.v1.resource.k8s.io -A -o json" in answer
    assert "is not there" not in answer


def test_all_of_an_old_version_is_not_nothing(rootport: Run, tmp_path: Path) -> None:
    dump = a_dump(tmp_path, version="resource.k8s.io/v1beta1")
    for file in dump.glob("pods.*"):
        file.unlink()
    ran = rootport("explain", "--from", dump)
    assert ran.code == 3
    assert "ResourceClaim of resource.k8s.io/v1beta1, which is not read" in ran.out
    assert "Not known whether anything is pending: the dump has no Pod\n" in ran.out
    ran = rootport("explain", "claims", "--from", dump)
    assert (ran.code, "as far as is known" in ran.out) == (3, True)


def test_one_corrupt_claim_does_not_turn_the_answer(rootport: Run, tmp_path: Path) -> None:
    def claim(name: str, **status: Any) -> dict[str, Any]:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": "ml", "name": name},
            "spec": {"devices": {"requests": [request]}},
            "status": status,
        }

    dump = a_dump(tmp_path, claim("fine"))
    assert rootport("explain", "claim", "ml/fine", "--from", dump).code == 0
    results = [{"request": "gpu", "driver": "rootport.dev", "pool": 5, "device": "gpu-0"}]
    (dump / "broken.json").write_text(json.dumps(claim("broken", allocation={"devices": {"results": results}})))
    ran = rootport("explain", "claim", "ml/fine", "--from", dump)
    assert ran.code == 3
    assert ran.out.startswith("claim ml/fine: not known whether it fits: ObjectUnreadable\n")
    assert "ResourceClaim ml/broken could not be read and may have devices" in " ".join(ran.out.split())
    assert rootport("explain", "claim", "ml/train", "--from", dump).code == 1


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


def test_a_kubeconfig_nested_without_end_is_one_error(rootport: Run, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[" * 5000)
    ran = rootport("explain", "claim", "ml/train", "--kubeconfig", tmp_path / "config")
    assert (ran.code, "not a usable kubeconfig" in ran.err) == (2, True)


def test_a_pipe_is_no_kubeconfig(rootport: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{tmp_path / 'pipe'}")
    ran = rootport("explain", "claim", "ml/train")
    assert (ran.code, "not a regular file" in ran.err) == (2, True)


def test_a_claim_that_no_api_server_would_store_is_no_bug(rootport: Run, tmp_path: Path) -> None:
    requests = [{"name": "same", "exactly": {"deviceClassName": kind}} for kind in ("gpu.rootport.dev", "none")]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {"devices": {"requests": requests}}}
    (tmp_path / "a.json").write_text(json.dumps(claim | {"metadata": {"namespace": "ml", "name": "odd"}}))
    ran = rootport("explain", "claim", "ml/odd", "--from", tmp_path)
    assert (ran.code, "two of them have one name" in " ".join(ran.out.split())) == (1, True)


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
        "simulate", "--topology", "examples/machines/azure-nd-h100-v5.yaml", "--claims", "examples", "-o", "json"
    )
    names = {(claim["namespace"], claim["name"]) for claim in json.loads(ran.out)["claims"]}
    assert ("default", "gpu") in names
    assert ("ml", "train") not in names


@pytest.mark.parametrize(
    ("kind", "subject", "reason"),
    [
        ("DeviceClass", "claim/train", "DeviceClassMissing"),
        ("ResourceSlice", "claim/train", "NoDevicesPublished"),
        ("Node", "claim/train", "NoDevicesPublished"),
        ("ResourceClaim", "pod/train-0", "ClaimMissing"),
        ("Pod", "claim/free", "WaitingForPod"),
        ("ResourceClaimTemplate", "pod/made", "ClaimTemplateMissing"),
    ],
)
def test_what_a_kind_that_was_not_dumped_could_refute_is_not_certain(
    rootport: Run, tmp_path: Path, kind: str, subject: str, reason: str
) -> None:
    made = {"metadata": {"namespace": "ml", "name": "made"}, "spec": {"resourceClaims": [
        {"name": "gpu", "resourceClaimTemplateName": "t"}]}, "apiVersion": "v1", "kind": "Pod"}  # fmt: skip
    exactly = {"deviceClassName": "gpu.rootport.dev", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    free = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
    free["metadata"] = {"namespace": "ml", "name": "free"}
    objects = [
        item for file in sorted((REPO / EXAMPLE).glob("*.yaml")) for item in yaml.safe_load_all(file.read_text())
    ]
    objects = [each for item in objects if item for each in item.get("items", [item])]
    dumped = [item for item in (*objects, made, free) if item["kind"] != kind]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(dumped))
    ran = rootport("explain", subject, "-n", "ml", "--from", tmp_path, "-o", "json")
    told = json.loads(ran.out)
    assert (ran.code, told["known"], told["reason"]) == (3, False, reason)
    assert f"no {kind} was dumped" in told["findings"][-1]["message"]


@pytest.mark.parametrize(("columns", "most"), [("60", 60), ("96", 96), ("", 80)])
def test_into_a_pipe_it_is_as_wide_as_columns_says(
    rootport: Run, monkeypatch: pytest.MonkeyPatch, columns: str, most: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = rootport("explain", "claim", "ml/train", "--from", EXAMPLE, "--no-proposals")
    widest = max(map(len, ran.out.splitlines()))
    assert most - 12 < widest <= most
