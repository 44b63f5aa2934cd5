"""Runs one of this package's programs in the code of another version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["CLAIMS", "NODES", "run_in"]

CLAIMS: Final = Path(__file__).with_name("claims.py")
NODES: Final = Path(__file__).with_name("nodes.py")


def run_in(tree: Path, program: Path, *arguments: object) -> str:
    """Run a program with the packages of a tree, `tests` among them, and this one's dependencies; what it prints.

    Raises:
        RuntimeError: It failed; the message has what it said.
    """
    command = [sys.executable, "-P", str(program), *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=tree, timeout=300)
    if done.returncode != 0:
        said = done.stderr[-4000:]
        raise RuntimeError(f"{program.name} with the code in {tree}: exit status {done.returncode}\n{said}")
    return done.stdout
