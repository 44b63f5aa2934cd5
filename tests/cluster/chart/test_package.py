"""The chart as a package: the same each time, whole, and not installed where a copy has lost its links."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from pathlib import Path

import pytest

from tests.support.helm import CHART, COMPONENTS, RELEASE, Helm, switch
from tests.support.paths import REPO

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


def test_a_package_has_the_licence(helm: Helm, tmp_path: Path) -> None:
    digest = hashlib.sha256((REPO / "LICENSE").read_bytes()).hexdigest()
    assert contents(package(helm, tmp_path))["rootport/LICENSE"] == digest


def test_a_copy_without_the_links_says_so(helm: Helm, tmp_path: Path) -> None:
    copy = tmp_path / "chart"
    shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("manifests"))
    done = helm.run("template", RELEASE, copy, "--namespace=rootport-system")
    assert done.returncode != 0
    assert "this copy of the chart lacks manifests/kustomization.yaml" in done.stderr
    assert "helm package resourceclasses/chart" in done.stderr
