"""A CustomResourceDefinition of Rootport gets a new stored version: the steps of docs/dev/upgrades.md, on copies.

Today's definitions have one version each. The copies have a group of their own, so that the real ones stay.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from driver.objects.devices import device_objects
from driver.objects.written_inventory import node_inventory
from tests.support.cluster.control_plane import ControlPlane, KubectlError
from tests.support.machines import gpu, nic, node
from tests.support.paths import REPO
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

CRDS: Final = sorted((REPO / "resourceclasses/crd").glob("*.yaml"))
GROUP: Final = "migrated.rootport.test"
OLD: Final = "v1alpha1"
NEW: Final = "v1beta1"


def definition(path: Path, *versions: str) -> dict[str, Any]:
    """The definition with these versions, which have one schema; the last one is stored."""
    made: dict[str, Any] = yaml.safe_load(path.read_text())
    made["metadata"]["name"] = f"{made['spec']['names']['plural']}.{GROUP}"
    made["spec"]["group"] = GROUP
    (only,) = made["spec"]["versions"]
    made["spec"]["versions"] = [
        copy.deepcopy(only) | {"name": version, "storage": version == versions[-1]} for version in versions
    ]
    return made


def objects(plural: str) -> list[dict[str, Any]]:
    """What the programs write of a node, in the old version of the copies' group."""
    inventory = node(gpu("01", 0, "f0"), nic("03", 0, "f0", vfs=1), name="n1")
    written = (
        [item.to_wire() for item in device_objects(inventory)] if plural == "devices" else [node_inventory(inventory)]
    )
    return [item | {"apiVersion": f"{GROUP}/{OLD}"} for item in written]


def apply(plane: ControlPlane, *documents: dict[str, Any]) -> None:
    plane.kubectl("apply", "--server-side", "--filename=-", input="\n---\n".join(json.dumps(x) for x in documents))


def stored_versions(plane: ControlPlane, name: str) -> list[str]:
    found: list[str] = json.loads(plane.kubectl("get", "crd", name, "--output=json"))["status"]["storedVersions"]
    return found


@pytest.mark.parametrize("path", CRDS, ids=[path.stem for path in CRDS])
def test_today_s_definitions_have_one_version_so_that_nothing_is_to_be_migrated(path: Path) -> None:
    (only,) = yaml.safe_load(path.read_text())["spec"]["versions"]
    assert (only["name"], only["served"], only["storage"]) == (OLD, True, True)


@pytest.mark.parametrize("path", CRDS, ids=[path.stem for path in CRDS])
def test_objects_of_a_former_version_are_stored_in_the_new_one_and_the_former_can_go(
    control_plane: ControlPlane, path: Path
) -> None:
    plane, only_old = control_plane, definition(path, OLD)
    name = only_old["metadata"]["name"]
    apply(plane, only_old)
    plane.wait_for_crds()
    apply(plane, *objects(only_old["spec"]["names"]["plural"]))
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": None}
    condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
    first = plane.kubectl("get", name, "--output=name").split()[0]
    status = json.dumps({"status": {"conditions": [condition]}})
    plane.kubectl("patch", first, "--subresource=status", "--type=merge", f"--patch={status}")
    before = contents(plane, name)

    # The release that has both versions, of which the new one is stored.
    apply(plane, definition(path, OLD, NEW))
    assert stored_versions(plane, name) == [OLD, NEW]
    eventually("objects are in the new version", lambda: contents(plane, name)[0] == f"{GROUP}/{NEW}")
    assert contents(plane, name)[1] == before[1]
    with pytest.raises(KubectlError, match="storedVersions"):
        apply(plane, definition(path, NEW))

    # The steps.
    plane.kubectl("replace", "--filename=-", input=plane.kubectl("get", name, "--output=json"))
    trimmed = json.dumps({"status": {"storedVersions": [NEW]}})
    plane.kubectl("patch", "crd", name, "--subresource=status", "--type=merge", f"--patch={trimmed}")

    # The release that has the new one alone.
    apply(plane, definition(path, NEW))
    assert stored_versions(plane, name) == [NEW]
    assert plane.stored(f"/registry/{GROUP}/")
    assert all(item["apiVersion"] == f"{GROUP}/{NEW}" for item in plane.stored(f"/registry/{GROUP}/"))
    assert contents(plane, name) == (f"{GROUP}/{NEW}", before[1])


def contents(plane: ControlPlane, name: str) -> tuple[str, dict[str, Any]]:
    """The version that the API server prefers, and what the objects say."""
    items = json.loads(plane.kubectl("get", name, "--output=json"))["items"]
    versions = {item["apiVersion"] for item in items}
    (version,) = versions
    return version, {item["metadata"]["name"]: (item["spec"], item.get("status")) for item in items}
