"""`rootport bench-placement`: tables, JSON and a drawing of a small trace, in one process or several."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.paths import REPO
from tests.support.traces import PODS, small_trace

Run = Callable[..., Any]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return small_trace(tmp_path / "trace")


def test_the_table_has_published_policies_beside_ours(rootport: Run, trace: Path) -> None:
    ran = rootport("bench-placement", "--trace", trace, "--seeds", "42-43", "--jobs", 1)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "Allocated GPUs in %, at a demand of 100 % of 56 GPUs; mean of the seeds 42 and 43"
    assert lines[1].split() == [
        *("workload", "Random", "FGD"),
        *("pack", "spread", "first-fit"),
        *("pack", "-", "FGD"),
    ]
    name, random, fgd, pack, *_, difference = lines[2].split()
    assert (name, random, fgd) == ("default", "80.00", "92.00")
    assert float(difference) == pytest.approx(float(pack) - 92, abs=0.011)
    assert f"pack - FGD: {difference} points." in lines
    assert sum(line.startswith("Allocated GPUs in %, at a demand of 130 %") for line in lines) == 1
    assert lines[-3:-1] == ["Published: Random, FGD.", "Rootport: pack, spread, first-fit."]
    assert re.fullmatch(r"6 runs of \d+\.\d to \d+\.\d s of processor time each\.", lines[-1])


def test_several_workloads_have_a_mean_and_a_worst(rootport: Run, tmp_path: Path) -> None:
    folder = small_trace(tmp_path, workloads=("default", "other"))
    table = (folder / "published-allocation.csv").read_text()
    (folder / "published-allocation.csv").write_text(
        table + "".join(line.replace("_default", "_other") + "\n" for line in table.splitlines()[1:])
    )
    ran = rootport("bench-placement", "--trace", folder, "--seeds", "42", "--demand", "130", "--policy", "spread")
    mean = next(line for line in ran.out.splitlines() if line.startswith("mean"))
    assert mean.split()[1:3] == ["80.00", "92.00"]
    assert re.search(r"spread - FGD: \S+ points in the mean of 2 workloads, \S+ in the worst, \w+\.", ran.out)
    assert "at a demand of 100 %" not in ran.out


def test_no_line_is_wider_than_100_columns(rootport: Run, tmp_path: Path) -> None:
    folder = small_trace(tmp_path, workloads=("default", "a-workload-with-quite-a-long-name"))
    table = (folder / "published-allocation.csv").read_text()
    for number, policy in enumerate(("DotProd", "GpuClustering", "GpuPacking", "BestFit")):
        table += "".join(
            line.replace("01-Random", f"0{number + 2}-{policy}") + "\n"
            for line in table.splitlines()
            if "01-Random" in line
        )
    (folder / "published-allocation.csv").write_text(table)
    ran = rootport("bench-placement", "--trace", folder, "--seeds", "42", "--seed-by-seed")
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "GpuClustering" in ran.out
    assert "default/42 " in ran.out


def test_seed_by_seed_has_a_line_for_each(rootport: Run, trace: Path) -> None:
    ran = rootport(
        "bench-placement",
        "--trace",
        trace,
        "--seeds",
        "42,43,45",
        "--seed-by-seed",
        "--demand",
        "100",
        "--policy",
        "pack",
    )
    rows = [line.split() for line in ran.out.splitlines() if line.startswith("default")]
    assert [row[:3] for row in rows] == [
        ["default/42", "80.00", "92.00"],
        ["default/43", "80.00", "92.00"],
        ["default/45", "-", "-"],
    ]


def test_without_published_results_the_table_has_ours(rootport: Run, trace: Path) -> None:
    (trace / "published-allocation.csv").unlink()
    ran = rootport("bench-placement", "--trace", trace, "--seeds", "1")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split() == ["workload", "pack", "spread", "first-fit"]
    assert "The trace has no published results" in ran.out


def test_json_has_every_run_and_several_processes_give_the_same(rootport: Run, trace: Path) -> None:
    answers = []
    for jobs in (1, 3):
        ran = rootport("bench-placement", "--trace", trace, "--seeds", "42-43", "--jobs", jobs, "-o", "json")
        assert (ran.code, ran.err) == (0, "")
        answers.append(json.loads(ran.out))
        for run in answers[-1]["workloads"][0]["runs"]:
            assert run.pop("processorSeconds") >= 0
    assert answers[0] == answers[1]
    [workload] = answers[0]["workloads"]
    assert (answers[0]["nodes"], answers[0]["gpus"], workload["pods"]) == (12, 56, 60)
    assert [(run["policy"], run["seed"]) for run in workload["runs"]] == [
        (policy, seed) for seed in (42, 43) for policy in ("pack", "spread", "first-fit")
    ]
    for run in workload["runs"]:
        assert set(run["allocation"]) == set(run["fragmentation"]) == {"100", "130"}
        assert 60 < run["allocation"]["130"] <= 100
        assert run["placed"] + run["dropped"] > 60
    assert {each["policy"] for each in workload["published"]} == {"Random", "FGD"}


def test_the_curves_are_drawn(rootport: Run, tmp_path: Path) -> None:
    folder = small_trace(tmp_path, workloads=("default", "<b> & co"))
    target = tmp_path / "curves.svg"
    target.write_text("the old one")
    ran = rootport("bench-placement", "--trace", folder, "--seeds", "42", "--curves", target)
    assert ran.code == 0, ran.err
    root = ET.parse(target).getroot()
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert {"default", "<b> & co"} <= set(texts)
    assert texts.count("arrived demand, % of all GPUs") == 4
    ends = [text.rsplit(" ", 1) for text in texts if re.fullmatch(r"\S+ \d+\.\d", text)]
    assert [name for name, _ in ends].count("pack") == 4
    assert [value for name, value in ends if name == "FGD"] == ["92.0"]
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for line in root.iter(f"{SVG}polyline"):
        for point in line.get("points", "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
    assert list(tmp_path.glob("*.tmp")) + list(tmp_path.glob(".*")) == []


def test_a_policy_has_the_same_colour_in_every_drawing_which_names_the_trace(rootport: Run, tmp_path: Path) -> None:
    folder = small_trace(tmp_path)
    drawings = []
    for policies in ([], ["first-fit", "spread"], ["first-fit"]):
        target = tmp_path / f"{len(drawings)}.svg"
        chosen = [text for policy in policies for text in ("--policy", policy)]
        ran = rootport("bench-placement", "--trace", folder, "--seeds", "42", "--curves", target, *chosen)
        assert ran.code == 0, ran.err
        texts = list(ET.parse(target).getroot().iter(f"{SVG}text"))
        assert any((text.text or "").startswith(f"Trace {folder.name}: 56 GPUs; seed 42.") for text in texts)
        ends = [text for text in texts if re.fullmatch(r"\S+ \d+\.\d", text.text or "")]
        drawings.append({(end.text or "").split()[0]: end.get("fill") for end in ends})
    of_all, of_two, of_one = drawings
    assert len({of_all[policy] for policy in ("pack", "spread", "first-fit")}) == 3
    assert of_all["first-fit"] == of_two["first-fit"] == of_one["first-fit"]
    assert of_all["spread"] == of_two["spread"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--seeds", "a"], "--seeds a: 'a' is no number from 0 to 2147483647 (such as 42 or 42-45,50)"),
        (["--seeds", "5-4"], "--seeds 5-4: '5-4' begins after its end"),
        (["--seeds", "1-5000"], "--seeds 1-5000: more than 1000 numbers"),
        (["--seeds", ""], "'' is no number"),
        (["--demand", "131"], "--demand 131: '131' is no number from 0 to 130"),
        (["--workloads", " , "], "--workloads: names none"),
        (["--workloads", "defualt"], "has no workload defualt (did you mean default?)"),
        (["--curves", "/tmp/a.png"], "--curves /tmp/a.png: the drawing is SVG (give it a name that ends in .svg)"),
        (["--curves", "/no/such/a.svg"], "--curves /no/such/a.svg: not a file in a folder that exists"),
        (["--policy", "best"], "'best' is not one of 'pack', 'spread', 'first-fit'"),
        (["--jobs", "0"], "0 is not in the range 1<=x<=256"),
    ],
)
def test_wrong_options_are_told_before_any_work(rootport: Run, trace: Path, options: list[str], says: str) -> None:
    ran = rootport("bench-placement", "--trace", trace, *options)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_a_trace_that_cannot_be_read_is_one_message(rootport: Run, trace: Path) -> None:
    (trace / "pods" / "default.csv").write_text(PODS.replace("pod-003,3500", "pod-003,many"))
    ran = rootport("bench-placement", "--trace", trace)
    assert ran.code == 2
    assert ran.err == f"rootport: {trace}/pods/default.csv:5: cpu_milli: 'many' is not a number from 0 to 1e15\n"


def test_an_error_within_a_process_is_one_message(rootport: Run, trace: Path) -> None:
    # Only the run finds out that a million copies would not do.
    (trace / "nodes.csv").write_text("sn,gpu\n" + "".join(f"n{number},128\n" for number in range(100)))
    (trace / "pods" / "default.csv").write_text("num_gpu,gpu_milli\n1,1\n")
    ran = rootport("bench-placement", "--trace", trace, "--jobs", 2)
    assert ran.code == 2
    assert ran.err.startswith("rootport: the workload would have to be repeated until it has more than 1,000,000 pods")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupted_run_leaves_no_file_and_no_process(trace: Path, tmp_path: Path, jobs: int) -> None:
    target = tmp_path / "curves.svg"
    program = [sys.executable, "-m", "driver.cli.main", "bench-placement", "--trace", str(trace), "--seeds", "0-900"]
    # A job in the background of a shell ignores SIGINT, and so would its children.
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *program, "--jobs", str(jobs), "--curves", str(target)],
        cwd=REPO,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    busy = 0.0
    while busy < 3:  # seconds of processor time, after which it replays
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
        busy = sum(map(_seconds, _group(process.pid)))
    assert len(_group(process.pid)) >= (1 if jobs == 1 else 3)
    process.send_signal(signal.SIGINT)  # to it alone: it has to end the others
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "rootport: interrupted\n")
    assert not target.exists()
    until = time.monotonic() + 20
    while _group(process.pid):
        assert time.monotonic() < until
        time.sleep(0.05)


def _group(leader: int) -> list[int]:
    """The processes that belong to a session, without those that have ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(session) == leader and state != "Z":
                found.append(int(entry.name))
    return found


def _seconds(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
