"""The bill of materials has what the lock file has, is valid CycloneDX, and is the same each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from driver import __version__
from tests.support.paths import REPO
from tools.release.sbom import bill_of_materials, debian_packages, licence_of, locked_packages

LOCK = (REPO / "requirements.lock").read_text()
STATUS = """\
Package: iproute2
Status: install ok installed
Architecture: amd64
Version: 6.1.0-3
Description: networking and traffic control tools
 Version: 1 is no field

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1:2.0-1
"""
RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'


def bill(**changed: Any) -> str:
    told = {
        "version": __version__,
        "lock": LOCK,
        "seconds": 1_800_000_000,
        "licences": {package.name: licence_of(package) for package in locked_packages(LOCK)},
    }
    return bill_of_materials(**{**told, **changed})


@pytest.mark.parametrize("image", [False, True], ids=["lock file", "image"])
def test_it_is_valid_by_the_schema_of_cyclonedx(image: bool) -> None:
    text = bill(debian=debian_packages(STATUS, RELEASE) if image else (), facts={"image": "sha256:" + 64 * "a"})
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    broken = text.replace('"bomFormat": "CycloneDX"', '"bomFormat": "Another"')
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(broken) is not None


def test_it_names_each_locked_package_with_its_version_and_hashes() -> None:
    components = {part["name"]: part for part in json.loads(bill())["components"]}
    lines = [line for line in LOCK.splitlines() if "==" in line]
    assert {f"{name}=={part['version']}" for name, part in components.items()} == {line.split(" ")[0] for line in lines}
    hashes = [item["content"] for part in components.values() for item in part["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(
        line.split("sha256:")[1].rstrip(" \\") for line in LOCK.splitlines() if "--hash" in line
    )
    assert components["click"]["purl"] == f"pkg:pypi/click@{components['click']['version']}"


def test_it_says_what_needs_what() -> None:
    graph = {item["ref"]: item.get("dependsOn", []) for item in json.loads(bill())["dependencies"]}
    versions = {package.name: package.version for package in locked_packages(LOCK)}
    assert f"pkg:pypi/click@{versions['click']}" in graph["rootport"]
    assert f"pkg:pypi/mdurl@{versions['mdurl']}" in graph[f"pkg:pypi/markdown-it-py@{versions['markdown-it-py']}"]
    reached = {"rootport"}
    while more := {part for user in reached for part in graph[user]} - reached:
        reached |= more
    assert reached == set(graph)


def test_licences_are_those_that_the_packages_state() -> None:
    parts = {part["name"]: part.get("licenses") for part in json.loads(bill())["components"]}
    assert parts["cryptography"] == [{"expression": "Apache-2.0 OR BSD-3-Clause"}]
    assert parts["rich"][0]["license"]["id"] == "MIT"
    without = sorted(name for name, licences in parts.items() if not licences)
    assert without == ["cel-python"]  # its metadata states none


def test_the_same_input_gives_the_same_bytes_and_another_one_another_serial_number() -> None:
    first, again, other = bill(), bill(), bill(version="9.9.9")
    assert first == again
    assert json.loads(first)["serialNumber"] != json.loads(other)["serialNumber"]
    assert json.loads(first)["metadata"]["timestamp"] == "2027-01-15T08:00:00+00:00"


def test_what_dpkg_has_installed_is_named_and_nothing_else() -> None:
    parts = json.loads(bill(debian=debian_packages(STATUS, RELEASE)))["components"]
    assert [part["purl"] for part in parts if part["purl"].startswith("pkg:deb/")] == [
        "pkg:deb/debian/iproute2@6.1.0-3?arch=amd64&distro=debian-12"
    ]


@pytest.mark.parametrize("lock", ["", "click==8.2.0\n    # via rootport (pyproject.toml)\n"], ids=["empty", "no hash"])
def test_a_lock_file_without_hashes_is_refused(lock: str) -> None:
    with pytest.raises(ValueError, match=r"hash is locked|no package"):
        locked_packages(lock)
