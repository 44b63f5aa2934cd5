"""A release of this tree, made once: a clone of it with a version, a date in the changelog and a tag."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.fixtures import cluster_binaries, helm
from tests.support.helm import Helm
from tests.support.needed_tools import require_tool
from tests.support.paths import REPO
from tests.support.releases import ADDRESSES, VERSION, Made, make_release
from tools.release.versions import read_tree, with_version

__all__ = ["cluster_binaries", "helm", "keyring", "release", "tagged"]

ME = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "A"}
ME |= {"GIT_COMMITTER_EMAIL": "a@example.com", "GIT_COMMITTER_DATE": "2027-01-15T08:00:00Z"}


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], env={**os.environ, **ME}, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of this tree, with what is not committed yet, at a commit that can be released."""
    clone = tmp_path_factory.mktemp("clone") / "rootport"
    git(REPO, "clone", "--quiet", "--shared", str(REPO), str(clone))
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (REPO / name).is_symlink() or (REPO / name).exists():
            (clone / name).unlink(missing_ok=True)
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPO / name, clone / name, follow_symlinks=False)
        else:
            (clone / name).unlink(missing_ok=True)
    for name, text in with_version(read_tree(clone), VERSION).items():
        (clone / name).write_text(text)
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(
        re.sub(r"^## \S+ \(unreleased\)$", f"## {VERSION} (2027-01-15)", changelog.read_text(), flags=re.MULTILINE)
    )
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "Release 9.0.0")
    git(clone, "tag", f"v{VERSION}")
    return clone


@pytest.fixture(scope="module")
def keyring() -> Iterator[Path]:
    """A keyring of GPG with a key that is made for the test and thrown away."""
    require_tool("gpg")
    with tempfile.TemporaryDirectory(prefix="gpg-") as folder:  # short: its agent's socket has a path of 107 characters
        environment = {**os.environ, "GNUPGHOME": folder}
        make = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "releases@example.com"]
        subprocess.run([*make, "ed25519", "sign", "never"], env=environment, check=True, capture_output=True)
        yield Path(folder)
        subprocess.run(["gpgconf", "--kill", "all"], env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def release(tagged: Path, helm: Helm, keyring: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The release of that commit, signed."""
    out = tmp_path_factory.mktemp("release") / "dist"
    made = make_release(tagged, out, helm, keyring, "--gpg-key", "releases@example.com", *ADDRESSES)
    assert made.returncode == 0, made.stderr
    return Made(out, made.stderr)
