"""The CDI library that container runtimes use, as a judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import REPO
from tests.support.preparer.fixtures import machine

__all__ = ["machine", "oracle"]

ORACLE = REPO / "tests" / "oracle" / "cdi"


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The judge, built. Its modules come from Go's module cache, or from the module proxy the first time."""
    program = tmp_path_factory.mktemp("cdi-oracle") / "oracle"
    download = subprocess.run(["go", "mod", "download"], cwd=ORACLE, capture_output=True, text=True, check=False)
    if download.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"the CDI library cannot be downloaded: {download.stderr.strip()[-200:]}")
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=ORACLE, check=True)
    return program
