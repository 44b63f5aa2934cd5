"""The files that name Rootport's version agree, and one command changes all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driver import __version__
from tests.support.paths import REPO
from tools.release.versions import (
    chart_version,
    current_version,
    disagreements,
    is_release,
    mentions,
    read_tree,
    released_versions,
    with_version,
)

CHANGELOG = (REPO / "CHANGELOG.md").read_text()


def test_all_files_of_this_tree_name_one_version() -> None:
    tree = read_tree(REPO)
    assert current_version(tree) == __version__
    assert disagreements(tree, released_versions(CHANGELOG)) == []
    assert len({mention.file for mention in mentions(tree)}) >= 6


@pytest.mark.parametrize("version", ["0.2.0rc1", "0.9.0.dev3", "1.0.0"])
def test_a_new_version_is_written_wherever_the_old_one_was(version: str) -> None:
    tree = read_tree(REPO)
    changed = {**tree, **with_version(tree, version)}
    assert current_version(changed) == version
    assert disagreements(changed, released_versions(CHANGELOG)) == []
    assert not any(mention.version == __version__ for mention in mentions(changed))
    assert with_version(changed, __version__).keys() == with_version(tree, version).keys()
    assert {**changed, **with_version(changed, __version__)} == tree


def test_a_file_that_was_forgotten_is_named_with_its_line() -> None:
    tree = read_tree(REPO)
    text = tree["README.md"].replace(f"rootport:{__version__}", "rootport:0.0.9")
    line = text[: text.index("rootport:0.0.9")].count("\n") + 1
    wrong = disagreements({**tree, "README.md": text}, released_versions(CHANGELOG))
    assert f"README.md:{line} names version 0.0.9, and driver/__init__.py {__version__}" in wrong
    assert f"README.md does not name version {__version__}" in wrong


def test_a_page_may_name_a_version_that_was_released() -> None:
    tree = {**read_tree(REPO), "docs/operator/upgrade.md": "an upgrade from rootport:0.1.0"}
    assert disagreements(tree, released_versions(CHANGELOG)) == []
    assert disagreements(tree) != []


def test_only_a_dated_section_of_the_changelog_is_a_release() -> None:
    text = "## 0.3.0 (unreleased)\n\n## 0.2.0 (2026-12-24)\n- text\n## 0.1.0 (2026-11-27)\n"
    assert released_versions(text) == {"0.2.0", "0.1.0"}


@pytest.mark.parametrize(
    ("version", "chart", "release"),
    [
        ("0.2.0", "0.2.0", True),
        ("0.2.0.dev0", "0.2.0-dev.0", False),
        ("0.2.0rc1", "0.2.0-rc.1", True),
        ("0.2.0rc1.dev3", "0.2.0-rc.1.dev.3", False),
    ],
)
def test_a_chart_has_the_version_that_helm_takes(version: str, chart: str, release: bool) -> None:
    assert chart_version(version) == chart
    assert is_release(version) is release
    home = {"driver/__init__.py": f'__version__: Final = "{version}"\n'}
    found = mentions({**home, "resourceclasses/Chart.yaml": f"version: {chart}\nappVersion: {version}\n"})
    assert {mention.version for mention in found} == {version}


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0-rc1", "1.0.0.post1"])
def test_another_form_of_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not a version such as"):
        with_version(read_tree(REPO), version)


def test_the_command_changes_a_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--shared", REPO, clone], check=True)
    code = "import pathlib, sys; from tools import set_version as s; s.REPO = pathlib.Path(sys.argv.pop(1)); s.main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, clone, "7.0.0"], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "pyproject.toml\n" in ran.stdout
    shown = subprocess.run(["git", "diff", "--stat"], cwd=clone, capture_output=True, text=True, check=True).stdout
    assert len(shown.splitlines()) == len(ran.stdout.splitlines()) + 1
    assert 'version = "7.0.0"' in (clone / "pyproject.toml").read_text()
