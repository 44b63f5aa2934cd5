"""The chart as a package: the same each time, and whole."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.support.helm import CHART, COMPONENTS, Helm, switch

pytestmark = pytest.mark.needs_go


def package(helm: Helm, folder: Path) -> Path:
    helm("package", CHART, "--destination", folder)
    (path,) = folder.glob("*.tgz")
    return path


def contents(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        assert all(member.isfile() for member in archive)
        return {
            member.name: hashlib.sha256(file.read()).hexdigest()
            for member in archive
            if (file := archive.extractfile(member)) is not None
        }


def test_two_packages_hold_the_same(helm: Helm, tmp_path: Path) -> None:
    first, second = (package(helm, tmp_path / name) for name in ("first", "second"))
    assert contents(first) == contents(second)
    assert not [name for name in contents(first) if "__pycache__" in name or name.endswith(".py")]


def test_a_package_renders_what_the_folder_does(helm: Helm, tmp_path: Path) -> None:
    values = {"components": {switch(name): True for name in COMPONENTS}}
    assert helm.render(values, chart=package(helm, tmp_path)) == helm.render(values)


def test_a_package_has_the_licence_and_what_is_rendered(helm: Helm, tmp_path: Path) -> None:
    names = {name.removeprefix("rootport/") for name in contents(package(helm, tmp_path))}
    kustomization = yaml.safe_load((CHART / "kustomization.yaml").read_text())
    assert {"Chart.yaml", "LICENSE", "README.md", "values.schema.json", *kustomization["resources"]} <= names
    assert not [name for name in names if name.startswith("monitoring/")]
