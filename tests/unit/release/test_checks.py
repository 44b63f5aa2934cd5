"""A release is made of a clean, tagged commit whose files agree about the version, and of no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.paths import REPO
from tools.release.checks import Clone, objections, read_clone
from tools.release.versions import read_tree, with_version

VERSION = "9.0.0"
TREE = read_tree(REPO)
GOOD = Clone(
    commit=40 * "a",
    seconds=1_800_000_000,
    changed=(),
    tags=("v9.0.0",),
    tree={**TREE, **with_version(TREE, VERSION)},
    changelog="# Changelog\n\n## 9.0.0 (2027-01-15)\n\nText.\n\n## 0.1.0 (2026-11-27)\n",
)


def test_a_tagged_commit_with_its_changelog_can_be_released() -> None:
    assert objections(GOOD) == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (replace(GOOD, changed=("README.md",)), "README.md differs from the commit"),
        (replace(GOOD, tags=("v8.9.9",)), "the commit does not have the tag v9.0.0"),
        (replace(GOOD, changelog="## 8.9.9 (2027-01-01)\n"), "the newest section of CHANGELOG.md is not about 9.0.0"),
        (replace(GOOD, changelog="## 9.0.0 (unreleased)\n"), "CHANGELOG.md has no date for 9.0.0, but (unreleased)"),
        (replace(GOOD, tree={**GOOD.tree, "Dockerfile": "FROM x\n"}), "Dockerfile does not name version 9.0.0"),
        (
            replace(GOOD, tree=TREE | with_version(TREE, "9.0.0.dev1"), tags=("v9.0.0.dev1",)),
            "9.0.0.dev1 is a version of development",
        ),
    ],
    ids=["changed", "tag", "changelog", "date", "version", "development"],
)
def test_what_is_wrong_is_told(bad: Clone, why: str) -> None:
    assert any(sentence.startswith(why) for sentence in objections(bad)), objections(bad)


def test_a_clone_is_read_as_git_has_it() -> None:
    clone = read_clone(REPO)
    assert len(clone.commit) == 40
    assert clone.seconds > 1_700_000_000
