"""The CRD files are what tools/generate_crds.py makes of the models, and stay within what a structural schema is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from driver.objects.devices import device_objects
from driver.objects.written_inventory import node_inventory
from tests.support.inventories import MACHINES, machine
from tests.support.machines import gpu, node
from tests.support.paths import REPO

TOOL = REPO / "tools" / "generate_crds.py"
CRDS = {
    crd["metadata"]["name"]: crd
    for path in sorted((REPO / "resourceclasses" / "crd").glob("*.yaml"))
    for crd in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}


def schema(name: str) -> dict[str, Any]:
    made: dict[str, Any] = CRDS[f"{name}.rootport.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return made


def below(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, part
    for name, item in part.get("properties", {}).items():
        yield from below(item, f"{path}.{name}")
    if "items" in part:
        yield from below(part["items"], f"{path}[]")


PARTS = [(name, *item) for name in ("nodeinventories", "devices") for item in below(schema(name), name)]


def test_the_files_are_what_the_models_say() -> None:
    result = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_both_kinds_are_installed() -> None:
    assert set(CRDS) == {"nodeinventories.rootport.dev", "devices.rootport.dev"}


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_fits_the_schema(name: str) -> None:
    inventory = machine(name)
    devices = validator("devices")
    validator("nodeinventories").validate(json.loads(json.dumps(node_inventory(inventory))))
    for made in device_objects(inventory):
        devices.validate(json.loads(json.dumps(made.to_wire())))


def test_what_the_object_cannot_hold_is_refused_by_the_schema() -> None:
    written = json.loads(json.dumps(node_inventory(node(gpu("01", memory_bytes=-1)))))
    (error,) = validator("nodeinventories").iter_errors(written)
    assert list(error.absolute_path) == ["spec", "gpus", 0, "memoryBytes"]


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(strict(schema(name)))


def strict(part: dict[str, Any]) -> dict[str, Any]:
    """A copy that knows no further fields; without patterns, whose \\p{} Python's re does not read."""
    made = {key: item for key, item in part.items() if key != "pattern"}
    if "properties" in made:
        made["properties"] = {name: strict(item) for name, item in made["properties"].items()}
        made["additionalProperties"] = False
    if "items" in made:
        made["items"] = strict(made["items"])
    return made


def lacking(path: str, part: dict[str, Any]) -> str:
    """What a part of a schema lacks; empty where it has all."""
    if not path.endswith((".metadata", ".spec", ".status", "[]")) and not part.get("description", "").endswith("."):
        return "a description that is a sentence"
    if "_" in path:
        return "a name as Kubernetes writes them"
    match part["type"]:
        case "string" if not ("enum" in part or "maxLength" in part or path.endswith((".apiVersion", ".kind"))):
            return "maxLength"
        case "array" if "maxItems" not in part:
            return "maxItems"
        case "integer" if not {"format", "minimum"} <= set(part):
            return "format and minimum"
        case "object" if not ("properties" in part or path.endswith(".metadata")):
            return "properties"
        case "string" | "array" | "integer" | "object" | "boolean":
            return ""
        case other:
            return f"a type that Kubernetes' conventions allow: it has {other}"


def test_every_part_is_described_and_bounded() -> None:
    assert len(PARTS) > 200
    assert {path: what for _, path, part in PARTS if (what := lacking(path, part))} == {}
