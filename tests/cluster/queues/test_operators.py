"""The examples of JobSet and LeaderWorkerSet are objects that their own CustomResourceDefinitions take."""

from __future__ import annotations

import subprocess
from typing import Final

import pytest
import yaml

from tests.support.cluster.binaries import ToolMissingError, module_source
from tests.support.cluster.control_plane import ControlPlane
from tests.support.needed_tools import unavailable
from tests.support.paths import REPO

pytestmark = pytest.mark.needs_go

CRDS: Final = {
    "jobset": ("sigs.k8s.io/jobset", "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
    "leaderworkerset": ("sigs.k8s.io/lws", "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"),
}
"""Example to the Go module with its CustomResourceDefinition, and the file there."""


def install_definition(control_plane: ControlPlane, name: str) -> None:
    module, file = CRDS[name]
    try:
        crd = module_source("kueue", module) / file
    except (ToolMissingError, subprocess.CalledProcessError) as error:
        unavailable(f"{module} cannot be had: {error}")
    control_plane.kubectl("apply", "--server-side", f"--filename={crd}")
    control_plane.wait_for_crds()


@pytest.mark.parametrize("name", CRDS)
def test_the_example_is_stored_as_it_is_written(control_plane: ControlPlane, name: str) -> None:
    install_definition(control_plane, name)
    example = REPO / "examples" / f"{name}.yaml"
    written = list(yaml.safe_load_all(example.read_text()))
    said = control_plane.kubectl(
        "create", "--dry-run=server", "--validate=strict", f"--filename={example}", "--output=yaml"
    )

    stored = list(yaml.safe_load_all(said))
    assert [one["kind"] for one in stored] == [one["kind"] for one in written]
    for ours, theirs in zip(written, stored, strict=True):
        assert not missing(ours["spec"], theirs["spec"]), ours["kind"]


def test_a_misspelled_field_is_refused(control_plane: ControlPlane) -> None:
    """So the test above would see one."""
    install_definition(control_plane, "jobset")
    text = (REPO / "examples" / "jobset.yaml").read_text().replace("operator: All", "operators: All", 1)
    said = control_plane.kubectl(
        "create", "--dry-run=server", "--validate=strict", "--filename=-", input=text, check=False
    )
    assert "operators" in said
    assert "unknown field" in said


def missing(ours: object, theirs: object, path: str = "") -> list[str]:
    """The fields of ours that theirs has not, or has with another value."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for key, value in ours.items() for line in missing(value, theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [line for at, value in enumerate(ours) for line in missing(value, theirs[at], f"{path}[{at}]")]
    return [] if str(ours) == str(theirs) else [f"{path}: {ours} is {theirs}"]
