"""The release before this one, from the repository's own history: what an upgrade starts from, and a downgrade ends at.

Every release changes :data:`LAST_RELEASE` to itself: docs/dev/upgrades.md.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.cluster.binaries import cache_folder
from tests.support.needed_tools import unavailable
from tests.support.paths import REPO

__all__ = ["LAST_RELEASE", "Release", "source_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release.

    Attributes:
        version: Its number.
        commit: The commit that its tag names; a clone may lack tags.
    """

    version: str
    commit: str


LAST_RELEASE: Final = Release(version="0.1.0", commit="313698508ffe5bdde3c5e11b58dd12814e3e6e62")


def source_of(commit: str) -> Path:
    """Return a folder with the repository's files as of a commit, made once; nobody may write in it.

    The running test is skipped (under CI=true it fails) where this is no clone or there is no git, and fails where the
    clone lacks the commit.

    Args:
        commit: Its full id.
    """
    folder = cache_folder() / "releases" / commit
    if folder.exists():
        return folder
    if shutil.which("git") is None or not (REPO / ".git").exists():
        unavailable("the code of the release before this one is in the repository's history, and this is no git clone")
    # Not through a shell's or a hook's environment: GIT_DIR there would be that of another repository.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", f"safe.directory={REPO}", "-C", str(REPO), "archive", "--format=tar", commit]
    done = subprocess.run(command, capture_output=True, check=False, env=env, timeout=120)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        pytest.fail(
            f"this clone has no commit {commit}, whose code the test runs ({said}): fetch the whole history, "
            "`git fetch --unshallow`",
            pytrace=False,
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent))
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(scratch, filter="data")
    scratch.chmod(0o755)
    try:
        scratch.rename(folder)
    except OSError:  # another process has made it meanwhile
        shutil.rmtree(scratch)
    return folder
