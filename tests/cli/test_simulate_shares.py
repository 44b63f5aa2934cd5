"""`rootport simulate` with shares, percent shares and MIG partitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driver.cli import render

H100 = "examples/topologies/azure-nd-h100-v5.xml"
ARGUMENTS = ("--topology", H100, "--gpu-model", "H100", "--gpu-memory", "80Gi")
GPUS = [f"gpu-{number}-00-00-0" for number in ("0001", "0002", "0003", "0008")]
Run = Callable[..., Any]


def claim(name: str, kind: str, capacity: str = "") -> str:
    requests = f", capacity: {{requests: {{{capacity}}}}}" if capacity else ""
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n"
        f"metadata: {{name: {name}}}\n"
        "spec:\n  devices:\n    requests:\n"
        f"    - {{name: gpu, exactly: {{deviceClassName: {kind}.rootport.dev{requests}}}}}\n"
    )


MIXED = "---\n".join(
    [
        claim("half", "gpu", "core: 50, memory: 40Gi"),
        claim("third", "gpu", "core: 30, memory: 20Gi"),
        claim("quarter", "gpu-ratio", "core: 25, memoryRatio: 25"),
        claim("partition", "mig"),
        claim("whole", "gpu"),
    ]
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "claims.yaml"
        path.write_text(text)
        return path

    return write


def test_shares_are_counted_as_parts_of_their_gpu(rootport: Run, write: Callable[[str], Path]) -> None:
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(MIXED), "-o", "json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    (node,) = data["nodes"]
    assert node["free"] == {"gpu": {"free": 4, "total": 8}, "rdma": {"free": 8, "total": 8}}
    assert node["devices"] == 16
    assert node["sharedGpus"] == {
        GPUS[0]: {"mode": "gpu", "left": {"core": 20, "memory": 20 << 30}},
        GPUS[1]: {"mode": "gpu-ratio", "left": {"core": 75, "memoryRatio": 75}},
        GPUS[2]: {"mode": "mig", "left": {"slices": {"free": 7, "total": 8}}},
    }
    given = {one["name"]: one["devices"][0] for one in data["claims"]}
    assert {name: one["device"] for name, one in given.items()} == {
        "half": GPUS[0],
        "third": GPUS[0],
        "quarter": "gpu-ratio-0002-00-00-0",
        "partition": "mig-0003-00-00-0-1g-10gb-6",
        "whole": GPUS[3],
    }
    assert given["half"]["consumedCapacity"] == {"core": "50", "memory": "40Gi"}
    assert given["whole"]["consumedCapacity"] == {"core": "100", "memory": "80Gi"}
    assert len({one["shareID"] for one in given.values() if "shareID" in one}) == 4
    assert "shareID" not in given["partition"]
    assert node["allocated"][GPUS[0]] == "default/half, default/third"


def test_the_same_input_gives_the_same_bytes_with_shares_as_well(
    rootport: Run, write: Callable[[str], Path], tmp_path: Path
) -> None:
    outs = []
    for name in ("one", "two"):
        rootport("simulate", *ARGUMENTS, "--claims", write(MIXED), "--out", tmp_path / name)
        outs.append((tmp_path / name / "claims.yaml").read_bytes())
    assert outs[0] == outs[1]


def test_the_tables_tell_shares_and_what_is_left(rootport: Run, write: Callable[[str], Path]) -> None:
    out = rootport("simulate", *ARGUMENTS, "--claims", write(MIXED)).out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.split()}
    assert lines["azure-nd-h100-v5"][1:] == ["4", "of", "8", "8", "of", "8"]
    assert "FREE GPU-RATIO" not in out
    assert "2 shares         20% core, 20Gi" in out
    assert "1 percent share  75% core, 75% memory" in out
    assert "1 MIG partition  7 of 8 memory slices" in out
    assert "◀ default/half (50% core, 40Gi), default/third (30% core, 20Gi)" in out
    assert "◀ default/partition (1g.10gb)" in out
    assert f"{GPUS[3]}  NVIDIA H100 80GB HBM3  80 GiB  ◀ default/whole" in out


def test_the_tables_fit_80_columns(
    rootport: Run, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_WIDTH_WITHOUT_TERMINAL", 80)
    text = MIXED + "---\n" + claim("too-much", "gpu", "core: 100, memory: 1Ti")
    out = rootport("simulate", *ARGUMENTS, "--claims", write(text)).out
    tables = out.split("azure-nd-h100-v5: 8 GPUs")[0]
    assert all(len(line) <= 80 for line in tables.splitlines())
    assert "default/partition  gpu      mig-0003-00-00-0-1g-10gb-6  1g.10gb" in tables
    assert [line for line in tables.splitlines() if "no node fits" in line]


def test_without_shares_the_tables_are_as_they_were(rootport: Run, write: Callable[[str], Path]) -> None:
    out = rootport("simulate", *ARGUMENTS, "--claims", write(claim("whole", "gpu"))).out
    assert "SHARE" not in out
    assert "7 of 8" in out


def test_a_share_that_no_gpu_can_give_is_told_with_its_line_instead_of_no_node_fits(
    rootport: Run, write: Callable[[str], Path]
) -> None:
    wrong = [claim("a", "gpu", "core: 33.3, memory: 40Gi"), claim("b", "gpu-ratio", "core: 0, memoryRatio: 101")]
    ran = rootport("simulate", *ARGUMENTS, "--claims", write("---\n".join(wrong)))
    assert ran.code == 2
    assert "claims.yaml:7: ResourceClaim a: spec.devices.requests[0].exactly.capacity.requests" in ran.err
    assert "is not a percentage" in ran.err
    assert len(ran.err.splitlines()) == 3


def test_policies_are_those_of_the_file(rootport: Run, write: Callable[[str], Path], tmp_path: Path) -> None:
    policies = tmp_path / "policies.yaml"
    header = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\n"
    policies.write_text(header + "policies: [{modes: [gpu], core: {minimum: 40, step: 20}}]\n")
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(MIXED), "--gpu-policies", policies, "-o", "json")
    assert ran.code == 1
    given = {one["name"]: one for one in json.loads(ran.out)["claims"]}
    assert given["half"]["devices"][0]["consumedCapacity"]["core"] == "60"
    assert given["quarter"]["node"] is None
    slices = rootport("slices", "--topology", H100, "--gpu-policies", policies)
    assert "gpu-ratio" not in slices.out
    policies.write_text(header + "policies: [{modes: [gpus]}]\n")
    for command in ("slices", "simulate"):
        ran = rootport(command, "--topology", H100, "--gpu-policies", policies)
        assert ran.code == 2
        assert f"{policies}:3: GpuPolicies: policies[0].modes[0]" in ran.err
