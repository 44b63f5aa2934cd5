"""Making a release of a clone, with the programs of this machine that a test allows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.helm import Helm
from tests.support.paths import REPO

__all__ = ["ADDRESSES", "VERSION", "Made", "make_release"]

VERSION: Final = "9.0.0"
ADDRESSES: Final = (
    *("--download-url", "https://downloads.example.com/rootport/v9.0.0"),
    *("--homepage", "https://example.com/rootport"),
)
"""What krew's manifest names."""


@dataclass(frozen=True, slots=True)
class Made:
    """A release that was made, and what the tool said."""

    folder: Path
    said: str


def make_release(clone: Path, out: Path, helm: Helm, keyring: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the tool on a clone, with Helm on PATH; docker and the like are not, so that it builds no image."""
    programs = out.with_name(f"{out.name}-bin")
    programs.mkdir()
    (programs / "helm").symlink_to(helm.program)
    for name in ("git", "gpg"):
        (programs / name).symlink_to(str(shutil.which(name)))
    return subprocess.run(
        [sys.executable, "-m", "tools.release", "--repo", clone, "--out", out, *options],
        cwd=REPO,
        env={**os.environ, "PATH": str(programs), "GNUPGHOME": str(keyring), "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
