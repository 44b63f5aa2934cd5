"""The chart's own files: of one mind with each other, with the kustomization and with the project."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import semver
import yaml
from setuptools import find_namespace_packages

from driver import __version__
from tests.support.helm import CHART, COMPONENTS, switch
from tests.support.installation import FOLDER, documents
from tests.support.paths import REPO

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
METADATA: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())
README = (CHART / "README.md").read_text()


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("generate_chart", REPO / "tools" / "generate_chart.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_values_and_the_schema_of_policies_are_up_to_date() -> None:
    assert tool().readme() == README, "run python tools/generate_chart.py"
    assert tool().schema() == (CHART / "values.schema.json").read_text(), "run python tools/generate_chart.py"


@pytest.mark.parametrize("path", sorted((REPO / "examples/policies").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_takes_the_examples_of_policies(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    value = document["kind"][0].lower() + document["kind"][1:]
    jsonschema.validate(VALUES | {value: document["policies"]}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError, match="'polices' was unexpected"):
        jsonschema.validate(VALUES | {value: [*document["policies"], {"polices": []}]}, SCHEMA)


def test_each_component_of_the_kustomization_has_a_switch_that_is_off() -> None:
    assert {folder.name for folder in (FOLDER / "components").iterdir()} == set(COMPONENTS)
    assert VALUES["components"] == {switch(name): False for name in COMPONENTS}


def test_the_defaults_are_what_the_schema_takes() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(VALUES, SCHEMA)


def _same_keys(schema: dict[str, Any], values: dict[str, Any], path: str) -> None:
    assert schema["additionalProperties"] is False, path
    assert schema["properties"].keys() - {"global"} == values.keys() == set(schema["required"]), path
    for key, part in schema["properties"].items():
        if "properties" in part and isinstance(values.get(key), dict) and "required" in part:
            _same_keys(part, values[key], f"{path}.{key}")


def test_the_schema_knows_the_values_that_there_are_and_no_others() -> None:
    _same_keys(SCHEMA, VALUES, "")


def test_the_versions_are_those_of_the_project() -> None:
    assert METADATA["appVersion"] == __version__
    version = semver.Version.parse(METADATA["version"])
    assert str(version).replace("-dev.", ".dev") == __version__
    assert METADATA["annotations"]["artifacthub.io/prerelease"] == json.dumps(version.prerelease is not None)
    assert set(re.findall(r"rootport:(\d\S*?)[`\s]", README)) == {__version__}
    assert set(re.findall(r"(?:rootport-|--version )(\d\S*?)(?:\.tgz|\s)", README)) == {METADATA["version"]}


def test_artifact_hub_is_told_of_the_image_and_the_crds_that_there_are() -> None:
    notes = {key.partition("/")[2]: yaml.safe_load(text) for key, text in METADATA["annotations"].items()}
    (image,) = notes["images"]
    assert image["image"] == f"{VALUES['image']['repository']}:{METADATA['appVersion']}"
    crds = [item for item in documents() if item["kind"] == "CustomResourceDefinition"]
    assert {(item["name"], item["kind"], item["version"]) for item in notes["crds"]} == {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], version["name"])
        for crd in crds
        for version in crd["spec"]["versions"]
    }
    assert {change["kind"] for change in notes["changes"]} <= {
        "added",
        "changed",
        "deprecated",
        "removed",
        "fixed",
        "security",
    }
    assert notes["license"] == "Apache-2.0"


def test_helm_finds_no_crds_of_its_own_which_it_would_never_update() -> None:
    """https://helm.sh/docs/chart_best_practices/custom_resource_definitions/"""
    assert not (CHART / "crds").exists()


def test_the_licence_is_the_project_s() -> None:
    assert (CHART / "LICENSE").read_text() == (REPO / "LICENSE").read_text()


def test_the_chart_is_not_in_the_wheel() -> None:
    text = (REPO / "pyproject.toml").read_text()
    arguments = {key: re.search(rf"^{key} = (\[.*?\])", text, re.MULTILINE) for key in ("include", "exclude")}
    found = find_namespace_packages(
        str(REPO), **{key: json.loads(match.group(1)) for key, match in arguments.items() if match}
    )
    assert "resourceclasses.crd" in found
    assert not [name for name in found if name.startswith("resourceclasses.templates")]
