"""What the linter takes Rootport's devices to have is what the layout publishes of real machines."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.files.document import ProblemKind
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text
from driver.api.gpu_policies import ExtraGpuAttribute
from driver.api.nic_policies import ExtraNicAttribute
from driver.api.policies import ExtraAttribute
from driver.explain.known.vocabulary import CAPACITIES, OWN_ATTRIBUTES, OWN_CAPACITIES
from driver.layout.slices import resource_slices
from driver.lint import LintCode
from driver.lint.kinds import (
    ATTRIBUTES,
    GPU_KINDS,
    NIC_KINDS,
    attribute_type,
    attributes_of,
    kinds_by_name,
    kinds_of,
)
from driver.lint.rules import RULES
from driver.model.devices import DeviceType
from driver.simulation import with_assumed_vfs
from resourceclasses import device_classes_text
from tests.support.paths import REPO
from tests.support.topologies import MACHINE_FILES


@pytest.mark.parametrize("vfs", [False, True], ids=["", "with-vfs"])
@pytest.mark.parametrize("topology", MACHINE_FILES, ids=lambda path: path.stem)
def test_every_published_name_is_known_for_its_kind(topology: Path, vfs: bool) -> None:
    inventory = read_topology(topology, hardware=HardwareFacts(gpu_memory_bytes=80 * 2**30))
    for part in resource_slices(with_assumed_vfs(inventory, 2) if vfs else inventory):
        for device in part.spec.devices:
            kind = DeviceType(device.attributes["type"].string_value or "")
            names = {name if "/" in name else f"rootport.dev/{name}" for name in device.attributes}
            assert names <= ATTRIBUTES[kind]
            assert {f"rootport.dev/{name}" for name in device.capacity} <= CAPACITIES[kind]
            for name, value in device.attributes.items():
                assert set(value.to_wire()) == {attribute_type(name if "/" in name else f"rootport.dev/{name}")}


def test_every_name_that_rootport_publishes_belongs_to_a_kind() -> None:
    assert frozenset().union(*ATTRIBUTES.values()) == OWN_ATTRIBUTES
    assert frozenset().union(*CAPACITIES.values()) == OWN_CAPACITIES


@pytest.mark.parametrize(
    ("entry", "kinds"), [(ExtraGpuAttribute, GPU_KINDS), (ExtraNicAttribute, NIC_KINDS)], ids=["GPUs", "NICs"]
)
def test_policies_can_publish_every_attribute_of_a_kind_by_another_name(
    entry: type[ExtraAttribute], kinds: frozenset[DeviceType]
) -> None:
    own = {name.removeprefix("rootport.dev/") for name in attributes_of(kinds)}
    # A standard name with a twin of Rootport's own, and what is for Multus alone.
    own -= {"resource.kubernetes.io/numaNode", "k8s.cni.cncf.io/deviceID", "k8s.cni.cncf.io/resourceName"}
    assert own == set(get_args(entry.model_fields["source"].annotation))


def test_each_of_rootports_classes_is_of_one_kind() -> None:
    for item in read_manifest_text(device_classes_text(), "resourceclasses").classes:
        name = item.device_class.metadata.name
        kind = name.removesuffix(".rootport.dev").removesuffix("-mps").removesuffix("-hami-core")
        assert kinds_of(item.device_class) == kinds_by_name(name) == {DeviceType(kind)}


def test_every_code_is_documented_as_its_rule_says() -> None:
    page = (REPO / "docs" / "user" / "lint.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in page.splitlines() if line.startswith("| `")
    ]
    documented = {code.strip("`"): (severity, what, help_) for code, severity, what, help_ in rows}
    assert sorted(documented) == sorted(code.value for code in LintCode)
    assert set(RULES) == set(LintCode)
    for code, rule in RULES.items():
        assert documented[code.value] == (rule.severity.value, rule.what, rule.help)


def test_every_problem_of_a_file_is_a_code() -> None:
    assert {kind.value for kind in ProblemKind} <= {code.value for code in LintCode}
