"""The catalogue's AWS types against what real nodes published, as Karpenter's AWS provider has it in its source.

The module is fetched and its hash compared; its file is read here, and nothing of it is kept.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from driver.adapters.machines.instance_types import instance_types, read_instance_type
from tests.support.needed_tools import unavailable

pytestmark = pytest.mark.needs_go

MODULE: Final = "github.com/aws/karpenter-provider-aws"
VERSION: Final = "v1.15.1"
SUM: Final = "h1:6eH///KgWKDwD2R6wHRnKGN8Vu8OHueaXjNdx64TnuY="
TYPE: Final = re.compile(r'\n\t"([^"]+)": \{\n(.*?)\n\t\},', re.DOTALL)
DEVICE: Final = re.compile(r"\n\t\t\t\{\n(.*?)\n\t\t\t\},", re.DOTALL)
AWS: Final = [name for name, known in instance_types().items() if known.facts.cloud == "AWS"]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """Kind of device, ``gpu`` or ``efa``, to instance type, to a text for each device."""
    folder = tmp_path_factory.mktemp("module")
    (folder / "go.mod").write_text("module x\n\ngo 1.26.0\n")
    told = subprocess.run(
        ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(told.stdout) if told.stdout else {}
    # It wants a newer Go than may be here, which go says as an error when it has the files already.
    if "Zip" not in found:
        unavailable(f"{MODULE} cannot be had: {found.get('Error', told.stderr)}")
    assert found["Sum"] == SUM
    files = f"{MODULE}@{VERSION}/pkg/providers/drametadata/zz_generated_"
    with zipfile.ZipFile(Path(found["Zip"])) as archive:
        return {
            kind: {
                name: DEVICE.findall(text)
                for name, text in TYPE.findall(archive.read(f"{files}{kind}_metadata.go").decode())
            }
            for kind in ("gpu", "efa")
        }


def value(device: str, attribute: str) -> str | None:
    match = re.search(rf'"{re.escape(attribute)}":\s*\{{\w+: \w+\("?([^")]*)"?\)\}}', device)
    return match[1] if match else None


@pytest.mark.parametrize("name", AWS)
def test_gpus_are_of_the_model_and_below_the_roots_of_real_nodes(
    name: str, published: dict[str, dict[str, list[str]]]
) -> None:
    real = Counter(
        (value(device, "productName"), value(device, "resource.kubernetes.io/pcieRoot"))
        for device in published["gpu"][name]
    )
    assert Counter((gpu.model, gpu.pcie.root) for gpu in read_instance_type(name, node="n").gpus) == real


@pytest.mark.parametrize("name", AWS)
def test_nics_are_below_the_roots_and_on_the_numa_nodes_of_real_nodes(
    name: str, published: dict[str, dict[str, list[str]]]
) -> None:
    real = Counter(
        (value(device, "resource.kubernetes.io/pcieRoot"), value(device, "dra.net/numaNode"))
        for device in published["efa"][name]
    )
    nics = read_instance_type(name, node="n").nics
    assert Counter((nic.pcie.root, str(nic.pcie.numa_node)) for nic in nics) == real


@pytest.mark.parametrize("name", AWS)
def test_a_gpu_is_on_the_numa_node_of_the_nics_below_its_root(name: str) -> None:
    read = read_instance_type(name, node="n")
    numa = {nic.pcie.root: nic.pcie.numa_node for nic in read.nics}
    assert {gpu.address: gpu.pcie.numa_node for gpu in read.gpus} == {
        gpu.address: numa[gpu.pcie.root] for gpu in read.gpus
    }
