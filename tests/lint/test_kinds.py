"""What the linter takes Rootport's devices to have is what the layout publishes of real machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.manifests import read_manifest_text
from driver.adapters.nccl import read_topology
from driver.explain.vocabulary import OWN_ATTRIBUTES, OWN_CAPACITIES
from driver.layout import resource_slices
from driver.lint import LintCode
from driver.lint.kinds import ATTRIBUTES, CAPACITIES, kinds_by_name, kinds_of
from driver.model.devices import DeviceType
from driver.simulation import with_assumed_vfs
from resourceclasses import device_classes_text

REPO = Path(__file__).parents[2]
TOPOLOGIES = [
    *sorted((REPO / "examples" / "topologies").glob("*.xml")),
    *sorted((REPO / "examples" / "topologies" / "made-up").glob("*.xml")),
    *sorted((REPO / "tests" / "data" / "topologies" / "nccl").glob("*.xml")),
]


@pytest.mark.parametrize("vfs", [False, True], ids=["", "with-vfs"])
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda path: path.stem)
def test_every_published_name_is_known_for_its_kind(topology: Path, vfs: bool) -> None:
    inventory = read_topology(topology, hardware=HardwareFacts(gpu_memory_bytes=80 * 2**30))
    for part in resource_slices(with_assumed_vfs(inventory, 2) if vfs else inventory):
        for device in part.spec.devices:
            kind = DeviceType(device.attributes["type"].string_value or "")
            names = {name if "/" in name else f"rootport.dev/{name}" for name in device.attributes}
            assert names <= ATTRIBUTES[kind]
            assert {f"rootport.dev/{name}" for name in device.capacity} <= CAPACITIES[kind]


def test_every_name_that_rootport_publishes_belongs_to_a_kind() -> None:
    assert frozenset().union(*ATTRIBUTES.values()) == OWN_ATTRIBUTES
    assert frozenset().union(*CAPACITIES.values()) == OWN_CAPACITIES


def test_each_of_rootports_classes_is_of_one_kind() -> None:
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes:
        name = item.device_class.metadata.name
        assert kinds_of(item.device_class) == kinds_by_name(name) == {DeviceType(name.removesuffix(".rootport.dev"))}


def test_every_code_is_documented() -> None:
    page = (REPO / "docs" / "user" / "lint.md").read_text(encoding="utf-8")
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(code.value for code in LintCode)
