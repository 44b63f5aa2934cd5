"""The documents' site, built as `make docs` builds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.paths import REPO

__all__ = ["build_site"]


def build_site(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder, strictly."""
    return subprocess.run(
        [sys.executable, "-m", "tools.site", folder], cwd=REPO, capture_output=True, text=True, check=False
    )
