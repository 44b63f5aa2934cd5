"""Rootport's CNI plugin, compiled as for the image, for a test node whose state is not in the usual place."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.support.paths import REPO

__all__ = ["build_cni_program"]

_SHIM: Final = "kubeletplugin/network/cni/shim"


def build_cni_program(program: Path, *, state: Path, source: Path = REPO) -> Path:
    """Compile it; the path of the program.

    Args:
        program: Where it goes.
        state: The folder that says which pods get interfaces, instead of ``/run/rootport/cni``.
        source: The repository's files, of this tree or of a former commit.
    """
    shim = source / _SHIM
    define = f'-DSTATE_DIR="{state}"'
    sources = sorted(shim.glob("*.c"))
    subprocess.run(["cc", f"@{shim / 'cflags'}", define, "-o", program, *sources], check=True)
    return program
