"""`rootport simulate` with shares, percent shares and MIG partitions."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from driver.cli import render
from driver.cli.grid import print_grid
from tests.support.topologies import machine_file

H100 = str(machine_file("azure-nd-h100-v5"))
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


EXAMPLES = [
    pytest.param("half-gpu", 2, 2, (), id="two halves"),
    pytest.param("half-gpu-vf", 2, 2, ("--vfs-per-nic", "2"), id="two halves, each with a VF of the NIC beside it"),
    pytest.param("mps", 1, 2, ("--nodes", "4", "--gpu-policies", "examples/policies/mps.yaml"), id="two by MPS"),
    pytest.param("three-pods-one-gpu", 1, 3, (), id="three of different sizes"),
    pytest.param("memory-only", 1, 2, (), id="two of memory alone"),
    pytest.param("inference", 2, 4, (), id="four quarters"),
]


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
        GPUS[0]: {"mode": "shared", "left": {"core": 20, "memory": 20 << 30}, "strategy": "timeSlicing"},
        GPUS[1]: {"mode": "ratio", "left": {"core": 75, "memoryRatio": 75}, "strategy": "timeSlicing"},
        GPUS[2]: {"mode": "mig", "left": {"slices": {"free": 7, "total": 8}}, "strategy": None},
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
    assert given["whole"]["consumedCapacity"] == {"core": "0", "memory": "80Gi"}
    assert len({one["shareID"] for one in given.values() if "shareID" in one}) == 4
    assert "shareID" not in given["partition"]
    assert node["allocated"][GPUS[0]] == ["default/half", "default/third"]


@pytest.mark.parametrize("model", ["H100", "A100-SXM4-80GB"])
@pytest.mark.parametrize(("example", "copies", "pods", "flags"), EXAMPLES)
def test_the_examples_of_shares_meet_on_one_card_of_80_gb_as_their_comments_say(
    rootport: Run, tmp_path: Path, example: str, copies: int, pods: int, flags: tuple[str, ...], model: str
) -> None:
    text = Path(f"examples/{example}.yaml").read_text()
    for number in range(copies):
        copy = text.replace(f"ame: {example}", f"ame: {example}-{number}")  # of objects, and of the template in a pod
        (tmp_path / f"{number}.yaml").write_text(copy)
    arguments = ("--topology", machine_file("azure-nd-h100-v5"), "--gpu-model", model, *flags)
    ran = rootport("simulate", *arguments, "--claims", tmp_path, "-o", "json")
    assert ran.code == 0, ran.err
    claims = json.loads(ran.out)["claims"]
    assert len(claims) == pods
    given = [device["device"] for claim in claims for device in claim["devices"] if device["device"].startswith("gpu")]
    assert len(given) == len(claims)
    assert len(set(given)) == 1


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
    assert "shared  2       20% core, 20Gi memory" in out
    assert "ratio   1       75% core, 75% memory" in out
    assert "mig     1       7 of 8 memory slices" in out
    assert "default/third (30% core, 20Gi memory)" in " ".join(out.split())
    assert "◀ default/partition (1g.10gb)" in out
    assert f"{GPUS[3]}  NVIDIA H100 80GB HBM3  80 GiB  ◀ default/whole" in out


def test_two_halves_of_40_gib_do_not_meet_on_an_h100(rootport: Run, write: Callable[[str], Path]) -> None:
    two = "---\n".join(claim(name, "gpu", "core: 50, memory: 40Gi") for name in ("one", "two"))
    out = rootport("simulate", "--topology", machine_file("azure-nd-h100-v5"), "--gpu-model", "H100",
                   "--claims", write(two)).out  # fmt: skip
    assert out.count("shared  1       50% core, 39.6Gi memory") == 2
    assert "NVIDIA H100 80GB HBM3  79.6 GiB  ◀ default/one (50% core, 40Gi memory)" in out


def sharing(strategy: str) -> str:
    return (
        "    config:\n    - requests: [gpu]\n      opaque:\n        driver: rootport.dev\n        parameters: "
        f"{{apiVersion: rootport.dev/v1alpha1, kind: GpuConfig, sharing: {{strategy: {strategy}}}}}\n"
    )


def test_shares_of_two_strategies_never_meet_on_a_gpu(
    rootport: Run, write: Callable[[str], Path], tmp_path: Path
) -> None:
    kinds = {"by-mps": "gpu-mps", "in-turns": "gpu", "by-mps-too": "gpu-mps", "in-turns-too": "gpu"}
    claims = "---\n".join(claim(name, kind, "core: 20, memory: 10Gi") for name, kind in kinds.items())
    given = ("--nodes", "4", "--claims", write(claims), "--gpu-policies", "examples/policies/mps.yaml")
    ran = rootport("simulate", *ARGUMENTS, *given, "-o", "json")
    assert ran.code == 0, ran.err
    found = {one["name"]: one["devices"][0]["device"] for one in json.loads(ran.out)["claims"]}
    assert found["by-mps"] == found["by-mps-too"] == GPUS[0]
    assert found["in-turns"] == found["in-turns-too"]
    nodes = {one["name"]: one["node"] for one in json.loads(ran.out)["claims"]}
    assert nodes["by-mps"] == "azure-nd-h100-v5-4" != nodes["in-turns"]
    table = rootport("simulate", *ARGUMENTS, *given).out
    assert "shared by mps  2       60% core, 60Gi memory" in table
    assert table.count("60% core, 60Gi memory") == 2


def test_a_claim_for_mps_fits_nowhere_where_no_gpu_offers_it(rootport: Run, write: Callable[[str], Path]) -> None:
    ran = rootport("simulate", *ARGUMENTS, "--claims", write(claim("by-mps", "gpu-mps", "core: 20, memory: 10Gi")))
    assert ran.code == 1
    assert "0 of 1 claim allocated" in ran.out


def test_a_nominal_memory_size_is_told(rootport: Run, write: Callable[[str], Path]) -> None:
    arguments = ("--topology", machine_file("azure-nd-h100-v5"), "--gpu-model", "MI350X")
    told = "288 GiB, is the nominal size"
    assert told in rootport("topo", *arguments[1:]).out
    for command in (("slices", *arguments), ("simulate", *arguments, "--claims", write(claim("a", "gpu")))):
        assert told in rootport(*command).err


def test_the_tables_fit_80_columns(
    rootport: Run, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_WIDTH_WITHOUT_TERMINAL", 80)
    text = MIXED + "---\n" + claim("too-much", "gpu", "core: 100, memory: 1Ti")
    out = rootport("simulate", *ARGUMENTS, "--claims", write(text)).out
    tables = out.split("azure-nd-h100-v5: 8 GPUs")[0]
    assert all(len(line) <= 80 for line in tables.splitlines())
    assert "default/partition  gpu      mig-0003-00-00-0-1g-10gb-6  1g.10gb" in tables
    assert "no room at 80 columns for: WHAT, SWITCH, NUMA" in tables
    assert [line.split() for line in tables.splitlines() if "too-much" in line] == [
        ["default/too-much", "CapacityTooLarge"]
    ]


def test_where_a_row_has_no_room_at_all_its_first_name_has_a_line_of_its_own() -> None:
    screen = Console(width=30, file=io.StringIO())
    rows = [("default/a-claim-with-a-name", "a-node-with-a-name", "more"), ("", "other", "x")]
    print_grid(screen, ("CLAIM", "NODE", "WHAT"), rows, optional=("WHAT",))
    assert isinstance(screen.file, io.StringIO)
    assert screen.file.getvalue().splitlines() == [
        "CLAIM",
        "  NODE",
        "default/a-claim-with-a-name",
        "  a-node-with-a-name",
        "  other",
        "no room at 30 columns for: WHAT",
    ]


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
