"""What has to be true of a clone before a release is made of it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.release.versions import current_version, disagreements, is_release, read_tree, released_versions

__all__ = ["Clone", "objections", "read_clone"]


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone of the repository, as git and its files tell of it.

    Attributes:
        commit: The full id of HEAD.
        seconds: When HEAD was committed, in seconds since 1970.
        changed: The files that differ from HEAD, untracked ones included.
        tags: The tags of HEAD.
        tree: The files that may name the version (:func:`tools.release.versions.read_tree`).
        changelog: The text of CHANGELOG.md.
    """

    commit: str
    seconds: int
    changed: tuple[str, ...]
    tags: tuple[str, ...]
    tree: Mapping[str, str]
    changelog: str


def objections(clone: Clone) -> list[str]:
    """Return why no release can be made of this clone, a sentence each; nothing if one can."""
    version = current_version(clone.tree)
    found = [f"{name} differs from the commit: a release is made of a commit alone" for name in clone.changed]
    found += disagreements(clone.tree, released_versions(clone.changelog))
    if not is_release(version):
        found.append(f"{version} is a version of development: python -m tools.set_version changes it")
    newest = re.search(r"^## (\S+) \((.*)\)$", clone.changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        found.append(f"the newest section of CHANGELOG.md is not about {version}")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
        found.append(f"CHANGELOG.md has no date for {version}, but ({newest[2]})")
    if f"v{version}" not in clone.tags:
        found.append(f"the commit does not have the tag v{version}: git tag --sign v{version}")
    return found


def read_clone(repo: Path) -> Clone:
    """Return what the clone in this folder is.

    Raises:
        subprocess.CalledProcessError: It is no clone, or has no commit.
    """
    commit, _, seconds = _git(repo, "log", "-1", "--format=%H %ct").strip().partition(" ")
    return Clone(
        commit=commit,
        seconds=int(seconds),
        changed=tuple(line[3:] for line in _git(repo, "status", "--porcelain").splitlines()),
        tags=tuple(_git(repo, "tag", "--points-at", "HEAD").split()),
        tree=read_tree(repo),
        changelog=(repo / "CHANGELOG.md").read_text(),
    )


def _git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout
