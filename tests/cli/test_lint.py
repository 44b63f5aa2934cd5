"""`rootport lint`: findings with file and line like a compiler's, exit codes, and the sources of devices."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.adapters.nccl import read_topology
from driver.layout import resource_slices
from resourceclasses import device_classes_text

P4D = "examples/topologies/aws-p4d.24xlarge.xml"
H100 = "examples/topologies/azure-nd-h100-v5.xml"
FPGA = "examples/topologies/made-up/fpga-server.xml"
Run = Callable[..., Any]

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: {kind}
metadata: {{name: train}}
spec:
{spec}
"""
DEVICES = """\
devices:
  requests:
  - name: gpu
    exactly:
      deviceClassName: gpu.rootport.dev
      count: {count}
      selectors:
      - cel:
          expression: {expression}
"""


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(expression: str = '"true"', *, count: int = 1, template: bool = False) -> Path:
        spec = DEVICES.format(expression=expression, count=count)
        spec = indented("spec:\n" + indented(spec, 2), 2) if template else indented(spec, 2)
        path = tmp_path / "claim.yaml"
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        path.write_text(CLAIM.format(kind=kind, spec=spec))
        return path

    return write


def test_all_examples_are_clean(rootport: Run) -> None:
    ran = rootport("lint", "examples", "--strict")
    assert (ran.code, ran.out) == (0, ""), ran.out
    assert "nothing found" in ran.err


def test_all_examples_are_clean_on_the_machines_of_make_run(rootport: Run, tmp_path: Path) -> None:
    # One machine with whole NICs and one with VFs: a topology file tells of no VFs.
    with_vfs = tmp_path / "with-vfs.xml"
    with_vfs.write_text(Path(H100).read_text())
    machines = [option for path in (P4D, H100, FPGA, with_vfs) for option in ("--topology", path)]
    flags = ["--gpu-model", "azure-nd-h100-v5=H100", "--gpu-model", "with-vfs=H100", "--vfs-per-nic", "with-vfs=2"]
    ran = rootport("lint", "examples", *machines, *flags, "--nic-speed", "aws-p4d.24xlarge=100", "--strict")
    assert (ran.code, ran.out) == (0, ""), ran.out


@pytest.mark.parametrize(
    ("template", "line", "prefix"), [(False, 13, ""), (True, 14, "spec.")], ids=["claim", "template"]
)
def test_a_finding_names_file_line_and_field(
    rootport: Run,
    write: Callable[..., Path],
    template: bool,
    line: int,
    prefix: str,
) -> None:
    path = write("""'device.attributes["rootport.dev"].gpuModel == "x"'""", template=template)
    ran = rootport("lint", path)
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    field = f"{prefix}spec.devices.requests[0].exactly.selectors[0].cel.expression"
    first, hint = ran.out.splitlines()
    assert first == (
        f"{path}:{line}: error: {kind} train: {field}: there is no attribute rootport.dev/gpuModel [unknown-attribute]"
    )
    assert hint == "    did you mean rootport.dev/model?"
    assert ran.code == 1
    assert "1 object checked: 1 error, 0 warnings" in ran.err


def test_findings_as_json(rootport: Run, write: Callable[..., Path]) -> None:
    path = write(count=40)
    ran = rootport("lint", path, "-o", "json")
    (found,) = json.loads(ran.out)
    assert found.pop("message").startswith("asks for 40 devices")
    assert found == {
        "file": str(path),
        "line": 6,
        "kind": "ResourceClaim",
        "name": "train",
        "path": "spec.devices.requests",
        "severity": "error",
        "code": "too-many-devices",
        "hint": "split it into several claims of the pod",
    }


def test_warnings_are_errors_only_when_strict(rootport: Run, write: Callable[..., Path]) -> None:
    path = write("""'device.attributes["rootport.dev"].pcieSwitch == "x"'""")
    assert rootport("lint", path).code == 0
    ran = rootport("lint", path, "--strict")
    assert ran.code == 1
    assert "warning" in ran.out


def test_a_machine_tells_what_can_never_fit(rootport: Run, write: Callable[..., Path]) -> None:
    path = write(count=9)
    assert rootport("lint", path).code == 0
    ran = rootport("lint", path, "--topology", H100)
    assert ran.code == 1
    assert "no node has more than 8 [selects-too-few]" in ran.out


def test_a_dump_tells_what_can_never_fit(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    slices = [part.to_wire() for part in resource_slices(read_topology(Path(H100), node="n"))]
    items = [node, *slices, *yaml.safe_load_all(device_classes_text())]
    (dump / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert rootport("lint", write(count=8), "--from", dump).code == 0
    ran = rootport("lint", write(count=9), "--from", dump)
    assert ran.code == 1
    assert "no node has more than 8 [selects-too-few]" in ran.out


def test_classes_of_the_files_count(rootport: Run, write: Callable[..., Path], tmp_path: Path) -> None:
    mine = tmp_path / "class.yaml"
    mine.write_text(device_classes_text().split("---")[0].replace("name: gpu.rootport.dev", "name: mine"))
    claim = write(count=9)
    claim.write_text(claim.read_text().replace("deviceClassName: gpu.rootport.dev", "deviceClassName: mine"))
    assert "[unknown-class]" in rootport("lint", claim).out
    assert rootport("lint", claim, mine).code == 0
    ran = rootport("lint", claim, mine, "--topology", H100)
    assert "no node has more than 8 [selects-too-few]" in ran.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["no-such-file.yaml"], "no-such-file.yaml", id="no-file"),
        pytest.param(["examples", "--from", "x", "--topology", H100], "name one of them", id="two-sources"),
        pytest.param(["examples", "--topology", "no-such.xml"], "no-such.xml", id="no-topology"),
        pytest.param(["examples", "--from", "docs"], "docs", id="no-dump"),
        pytest.param(["examples", "--kubeconfig", "no-such-config"], "no-such-config", id="no-kubeconfig"),
    ],
)
def test_bad_input_is_one_message(rootport: Run, options: list[str], words: str) -> None:
    ran = rootport("lint", *options)
    assert ran.code == 2
    assert not ran.out
    assert words in ran.err


def test_an_object_that_the_api_server_would_refuse_is_bad_input(rootport: Run, write: Callable[..., Path]) -> None:
    path = write()
    path.write_text(path.read_text().replace("count:", "cuont:"))
    ran = rootport("lint", path)
    assert ran.code == 2
    assert f"{path}:10:" in ran.err
    assert "did you mean count?" in ran.err


def test_files_without_claims_are_told(rootport: Run, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    ran = rootport("lint", path)
    assert ran.code == 0
    assert "no ResourceClaim" in ran.err
